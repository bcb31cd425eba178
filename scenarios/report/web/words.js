// Texts of the page: the run, the verdict, the violations, the filters, the figures.

const VIOLATIONS_MAX = 500, PARTS_MAX = 8;

function writeHead() {
  document.getElementById('title').textContent = report.title;
  const { run, ended } = report, begun = new Date(report.start_ms).toISOString().slice(0, 19).replace('T', ' ');
  const words = run ? [`scenario ${run.scenario}`, `seed ${run.seed}`, `${run.world} world`, `RocketMQ ${run.release}`, `code ${run.code_version}`] : [];
  if (run && run.parameters !== '{}') words.push(`parameters ${run.parameters}`);
  words.push(`${facts.count.toLocaleString('en')} facts of ${report.names.length} nodes in ${length(report.span)}, from ${begun} UTC`);
  if (ended && ended.reason !== 'finished') words.push(`the run ended: ${ended.reason} ${ended.detail}`);
  document.getElementById('run').textContent = words.join(' · ');
  writeVerdict();
  if (run) {
    const plan = document.getElementById('plan');
    plan.hidden = false;
    plan.querySelector('pre').textContent = pretty(run.plan);
  }
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 1); } catch { return text; }
}

function writeVerdict() {
  const place = document.getElementById('verdict'), { places, judgement } = report;
  if (!judgement) {
    place.textContent = 'This journal was not judged by checkers.';
    return;
  }
  place.append(places.length ? line('b', `${places.length + judgement.more_violations} violation${places.length === 1 ? '' : 's'}`, 'bad') : line('b', 'no violation', report.unproven.length ? '' : 'good'));
  for (const text of report.unproven) place.append(' ', line('b', 'Not passed', 'bad'), `: ${text}.`);
  const unmet = report.expected.filter(it => it.met === false);
  if (report.expected.length) place.append(' ', unmet.length ? line('b', `${unmet.length} of ${report.expected.length} expectations not met`, 'bad')
    : line('b', expectedWords(), 'good'), unmet.map(it => ` ${it.text}, it is ${report.judgement.metrics[it.metric]}`).join(';') + (unmet.length ? '.' : ''));
  const missing = [...Object.entries(judgement.not_judged), ...Object.entries(judgement.raised)];
  if (missing.length && report.failure) place.append(foldedMissing(missing));
  else if (missing.length) place.append(` ${missing.length} of the checkers have no result: `, line('span', missing.map(([name, why]) => `${name} (${why})`).join('; ')));
  if (!places.length) return;
  const list = document.getElementById('violations');
  list.hidden = false;
  places.slice(0, VIOLATIONS_MAX).forEach((it, i) => list.append(violationItem(it, i)));
  const more = places.length - Math.min(places.length, VIOLATIONS_MAX) + judgement.more_violations;
  if (more) list.append(line('li', `and ${more} more`));
}

function expectedWords() {
  const unknown = report.expected.filter(it => it.met === null).length;
  return unknown ? `no expectation failed, ${unknown} not measured` : 'all expectations met';
}

function violationItem({ violation, at }, i) {
  const item = document.createElement('li'), link = line('a', violation.what);
  link.href = `#violation-${i + 1}`;
  link.addEventListener('click', () => showViolation(i)); // the hash may not change by the click
  item.append(line('b', violation.checker), ` at ${clock(at, 1e3)}${violation.node ? ' by ' + violation.node : ''}: `, link, line('small', ` — ${violation.rule}`));
  return item;
}

function addChoices() {
  const groups = new Set(groupsOf()), topics = new Set(report.lanes.map(lane => lane.queue.topic));
  for (const points of report.series) (isOfTopic(points.what) ? topics : groups).add(points.of);
  const choices = { group: [...groups], topic: [...topics], node: report.nodes.map(node => node.name) };
  for (const [what, names] of Object.entries(choices)) {
    const select = document.getElementById(what);
    select.append(new Option('all', ''), ...names.sort().map(name => new Option(name, name)));
    select.addEventListener('change', () => { filter[what] = select.value; applyFilter(); });
  }
}

function applyFilter() {
  mask = passing(filter);
  for (const { section, of } of tracks)
    section.hidden = Boolean((filter.group && of.group && of.group !== filter.group)
      || (filter.topic && of.topics && !of.topics.has(filter.topic))
      || (filter.group && !of.group && of.topics && ![...of.topics].some(topic => topicsOf(filter.group).has(topic))));
  redraw();
}

function addTheme() {
  const select = document.getElementById('theme'), root = document.documentElement;
  select.addEventListener('change', () => {
    if (select.value === 'auto') delete root.dataset.theme; else root.dataset.theme = select.value;
    redraw();
  });
}

// The numbers of the timelines as tables, for printing and for screen readers.
function writeFigures() {
  const place = document.getElementById('figures');
  const owned = groupsOf().map(ownedFigures);
  if (owned.length) place.append(table('Queues and their owners, with retry topics and the start-up of groups',
    ['group', 'queues', 'owners', 'two owners, sum over queues', 'no owner, sum over queues', 'no owner, longest of a queue'], owned));
  const timed = report.series.filter(it => (it.what in TITLES || it.what === 'failed sends') && !COUNTS.includes(it.what) && it.facts.length).map(timedFigures);
  if (timed.length) place.append(table('Durations over the whole run', ['', 'count', 'median', '99 %', 'longest'], timed));
  const left = report.series.filter(it => it.what === 'backlog').map(it => [it.of, most(it.values), it.values.at(-1)]);
  if (left.length) place.append(table('Backlog, sum over the queues of a group', ['group', 'most', 'at the end'], left));
  const flows = flowFigures();
  if (flows.length) place.append(table('Messages by group, in the whole run', ['group', ...FLOW_WORDS.map(([, text]) => text)], flows));
  const transactions = transactionFigures();
  if (transactions.length) place.append(table('Transactions by topic, in the whole run; open: at its end', ['topic', ...TRANSACTIONS.map(([, text]) => text), 'open'], transactions));
  const expected = report.expected.map(({ text, metric, met, why }) =>
    [text, report.judgement.metrics[metric] ?? '', met === null ? why : met ? 'met' : 'NOT MET']);
  if (expected.length) place.prepend(table('Expectations', ['', 'measured', ''], expected));
  writeMetrics(place);
}

