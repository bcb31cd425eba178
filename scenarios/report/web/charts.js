// Durations of sends and deliveries, on a logarithmic scale; backlogs of groups; transactions of topics.

const CHART = 96, STEPS = 44, DOTS_MAX = 1500;
const TITLES = {
  sends: ['Sends to', 'from the call to its return; a cross at the top is a failed send'],
  consumed: ['Deliveries to', 'from stored to consumed, first deliveries only'],
  committed: ['Deliveries to', 'from stored to the commit of its offset: the journal has no facts of its consumers'],
  backlog: ['Backlog of', 'messages stored and not yet committed'],
  open: ['Open transactions of', 'half messages that have no end and are not given up'],
};
const COUNTS = ['backlog', 'open']; // drawn as bars, others as durations

function addCharts() {
  for (const what of ['sends', 'consumed', 'committed', 'backlog', 'open'])
    for (const points of report.series.filter(it => it.what === what)) addChart(what, points);
  const failed = report.series.filter(it => it.what === 'failed sends');
  for (const points of failed)
    if (!report.series.some(it => it.what === 'sends' && it.of === points.of))
      addChart('sends', { what: 'sends', of: points.of, facts: [], at: new Float64Array(), values: new Float64Array() });
}

// What happens to the messages of a group, one row for each kind of event, the higher the more of them.
const FLOW_LANE = 20;
const FLOWS = [
  ['sends', 'sent', 'line'], ['failed sends', 'sends failed', 'error'], ['consumed', 'consumed first', 'line'],
  ['failed', 'failed', 'warning'], ['sent back', 'sent back', 'warning'], ['retries', 'retried', 'line'],
  ['dead letters', 'dead letters', 'error'], ['duplicates', 'consumed again', 'error'],
];

// What happens to the transactions of a topic.
const TRANSACTIONS = [
  ['half messages', 'half messages', 'line'], ['transactions committed', 'committed', 'line'],
  ['transactions rolled back', 'rolled back', 'warning'], ['checks', 'producers asked', 'line'],
  ['checks of nobody', 'nobody asked', 'warning'], ['given up', 'given up', 'error'],
];
const isOfTopic = what => what.endsWith('sends') || what === 'open' || TRANSACTIONS.some(([name]) => name === what);

function addFlows() {
  addGroupFlows();
  for (const topic of new Set(report.series.filter(it => it.what === 'half messages').map(it => it.of)))
    addFlow(`Transactions of ${topic}`, 'half messages, their ends, and checks by their broker; in brackets the number in the whole run',
      TRANSACTIONS.map(([what, text, colour]) => ({ text, colour, all: report.series.filter(it => it.what === what && it.of === topic) }))
        .filter(row => row.all.length), { topics: new Set([topic]) });
}

function addGroupFlows() {
  for (const group of groupsOf()) {
    const topics = topicsOf(group);
    const rows = FLOWS.map(([what, text, colour]) => {
      const isSend = what.endsWith('sends');
      return { text, colour, all: report.series.filter(it => it.what === what && (isSend ? topics.has(it.of) : it.of === group)) };
    }).filter(row => row.all.some(it => it.facts.length));
    if (!rows.some(row => row.all.some(it => !it.what.endsWith('sends')))) continue;
    addFlow(`Messages of ${group}`, 'sent to its topics, consumed, retried, given up, consumed again; in brackets the number in the whole run',
      rows, { group, topics });
  }
}

function addFlow(title, note, rows, of) {
  addTrack(title, note, () => AXIS + rows.length * FLOW_LANE,
    pen => {
      drawAxis(pen);
      shadeFaults(pen, AXIS);
      rows.forEach((row, i) => drawFlow(pen, row, AXIS + i * FLOW_LANE));
    },
    (x, y, pen) => aroundFlow(rows[Math.floor((y - AXIS) / FLOW_LANE)], timeAt(pen, x), 3 / pen.scale), of);
}

function drawFlow(pen, { text, colour, all }, y) {
  const counts = new Uint32Array(pen.columns + 1);
  for (const { at } of all)
    for (let i = firstAt(at, view.from), end = firstAt(at, view.until); i < end; i++) counts[Math.floor((at[i] - view.from) * pen.scale)]++;
  const total = all.reduce((sum, it) => sum + it.facts.length, 0), most = counts.reduce((a, b) => Math.max(a, b), 1);
  label(pen, `${text} (${total.toLocaleString('en')})`, y + FLOW_LANE / 2, pen.palette.ink, SMALL);
  pen.fillStyle = pen.palette.faint;
  pen.fillRect(EDGE, y + FLOW_LANE - 2, pen.right - EDGE, 1);
  pen.fillStyle = pen.palette[colour];
  counts.forEach((count, i) => {
    if (!count) return;
    const height = 4 + (FLOW_LANE - 8) * Math.sqrt(count / most);
    pen.fillRect(EDGE + i - 0.5, y + FLOW_LANE - 2 - height, 2, height);
  });
}

