// The start: unpack the data, fill the bar, draw; draw again when the selection changes.

function options(select, names, chosen) {
  select.replaceChildren(...names.map(([value, text]) => element('option', text, { value })));
  select.value = String(chosen);
}

function fillHead() {
  $('title').textContent = document.title = study.title;
  $('teaches').textContent = study.teaches;
  const { runs, cells, first_seed, last_seed } = study;
  const command = element('code', study.asked);
  $('asked').append(`${figure(study.run_count)} runs, seeds ${first_seed} to ${last_seed} of ${figure(cells.length)} ${cells.length === 1 ? 'combination' : 'combinations'}; code ${study.code_version}. `, command);
  const count = kind => study.cells.reduce((sum, cell) => sum + cell[kind], 0);
  const words = [['passed', 'passed', 'good'], ['failed', 'failed', 'bad'], ['error', 'no answer', 'none']].map(([kind, text, look]) => {
    const shownCount = `${figure(count(kind))} ${text}`;
    return kind === 'passed' || !count(kind) ? element('b', shownCount, { className: count(kind) ? look : '' }) : element('a', shownCount, { href: '#cell=all', className: look });
  });
  words.forEach((word, at) => $('verdicts').append(at ? ' · ' : '', word));
}

function fillBar() {
  options($('metric'), study.metrics.map((metric, at) => [at, metric.is_constant ? `${metric.name} (constant)` : metric.name]), shown.metric);
  const parameters = study.parameters.map((parameter, at) => [at, parameter.name]);
  options($('colour'), parameters, shown.colour);
  options($('along'), parameters.filter(([at]) => at !== shown.colour), shown.along);
  $('colour-label').hidden = !parameters.length;
  $('along-label').hidden = parameters.length < 2;
  options($('statistic'), Object.entries(STATISTICS), shown.statistic);
  $('fixed').replaceChildren(...others(shown.colour).map(at => {
    const label = element('label', `${study.parameters[at].name} `), select = element('select');
    options(select, study.parameters[at].values.map((value, place) => [place, String(value)]), shown.fixed[at]);
    select.dataset.parameter = at;
    select.onchange = () => { shown.fixed[at] = Number(select.value); drawAll(); };
    label.append(select);
    return label;
  }));
}

function drawAll() {
  const metric = metricNow();
  $('sentence').textContent = [metric.sentence && `${metric.name}: ${metric.sentence}.`, metric.expected.length && `Expected: ${metric.expected.join(', ')} (the dotted line).`].filter(Boolean).join(' ');
  for (const part of [drawCurves, drawBoxes, drawHeat, drawChanges, drawOutcomes, drawTable]) part();
}

// Select the first metric that is not constant.  Colour by the first parameter whose values are
// words; the x axis is the parameter with most values.
function chooseFirst() {
  shown.metric = Math.max(0, study.metrics.findIndex(metric => !metric.is_constant));
  const places = study.parameters.map((_, at) => at), values = at => study.parameters[at].values;
  shown.fixed = places.map(() => 0);
  shown.colour = places.find(at => typeof values(at)[0] === 'string' && values(at).length <= 8) ?? (places.length ? 0 : -1);
  shown.along = places.filter(at => at !== shown.colour).sort((a, b) => values(b).length - values(a).length)[0] ?? -1;
}

function listen() {
  $('metric').onchange = event => { shown.metric = Number(event.target.value); drawAll(); openChosen(); };
  $('statistic').onchange = event => { shown.statistic = event.target.value; drawHeat(); };
  $('colour').onchange = event => {
    const before = shown.colour;
    shown.colour = Number(event.target.value);
    if (shown.along === shown.colour) shown.along = before;
    fillBar();
    drawAll();
  };
  $('along').onchange = event => { shown.along = Number(event.target.value); drawAll(); };
  $('theme').onchange = event => {
    if (event.target.value === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = event.target.value;
    drawAll();
  };
  $('more').onclick = () => { rowsShown = Infinity; drawTable(); };
  $('close').onclick = closeSeeds;
  document.addEventListener('keydown', event => { if (event.key === 'Escape') closeSeeds(); });
  addEventListener('hashchange', openChosen);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
}

async function loadPlotly() {
  const script = element('script', undefined, { src: URL.createObjectURL(new Blob([await unpacked('plotly')], { type: 'text/javascript' })) });
  await new Promise((loaded, failed) => { script.onload = loaded; script.onerror = failed; document.head.append(script); });
}

async function main() {
  study = JSON.parse(await unpacked('data'));
  await loadPlotly();
  chooseFirst();
  fillHead();
  fillBar();
  listen();
  drawAll();
  openChosen();
  document.documentElement.dataset.ready = 'yes';
}

main().catch(error => {
  document.body.append(element('p', `This page cannot be shown: ${error.message ?? error}`, { className: 'failed' }));
});
