// The part of a page that only a failed test has: the history, the messages, the moment of the failure.

function addFailure() {
  const { failure } = report;
  if (!failure) return;
  failure.at = failure.failed_us - report.start_us;
  const section = document.getElementById('failure'), history = document.getElementById('history');
  section.hidden = false;
  const failed = ' s the test failed: ';
  for (const text of failure.history) {
    const [time, rest] = text.split(failed, 2);
    history.append(rest === undefined ? line('div', text) : line('div', time + failed + failure.error, 'bad'));
  }
  if (failure.messages.length) section.append(messagesTable(failure));
}

function messagesTable({ heads, messages, message_count: count }) {
  const title = count > messages.length ? `The first ${messages.length} of ${count} messages when the test failed` : 'Messages when the test failed';
  const place = table(title, heads, messages);
  place.id = 'messages';
  return place;
}

// The checkers without a result, folded: a short test has many.
function foldedMissing(missing) {
  const folded = document.createElement('details');
  folded.append(line('summary', `${missing.length} rules have nothing to judge in this test`),
    line('span', missing.map(([name, why]) => `${name}: ${why}`).join('; ')));
  return folded;
}

// Draws a dashed line at the failure of the test, with a label in the first track.
function markFailure(pen, isFirst) {
  const { failure } = report;
  if (!failure || failure.at < view.from || failure.at > view.until) return;
  const x = Math.round(pen.x(failure.at)) + 0.5;
  pen.save();
  pen.strokeStyle = pen.palette.error;
  pen.lineWidth = 2;
  pen.setLineDash([5, 3]);
  pen.beginPath();
  pen.moveTo(x, 0);
  pen.lineTo(x, pen.height);
  pen.stroke();
  if (isFirst) {
    pen.font = SMALL;
    const text = 'test failed', wide = pen.measureText(text).width, left = Math.max(EDGE, x - wide - 6);
    pen.fillStyle = pen.palette.paper;
    pen.fillRect(left - 3, 0, wide + 6, AXIS - 2);
    pen.fillStyle = pen.palette.error;
    pen.fillText(text, left, AXIS / 2);
  }
  pen.restore();
}
