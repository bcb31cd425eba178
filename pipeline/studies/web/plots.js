// The plots: curves, boxes, the heat map, changes between releases, verdicts.

// Okabe and Ito's colours, which people with any kind of colour vision can distinguish; lines
// also differ by dashes and marks.
const LIGHT = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#6b5b00', '#59626d'];
const DARK = ['#56b4e9', '#e69f00', '#2fc59b', '#e59bc8', '#f0e442', '#f08a4b', '#9fb8ff', '#b0b7bf'];
const DASHES = ['solid', 'dash', 'dot', 'dashdot', 'longdash', 'longdashdot'];
const MARKS = ['circle', 'square', 'diamond', 'triangle-up', 'x', 'cross', 'star', 'pentagon'];
const CONFIG = { responsive: true, displaylogo: false, modeBarButtons: [['toImage', 'resetScale2d']] };

const tone = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const isDark = () => tone('paper') !== '#ffffff';
const colourAt = at => (isDark() ? DARK : LIGHT)[at % LIGHT.length];
const isNarrow = () => innerWidth < 600;

function layout(height, x, y, rest = {}) {
  const axis = (title, more = {}) => ({ title: { text: title, standoff: 8 }, gridcolor: tone('faint'), zerolinecolor: tone('faint'), linecolor: tone('dim'), automargin: true, ...more });
  return {
    height, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', font: { color: tone('ink'), family: 'system-ui, sans-serif', size: isNarrow() ? 11 : 12.5 },
    margin: { l: 56, r: 14, t: 12, b: 44 }, legend: { orientation: 'h', y: -0.24, x: 0 }, modebar: { bgcolor: 'rgba(0,0,0,0)', color: tone('dim'), activecolor: tone('ink') }, hoverlabel: { bgcolor: tone('soft'), font: { color: tone('ink') }, bordercolor: tone('dim') },
    ...rest, xaxis: axis(x, rest.xaxis), yaxis: axis(y, rest.yaxis),
  };
}

function draw(id, traces, picture, clicked) {
  const place = $(id).querySelector('.plot');
  Plotly.react(place, traces, picture, CONFIG);
  place.removeAllListeners?.('plotly_click');
  if (clicked) place.on('plotly_click', event => clicked(event.points[0]));
}

const unitOf = metric => metric.unit && metric.unit !== metric.name ? `${metric.name} (${metric.unit})` : metric.name;
const coloursOf = cells => {
  if (shown.colour < 0) return [['all runs', cells, 0]];
  return study.parameters[shown.colour].values
    .map((value, at) => [`${study.parameters[shown.colour].name} ${value}`, cells.filter(cell => cell.at[shown.colour] === at), at])
    .filter(([, mine]) => mine.length);
};

function drawCurves() {
  const cells = cellsBesides(shown.colour).filter(cell => numbersOf(cell)), metric = metricNow();
  $('curves-where').textContent = whereBesides(shown.colour);
  const traces = coloursOf(cells).map(([name, [cell], at]) => {
    const numbers = numbersOf(cell), last = numbers.values.length - 1;
    return {
      name, type: 'scatter', mode: 'lines+markers', x: numbers.values, y: numbers.values.map((_, part) => part / last),
      customdata: numbers.seeds.map(seed => [study.cells.indexOf(cell), seed]), line: { shape: 'vh', color: colourAt(at), dash: DASHES[at % DASHES.length], width: 2 },
      marker: { symbol: MARKS[at % MARKS.length], size: 6, color: colourAt(at), maxdisplayed: 12 }, hovertemplate: '%{y:.0%} of the runs: %{x} or less (seed %{customdata[1]})<extra>%{fullData.name}</extra>',
    };
  });
  draw('curves', traces, layout(340, unitOf(metric), 'share of runs', { yaxis: { range: [-0.02, 1.02], tickformat: '.0%' }, shapes: bounds() }), point => choose(...point.customdata));
}

// Lines at the bounds of expectations.
const bounds = () => metricNow().expected.map(text => Number(text.split(' ')[1])).filter(Number.isFinite)
  .map(x => ({ type: 'line', x0: x, x1: x, y0: 0, y1: 1, yref: 'paper', line: { color: tone('error'), width: 1, dash: 'dot' } }));

function drawBoxes() {
  const along = shown.along < 0 ? shown.colour : shown.along;
  $('boxes').hidden = along < 0;
  if (along < 0) return;
  $('boxes-where').textContent = whereBesides(shown.colour, along);
  const cells = cellsBesides(shown.colour, along).filter(cell => numbersOf(cell));
  const traces = coloursOf(cells).map(([name, mine, at]) => {
    const of = share => mine.map(cell => quantile(numbersOf(cell), share)[0]);
    return {
      name, type: 'box', x: mine.map(cell => String(valueOf(cell, along))), q1: of(0.25), median: of(0.5), q3: of(0.75), lowerfence: of(0.025), upperfence: of(0.975),
      mean: mine.map(cell => numbersOf(cell).mean), boxmean: true, line: { color: colourAt(at), width: 1.5 }, fillcolor: colourAt(at) + '55', whiskerwidth: 0.6,
    };
  });
  const values = study.parameters[along].values.map(String);
  const picture = layout(360, study.parameters[along].name, unitOf(metricNow()), { boxmode: along === shown.colour ? 'overlay' : 'group', xaxis: { type: 'category', categoryorder: 'array', categoryarray: values } });
  if (along === shown.colour) picture.showlegend = false;
  draw('boxes', traces, picture, point => {
    const colour = point.fullData.name;
    const cell = cells.find(each => String(valueOf(each, along)) === String(point.x) && (shown.colour < 0 || `${study.parameters[shown.colour].name} ${valueOf(each, shown.colour)}` === colour));
    if (cell) choose(study.cells.indexOf(cell), quantile(numbersOf(cell), 0.5)[1]);
  });
}

