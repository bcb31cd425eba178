// Puts the page together.

async function main() {
  try {
    await load();
  } catch (error) {
    const text = typeof DecompressionStream === 'undefined'
      ? 'This browser cannot unpack the data of this page: it lacks DecompressionStream.'
      : `The data of this page cannot be read: ${error}.`;
    document.getElementById('tracks').append(line('p', text, 'failed'));
    throw error;
  }
  [...new Set(story.lanes.flatMap(lane => lane.spans.map(span => span.owner)))].sort().forEach(ownerColour);
  writeHead();
  addChoices();
  addTheme();
  addFaults();
  addNodes();
  addOwners();
  addCharts();
  writeFigures();
  placeMap();
  listen();
  showAll();
  drawVisible(true);
  followLink();
  document.documentElement.dataset.ready = 'yes';
}

// The strip of the whole run stays in sight below the bar, however many lines that has.
function placeMap() {
  const bar = document.getElementById('bar');
  const measure = () => document.documentElement.style.setProperty('--bar-height', bar.offsetHeight + 'px');
  new ResizeObserver(measure).observe(bar);
  measure();
}

main();