function aroundFlow(row, at, near) {
  if (!row) return null;
  const found = row.all.flatMap(it => Array.from(it.facts.slice(firstAt(it.at, at - near), firstAt(it.at, at + near)))).sort((a, b) => a - b);
  return found.length ? { head: `${row.text} at ${clock(at)}`, lines: [`${found.length} within ${length(near * 2)}`], facts: found } : null;
}

function addChart(what, points) {
  const [title, note] = TITLES[what], chart = { points, failed: null, most: 1 };
  for (const value of points.values) if (value > chart.most) chart.most = value;
  if (what === 'sends') chart.failed = report.series.find(it => it.what === 'failed sends' && it.of === points.of);
  const of = isOfTopic(what) ? { topics: new Set([points.of]) } : { group: points.of, topics: topicsOf(points.of) };
  const isBacklog = COUNTS.includes(what);
  addTrack(`${title} ${points.of}`, note, () => AXIS + (isBacklog ? 60 : CHART),
    pen => {
      drawAxis(pen);
      shadeFaults(pen, AXIS);
      if (isBacklog) drawBacklog(pen, chart); else drawLatency(pen, chart);
    },
    (x, y, pen) => (isBacklog ? aroundBacklog(chart, timeAt(pen, x)) : aroundLatency(chart, pen, x, y)), of);
}

// The range of a chart in powers of ten: from its smallest to its largest value, rounded outwards.
function scaleOf(chart) {
  if (chart.scale) return chart.scale;
  let least = Infinity;
  for (const value of chart.points.values) if (value < least) least = value;
  const exact = chart.points.what === 'sends' ? 1000 : 100; // sends are measured in ms
  const low = Math.floor(Math.log10(Math.max(exact, Math.min(least, chart.most))));
  const high = Math.max(low + 1, Math.ceil(Math.log10(chart.most)));
  chart.scale = { low, high };
  return chart.scale;
}

function heightOf(chart, value) {
  const { low, high } = scaleOf(chart);
  const share = (Math.log10(Math.max(value, 10 ** low)) - low) / (high - low);
  return AXIS + CHART - 10 - share * (CHART - 20);
}

function drawLatency(pen, chart) {
  const { points } = chart, { low, high } = scaleOf(chart);
  for (let power = low; power <= high; power++) {
    const y = Math.round(heightOf(chart, 10 ** power));
    pen.fillStyle = pen.palette.faint;
    pen.fillRect(EDGE, y, pen.right - EDGE, 1);
    pen.font = SMALL;
    pen.fillStyle = pen.palette.dim;
    pen.textAlign = 'right';
    if (high - low < 6 || (power - low) % 2 === 0) pen.fillText(length(10 ** power), EDGE - 6, y);
    pen.textAlign = 'left';
  }
  const from = firstAt(points.at, view.from), until = firstAt(points.at, view.until);
  if (until - from <= DOTS_MAX) drawDots(pen, chart, from, until);
  else drawCells(pen, chart, from, until);
  if (chart.failed) drawCrosses(pen, chart.failed);
}

function drawDots(pen, chart, from, until) {
  const size = until - from < 200 ? 5 : 3;
  pen.fillStyle = pen.palette.line;
  pen.globalAlpha = until - from < 200 ? 0.9 : 0.6;
  for (let i = from; i < until; i++)
    pen.fillRect(pen.x(chart.points.at[i]) - size / 2, heightOf(chart, chart.points.values[i]) - size / 2, size, size);
  pen.globalAlpha = 1;
}

// Draws many points as cells, darker with more points; a line goes through the medians.
function drawCells(pen, chart, from, until) {
  const wide = 3, columns = Math.ceil(pen.columns / wide), { at } = chart.points;
  const cells = new Uint32Array(columns * (STEPS + 1)), tall = (CHART - 20) / STEPS;
  const rowOf = rowsOf(chart), share = pen.scale / wide;
  for (let i = from; i < until; i++) cells[Math.floor((at[i] - view.from) * share) * (STEPS + 1) + rowOf[i]]++;
  let most = 1;
  for (const count of cells) if (count > most) most = count;
  const bottom = AXIS + CHART - 10;
  pen.fillStyle = pen.palette.line;
  for (let place = 0; place < cells.length; place++) {
    if (!cells[place]) continue;
    pen.globalAlpha = 0.25 + 0.75 * (Math.log1p(cells[place]) / Math.log1p(most));
    const row = place % (STEPS + 1), column = (place - row) / (STEPS + 1);
    pen.fillRect(EDGE + column * wide, bottom - (row + 1) * tall, wide, Math.max(2, tall));
  }
  pen.globalAlpha = 1;
  pen.fillStyle = pen.palette.median;
  for (let column = 0; column < columns; column++) {
    const row = medianRow(cells, column * (STEPS + 1));
    if (row >= 0) pen.fillRect(EDGE + column * wide, bottom - (row + 0.5) * tall - 1, wide, 2);
  }
}

