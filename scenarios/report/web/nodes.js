// The faults, one bar each, and the nodes: the number of facts of each, and its absences.

const LANE = 18, AXIS = 20;

function addTrack(title, note, height, draw, at, of = {}) {
  const section = document.createElement('section');
  section.className = 'track-section';
  const head = document.createElement('h2');
  head.textContent = title;
  const small = document.createElement('small');
  small.textContent = note ? ` ${note}` : '';
  head.append(small);
  const canvas = document.createElement('canvas');
  canvas.className = 'track';
  canvas.setAttribute('role', 'img');
  canvas.setAttribute('aria-label', `${title} ${note}`);
  section.append(head, canvas);
  document.getElementById('tracks').append(section);
  canvas.style.height = height() + 'px';
  tracks.push({ section, canvas, height, draw, at, of });
}

// Gives faults that are active at the same time separate rows.
function faultRows() {
  const ends = [];
  for (const fault of report.faults) {
    let row = ends.findIndex(end => end <= fault.from);
    if (row < 0) row = ends.length;
    ends[row] = fault.until;
    fault.row = row;
  }
  return ends.length;
}

function addFaults() {
  const rowCount = faultRows();
  if (!rowCount) return;
  const seen = () => report.faults.filter(fault => !filter.node || fault.nodes.includes(filter.node));
  addTrack('Faults', 'injected into the cluster on purpose; shaded in the timelines below',
    () => AXIS + rowCount * LANE,
    pen => {
      drawAxis(pen);
      for (const fault of seen()) drawFault(pen, fault);
    },
    (x, y, pen) => {
      const at = timeAt(pen, x), row = Math.floor((y - AXIS) / LANE);
      const near = 3 / pen.scale;
      const fault = seen().find(it => it.row === row && it.from - near <= at && at <= it.until + near);
      return fault && { head: fault.text, lines: faultLines(fault), facts: [fault.begin, fault.end].filter(it => it >= 0) };
    });
}

// The actions of the timeline and its marks: texts that do not fit beside each other get rows of their own.
const ACTION_ROWS_MAX = 6, ACTION_WIDE = 230;
let actionRows = 1;
function addActions() {
  if (!report.actions.length) return;
  const rowsAt = pen => {
    const ends = [];
    return report.actions.map(action => {
      const x = pen.x(action.at);
      let row = ends.findIndex(end => end <= x);
      if (row < 0) row = ends.length < ACTION_ROWS_MAX ? ends.length : ACTION_ROWS_MAX - 1;
      pen.font = SMALL;
      ends[row] = x + 14 + Math.min(ACTION_WIDE, pen.measureText(action.text).width);
      return row;
    });
  };
  addTrack('Actions and marks', 'of the timeline: members that join and leave, topics that change; ◆ an action, | a mark',
    () => AXIS + actionRows * LANE,
    pen => {
      drawAxis(pen);
      pen.rows = rowsAt(pen);
      const needed = Math.max(...pen.rows) + 1;
      if (needed !== actionRows) { actionRows = needed; redraw(); } // the height follows the zoom
      report.actions.forEach((action, i) => drawAction(pen, action, AXIS + pen.rows[i] * LANE));
    },
    (x, y, pen) => {
      const row = Math.floor((y - AXIS) / LANE);
      const found = report.actions.filter((action, i) => pen.rows[i] === row && Math.abs(pen.x(action.at) - x) < 8);
      return found.length ? { head: `at ${clock(found[0].at)}`, lines: found.map(it => it.text), facts: found.map(it => it.fact) } : null;
    });
}

function drawAction(pen, action, y) {
  if (action.at < view.from || action.at > view.until) return;
  const x = Math.round(pen.x(action.at)), middle = y + LANE / 2, isMark = action.action === 'mark';
  pen.fillStyle = isMark ? pen.palette.ink : pen.palette.line;
  pen.beginPath();
  if (isMark) pen.rect(x - 1, y + 1, 2, LANE - 3);
  else { pen.moveTo(x - 5, middle); pen.lineTo(x, middle - 5); pen.lineTo(x + 5, middle); pen.lineTo(x, middle + 5); }
  pen.fill();
  pen.font = SMALL;
  const width = Math.min(ACTION_WIDE, Math.max(x - EDGE, pen.right - x) - 12);
  const text = fitted(pen, action.text, width), wide = pen.measureText(text).width;
  const isLeft = x + 8 + wide > pen.right; // at the right end the text stands before its sign
  pen.fillStyle = pen.palette.ink;
  pen.fillText(text, isLeft ? x - 8 - wide : x + 8, middle);
}

// A thin line at each action, in all timelines.
function markActions(pen) {
  pen.save();
  pen.globalAlpha = 0.45;
  for (const { at, action } of report.actions) {
    if (at < view.from || at > view.until) continue;
    pen.fillStyle = action === 'mark' ? pen.palette.ink : pen.palette.line;
    for (let y = AXIS; y < pen.height; y += 6) pen.fillRect(Math.round(pen.x(at)), y, 1, 3);
  }
  pen.restore();
}

