// The owners of queues: a lane for each queue, a colour for each owner, stripes for two owners at once.

const LANES_MAX = 400;

function addOwners() {
  for (const group of groupsOf()) {
    const lanes = report.lanes.filter(lane => lane.group === group);
    const shown = () => lanes.filter(lane => !filter.topic || lane.queue.topic === filter.topic).slice(0, LANES_MAX);
    const high = lanes.length > 60 ? 9 : LANE;
    const passes = passesOf(group);
    const more = lanes.length > LANES_MAX ? `; the first ${LANES_MAX} of ${lanes.length} queues, choose a topic above` : '';
    const how = lanes[0].broadcast ? 'broadcast: each member has every queue' : lanes[0].inferred ? 'owner: the last client that committed offsets' : 'striped: two owners; crossed: no owner';
    addTrack(`Queues of ${group}`, `${how}${more}`,
      () => AXIS + LANE + shown().length * high + 4,
      pen => {
        drawAxis(pen);
        shadeFaults(pen, AXIS);
        drawPasses(pen, passes);
        shown().forEach((lane, row) => drawLane(pen, lane, AXIS + LANE + row * high, high));
      },
      (x, y, pen) => {
        const row = Math.floor((y - AXIS - LANE) / high), at = timeAt(pen, x);
        if (row < 0) return y < AXIS ? null : aroundPass(passes, at, 4 / pen.scale);
        const lane = shown()[row];
        return lane && aroundLane(lane, at, 2 / pen.scale);
      },
      { group, topics: new Set(lanes.map(lane => lane.queue.topic)) });
  }
}

function groupsOf() { return [...new Set(report.lanes.map(lane => lane.group))]; }

// Facts of rebalances of this group: RebalancePassed, QueuesClaimed and QueuesReleased.
function passesOf(group) {
  const found = [];
  const wanted = new Set(['RebalancePassed', 'QueuesClaimed', 'QueuesReleased'].map(name =>
    facts.kinds.findIndex(kind => kind.name === name)));
  const index = facts.values.indexOf(group);
  for (let i = 0; i < facts.count; i++)
    if (wanted.has(facts.kind[i]) && kindOf(i).columns.group[facts.row[i]] === index) found.push(i);
  found.at = found.map(i => facts.at[i]);
  return found;
}

function drawPasses(pen, passes) {
  label(pen, 'rebalances', AXIS + LANE / 2, pen.palette.dim, SMALL);
  const drawn = [new Set(), new Set()];
  for (let place = firstAt(passes.at, view.from); place < passes.length && passes.at[place] <= view.until; place++) {
    const i = passes[place], at = facts.at[i];
    const moved = kindOf(i).name !== 'RebalancePassed', x = Math.round(pen.x(at));
    if (drawn[+moved].has(x)) continue;
    drawn[+moved].add(x);
    pen.fillStyle = moved ? pen.palette.ink : pen.palette.routine;
    pen.fillRect(x - (moved ? 1 : 0), AXIS + (moved ? 3 : 8), moved ? 2 : 1, LANE - (moved ? 5 : 10));
  }
}

function aroundPass(passes, at, near) {
  const found = passes.filter(i => Math.abs(facts.at[i] - at) <= near);
  return found.length ? { head: `rebalances at ${clock(at)}`, lines: [], facts: found, count: found.length } : null;
}

function drawLane(pen, lane, y, high) {
  const tall = high - (high > 12 ? 3 : 1);
  if (high > 12) label(pen, lane.name, y + tall / 2, lane.queue.topic.startsWith('%') ? pen.palette.dim : undefined, SMALL);
  if (lane.broadcast) return drawShares(pen, lane, y, tall);
  for (const [from, until] of lane.gaps) drawGap(pen, from, until, y, tall);
  for (const span of lane.spans) drawSpan(pen, span, y, tall);
  for (const [from, until] of lane.overlaps) drawOverlap(pen, lane, from, until, y, tall);
  if (tall > 10) for (const span of lane.spans) drawOwner(pen, lane, span, y, tall);
}

// Draws a lane of a broadcasting group: its members one below the other.
function drawShares(pen, lane, y, tall) {
  const names = [...new Set(lane.spans.map(span => span.owner))].sort();
  for (const span of lane.spans) drawSpan(pen, span, y + (names.indexOf(span.owner) * tall) / names.length, tall / names.length);
}

