// Section 2: all steps on one axis, what happened at them, and the numbers that checkpoints carry.

class StepStrip {
  constructor(place) {
    this.plot = element('div', { className: 'plot' });
    this.numbers = numbersOf('steps', 'steps', () => this.table());
    place.append(element('figure', {}, this.plot, this.numbers));
    this.plot.chart = this;
    charts.push(this);
    resized.observe(this.plot);
  }

  table() {
    const rows = report.steps.map((step, k) => [stepText(step), report.operands[k], ...report.attributes.map(({ values }) => values[k])]);
    return { headers: ['step', 'checkpoint', ...report.attributes.map(({ name }) => name)], rows };
  }

  x(place) {
    return 58 + place * (this.width - 66);
  }

  draw() {
    this.width = this.plot.clientWidth || 320;
    this.plot.drawnWidth = this.width;
    this.svg = drawing('svg', { viewBox: `0 0 ${this.width} 66`, height: 66, role: 'img',
      'aria-label': `${counted(report.steps.length, 'checkpoint')}, ${counted(report.findings.length, 'finding')}` });
    for (const finding of report.findings) if (finding.kind === 'missing_step') this.drawGap(finding);
    this.drawSteps();
    this.drawEvents();
    this.now = drawing('line', { class: 'now', y1: 2, y2: 44 });
    this.svg.append(this.now);
    this.svg.addEventListener('click', (event) => this.clicked(event));
    this.plot.replaceChildren(this.svg);
    this.mark();
  }

  drawGap(finding) {
    const behind = report.starts[finding.column];
    if (behind === 0) return;
    const from = this.x(checkpointPlace(behind - 1)), to = this.x(checkpointPlace(behind));
    const gap = drawing('rect', { class: 'gap', x: from, width: Math.max(to - from, 2), y: 20, height: 24 });
    gap.append(drawing('title', {}, `missing from step ${stepText(finding.step)} on`));
    this.svg.append(gap);
  }

  drawSteps() {
    let path = '';
    for (let k = 0; k < report.steps.length; ++k) path += `M${this.x(checkpointPlace(k)).toFixed(1)} 22V42`;
    this.svg.append(drawing('path', { d: path, class: 'tick' }));
    let free = 0;
    for (const { place, text } of stepTicks(Math.max(2, Math.floor(this.width / 90)))) {
      const half = text.length * 3.6, x = Math.min(Math.max(this.x(place), half), this.width - half);
      if (x - half < free) continue;
      this.svg.append(drawing('text', { x, y: 60, 'text-anchor': 'middle' }, text));
      free = x + half + 8;
    }
  }

  drawEvents() {
    const byColumn = new Map();
    for (const finding of report.findings) {
      if (!byColumn.has(finding.column)) byColumn.set(finding.column, new Set());
      byColumn.get(finding.column).add(MEANINGS[finding.kind] ?? finding.kind);
    }
    for (const [column, kinds] of byColumn) {
      const x = this.x(columnPlace(column));
      const mark = drawing('path', { class: 'event', d: `M${x} 20l-5 -10h10z` });
      mark.append(drawing('title', {}, columnText(column) + ': ' + [...kinds].join(', ')));
      this.svg.append(mark);
    }
  }

  mark() {
    const x = this.x(columnPlace(state.column));
    this.now.setAttribute('x1', x);
    this.now.setAttribute('x2', x);
  }

  clicked(event) {
    if (String(getSelection()) !== '') return;
    const box = this.svg.getBoundingClientRect();
    const place = (event.clientX - box.left - 58) / (box.width - 66);
    const places = columnPlaces();
    let nearest = 0;
    places.forEach((each, i) => {
      if (Math.abs(each - place) < Math.abs(places[nearest] - place)) nearest = i;
    });
    pick(state.row, nearest);
  }
}

function columnOfCheckpoint(k) {
  let column = 0;
  while (report.starts[column + 1] <= k) ++column;
  return column;
}

function setUpStrip() {
  const place = document.querySelector('#steps .body');
  const attributes = element('div', { className: 'charts' });
  const columns = report.steps.map((_, k) => columnOfCheckpoint(k));
  for (const { name, values } of report.attributes) {
    new LineChart(attributes, name, name, () => ({
      title: name,
      series: [{ label: name, values: values.map((value) => value ?? NaN) }],
      places: report.steps.map((_, k) => checkpointPlace(k)),
      log: values.every((value) => value === null || value > 0),
    }), { height: 120, columnOf: (k) => columns[k] });
  }
  if (report.attributes.length > 0) place.append(attributes);
  new StepStrip(place);
}