function drawFault(pen, fault) {
  const [x, width] = extent(pen, fault.from, fault.until), y = AXIS + fault.row * LANE;
  if (!width) return;
  pen.fillStyle = pen.palette.fault;
  pen.fillRect(x, y + 1, Math.max(2, width), LANE - 3);
  pen.font = SMALL;
  const inside = fitted(pen, fault.text, width - 8);
  pen.fillStyle = inside ? '#000' : pen.palette.ink;
  pen.fillText(inside || fitted(pen, fault.text, Math.min(220, pen.right - x - width - 6)), inside ? x + 4 : x + width + 4, y + LANE / 2);
}

function faultLines(fault) {
  return [`${clock(fault.from)} – ${clock(fault.until)} (${length(fault.until - fault.from)}), ended: ${fault.reason}`,
    `nodes: ${fault.nodes.join(', ') || 'none'}; acted ${fault.acted_count} times`];
}

function drawAxis(pen) {
  const step = niceStep(90 / pen.scale);
  pen.font = SMALL;
  pen.fillStyle = pen.palette.dim;
  for (let at = Math.ceil(Math.max(view.from, 0) / step) * step; at < view.until; at += step)
    if (pen.x(at) < pen.right - 30) pen.fillText(clock(at, step), pen.x(at) + 3, AXIS / 2);
}

function addNodes() {
  const shown = () => report.nodes.filter(node => !filter.node || node.name === filter.node).slice(0, 200);
  const more = report.nodes.length > 200 ? `; the first 200 of ${report.nodes.length}, choose one above` : '';
  addTrack('Nodes', `number of facts of each; hatched: down, paused or silent; ▲ warnings, ● errors${more}`,
    () => AXIS + shown().length * LANE + 4,
    pen => {
      drawAxis(pen);
      shadeFaults(pen, AXIS);
      const counts = countFacts(pen);
      shown().forEach((node, row) => drawNode(pen, node, AXIS + row * LANE, counts));
    },
    (x, y, pen) => {
      const node = shown()[Math.floor((y - AXIS) / LANE)];
      return node && aroundNode(node, timeAt(pen, x), 3 / pen.scale);
    });
}

// Counts facts by node and pixel, with the worst level of each.  If a pixel is wider than two coarse
// bins of the whole run, the bins are added up: then the time does not depend on the number of facts.
const COARSE = 16384;
function countFacts(pen) {
  const wide = pen.columns + 1, coarse = report.span / COARSE;
  const found = 1 / pen.scale > 2 * coarse && facts.count > 100000
    ? coarseFacts(wide, at => Math.floor((at - view.from) * pen.scale), coarse)
    : binFacts(firstAt(facts.at, view.from), firstAt(facts.at, view.until), wide, view.from, pen.scale);
  found.wide = wide;
  found.most = 1;
  for (const count of found.counts) if (count > found.most) found.most = count;
  return found;
}

function binFacts(from, until, wide, begin, scale) {
  const counts = new Uint32Array(report.names.length * wide), levels = new Uint8Array(counts.length);
  const { at, node, kind, kinds } = facts, levelOf = Uint8Array.from(kinds, it => it.level);
  for (let i = from; i < until; i++) {
    if (mask && !mask[i]) continue;
    const place = node[i] * wide + Math.floor((at[i] - begin) * scale);
    counts[place]++;
    const level = levelOf[kind[i]];
    if (level > levels[place]) levels[place] = level;
  }
  return { counts, levels };
}

let coarseBins = null; // valid for one mask, in `of`
function coarseFacts(wide, column, step) {
  if (!coarseBins || coarseBins.of !== mask)
    coarseBins = { of: mask, ...binFacts(0, facts.count, COARSE + 1, 0, 1 / step) };
  const counts = new Uint32Array(report.names.length * wide), levels = new Uint8Array(counts.length);
  for (let bin = 0; bin <= COARSE; bin++) {
    const x = column((bin + 0.5) * step);
    if (x < 0 || x >= wide) continue;
    for (let node = 0; node < report.names.length; node++) {
      const from = node * (COARSE + 1) + bin, to = node * wide + x;
      counts[to] += coarseBins.counts[from];
      if (coarseBins.levels[from] > levels[to]) levels[to] = coarseBins.levels[from];
    }
  }
  return { counts, levels };
}

function drawNode(pen, node, y, { counts, levels, wide, most }) {
  const start = report.names.indexOf(node.name) * wide, { palette } = pen;
  label(pen, node.name, y + LANE / 2);
  for (const absence of node.absences) drawAbsence(pen, absence, y);
  pen.fillStyle = palette.routine;
  for (let i = 0; i < wide; i++) {
    const count = counts[start + i];
    if (!count) continue;
    const height = 3 + (LANE - 7) * Math.sqrt(count / most);
    pen.fillRect(EDGE + i, y + LANE - 2 - height, 1, height);
  }
  for (let i = 0, last = -9; i < wide; i++) {
    const level = levels[start + i];
    if (!level || i - last < 5) continue;
    last = i;
    pen.fillStyle = level === 2 ? palette.error : palette.warning;
    pen.beginPath();
    if (level === 2) pen.arc(EDGE + i, y + 5, 3.5, 0, 7);
    else { pen.moveTo(EDGE + i - 4, y + 8); pen.lineTo(EDGE + i + 4, y + 8); pen.lineTo(EDGE + i, y + 1); }
    pen.fill();
  }
}

