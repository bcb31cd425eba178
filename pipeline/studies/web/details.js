// The table of all cells, and the seeds behind a number with the commands that replay them.

function element(tag, text, options = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  Object.assign(made, options);
  return made;
}

// A number with a link to its run; without a seed, to the median run.
function link(cell, text, seed) {
  const numbers = numbersOf(study.cells[cell]);
  const target = seed ?? (numbers ? quantile(numbers, 0.5)[1] : study.cells[cell].first_seed);
  return element('a', text, { href: `#cell=${cell}&seed=${target}` });
}

function fillTable(table, titles, lines) {
  const isNumber = titles.map(title => title.startsWith('#'));
  const head = element('tr');
  titles.forEach((title, at) => head.append(element('th', title.replace('#', ''), { className: isNumber[at] ? 'number' : '' })));
  const body = lines.map(line => {
    const row = element('tr');
    line.forEach((part, at) => {
      const place = element('td', undefined, { className: isNumber[at] ? 'number' : '' });
      place.append(part);
      row.append(place);
    });
    return row;
  });
  table.replaceChildren(head, ...body);
}

let rowsShown = ROWS_AT_ONCE;

function drawTable() {
  const cells = study.cells.map((cell, at) => [cell, at]);
  const titles = [...study.parameters.map(parameter => parameter.name), '#runs', '#not passed', '#mean', '#± 95 %', '#smallest', '#median', '#99 %', '#largest'];
  const lines = cells.slice(0, rowsShown).map(([cell, at]) => {
    const numbers = numbersOf(cell), bad = cell.failed + cell.error;
    const not = bad ? element('a', figure(bad), { href: `#cell=${at}&not-passed`, className: 'bad' }) : '0';
    const parameters = study.parameters.map((_, parameter) => String(valueOf(cell, parameter)));
    const from = [...parameters, figure(numbers ? numbers.count : cell.runs), not];
    if (!numbers) return [...from, '', '', '', '', '', ''];
    const half = numbers.high === null ? '' : figure(numbers.high - numbers.mean, 2);
    const quantiles = [0, 0.5, 0.99, 1].map(share => { const [value, seed] = quantile(numbers, share); return link(at, figure(value), seed); });
    return [...from, link(at, figure(numbers.mean)), half, ...quantiles];
  });
  fillTable($('table').querySelector('table'), titles, lines);
  $('more').hidden = cells.length <= rowsShown;
  $('more').textContent = `show all ${cells.length} combinations`;
}

const choose = (cell, seed) => { location.hash = `#cell=${cell}&seed=${seed}`; };

function openChosen() {
  const given = new URLSearchParams(location.hash.slice(1)), at = given.get('cell');
  if (at === 'all') return showNotPassed(study.cells);
  const cell = study.cells[Number(at)];
  if (at === null || !cell) return closeSeeds();
  if (given.has('not-passed')) return showNotPassed([cell]);
  return showSeeds(cell, Number(given.get('seed')));
}

function showSeeds(cell, seed) {
  const numbers = numbersOf(cell), metric = metricNow();
  const runs = [];
  if (numbers) {
    for (const [share, name] of [[0, 'smallest'], [0.5, 'median'], [0.99, '99 %'], [1, 'largest']]) {
      const [value, of] = quantile(numbers, share);
      runs.push([name, of, figure(value)]);
    }
    const at = numbers.seeds.indexOf(seed);
    if (at >= 0 && !runs.some(run => run[1] === seed)) runs.unshift(['chosen', seed, figure(numbers.values[at])]);
    $('seeds-text').textContent = `${metric.name}: mean ${figure(numbers.mean)}` +
      (numbers.low === null ? '' : `, 95 % confidence ${figure(numbers.low)} … ${figure(numbers.high)}`) +
      `, from ${figure(numbers.count)} runs: seeds ${cell.first_seed} to ${cell.last_seed}.`;
  } else {
    runs.push(['first', cell.first_seed, '']);
    $('seeds-text').textContent = `No run of this combination measured ${metric.name}.`;
  }
  show(nameOf(cell), runs.map(([name, of, value]) => [[name, `seed ${of}`, value], cell, of, of === seed]));
}

function showNotPassed(cells) {
  const runs = cells.flatMap(cell => cell.not_passed.map(([seed, verdict, reason]) => [[verdict === 'error' ? 'no answer' : verdict, `seed ${seed}`, reason], cell, seed, false])).slice(0, 100);
  const count = cells.reduce((sum, cell) => sum + cell.failed + cell.error, 0);
  $('seeds-text').textContent = `${figure(count)} runs did not pass` + (count > runs.length ? `; ${runs.length} of them:` : ':');
  show(cells.length === 1 ? nameOf(cells[0]) : 'Runs that did not pass', runs, cells.length > 1);
}

function show(title, runs, namesCells = false) {
  $('seeds-title').textContent = title;
  $('seeds-rows').replaceChildren(...runs.map(([words, cell, seed, isChosen]) => {
    const row = element('tr', undefined, { className: isChosen ? 'chosen' : '' });
    if (namesCells) words = [nameOf(cell), ...words];
    words.forEach(word => row.append(element('td', word)));
    const command = element('code', commandOf(cell, seed)), place = element('td'), copy = element('button', 'copy');
    copy.onclick = () => copyText(command, copy);
    place.append(command, ' ', copy);
    row.append(place);
    return row;
  }));
  $('seeds').hidden = false;
}

async function copyText(command, button) {
  try {
    await navigator.clipboard.writeText(command.textContent);
    button.textContent = 'copied';
  } catch {
    getSelection().selectAllChildren(command); // a page opened from a file may not write to the clipboard
    button.textContent = document.execCommand('copy') ? 'copied' : 'selected';
  }
}

function closeSeeds() {
  $('seeds').hidden = true;
  if (location.hash) history.replaceState(null, '', location.pathname + location.search);
}