function drawSpan(pen, span, y, tall) {
  const [x, width] = extent(pen, span.from, span.until);
  if (!width) return;
  pen.globalAlpha = filter.node && filter.node !== span.owner ? 0.2 : 1;
  pen.fillStyle = ownerColour(span.owner);
  pen.fillRect(x, y, width, tall);
  const hatch = ownerHatch(span.owner);
  if (hatch) {
    pen.fillStyle = stripes(pen, '#0006', 6 + hatch * 2, 1.5, hatch % 2 === 0);
    pen.fillRect(x, y, width, tall);
  }
  pen.fillStyle = '#0008';
  if (width > 3 && span.from > view.from) pen.fillRect(x, y, 1, tall);
  pen.globalAlpha = 1;
}

// Draws the owner's name, to the right of an overlap with another owner at the beginning.
function drawOwner(pen, lane, span, y, tall) {
  const shared = lane.overlaps.find(([from, until]) => from <= span.from && until > span.from);
  const [x, width] = extent(pen, shared ? Math.min(shared[1], span.until) : span.from, span.until);
  if (width < 24) return;
  pen.font = SMALL;
  pen.fillStyle = filter.node && filter.node !== span.owner ? pen.palette.dim : ownerInk(span.owner);
  pen.fillText(fitted(pen, span.owner, width - 8), x + 4, y + tall / 2 + 0.5);
}

function drawGap(pen, from, until, y, tall) {
  const [x, width] = extent(pen, from, until);
  if (!width) return;
  pen.fillStyle = pen.palette.paper;
  pen.fillRect(x, y, width, tall);
  for (const falling of [false, true]) {
    pen.fillStyle = stripes(pen, pen.palette.error, 7, 1, falling);
    pen.fillRect(x, y, width, tall);
  }
  pen.strokeStyle = pen.palette.error;
  if (width > 2) pen.strokeRect(x + 0.5, y + 0.5, width - 1, tall - 1);
  if (tall > 10 && width > 60) {
    pen.font = SMALL;
    const text = 'no owner', wide = pen.measureText(text).width;
    pen.fillStyle = pen.palette.paper;
    pen.fillRect(x + 3, y + 2, wide + 6, tall - 4);
    pen.fillStyle = pen.palette.error;
    pen.fillText(text, x + 6, y + tall / 2 + 0.5);
  }
}

function drawOverlap(pen, lane, from, until, y, tall) {
  const [x, width] = extent(pen, from, until);
  if (!width) return;
  const names = [...new Set(lane.spans.filter(it => it.from < until && it.until > from).map(it => it.owner))];
  pen.fillStyle = ownerColour(names[0]);
  pen.fillRect(x, y, width, tall);
  pen.fillStyle = stripes(pen, ownerColour(names[1] ?? names[0]), 10, 5);
  pen.fillRect(x, y, width, tall);
  pen.strokeStyle = pen.palette.ink;
  pen.lineWidth = 2;
  if (width > 3) pen.strokeRect(x + 1, y + 1, width - 2, tall - 2);
  else { pen.fillStyle = pen.palette.ink; pen.fillRect(x, y, width, tall); }
  pen.lineWidth = 1;
}

function aroundLane(lane, at, near) {
  const spans = lane.spans.filter(it => it.from - near <= at && at <= it.until + near);
  const gap = lane.gaps.find(([from, until]) => from <= at && at <= until);
  const overlap = lane.overlaps.find(([from, until]) => from - near <= at && at <= until + near);
  const lines = spans.map(it =>
    `${it.owner}: ${clock(it.from)} – ${clock(it.until)} (${length(it.until - it.from)}), then ${it.why}`);
  if (overlap) lines.unshift(`two owners for ${length(overlap[1] - overlap[0])}, from ${clock(overlap[0])}`);
  if (gap) lines.unshift(`no owner for ${length(gap[1] - gap[0])}, from ${clock(gap[0])}`);
  const numbers = spans.flatMap(it => [it.claim, it.release]).filter(it => it >= 0).sort((a, b) => a - b);
  return { head: `${lane.name} of ${lane.group} at ${clock(at)}`, lines, facts: [...new Set(numbers)] };
}
