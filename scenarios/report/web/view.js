// The time range that is shown, and everything that changes it: keys, pointer, links.

const EDGE = 176; // px on the left for names
const SHOWN_MIN_US = 20;
const view = { from: 0, until: 1 };
const filter = { group: '', topic: '', node: '' };
let mask = null; // 1 for each fact that passes the filters; null: all pass
const tracks = []; // { section, canvas, height(), draw(pen), at(x, y) } from top to bottom
let waiting = false;

function show(from, until) {
  const span = Math.min(Math.max(until - from, SHOWN_MIN_US), report.span * 1.04);
  const low = -report.span * 0.02, high = report.span * 1.02 - span;
  view.from = Math.min(Math.max(from, low), Math.max(low, high));
  view.until = view.from + span;
  redraw();
}

function showAll() { show(-report.span * 0.01, report.span * 1.01); }
function zoom(factor, around = (view.from + view.until) / 2) {
  show(around - (around - view.from) * factor, around + (view.until - around) * factor);
}
function move(share) {
  const step = (view.until - view.from) * share;
  show(view.from + step, view.until + step);
}

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    drawVisible(false);
  });
}

// Draws the tracks that are visible, or all of them before printing.
function drawVisible(all) {
  const palette = paletteNow();
  drawMap(palette);
  for (const track of tracks) {
    if (track.section.hidden) continue;
    const box = track.canvas.getBoundingClientRect();
    if (all || (box.bottom > -200 && box.top < innerHeight + 200)) drawTrack(track, palette);
  }
  const { from, until } = view;
  document.getElementById('range').textContent =
    `${clock(Math.max(0, from))} – ${clock(Math.min(report.span, until))} (${length(Math.min(report.span, until) - Math.max(0, from))})`;
}

function drawTrack(track, palette) {
  const pen = penOf(track.canvas, track.height(), palette);
  const width = pen.width - EDGE - 8;
  pen.x = at => EDGE + ((at - view.from) / (view.until - view.from)) * width;
  pen.right = EDGE + width;
  pen.columns = Math.max(1, Math.floor(width));
  pen.scale = width / (view.until - view.from);
  track.pen = pen;
  drawGrid(pen);
  markActions(pen);
  pen.save();
  track.draw(pen);
  pen.restore();
  markViolations(pen);
  markFailure(pen, track === tracks[0]);
}

// Draws a line at each visible violation, a thick one at the chosen violation.
function markViolations(pen) {
  pen.fillStyle = pen.palette.error;
  report.places.slice(0, 2000).forEach(({ at }, number) => {
    if (at < view.from || at > view.until) return;
    const wide = number === violationShown ? 2 : 1;
    pen.globalAlpha = number === violationShown ? 1 : 0.5;
    pen.fillRect(Math.round(pen.x(at)) - wide / 2, 0, wide, pen.height);
  });
  pen.globalAlpha = 1;
}

function timeAt(pen, x) { return view.from + (x - EDGE) / pen.scale; }

function listen() {
  const area = document.getElementById('tracks');
  listenDrag(area);
  area.addEventListener('wheel', event => {
    const track = trackOf(event.target);
    if (!track || !(event.ctrlKey || event.metaKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) return;
    event.preventDefault();
    if (event.ctrlKey || event.metaKey)
      zoom(Math.exp(event.deltaY * 0.0025), timeAt(track.pen, event.offsetX));
    else move(event.deltaX / track.pen.columns);
  }, { passive: false });
  addEventListener('keydown', onKey);
  addEventListener('resize', redraw);
  addEventListener('scroll', redraw, { passive: true });
  addEventListener('hashchange', followLink);
  addEventListener('beforeprint', () => { printing = true; drawVisible(true); });
  addEventListener('afterprint', () => { printing = false; redraw(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  for (const [id, act] of Object.entries({
    in: () => zoom(0.5), out: () => zoom(2), all: showAll, back: () => move(-0.3), on: () => move(0.3),
    keys: toggleHelp, close: closeFacts,
  })) document.getElementById(id).addEventListener('click', act);
  listenMap();
}

function listenDrag(area) {
  let drag = null;
  area.addEventListener('pointerdown', event => {
    const track = trackOf(event.target);
    if (!track || event.button !== 0) return;
    drag = { x: event.clientX, from: view.from, until: view.until, track, moved: false };
    event.target.setPointerCapture(event.pointerId);
  });
  area.addEventListener('pointermove', event => {
    if (!drag) return hover(trackOf(event.target), event);
    const step = event.clientX - drag.x;
    if (Math.abs(step) > 3) drag.moved = true;
    if (!drag.moved) return;
    area.classList.add('moving');
    hideTip();
    const us = step / drag.track.pen.scale;
    show(drag.from - us, drag.until - us);
  });
  area.addEventListener('pointerup', event => {
    if (drag && !drag.moved) pick(drag.track, event);
    drag = null;
    area.classList.remove('moving');
  });
  area.addEventListener('pointercancel', () => { drag = null; });
  area.addEventListener('pointerleave', hideTip);
  area.addEventListener('dblclick', event => {
    const track = trackOf(event.target);
    if (track) zoom(0.25, timeAt(track.pen, event.offsetX));
  });
}

function trackOf(canvas) { return tracks.find(track => track.canvas === canvas && track.pen); }

const KEYS = {
  ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), a: () => move(-0.2), d: () => move(0.2),
  '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), w: () => zoom(0.5), s: () => zoom(2),
  0: showAll, Home: showAll, n: () => nextViolation(1), p: () => nextViolation(-1), '?': toggleHelp,
  Escape: () => { closeFacts(); hideTip(); document.getElementById('help').hidden = true; },
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches('select, input')) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

function toggleHelp() {
  const help = document.getElementById('help');
  help.hidden = !help.hidden;
  document.getElementById('keys').setAttribute('aria-expanded', String(!help.hidden));
}

// #violation-3, or #t=59.2-61 in seconds.
function followLink() {
  const violation = /^#violation-(\d+)$/.exec(location.hash);
  const times = /^#t=([\d.]+)-([\d.]+)$/.exec(location.hash);
  if (violation) showViolation(Number(violation[1]) - 1);
  else if (times) show(times[1] * 1e6, times[2] * 1e6);
}