// The row of cells of each value.
function rowsOf(chart) {
  if (chart.rows) return chart.rows;
  const { low, high } = scaleOf(chart), factor = STEPS / (high - low) / Math.LN10, floor = low * Math.LN10;
  chart.rows = new Uint8Array(chart.points.values.length);
  chart.points.values.forEach((value, i) => {
    chart.rows[i] = Math.min(STEPS, Math.max(0, Math.floor((Math.log(value || 1) - floor) * factor)));
  });
  return chart.rows;
}

function medianRow(cells, start) {
  let sum = 0;
  for (let row = 0; row <= STEPS; row++) sum += cells[start + row];
  for (let row = 0, below = 0; row <= STEPS; row++) {
    below += cells[start + row];
    if (sum && below * 2 >= sum) return row;
  }
  return -1;
}

function drawCrosses(pen, points) {
  pen.strokeStyle = pen.palette.error;
  pen.lineWidth = 1.5;
  pen.beginPath();
  let last = -9;
  for (let i = firstAt(points.at, view.from), end = firstAt(points.at, view.until); i < end; i++) {
    const x = pen.x(points.at[i]);
    if (x - last < 2) continue;
    last = x;
    pen.moveTo(x - 3, AXIS + 2); pen.lineTo(x + 3, AXIS + 8);
    pen.moveTo(x + 3, AXIS + 2); pen.lineTo(x - 3, AXIS + 8);
  }
  pen.stroke();
  pen.lineWidth = 1;
}

function aroundLatency(chart, pen, x, y) {
  const { points, failed } = chart, near = 4 / pen.scale, at = timeAt(pen, x);
  const [from, until] = [firstAt(points.at, at - near), firstAt(points.at, at + near)];
  const values = Array.from(points.values.slice(from, until)).sort((a, b) => a - b);
  const lost = failed ? Array.from(failed.facts.slice(firstAt(failed.at, at - near), firstAt(failed.at, at + near))) : [];
  if (!values.length && !lost.length) return null;
  const lines = [];
  if (values.length) lines.push(values.length < 2 ? exact(points.what, values[0])
    : `${values.length} within ${length(near * 2)}: median ${exact(points.what, values[values.length >> 1])}, longest ${exact(points.what, values.at(-1))}`);
  if (lost.length) lines.push(`${lost.length} failed`);
  const order = Array.from(points.facts.slice(from, until), (fact, i) => [Math.abs(heightOf(chart, points.values[from + i]) - y), fact]);
  const nearest = order.sort((a, b) => a[0] - b[0]).slice(0, 200).map(pair => pair[1]);
  return { head: `${TITLES[points.what][0]} ${points.of} at ${clock(at)}`, lines, facts: [...lost, ...nearest] };
}

function drawBacklog(pen, chart) {
  const { at, values } = chart.points, bottom = AXIS + 56, scale = 46 / chart.most;
  pen.font = SMALL;
  pen.fillStyle = pen.palette.dim;
  pen.textAlign = 'right';
  pen.fillText(chart.most.toLocaleString('en'), EDGE - 6, AXIS + 10);
  pen.fillText('0', EDGE - 6, bottom - 2);
  pen.textAlign = 'left';
  const start = firstAt(at, view.from), end = firstAt(at, view.until);
  let value = start ? values[start - 1] : 0, x = EDGE, highest = value;
  pen.fillStyle = pen.palette.line;
  const bar = (from, until, count) => {
    pen.globalAlpha = 0.8;
    if (count) pen.fillRect(from, bottom - Math.max(1, count * scale), Math.max(1, until - from), Math.max(1, count * scale));
  };
  for (let i = start; i < end; i++) {
    const next = Math.floor(pen.x(at[i]));
    if (next > x) { bar(x, x + 1, highest); bar(x + 1, next, value); x = next; highest = value; }
    value = values[i];
    if (value > highest) highest = value;
  }
  bar(x, x + 1, highest);
  bar(x + 1, Math.min(pen.right, pen.x(report.span)), value);
  pen.globalAlpha = 1;
}

function aroundBacklog(chart, at) {
  const { points } = chart, i = firstAt(points.at, at) - 1;
  if (i < 0) return null;
  return { head: `${TITLES[points.what][0]} ${points.of} at ${clock(at)}`, lines: [`${points.values[i].toLocaleString('en')} messages`], facts: [points.facts[i]] };
}
