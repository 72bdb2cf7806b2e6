// Section 3: a map for each module, layers by steps, in the colours of the chosen metric.

const maps = [];
const MAPS_AT_ONCE = 8;

// {low, high} of the metric's colours over all cells, on the scale of the colours. What lies outside has the colour of the end.
function colorRange(metric) {
  if (metric.range) return { low: metric.range[0], high: metric.range[1] };
  const scaled = cells.values[metric.name].filter((value) => value > 0).map((value) => Math.log10(value)).sort();
  // From none on: one is to be seen as well.
  if (metric.counts) return { low: -1, high: Math.max(scaled.at(-1) ?? 0, 1) };
  if (scaled.length === 0) return { low: 0, high: 1 };
  // One spike would leave one colour to all the rest.
  const [low, high] = [0.01, 0.99].map((share) => scaled[Math.round(share * (scaled.length - 1))]);
  return high > low ? { low, high } : { low: low - 0.5, high: high + 0.5 };
}

const look = { table: null, range: null };

function refreshLook() {
  look.table = mapColors(state.metric);
  look.range = colorRange(state.metric);
}

// The cell that a pixel stands for, where several columns share it: NaN first, then the greatest.
function strongestCell(row, from, to) {
  const values = cells.values[state.metric.name], bad = cells.values.bad;
  let best = row * cells.columns + from;
  for (let at = best + 1; at < row * cells.columns + to; ++at) {
    const worse = (bad[at] > 0) - (bad[best] > 0);
    const a = state.metric.twoWays ? Math.abs(values[at]) : values[at];
    const b = state.metric.twoWays ? Math.abs(values[best]) : values[best];
    if (worse > 0 || (worse === 0 && (a > b || (Number.isNaN(b) && !Number.isNaN(a))))) best = at;
  }
  return best;
}

// {color, hatch} of a cell.
function paintOf(at) {
  const { table, range } = look, flags = cells.flags[at];
  if (!(flags & FLAG.present)) return { color: table.none, hatch: 0 };
  if (cells.values.bad[at] > 0 && !state.metric.counts) return { color: table.bad, hatch: 2 };
  if (state.metric.ofUpdate && flags & FLAG.same) return { color: table.none, hatch: 1 };
  const value = cells.values[state.metric.name][at];
  if (Number.isNaN(value)) return { color: table.none, hatch: 0 };
  const scaled = state.metric.log ? Math.log10(value) : value;
  const share = Math.min(Math.max((scaled - range.low) / (range.high - range.low), 0), 1);
  const colors = state.metric.ofUpdate && flags & FLAG.coarse ? table.grey : table.plain;
  return { color: colors[Math.round(share * 255)], hatch: 0 };
}

// Fills an image of width x height pixels with the cells of `rows`, each `tall` pixels high.
function paint(canvas, rows, tall, paintCell, strongest) {
  const { width } = canvas, context = canvas.getContext('2d');
  const image = context.createImageData(width, rows.length * tall);
  const pixels = new Uint32Array(image.data.buffer);
  const ink = look.table.ink, light = packed([255, 255, 255]);
  rows.forEach((row, line) => {
    for (let x = 0; x < width; ++x) {
      const from = Math.floor(x * cells.columns / width);
      const to = Math.max(Math.ceil((x + 1) * cells.columns / width), from + 1);
      const { color, hatch } = paintCell(to - from === 1 || width >= cells.columns ? row * cells.columns + from : strongest(row, from, to));
      for (let y = line * tall; y < (line + 1) * tall; ++y) {
        const striped = hatch === 1 ? (x + y) % 6 === 0 : hatch === 2 && (x - y) % 4 === 0;
        pixels[y * width + x] = striped ? (hatch === 1 ? ink : light) : color;
      }
    }
  });
  context.putImageData(image, 0, 0);
}

// NaN in a cell of few pixels would be overlooked.
function enlargeBad(canvas, rows, tall) {
  const context = canvas.getContext('2d'), wide = canvas.width / cells.columns, least = 5 * devicePixelRatio;
  const [red, green, blue] = isDark() ? [255, 70, 70] : [220, 20, 30];
  context.fillStyle = `rgb(${red} ${green} ${blue})`;
  rows.forEach((row, line) => {
    for (let column = 0; column < cells.columns; ++column) {
      if (!(cells.values.bad[row * cells.columns + column] > 0) || wide >= least) continue;
      const width = Math.max(wide, least);
      context.fillRect((column + 0.5) * wide - width / 2, line * tall, width, tall);
    }
  });
}

