// The data of the page: turns columns of differences into typed arrays, looks up facts by number.

let report, facts;

async function load() {
  const packed = atob(document.getElementById('data').textContent);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  report = await new Response(stream).json();
  facts = report.facts;
  facts.at = sums(facts.at_us);
  facts.number = sums(facts.seq);
  facts.node = Uint16Array.from(facts.node);
  facts.kind = Uint16Array.from(facts.kind);
  facts.row = rows(facts);
  for (const kind of facts.kinds) {
    kind.columns = Object.fromEntries(kind.fields.map((name, i) => [name, sums(kind.columns[i])]));
    kind.level = { debug: 0, info: 0, warning: 1, error: 2 }[kind.severity];
  }
  report.names = report.node_names;
  report.wall = walls(facts);
  report.span = Math.max(1000, report.end_us - report.start_us);
  for (const node of report.nodes) node.absences.forEach(fromStart);
  for (const fault of report.faults) fromStart(fault);
  for (const span of report.roles) fromStart(span);
  for (const action of report.actions) action.at = action.at_us - report.start_us;
  for (const lane of report.lanes) {
    lane.name = queueName(lane.queue);
    lane.spans = lane.spans.map(([owner, from, until, claim, release, why]) =>
      ({ owner, from: from - report.start_us, until: until - report.start_us, claim, release, why }));
    for (const key of ['gaps', 'overlaps'])
      lane[key] = lane[key].map(([from, until]) => [from - report.start_us, until - report.start_us]);
  }
  for (const points of report.series) {
    points.facts = sums(points.facts);
    points.values = sums(points.values);
    points.at = points.facts.map(number => facts.at[number]);
  }
  for (const place of report.places) place.at = place.at_us - report.start_us;
}

// Adds the times of a span in µs since the first fact, which all other code uses.
function fromStart(span) {
  span.from = span.from_us - report.start_us;
  span.until = span.until_us - report.start_us;
}

function sums(differences) {
  const column = new Float64Array(differences.length);
  let sum = 0;
  for (let i = 0; i < column.length; i++) column[i] = sum += differences[i];
  return column;
}

function rows({ kind, kinds }) {
  const next = new Uint32Array(kinds.length), found = new Uint32Array(kind.length);
  for (let i = 0; i < found.length; i++) found[i] = next[kind[i]]++;
  return found;
}

// The wall time of each fact, from how far its node's clock is ahead of the time since the first fact.
function walls({ wall_ms, node, at }) {
  const ahead = new Float64Array(report.names.length), found = new Float64Array(at.length);
  for (let i = 0; i < found.length; i++) found[i] = (ahead[node[i]] += wall_ms[i]) + Math.floor(at[i] / 1000);
  return found;
}

// The first place in *column*, which is sorted, whose value is not below *value*.
function firstAt(column, value) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

function kindOf(i) { return facts.kinds[facts.kind[i]]; }

// The fields of fact *i*, [name, value] each, as in the journal.
function fieldsOf(i) {
  const kind = kindOf(i), row = facts.row[i];
  return kind.fields.map(name => {
    const value = kind.columns[name][row];
    return [name, kind.texts.includes(name) ? facts.values[value] : value];
  });
}

function queueName(queue) { return `${queue.topic} ${queue.broker}/${queue.queue_id}`; }

// The mask of the facts that pass the filters: one byte each; null: all pass.
function passing({ group, topic, node }) {
  if (!group && !topic && !node) return null;
  const topics = topic ? new Set([topic]) : group ? topicsOf(group) : null;
  const tests = facts.kinds.map(kind => testOf(kind, group, topics));
  const number = node ? report.names.indexOf(node) : -1;
  const mask = new Uint8Array(facts.count);
  for (let i = 0; i < facts.count; i++)
    mask[i] = (number < 0 || facts.node[i] === number) && tests[facts.kind[i]](facts.row[i]) ? 1 : 0;
  return mask;
}

function topicsOf(group) {
  return new Set(report.lanes.filter(lane => lane.group === group).map(lane => lane.queue.topic));
}

// The test of a kind's rows; facts that name neither group nor topic pass.
function testOf(kind, group, topics) {
  const wanted = [];
  if (group && kind.columns.group) wanted.push(indexes(kind.columns.group, value => value === group));
  if (topics && kind.columns.topic) wanted.push(indexes(kind.columns.topic, value => topics.has(value)));
  if (topics && kind.columns.queue) wanted.push(indexes(kind.columns.queue, value => topics.has(value.topic)));
  if (topics && kind.columns.queues)
    wanted.push(indexes(kind.columns.queues, value => value.some(queue => topics.has(queue.topic))));
  return row => wanted.every(({ column, good }) => good.has(column[row]));
}

function indexes(column, isWanted) {
  const good = new Set();
  for (const index of new Set(column)) if (isWanted(facts.values[index])) good.add(index);
  return { column, good };
}