function drawHeat() {
  const [x, y] = [shown.along, shown.colour];
  $('heat').hidden = x < 0 || y < 0;
  if ($('heat').hidden) return;
  $('heat-where').textContent = whereBesides(x, y);
  const cells = cellsBesides(x, y), xs = study.parameters[x].values, ys = study.parameters[y].values;
  const at = (i, j) => cells.find(cell => cell.at[x] === i && cell.at[y] === j);
  const z = ys.map((_, j) => xs.map((_, i) => { const cell = at(i, j); return cell && numbersOf(cell) ? statistic(numbersOf(cell), shown.statistic) : null; }));
  const few = xs.length <= (isNarrow() ? 8 : 16);
  const trace = {
    type: 'heatmap', x: xs.map(String), y: ys.map(String), z, colorscale: 'Cividis', xgap: 1, ygap: 1, hoverongaps: false, colorbar: { thickness: 12, outlinewidth: 0 },
    customdata: ys.map((_, j) => xs.map((_, i) => study.cells.indexOf(at(i, j)))), text: z.map(row => row.map(value => figure(value, 3))),
    hovertemplate: `${study.parameters[x].name} %{x}, ${study.parameters[y].name} %{y}: %{text}<extra></extra>`, ...(few ? { texttemplate: '%{text}' } : {}),
  };
  const picture = layout(Math.max(180, 70 + 34 * ys.length), study.parameters[x].name, study.parameters[y].name, { xaxis: { type: 'category' }, yaxis: { type: 'category', autorange: 'reversed' } });
  draw('heat', [trace], picture, point => { if (point.customdata >= 0) choose(point.customdata, seedOfStatistic(point.customdata)); });
}

const seedOfStatistic = cell => quantile(numbersOf(study.cells[cell]), { mean: 0.5, median: 0.5, p99: 0.99, most: 1, least: 0 }[shown.statistic])[1];

function drawChanges() {
  const rows = study.changes.filter(change => change.metric === shown.metric);
  $('changes').hidden = !rows.length;
  if (!rows.length) return;
  const release = study.parameters.findIndex(parameter => parameter.is_release);
  const rest = cell => others(release).map(at => `${study.parameters[at].name}=${valueOf(cell, at)}`).join(' ') || 'all runs';
  const name = row => `${rest(study.cells[row.before])}: ${valueOf(study.cells[row.before], release)} → ${valueOf(study.cells[row.after], release)}`;
  const some = rows.slice(0, 40), isClear = row => row.low !== null && (row.low > 0 || row.high < 0);
  const trace = {
    type: 'scatter', mode: 'markers', x: some.map(row => row.difference), y: some.map(name), customdata: some.map(row => row.after), marker: { size: 9, color: some.map(row => isClear(row) ? colourAt(1) : tone('dim')), symbol: some.map(row => isClear(row) ? 'diamond' : 'circle-open') },
    error_x: { type: 'data', symmetric: false, array: some.map(row => row.high === null ? 0 : row.high - row.difference), arrayminus: some.map(row => row.low === null ? 0 : row.difference - row.low), color: tone('dim') }, hovertemplate: '%{y}: %{x}<extra></extra>',
  };
  draw('changes', [trace], layout(Math.max(160, 70 + 24 * some.length), `difference of the mean of ${unitOf(metricNow())}`, '', { yaxis: { autorange: 'reversed', type: 'category' } }), point => choose(point.customdata, quantile(numbersOf(study.cells[point.customdata]), 0.5)[1]));
  const lines = rows.map(row => [name(row), link(row.before, figure(numbersOf(study.cells[row.before]).mean)), link(row.after, figure(numbersOf(study.cells[row.after]).mean)),
    figure(row.difference), row.low === null ? '' : `${figure(row.low)} … ${figure(row.high)}`, isClear(row) ? 'differs' : 'not clear']);
  fillTable($('changes').querySelector('table'), ['combination', '#before', '#after', '#difference', '#95 %', ''], lines);
}

function drawOutcomes() {
  const bad = study.cells.filter(cell => cell.failed || cell.error);
  $('outcomes').hidden = !bad.length;
  if (!bad.length) return;
  const some = (study.cells.length > 20 ? bad : study.cells).slice(0, 60), names = some.map(nameOf);
  const kinds = [['passed', 'good', ''], ['failed', 'error', '/'], ['error', 'none', 'x']];
  const traces = kinds.map(([kind, colour, shape]) => ({
    name: kind === 'error' ? 'no answer' : kind, type: 'bar', orientation: 'h', y: names, x: some.map(cell => cell[kind]), customdata: some.map(cell => study.cells.indexOf(cell)),
    marker: { color: tone(colour), pattern: { shape } }, hovertemplate: '%{y}: %{x} %{fullData.name}<extra></extra>',
  }));
  draw('outcomes', traces, layout(Math.max(160, 90 + 20 * some.length), some.length < study.cells.length ? `runs (${some.length} of ${study.cells.length} combinations)` : 'runs', '', { barmode: 'stack', yaxis: { autorange: 'reversed', type: 'category' }, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0 } }), point => showNotPassed([study.cells[point.customdata]]));
}