class HeatMap {
  constructor(place, module, rows) {
    Object.assign(this, { module, rows });
    this.canvas = element('canvas', { tabIndex: 0, role: 'img' });
    this.column = element('div', { className: 'cursor column' });
    this.cell = element('div', { className: 'cursor cell', hidden: true });
    this.plot = element('div', { className: 'plot' }, this.canvas, this.column, this.cell);
    this.labels = element('div', { className: 'rows', 'aria-hidden': 'true' });
    this.steps = element('div', { className: 'columns', 'aria-hidden': 'true' });
    this.numbers = numbersOf('map', module, () => this.table(), () => this.all());
    const last = cells.columns - 1;
    for (const column of new Set([0, last >> 1, last])) this.steps.append(element('span', {}, columnLabel(column)));
    place.append(element('figure', {}, element('h3', {}, ...breakable(module)),
      element('div', { className: 'map' }, this.labels, this.plot, this.steps), this.numbers));
    this.plot.chart = this;
    charts.push(this);
    maps.push(this);
    this.listen();
  }

  // The picked step of each layer.
  table() {
    const names = METRICS.filter(({ name }) => hasValues(name));
    return {
      headers: ['tensor, ' + columnText(state.column), ...names.map(({ name }) => name)],
      rows: this.rows.map((row) => [report.rows.name[row], ...names.map(({ name }) => rowValues(name, row)[state.column])]),
    };
  }

  all() {
    const names = METRICS.filter(({ name }) => hasValues(name));
    const rows = this.rows.flatMap((row) => Array.from({ length: cells.columns }, (_, column) =>
      [report.rows.name[row], columnLabel(column), ...names.map(({ name }) => rowValues(name, row)[column])]));
    return { headers: ['name', 'step', ...names.map(({ name }) => name)], rows };
  }

  draw() {
    const count = this.rows.length, ratio = devicePixelRatio || 1;
    const high = count <= 4 ? 20 : count <= 12 ? 14 : count <= 40 ? 8 : count <= 120 ? 4 : 2;
    const tall = Math.max(1, Math.round(high * ratio));
    this.plot.drawnWidth = this.plot.clientWidth;
    this.canvas.width = Math.max(1, Math.round((this.plot.clientWidth || 300) * ratio));
    this.canvas.height = count * tall;
    this.canvas.style.height = count * tall / ratio + 'px';
    paint(this.canvas, this.rows, tall, paintOf, strongestCell);
    if (!state.metric.counts) enlargeBad(this.canvas, this.rows, tall);
    this.drawLabels(count * tall / ratio);
    this.mark();
  }

  drawLabels(height) {
    const count = this.rows.length, stride = Math.max(1, Math.ceil(count * 16 / height));
    const labels = [];
    for (let line = 0; line < count; line += stride) {
      const layer = report.rows.layer[this.rows[line]];
      const label = element('span', {}, layer === null ? '' : String(layer));
      label.style.top = (line + 0.5) / count * 100 + '%';
      labels.push(label);
    }
    this.labels.replaceChildren(...labels);
  }

  mark() {
    const line = this.rows.indexOf(state.row), columns = cells.columns;
    this.column.style.left = (state.column + 0.5) / columns * 100 + '%';
    this.cell.hidden = line < 0;
    const text = line < 0 ? '' : ': ' + cellText(state.row, state.column);
    this.canvas.setAttribute('aria-label', `${this.module}, ${counted(this.rows.length, 'row')} by ${counted(columns, 'column')}${text}`);
    this.numbers.refresh();
    if (line < 0) return;
    const height = this.canvas.clientHeight || parseFloat(this.canvas.style.height), width = this.plot.clientWidth;
    const tall = Math.max(height / this.rows.length, 8), wide = Math.max(width / columns, 8);
    Object.assign(this.cell.style, {
      top: (line + 0.5) / this.rows.length * height - tall / 2 + 'px', height: tall + 'px',
      left: (state.column + 0.5) / columns * width - wide / 2 + 'px', width: wide + 'px',
    });
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const line = Math.floor((event.clientY - box.top) / box.height * this.rows.length);
    const column = Math.floor((event.clientX - box.left) / box.width * cells.columns);
    if (line < 0 || line >= this.rows.length || column < 0 || column >= cells.columns) return null;
    return { row: this.rows[line], column };
  }

  listen() {
    this.canvas.addEventListener('click', (event) => {
      const cell = this.cellAt(event);
      if (cell) pick(cell.row, cell.column);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const cell = this.cellAt(event);
      if (cell) showTip(event, cellText(cell.row, cell.column).replaceAll(', ', '\n'));
    });
    this.canvas.addEventListener('pointerleave', hideTip);
    this.canvas.addEventListener('focus', () => {
      if (!this.rows.includes(state.row)) pick(this.rows[0], state.column);
    });
    this.canvas.addEventListener('keydown', (event) => this.pressed(event));
  }

