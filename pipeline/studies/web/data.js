// The page's state: the unpacked study, and the current selection.

let study;
const shown = { metric: 0, colour: -1, along: -1, statistic: 'mean', fixed: [] }; // parameters by place
const STATISTICS = { mean: 'the mean', median: 'the median', p99: '99 of 100 runs are below', most: 'the largest', least: 'the smallest' };
const ROWS_AT_ONCE = 60;

async function unpacked(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const bytes = Uint8Array.from(text, letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).text();
}

const $ = id => document.getElementById(id);
const metricNow = () => study.metrics[shown.metric];
const numbersOf = (cell, metric = shown.metric) => cell.numbers[metric];
const valueOf = (cell, parameter) => study.parameters[parameter].values[cell.at[parameter]];
const others = (...used) => study.parameters.map((_, at) => at).filter(at => !used.includes(at));

// The quantile of a cell's runs at this share, and the seed of the run with that value.
function quantile(numbers, share) {
  const at = Math.round(share * (numbers.values.length - 1));
  return [numbers.values[at], numbers.seeds[at]];
}

function statistic(numbers, name) {
  if (name === 'mean') return numbers.mean;
  return quantile(numbers, { median: 0.5, p99: 0.99, most: 1, least: 0 }[name])[0];
}

// Cells in which all parameters except these have the selected value.
const cellsBesides = (...free) => study.cells.filter(cell =>
  others(...free).every(parameter => cell.at[parameter] === shown.fixed[parameter]));

const whereBesides = (...free) => others(...free)
  .map(parameter => `${study.parameters[parameter].name} = ${study.parameters[parameter].values[shown.fixed[parameter]]}`).join(', ');

const nameOf = cell => study.parameters.map((parameter, at) => `${parameter.name}=${valueOf(cell, at)}`).join(' ') || 'all runs';

function figure(value, digits = 4) {
  if (value === null || value === undefined) return '';
  if (Number.isInteger(value)) return value.toLocaleString('en');
  const size = Math.abs(value);
  return size >= 1000 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(digits)));
}

// Words with only these characters need no quotes in a shell.
const quoted = word => /^[\w@%+=:,.\/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

function commandOf(cell, seed) {
  const words = [...study.command.words, '--seed', String(seed)];
  const release = study.parameters.findIndex(parameter => parameter.is_release);
  const settings = { ...study.command.settings };
  study.parameters.forEach((parameter, at) => {
    if (at !== release) settings[parameter.name] = valueOf(cell, at);
  });
  for (const [name, value] of Object.entries(settings)) words.push('--set', `${name}=${value}`);
  if (release >= 0) words.push('--release', valueOf(cell, release));
  else if (study.command.release) words.push('--release', study.command.release);
  return words.map(word => quoted(String(word))).join(' ');
}
