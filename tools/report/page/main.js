// Puts the page together. `data-ready` on the root says after how many milliseconds it answered.

function setUpHeader() {
  document.title = report.title + ' - dsckpt report';
  document.getElementById('title').textContent = report.title;
  const range = knownSteps.length > 1 ? `, steps ${knownSteps[0]} to ${knownSteps[knownSteps.length - 1]}` :
    knownSteps.length === 1 ? `, step ${knownSteps[0]}` : '';
  document.getElementById('summary').textContent =
    `${counted(report.steps.length, 'checkpoint')}${range}; ${counted(cells.rows, 'tensor')}; ${byteText(report.scope.bytes)} in all`;
}

// Where to look first: what was found first, else the first tensor at the last step.
function pickFirst() {
  const found = report.findings.find(({ row, kind }) => row !== null && kind !== 'frozen') ?? report.findings.find(({ row }) => row !== null);
  state.row = found?.row ?? 0;
  state.column = found?.column ?? cells.columns - 1;
}

async function start() {
  await unpackCells();
  pickFirst();
  setUpHeader();
  setUpFindings();
  setUpStrip();
  setUpMaps();
  setUpPicked();
  setUpGeometry();
  setUpDigests();
  setUpSizes();
  setUpScope();
  setUpKeys();
  for (const chart of charts) if (!maps.includes(chart)) chart.draw();
  watch('picked', () => charts.forEach((chart) => chart.mark()));
  watch('axis', redrawAll);
  for (const query of [media.dark, media.print]) query.addEventListener('change', () => {
    tell('theme');
    redrawAll();
  });
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
}

start().catch((error) => {
  document.getElementById('summary').textContent = 'This browser cannot show the page: ' + error.message;
  throw error;
});
