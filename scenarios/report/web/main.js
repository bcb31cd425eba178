// Builds the page: loads the data, adds head, filters and tracks, and starts listening for events.

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
  [...new Set(report.lanes.flatMap(lane => lane.spans.map(span => span.owner)))].sort().forEach(ownerColour);
  writeHead();
  addChoices();
  addTheme();
  addFaults();
  addActions();
  addNodes();
  addRoles();
  addOwners();
  addFlows();
  addCharts();
  writeFigures();
  addFailure();
  placeMap();
  listen();
  showAll();
  drawVisible(true);
  followLink();
  document.documentElement.dataset.ready = 'yes';
}

// Keeps the strip of the whole run visible below the bar, whose height changes with its lines.
function placeMap() {
  const bar = document.getElementById('bar');
  const measure = () => document.documentElement.style.setProperty('--bar-height', bar.offsetHeight + 'px');
  new ResizeObserver(measure).observe(bar);
  measure();
}

main();
