// Facts as text: in a tip at the pointer, and in a list below after a click.

const TIP_FACTS_MAX = 4, LIST_MAX = 300;

function hover(track, event) {
  const found = track && track.at(event.offsetX, event.offsetY, track.pen);
  if (!found) return hideTip();
  const tip = document.getElementById('tip');
  tip.replaceChildren(line('b', found.head), ...found.lines.map(text => line('div', text)));
  const numbers = found.facts ?? [];
  if (numbers.length > TIP_FACTS_MAX) tip.append(line('div', counted(numbers), 'dim'));
  for (const i of numbers.slice(0, TIP_FACTS_MAX)) tip.append(factLine(i));
  if (numbers.length > TIP_FACTS_MAX) tip.append(line('i', 'click to list them'));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const x = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
  const y = event.clientY + 16 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 16;
  tip.style.left = Math.max(4, x) + 'px';
  tip.style.top = Math.max(4, y) + 'px';
}

function hideTip() { document.getElementById('tip').hidden = true; }

function line(tag, text, name = '') {
  const element = document.createElement(tag);
  element.textContent = text;
  if (name) element.className = name;
  return element;
}

// 120 MessageStored, 3 PullHeld
function counted(numbers) {
  const counts = new Map();
  for (const i of numbers) counts.set(kindOf(i).name, (counts.get(kindOf(i).name) ?? 0) + 1);
  const ordered = [...counts].sort((a, b) => b[1] - a[1]);
  const rest = ordered.length > 6 ? `, ${ordered.length - 6} other kinds` : '';
  return ordered.slice(0, 6).map(([name, count]) => `${count} ${name}`).join(', ') + rest;
}

function factLine(i) {
  const kind = kindOf(i), row = document.createElement('div');
  row.append(line('b', kind.name, kind.severity), line('i', ` ${clock(facts.at[i], 1)} ${report.names[facts.node[i]]} `),
    document.createTextNode(shortFields(i, 220)));
  return row;
}

function shortFields(i, longest) {
  const text = fieldsOf(i).map(([name, value]) => `${name}=${valueText(value)}`).join(' ');
  return text.length > longest ? text.slice(0, longest) + '…' : text;
}

function valueText(value) {
  if (Array.isArray(value)) return `[${value.map(valueText).join(', ')}]`;
  if (value && typeof value === 'object') return 'queue_id' in value ? queueName(value) : JSON.stringify(value);
  return String(value);
}

// After a click: lists the facts next to the pointer.
function pick(track, event) {
  const found = track.at(event.offsetX, event.offsetY, track.pen);
  if (found && found.facts && found.facts.length) listFacts(found.head, found.facts);
}

function listFacts(title, numbers, chosen = new Set()) {
  const shown = numbers.slice(0, LIST_MAX), panel = document.getElementById('facts');
  const more = numbers.length > shown.length ? `, the first ${shown.length} of ${numbers.length.toLocaleString('en')}` : '';
  document.getElementById('facts-title').textContent = `${title}${more}`;
  document.getElementById('rows').replaceChildren(...shown.map(i => factRow(i, chosen.has(i))));
  panel.hidden = false;
  panel.scrollTop = 0;
}

function factRow(i, isChosen) {
  const kind = kindOf(i), row = document.createElement('tr');
  const wall = new Date(report.wall[i]).toISOString().replace('T', ' ').replace('Z', '');
  const time = line('td', clock(facts.at[i], 1));
  time.title = `${wall} by the node's clock (UTC); number ${facts.number[i]} of its journal`;
  row.append(time, line('td', report.names[facts.node[i]]), line('td', kind.name, kind.severity), line('td', shortFields(i, 2000)));
  if (kind.advice) row.lastChild.append(line('i', ` — ${kind.advice}`));
  if (isChosen) row.className = 'chosen';
  row.addEventListener('click', () => {
    const half = (view.until - view.from) / 2;
    show(facts.at[i] - half, facts.at[i] + half);
  });
  return row;
}

function closeFacts() { document.getElementById('facts').hidden = true; }

// Shows a violation: its evidence in the middle of the time range, with some time around it.
let violationShown = -1;
function showViolation(number) {
  const place = report.places[number];
  if (!place) return;
  violationShown = number;
  const times = [place.at, ...place.facts.map(i => facts.at[i])];
  const from = times.reduce((a, b) => Math.min(a, b)), until = times.reduce((a, b) => Math.max(a, b));
  const around = Math.max((until - from) * 0.6, report.span / 200, 1000);
  show(from - around, until + around);
  document.querySelectorAll('#violations li').forEach((item, i) => item.classList.toggle('chosen', i === number));
  const near = new Set(place.facts);
  const node = report.names.indexOf(place.violation.node);
  const all = between(place.at - 1000, place.at + 1000, i => node < 0 || facts.node[i] === node);
  const shown = [...new Set([...place.facts, ...all.slice(0, 100)])].sort((a, b) => a - b);
  listFacts(`Violation ${number + 1}: ${place.violation.what}`, shown, near);
}

function nextViolation(step) {
  if (!report.places.length) return;
  const next = (violationShown + step + report.places.length) % report.places.length;
  const link = `#violation-${next + 1}`;
  if (location.hash === link) showViolation(next); else location.hash = link;
}
