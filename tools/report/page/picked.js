// Section 4: the picked tensor over all steps.

function normSeries(row, label) {
  return row === null || row === undefined ? [] : [{ label, values: rowValues('norm', row) }];
}

function momentSeries(row) {
  return [...normSeries(report.rows.exp_avg[row], 'exp_avg'), ...normSeries(report.rows.exp_avg_sq[row], 'exp_avg_sq')];
}

function fillRowChooser() {
  const chooser = document.getElementById('row');
  const options = [];
  for (const rows of shownModules().values()) {
    for (const row of rows) options.push(element('option', { value: String(row) }, report.rows.name[row]));
  }
  chooser.replaceChildren(...options);
  chooser.value = String(state.row);
}

function drawPickedText() {
  document.getElementById('picked').textContent = cellText(state.row, state.column);
  document.getElementById('row').value = String(state.row);
}

function setUpPicked() {
  const place = document.querySelector('#tensor .body');
  const byStep = (title, name, log) => () => ({
    title, log, places: columnPlaces(), series: [{ label: name, values: rowValues(name, state.row) }],
  });
  const shape = () => `${report.rows.dtype[state.row]} ${report.rows.shape[state.row]}`;
  const drawn = [new LineChart(place, 'norm', 'norm of the picked tensor', () => ({
    ...byStep('norm', 'norm', true)(), note: shape(),
  }))];
  if (hasValues('upd_per_step')) {
    drawn.push(new LineChart(place, 'upd_per_step', 'update norm by step', byStep('update norm by step', 'upd_per_step', true)));
  }
  if (report.rows.exp_avg.some((row) => row !== null) || report.rows.exp_avg_sq.some((row) => row !== null)) {
    drawn.push(new LineChart(place, 'adam', 'norms of the moments of Adam', () => ({
      title: 'norms of the moments of Adam', log: true, places: columnPlaces(), series: momentSeries(state.row),
    })));
  }
  const chooser = document.getElementById('row');
  chooser.addEventListener('change', () => pick(Number(chooser.value), state.column));
  fillRowChooser();
  drawPickedText();
  watch('filter', fillRowChooser);
  watch('picked metric', drawPickedText);
  watch('picked', () => {
    if (setUpPicked.row !== state.row) for (const chart of drawn) chart.draw();
    setUpPicked.row = state.row;
  });
}
