// Curves, drawn as SVG.

const LOOKS = ['a', 'b', 'c'];
const charts = [];  // all of the page; each has draw(), and mark(column)

function redrawAll() {
  for (const chart of charts) chart.draw();
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    // Its own drawing changes the height alone.
    if (target.drawnWidth !== target.clientWidth) target.chart.draw();
  }
});

function pathOf(points) {
  let path = '', pen = false;
  for (const [x, y] of points) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      pen = false;
      continue;
    }
    path += (pen ? 'L' : 'M') + x.toFixed(1) + ' ' + y.toFixed(1);
    pen = true;
  }
  return path;
}

// Points without neighbours, which a line would not show; all of them where there are few.
function dotsOf(points) {
  const there = (point) => point !== undefined && Number.isFinite(point[0]) && Number.isFinite(point[1]);
  return points.filter((point, i) => there(point) && (points.length <= 40 || (!there(points[i - 1]) && !there(points[i + 1]))));
}

function keysOf(series) {
  const keys = element('div', { className: 'keys' });
  series.forEach(({ label }, i) => {
    const sample = drawing('svg', { viewBox: '0 0 28 10', 'aria-hidden': 'true' });
    sample.append(drawing('path', { d: 'M0 5H28', class: 'curve ' + LOOKS[i] }));
    keys.append(element('span', {}, sample, label));
  });
  return keys;
}

// spec(): {title, series: [{label, values}], places, ticks(count), xLabel, log, range, references, note}. `places` are 0..1 for each
// value; `columnOf(i)` is the column of a value. A reference is a list of two points [place, value].
class LineChart {
  constructor(place, name, about, spec, { height = 190, columnOf = (i) => i, ticksOf = stepTicks } = {}) {
    Object.assign(this, { spec, height, columnOf, ticksOf });
    this.title = element('h3');
    this.keys = element('div');
    this.plot = element('div', { className: 'plot' });
    this.note = element('figcaption');
    this.numbers = numbersOf(name, about, () => this.table());
    this.figure = element('figure', {}, this.title, this.keys, this.plot, this.note, this.numbers);
    this.plot.chart = this;
    place.append(this.figure);
    charts.push(this);
    resized.observe(this.plot);
  }

  table() {
    const { series } = this.spec();
    const rows = series[0] ? Array.from(series[0].values, (_, i) => [columnLabel(this.columnOf(i)), ...series.map((one) => one.values[i])]) : [];
    return { headers: ['step', ...series.map((one) => one.label)], rows };
  }

  draw() {
    const spec = this.spec();
    this.drawn = spec;
    this.title.textContent = spec.title;
    this.note.textContent = spec.note ?? '';
    this.keys.replaceChildren(spec.series.length > 1 ? keysOf(spec.series) : '');
    this.numbers.refresh();
    const width = this.plot.clientWidth || 320;
    this.plot.drawnWidth = width;
    const scale = valueScale(spec.series.flatMap((one) => Array.from(one.values)), { ...spec, count: 4 });
    if (scale === null) {
      this.svg = null;
      this.plot.replaceChildren(element('p', { className: 'note' }, 'There is no value to show.'));
      return;
    }
    this.box = { left: 58, right: 8, top: 8, bottom: spec.xLabel ? 36 : 22, width, height: this.height };
    this.svg = drawing('svg', { viewBox: `0 0 ${width} ${this.height}`, height: this.height, role: 'img', 'aria-label': spec.title });
    this.drawAxes(spec, scale);
    for (const [from, to] of spec.references ?? []) {
      const ends = [from, to].map(([place, value]) => [this.x(place), this.y(scale.place(value))]);
      this.svg.append(drawing('path', { d: pathOf(ends), class: 'reference' }));
    }
    // Under the curves: a spike of one point would be covered.
    this.now = drawing('line', { class: 'now', y1: this.box.top, y2: this.height - this.box.bottom });
    this.svg.append(this.now);
    spec.series.forEach((one, i) => this.drawCurve(one, i, spec.places, scale));
    this.svg.addEventListener('click', (event) => this.clicked(event));
    this.plot.replaceChildren(this.svg);
    this.mark();
  }

  x(place) {
    return this.box.left + place * (this.box.width - this.box.left - this.box.right);
  }

  y(place) {
    return this.box.height - this.box.bottom - place * (this.box.height - this.box.top - this.box.bottom);
  }

  drawAxes(spec, scale) {
    const { left, right, top, bottom, width, height } = this.box;
    for (const tick of scale.ticks) {
      const y = this.y(scale.place(tick));
      this.svg.append(drawing('line', { class: 'grid', x1: left, x2: width - right, y1: y, y2: y }),
        drawing('text', { x: left - 6, y: y + 4, 'text-anchor': 'end' }, shortNumber(tick)));
    }
    let free = 0;
    for (const { place, text } of this.ticksOf(Math.max(2, Math.floor((width - left) / 90)))) {
      const x = this.x(place), half = text.length * 3.6;
      const at = Math.min(Math.max(x, half), width - half);
      this.svg.append(drawing('line', { class: 'tick', x1: x, x2: x, y1: height - bottom, y2: height - bottom + 4 }));
      if (at - half < free) continue;
      this.svg.append(drawing('text', { x: at, y: height - bottom + 16, 'text-anchor': 'middle' }, text));
      free = at + half + 8;
    }
    this.svg.append(drawing('path', { class: 'frame', d: `M${left} ${top}V${height - bottom}H${width - right}` }));
    if (spec.xLabel) {
      this.svg.append(drawing('text', { x: width - right, y: height - 3, 'text-anchor': 'end' }, spec.xLabel));
    }
  }

  drawCurve({ values }, i, places, scale) {
    const points = Array.from(values, (value, at) => [this.x(places[at]), this.y(scale.place(value))]);
    this.svg.append(drawing('path', { d: pathOf(points), class: 'curve ' + LOOKS[i] }));
    for (const [x, y] of dotsOf(points)) {
      this.svg.append(drawing('circle', { cx: x.toFixed(1), cy: y.toFixed(1), r: 2.2, class: 'dot ' + LOOKS[i] }));
    }
  }

  // Marks the picked column, where one of the values belongs to it.
  mark() {
    if (!this.svg) return;
    const { places } = this.drawn;
    let at = -1;
    for (let i = 0; i < places.length && at < 0; ++i) if (this.columnOf(i) === state.column) at = i;
    const shown = at >= 0 && Number.isFinite(places[at]);
    this.now.setAttribute('visibility', shown ? 'visible' : 'hidden');
    if (!shown) return;
    this.now.setAttribute('x1', this.x(places[at]));
    this.now.setAttribute('x2', this.x(places[at]));
  }

  clicked(event) {
    // Whoever marks text does not pick.
    if (String(getSelection()) !== '') return;
    const box = this.svg.getBoundingClientRect();
    const place = (event.clientX - box.left - this.box.left) / (box.width - this.box.left - this.box.right);
    let nearest = 0;
    this.drawn.places.forEach((each, i) => {
      if (Math.abs(each - place) < Math.abs(this.drawn.places[nearest] - place)) nearest = i;
    });
    pick(state.row, this.columnOf(nearest));
  }
}
