// Drawing: colours of the theme, owners' colours and patterns, pens, the grid of time.

// Okabe and Ito's colours, which people with any kind of colour vision can distinguish.
const OWNER_COLOURS = ['#56b4e9', '#e69f00', '#009e73', '#f0e442', '#0072b2', '#cc79a7', '#d55e00', '#b0b7bf'];
const INK_ON = ['#000', '#000', '#fff', '#000', '#fff', '#000', '#fff', '#000'];
const FONT = '12px system-ui, sans-serif', SMALL = '11px system-ui, sans-serif';
const PALETTE = ['paper', 'ink', 'dim', 'faint', 'soft', 'routine', 'warning', 'error', 'fault', 'line', 'median'];
const owners = new Map(); // name: its number among all owners
let printing = false;

function paletteNow() {
  const root = document.documentElement, before = root.dataset.theme;
  if (printing) root.dataset.theme = 'light';
  const style = getComputedStyle(root);
  const palette = Object.fromEntries(PALETTE.map(name => [name, style.getPropertyValue('--' + name).trim()]));
  if (printing) { if (before) root.dataset.theme = before; else delete root.dataset.theme; }
  return palette;
}

// A 2d context with the width of its canvas on the page, sharp on any screen.
function penOf(canvas, height, palette) {
  const width = canvas.parentElement.clientWidth || 900, sharp = printing ? 2 : devicePixelRatio || 1;
  const [w, h] = [Math.round(width * sharp), Math.round(height * sharp)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + 'px';
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(sharp, 0, 0, sharp, 0, 0);
  pen.clearRect(0, 0, width, height);
  Object.assign(pen, { font: FONT, textBaseline: 'middle', width, height, palette });
  return pen;
}

function drawGrid(pen) {
  const step = niceStep((90 / pen.scale));
  pen.fillStyle = pen.palette.faint;
  for (let at = Math.ceil(view.from / step) * step; at < view.until; at += step)
    pen.fillRect(Math.round(pen.x(at)), 0, 1, pen.height);
}

// Shades the periods of faults in a track.
function shadeFaults(pen, top = 0) {
  pen.save();
  pen.globalAlpha = 0.13;
  pen.fillStyle = pen.palette.fault;
  for (const fault of report.faults) {
    const [x, width] = extent(pen, fault.from, fault.until);
    if (width > 0) pen.fillRect(x, top, width, pen.height - top);
  }
  pen.restore();
}

// The x and width of a period on the canvas: at least one pixel wide, 0 if it is not visible.
function extent(pen, from, until) {
  if (until < view.from || from > view.until) return [0, 0];
  const x = Math.max(EDGE, pen.x(from)), end = Math.min(pen.right, pen.x(until));
  return [x, Math.max(1, end - x)];
}

function ownerColour(owner) {
  if (!owners.has(owner)) owners.set(owner, owners.size);
  return OWNER_COLOURS[owners.get(owner) % OWNER_COLOURS.length];
}
function ownerInk(owner) { return INK_ON[owners.get(owner) % INK_ON.length]; }
// The ninth owner has the first owner's colour, with lines across it.
function ownerHatch(owner) { return Math.floor((owners.get(owner) ?? 0) / OWNER_COLOURS.length); }

const patterns = new Map();
// Diagonal stripes of *colour*; the space between them is transparent.
function stripes(pen, colour, size = 8, thick = 4, falling = false) {
  const key = [colour, size, thick, falling].join();
  if (!patterns.has(key)) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = size;
    const brush = tile.getContext('2d');
    brush.strokeStyle = colour;
    brush.lineWidth = thick / Math.SQRT2;
    brush.lineCap = 'square';
    brush.beginPath();
    for (const shift of [-size, 0, size]) {
      brush.moveTo(shift, falling ? 0 : size);
      brush.lineTo(shift + size, falling ? size : 0);
    }
    brush.stroke();
    patterns.set(key, pen.createPattern(tile, 'repeat'));
  }
  return patterns.get(key);
}

// *text* cut to *width*; empty if nothing fits.
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + '…' : '';
}

function label(pen, text, y, colour = pen.palette.ink, font = FONT) {
  pen.font = font;
  pen.fillStyle = colour;
  pen.fillText(fitted(pen, text, EDGE - 26), 16, y);
}

const STEPS_US = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5,
  1e6, 2e6, 5e6, 1e7, 15e6, 3e7, 6e7, 12e7, 3e8, 6e8, 12e8, 18e8, 36e8, 72e8, 144e8, 432e8, 864e8];
function niceStep(least) { return STEPS_US.find(step => step >= least) ?? Math.ceil(least / 864e8) * 864e8; }

// A time of the run, 1:01.5, with enough digits for steps of *exact* µs; default: 1/1000 of the shown range.
function clock(us, exact = (view.until - view.from) / 1000) {
  const digits = Math.min(6, Math.max(0, 6 - Math.floor(Math.log10(Math.max(1, exact)))));
  const total = Math.round((us / 1e6) * 10 ** digits) / 10 ** digits;
  const hours = Math.floor(total / 3600), minutes = Math.floor(total / 60) % 60;
  const seconds = (total % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, '0');
  return hours ? `${hours}:${String(minutes).padStart(2, '0')}:${seconds}` : `${minutes}:${seconds}`;
}

function length(us) {
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${Number((us / 1000).toPrecision(3))} ms`;
  if (us < 12e7) return `${Number((us / 1e6).toPrecision(3))} s`;
  if (us < 72e8) return `${Number((us / 6e7).toPrecision(3))} min`;
  return `${Number((us / 36e8).toPrecision(3))} h`;
}