const FLOW_WORDS = [['consumed', 'consumed first'], ['failed', 'failed'], ['sent back', 'sent back'],
  ['retries', 'retried'], ['dead letters', 'dead letters'], ['duplicates', 'consumed again']];
function transactionFigures() {
  const series = (what, of) => report.series.find(it => it.what === what && it.of === of);
  return report.series.filter(it => it.what === 'open').map(({ of, values }) =>
    [of, ...TRANSACTIONS.map(([what]) => series(what, of)?.facts.length ?? 0), values.at(-1)]);
}

function flowFigures() {
  const count = (what, of) => report.series.filter(it => it.what === what && it.of === of).reduce((sum, it) => sum + it.facts.length, 0);
  const groups = [...new Set(report.series.filter(it => FLOW_WORDS.some(([what]) => what === it.what)).map(it => it.of))].sort();
  return groups.map(group => [group, ...FLOW_WORDS.map(([what]) => count(what, group))]);
}

// Each metric once, in one table with a head for each checker: first those of unmet expectations,
// then those that are not 0; of those that are 0 only the names.
function writeMetrics(place) {
  const isZero = it => !it.unmet && !it.value && !Object.values(it.parts).some(Boolean);
  const shown = report.metrics.filter(it => !isZero(it)), zero = report.metrics.filter(isZero);
  if (!shown.length && !zero.length) return;
  const body = document.createElement('table');
  body.className = 'metrics';
  body.append(cells(['metric', 'run', 'over', 'parts'], 'th'));
  let last = '';
  for (const metric of shown) {
    const head = metric.unmet ? 'with an expectation that was not met' : metric.checker;
    if (head !== last) {
      const cell = line('th', head, metric.unmet ? 'bad' : '');
      cell.colSpan = 4;
      body.append(row([cell]));
    }
    last = head;
    body.append(metricRow(metric));
  }
  place.append(titled('Metrics of the checkers', body));
  if (!zero.length) return;
  const rest = document.createElement('details');
  rest.append(line('summary', `${zero.length} more are 0`), line('p', zero.map(it => it.name).join(', ')));
  place.append(rest);
}

function metricRow({ name, value, unit, over, parts, sentence }) {
  const named = Object.entries(parts).sort((a, b) => b[1] - a[1]);
  const more = named.length > PARTS_MAX ? `, and ${named.length - PARTS_MAX} more` : '';
  const shown = named.slice(0, PARTS_MAX).map(([of, part]) => named.length > 1 ? `${of} ${shownNumber(part)}` : of).join(', ') + more;
  const first = document.createElement('td'); // a narrow page breaks a long name at its words
  name.split('_').forEach((word, i) => first.append(...(i ? ['_', document.createElement('wbr'), word] : [word])));
  first.append(line('small', sentence));
  return row([first, line('td', `${shownNumber(value)} ${unit}`, 'number'), line('td', over), line('td', shown)]);
}

function row(all) {
  const found = document.createElement('tr');
  found.append(...all);
  return found;
}

function cells(texts, tag) {
  return row(texts.map(text => line(tag, typeof text === 'number' ? shownNumber(text) : text, typeof text === 'number' ? 'number' : '')));
}

function titled(title, body) {
  const section = document.createElement('div'), wide = document.createElement('div');
  wide.className = 'wide';
  wide.append(body);
  section.append(line('h2', title), wide);
  return section;
}

function shownNumber(value) { return Number(value.toPrecision(6)).toLocaleString('en'); }

function ownedFigures(group) {
  const lanes = report.lanes.filter(lane => lane.group === group);
  const sum = key => lanes.reduce((all, lane) => all + lane[key].reduce((a, [from, until]) => a + until - from, 0), 0);
  const gaps = lanes.flatMap(lane => lane.gaps.map(([from, until]) => until - from));
  const names = new Set(lanes.flatMap(lane => lane.spans.map(span => span.owner)));
  const known = !lanes[0].inferred;
  return [group, lanes.length, names.size, length(sum('overlaps')), known ? length(sum('gaps')) : 'unknown',
    known ? length(gaps.reduce((a, b) => Math.max(a, b), 0)) : 'unknown'];
}

function timedFigures({ what, of, values }) {
  if (what === 'failed sends') return [`failed sends to ${of}`, values.length, '', '', ''];
  const sorted = Float64Array.from(values).sort(), at = share => exact(what, sorted[Math.floor((sorted.length - 1) * share)]);
  return [`${TITLES[what][0].toLowerCase()} ${of}`, values.length, at(0.5), at(0.99), at(1)];
}

// A duration as text; sends are measured in whole ms.
function exact(what, us) { return what === 'sends' && us < 1000 ? '< 1 ms' : length(us); }

function most(values) { return values.reduce((a, b) => Math.max(a, b), 0); }

function table(title, heads, rowsOf) {
  const body = document.createElement('table');
  body.append(cells(heads, 'th'), ...rowsOf.map(texts => cells(texts, 'td')));
  return titled(title, body);
}