function drawAbsence(pen, absence, y) {
  const [x, width] = extent(pen, absence.from, absence.until);
  if (!width) return;
  pen.save();
  pen.fillStyle = pen.palette.soft;
  pen.fillRect(x, y + 1, width, LANE - 3);
  pen.fillStyle = stripes(pen, pen.palette.faint, 8, 2);
  pen.fillRect(x, y + 1, width, LANE - 3);
  pen.font = SMALL;
  pen.fillStyle = pen.palette.dim;
  const text = absence.how === 'gone' ? 'no more facts' : absence.how;
  pen.fillText(fitted(pen, text, width - 8), x + 5, y + LANE / 2);
  pen.restore();
}

function aroundNode(node, at, near) {
  const number = report.names.indexOf(node.name);
  const found = between(at - near, at + near, i => facts.node[i] === number);
  const absence = node.absences.find(it => it.from <= at && at <= it.until);
  const lines = absence ? [`${absence.how} for ${length(absence.until - absence.from)}, from ${clock(absence.from)}`] : [];
  return { head: `${node.name} at ${clock(at)}`, lines, facts: found, count: found.length };
}

// Numbers of the facts from *from* to *until* that pass the filters and *test*.
function between(from, until, test) {
  const found = [], end = firstAt(facts.at, until);
  for (let i = firstAt(facts.at, from); i < end; i++)
    if ((!mask || mask[i]) && test(i)) found.push(i);
  return found;
}

// Draws the whole run in one strip; the time range shown below is bright.
function drawMap(palette) {
  const canvas = document.getElementById('map');
  const pen = penOf(canvas, 30, palette), width = pen.width - EDGE - 8;
  const x = at => EDGE + ((at + report.span * 0.01) / (report.span * 1.02)) * width;
  pen.mapTime = px => ((px - EDGE) / width) * report.span * 1.02 - report.span * 0.01;
  canvas.pen = pen;
  label(pen, `${facts.count.toLocaleString('en')} facts`, 15, palette.dim, SMALL);
  pen.fillStyle = palette.soft;
  pen.fillRect(EDGE, 4, width, 22);
  const bins = mapBins(Math.max(1, Math.floor(width / 2))), most = Math.max(...bins);
  pen.fillStyle = palette.routine;
  bins.forEach((count, i) => {
    const height = count ? 2 + 18 * (Math.log1p(count) / Math.log1p(most)) : 0;
    pen.fillRect(EDGE + i * 2, 26 - height, 2, height);
  });
  pen.fillStyle = palette.fault;
  for (const fault of report.faults) pen.fillRect(x(fault.from), 4, Math.max(2, x(fault.until) - x(fault.from)), 4);
  pen.fillStyle = palette.error;
  for (const place of report.places.slice(0, 2000)) {
    pen.beginPath();
    pen.moveTo(x(place.at) - 4, 2);
    pen.lineTo(x(place.at) + 4, 2);
    pen.lineTo(x(place.at), 11);
    pen.fill();
  }
  const left = Math.max(EDGE, x(view.from)), right = Math.min(EDGE + width, x(view.until));
  pen.fillStyle = palette.paper;
  pen.globalAlpha = 0.65;
  pen.fillRect(EDGE, 4, left - EDGE, 22);
  pen.fillRect(right, 4, EDGE + width - right, 22);
  pen.globalAlpha = 1;
  pen.strokeStyle = palette.ink;
  pen.strokeRect(left + 0.5, 3.5, Math.max(2, right - left - 1), 23);
}

let binned = { of: null, count: 0, bins: [] };
function mapBins(count) {
  if (binned.of === mask && binned.count === count) return binned.bins;
  const bins = new Array(count).fill(0), span = report.span * 1.02, shift = report.span * 0.01;
  for (let i = 0; i < facts.count; i++)
    if (!mask || mask[i]) bins[Math.floor(((facts.at[i] + shift) / span) * count)]++;
  binned = { of: mask, count, bins };
  return bins;
}

function listenMap() {
  const canvas = document.getElementById('map');
  let from = null;
  canvas.addEventListener('pointerdown', event => {
    from = event.offsetX;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', event => {
    if (from !== null && Math.abs(event.offsetX - from) > 3) selectOnMap(canvas.pen, from, event.offsetX);
  });
  canvas.addEventListener('pointerup', event => {
    if (from !== null && Math.abs(event.offsetX - from) <= 3) {
      const half = (view.until - view.from) / 2, at = canvas.pen.mapTime(event.offsetX);
      show(at - half, at + half);
    }
    from = null;
  });
}

function selectOnMap(pen, from, until) {
  const times = [pen.mapTime(from), pen.mapTime(until)].sort((a, b) => a - b);
  show(...times);
}
