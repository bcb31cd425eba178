// The roles of brokers where masters may change: a row for each broker, and one for elections.

const ROLES = { 'master': ['#56b4e9', '#000'], 'acting master': ['#f0e442', '#000'] };

function addRoles() {
  if (!report.roles.length) return;
  const brokers = [...new Set(report.roles.map(span => span.node))];
  const shown = () => brokers.filter(name => !filter.node || name === filter.node);
  const top = report.elections.length ? LANE : 0;
  addTrack('Roles of brokers', 'the master of each name; grey: a slave; empty: no role, or its process has ended',
    () => AXIS + top + shown().length * LANE + 4,
    pen => {
      drawAxis(pen);
      shadeFaults(pen, AXIS);
      if (top) drawElections(pen);
      shown().forEach((name, row) => drawRoles(pen, name, AXIS + top + row * LANE));
    },
    (x, y, pen) => {
      const at = timeAt(pen, x), row = Math.floor((y - AXIS - top) / LANE);
      if (row < 0) return top && y >= AXIS ? aroundElection(at, 5 / pen.scale) : null;
      const near = 2 / pen.scale;
      const span = report.roles.findLast(it => it.node === shown()[row] && it.from - near <= at && at <= it.until);
      return span && { head: `${span.node}: ${roleText(span)}`, lines: [`${clock(span.from)} – ${clock(span.until)} (${length(span.until - span.from)})`], facts: [span.fact] };
    });
}

function roleText(span) { return span.epoch ? `${span.role}, epoch ${span.epoch}` : span.role; }

function drawRoles(pen, name, y) {
  label(pen, name, y + LANE / 2);
  for (const span of report.roles) {
    if (span.node !== name) continue;
    const [x, width] = extent(pen, span.from, span.until);
    if (!width) continue;
    const [colour, ink] = ROLES[span.role] ?? [pen.palette.soft, pen.palette.dim];
    pen.fillStyle = colour;
    pen.fillRect(x, y + 1, width, LANE - 3);
    pen.fillStyle = pen.palette.dim;
    pen.fillRect(x, y + 1, 1, LANE - 3); // where it begins
    pen.font = SMALL;
    pen.fillStyle = ink;
    pen.fillText(fitted(pen, roleText(span), width - 8), x + 5, y + LANE / 2);
  }
}

// A line for each election; one that found no master is a circle, as other errors.
function drawElections(pen) {
  label(pen, 'elections', AXIS + LANE / 2, pen.palette.dim, SMALL);
  for (const i of report.elections) {
    const at = facts.at[i];
    if (at < view.from || at > view.until) continue;
    const x = Math.round(pen.x(at)), hasFailed = kindOf(i).name === 'ElectionFailed';
    pen.fillStyle = hasFailed ? pen.palette.error : pen.palette.ink;
    pen.beginPath();
    if (hasFailed) pen.arc(x, AXIS + LANE / 2, 3.5, 0, 7);
    else pen.rect(x - 1, AXIS + 3, 2, LANE - 5);
    pen.fill();
  }
}

function aroundElection(at, near) {
  const found = report.elections.filter(i => Math.abs(facts.at[i] - at) <= near);
  return found.length ? { head: `elections at ${clock(at)}`, lines: [], facts: found, count: found.length } : null;
}