  pressed(event) {
    const line = Math.max(this.rows.indexOf(state.row), 0), last = this.rows.length - 1;
    const to = {
      ArrowLeft: [line, state.column - 1], ArrowRight: [line, state.column + 1], Home: [line, 0], End: [line, cells.columns - 1],
      ArrowUp: [Math.max(line - 1, 0), state.column], ArrowDown: [Math.min(line + 1, last), state.column],
    }[event.key];
    const page = { PageUp: -1, PageDown: 1 }[event.key];
    if (!to && !page) return;
    event.preventDefault();
    if (to) pick(this.rows[to[0]], to[1]);
    else maps[maps.indexOf(this) + page]?.canvas.focus();
  }
}

function showTip(event, text) {
  const tip = document.getElementById('tip');
  tip.textContent = text;
  tip.hidden = false;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
  tip.style.left = Math.max(x, 4) + 'px';
  tip.style.top = (below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 12) + 'px';
}

function hideTip() {
  document.getElementById('tip').hidden = true;
}

// Scrolls to a cell. `anyMap`: it is about the step alone.
function focusCell(row, anyMap) {
  const map = maps.find((each) => each.rows.includes(row)) ?? (anyMap ? maps[0] : undefined);
  if (!map) return;
  map.canvas.focus({ preventScroll: true });
  map.canvas.scrollIntoView({ block: 'center' });
}

function sample(paintPixel) {
  const canvas = element('canvas', { width: 22, height: 14 });
  const context = canvas.getContext('2d'), image = context.createImageData(22, 14);
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; ++i) pixels[i] = paintPixel(i % 22, Math.floor(i / 22));
  context.putImageData(image, 0, 0);
  return canvas;
}

function drawLegend() {
  const { table, range } = look, { metric } = state;
  const ramp = element('canvas', { className: 'ramp', width: 256, height: 1 });
  const context = ramp.getContext('2d'), image = context.createImageData(256, 1);
  new Uint32Array(image.data.buffer).set(table.plain);
  context.putImageData(image, 0, 0);
  const text = (value) => shortNumber(metric.log ? 10 ** value : value);
  const low = metric.counts ? '0' : (metric.range ? '' : '\u2264 ') + text(range.low);
  const entries = [
    element('span', {}, (metric.about ?? metric.label) + ': ' + low, ramp,
      (metric.range || metric.counts ? '' : '\u2265 ') + text(range.high)),
    element('span', {}, sample(() => table.none), 'no value'),
  ];
  if (!metric.counts) {
    entries.push(element('span', {}, sample((x, y) => (x - y + 16) % 4 === 0 ? packed([255, 255, 255]) : table.bad), 'NaN or infinite'));
  }
  if (metric.ofUpdate) {
    entries.push(element('span', {}, sample((x, y) => (x + y) % 6 === 0 ? table.ink : table.none), 'unchanged'),
      element('span', {}, sample((x) => table.grey[x * 11]), 'smaller than the dtype can tell apart'));
  }
  document.getElementById('legend').replaceChildren(...entries);
}

function makeMaps() {
  const place = document.querySelector('#layers .body');
  place.replaceChildren();
  for (const map of maps.splice(0)) charts.splice(charts.indexOf(map), 1);
  const modules = [...shownModules()];
  const make = ([module, rows]) => {
    const map = new HeatMap(place, module, rows);
    map.draw();
    resized.observe(map.plot);
  };
  modules.slice(0, MAPS_AT_ONCE).forEach(make);
  if (modules.length === 0) place.append(element('p', { className: 'note' }, 'The filter leaves no tensor.'));
  // The rest when the page answers already.
  makeMaps.rest = modules.slice(MAPS_AT_ONCE).map((each) => () => make(each));
  const one = () => {
    makeMaps.rest.shift()?.();
    if (makeMaps.rest.length > 0) setTimeout(one);
  };
  setTimeout(one);
}

function finishMaps() {
  for (const make of makeMaps.rest.splice(0)) make();
}

function setUpMaps() {
  const chooser = document.getElementById('metric');
  const offered = METRICS.filter(({ name }) => hasValues(name));
  for (const metric of offered.length > 0 ? offered : [METRICS[2]]) {
    chooser.append(element('option', { value: metric.name }, metric.label));
  }
  state.metric = METRICS.find(({ name }) => name === chooser.value);
  chooser.addEventListener('change', () => {
    state.metric = METRICS.find(({ name }) => name === chooser.value);
    tell('metric');
  });
  const restyle = () => {
    refreshLook();
    drawLegend();
    for (const map of maps) map.draw();
  };
  watch('metric theme', restyle);
  watch('filter', makeMaps);
  addEventListener('beforeprint', finishMaps);
  refreshLook();
  drawLegend();
  makeMaps();
}
