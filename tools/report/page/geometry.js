// Section 5: how far a tensor goes, whether updates agree, and how straight the way is.

function logSteps() {
  const columns = Array.from({ length: cells.columns }, (_, column) => report.steps[columnSteps(column)[1]]);
  const logs = columns.map((step) => step !== null && step > 0 ? Math.log10(step) : NaN);
  const known = logs.filter((value) => Number.isFinite(value));
  return { logs, low: known[0] ?? 0, high: known[known.length - 1] ?? 1 };
}

function distanceSpec() {
  const { logs, low, high } = logSteps();
  const span = high > low ? high - low : 1;
  const values = rowValues('dist_init', state.row);
  const places = logs.map((value) => (value - low) / span);
  let last = values.length - 1;
  while (last > 0 && !(values[last] > 0 && Number.isFinite(places[last]))) --last;
  const smallest = values.reduce((least, value, i) => value > 0 && Number.isFinite(places[i]) ? Math.min(least, value) : least, Infinity);
  // From the last point back, down to where the curve begins.
  const references = [0.5, 1].map((slope) => {
    const place = Math.max(0, places[last] - Math.log10(values[last] / smallest) / slope / span);
    return [[place, values[last] * 10 ** (slope * (place - places[last]) * span)], [places[last], values[last]]];
  });
  return {
    title: 'distance from the first checkpoint', log: 'always', places, references, series: [{ label: 'dist_init', values }],
    note: 'Both axes are logarithmic; the dotted lines have slopes 1/2 and 1.',
  };
}

function logTicks(count) {
  const { low, high } = logSteps();
  return powerTicks(10 ** low, 10 ** high, count)
    .map((step) => ({ place: (Math.log10(step) - low) / (high > low ? high - low : 1), text: step.toLocaleString('en') }));
}

// The straightness of each row of the picked tensor's module.
function straightnessRows() {
  const module = report.rows.module[state.row];
  return (shownModules().get(module) ?? []).map((row) => [report.rows.name[row], report.rows.straightness[row]]);
}

class StraightnessChart {
  constructor(place) {
    this.title = element('h3');
    this.plot = element('div', { className: 'plot' });
    this.numbers = numbersOf('straightness', 'straightness', () => ({ headers: ['tensor', 'straightness'], rows: straightnessRows() }));
    place.append(element('figure', {}, this.title, this.plot, this.numbers));
    this.plot.chart = this;
    charts.push(this);
    resized.observe(this.plot);
  }

  draw() {
    const rows = straightnessRows(), width = this.plot.clientWidth || 320, height = 190;
    this.plot.drawnWidth = width;
    this.title.textContent = 'straightness by layer, ' + report.rows.module[state.row];
    this.numbers.refresh();
    const svg = drawing('svg', { viewBox: `0 0 ${width} ${height}`, height, role: 'img', 'aria-label': this.title.textContent });
    const left = 58, bottom = 22, wide = (width - left - 8) / Math.max(rows.length, 1);
    for (const tick of [0, 0.5, 1]) {
      const y = height - bottom - tick * (height - bottom - 8);
      svg.append(drawing('line', { class: 'grid', x1: left, x2: width - 8, y1: y, y2: y }),
        drawing('text', { x: left - 6, y: y + 4, 'text-anchor': 'end' }, String(tick)));
    }
    const stride = Math.max(1, Math.ceil(rows.length * 34 / (width - left)));
    rows.forEach(([name, value], i) => {
      const x = left + i * wide, tall = Math.min(value ?? 0, 1) * (height - bottom - 8);
      const bar = drawing('rect', { class: 'dot a', x: x + wide * 0.1, width: Math.max(wide * 0.8, 1), y: height - bottom - tall, height: tall });
      bar.append(drawing('title', {}, `${name}: ${number(value)}`));
      svg.append(bar);
      if (i % stride !== 0) return;
      const layer = report.rows.layer[report.rows.name.indexOf(name)];
      svg.append(drawing('text', { x: x + wide / 2, y: height - bottom + 16, 'text-anchor': 'middle' }, layer === null ? '' : String(layer)));
    });
    this.plot.replaceChildren(svg);
  }

  mark() {}
}

function setUpGeometry() {
  if (!cells.values.dist_init.some((value) => value > 0)) {
    document.getElementById('geometry').hidden = true;
    return;
  }
  const place = document.querySelector('#geometry .body');
  const drawn = [new LineChart(place, 'dist_init', 'distance from the first checkpoint', distanceSpec, { ticksOf: logTicks })];
  if (hasValues('cos_prev')) {
    drawn.push(new LineChart(place, 'cos_prev', 'cosine with the update before', () => ({
      title: 'cosine of each update with the one before', range: [-1, 1], places: columnPlaces(),
      series: [{ label: 'cos_prev', values: rowValues('cos_prev', state.row) }],
    })));
  }
  if (report.rows.straightness.some((value) => value !== null)) drawn.push(new StraightnessChart(place));
  let row = -1;
  watch('picked', () => {
    if (row !== state.row) for (const chart of drawn) chart.draw();
    row = state.row;
  });
}
