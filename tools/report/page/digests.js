// Section 6: which content of each tensor was seen before, and where.

// Browsers draw no canvas that is higher.
const MOST_PIXELS = 32000;

function contentPaint(at) {
  const first = cells.first[at];
  if (first < 0) return { color: look.table.none, hatch: 0 };
  return { color: contentColors()[Math.round(first / Math.max(cells.columns - 1, 1) * 255)], hatch: 0 };
}

function contentColors() {
  contentColors.made ??= Uint32Array.from({ length: 256 }, (_, i) => packed(along(RAMP, i / 255)));
  return contentColors.made;
}

// Of several columns in a pixel the one whose content is oldest.
function oldestCell(row, from, to) {
  let best = row * cells.columns + from;
  for (let at = best + 1; at < row * cells.columns + to; ++at) if (cells.first[at] < cells.first[best]) best = at;
  return best;
}

class DigestMap {
  constructor(place) {
    this.canvas = element('canvas', { role: 'img' });
    this.column = element('div', { className: 'cursor column' });
    this.cell = element('div', { className: 'cursor cell' });
    this.plot = element('div', { className: 'plot' }, this.canvas, this.column, this.cell);
    this.numbers = numbersOf('content', 'content that was seen before', () => this.table());
    const scroll = element('div', { className: 'scroll', tabIndex: 0, role: 'region', 'aria-label': 'Tensors by steps, coloured by content' }, this.plot);
    place.append(element('figure', {}, scroll, this.numbers));
    this.plot.chart = this;
    charts.push(this);
    resized.observe(this.plot);
    this.canvas.addEventListener('click', (event) => {
      const cell = this.cellAt(event);
      if (cell) pick(cell.row, cell.column);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const cell = this.cellAt(event);
      if (!cell) return;
      const first = cells.first[cell.row * cells.columns + cell.column];
      const seen = first < 0 ? 'content not known' : first === cell.column ? 'new content' : 'as in ' + columnText(first);
      showTip(event, [report.rows.name[cell.row], columnText(cell.column), seen].join('\n'));
    });
    this.canvas.addEventListener('pointerleave', hideTip);
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const line = Math.floor((event.clientY - box.top) / box.height * this.rows.length);
    const column = Math.floor((event.clientX - box.left) / box.width * cells.columns);
    return line >= 0 && line < this.rows.length && column >= 0 && column < cells.columns ? { row: this.rows[line], column } : null;
  }

  // Stretches in which a tensor holds what it held before.
  table() {
    const rows = [];
    for (const row of this.rows) {
      const firsts = cells.first.subarray(row * cells.columns, (row + 1) * cells.columns);
      for (let column = 0; column < cells.columns; ++column) {
        const first = firsts[column];
        if (first < 0 || first === column) continue;
        let end = column;
        while (end + 1 < cells.columns && firsts[end + 1] === first) ++end;
        rows.push([report.rows.name[row], columnLabel(column), columnLabel(end), columnLabel(first)]);
        column = end;
      }
    }
    return { headers: ['tensor', 'from step', 'to step', 'holds what it held at step'], rows };
  }

  draw() {
    const rows = [...shownModules().values()].flat(), ratio = devicePixelRatio || 1;
    const high = rows.length <= 60 ? 8 : rows.length <= 200 ? 4 : rows.length <= 4000 ? 2 : 1;
    const tall = Math.max(1, Math.round(high * ratio));
    this.rows = rows.slice(0, Math.floor(MOST_PIXELS / tall));
    this.plot.drawnWidth = this.plot.clientWidth;
    this.canvas.width = Math.max(1, Math.round((this.plot.clientWidth || 300) * ratio));
    this.canvas.height = Math.max(1, this.rows.length * tall);
    this.canvas.style.height = this.canvas.height / ratio + 'px';
    if (this.rows.length > 0) paint(this.canvas, this.rows, tall, contentPaint, oldestCell);
    this.canvas.setAttribute('aria-label', `${counted(this.rows.length, 'tensor')} by ${counted(cells.columns, 'column')}`);
    this.numbers.refresh();
    this.mark();
  }

  mark() {
    const line = this.rows.indexOf(state.row);
    this.column.style.left = (state.column + 0.5) / cells.columns * 100 + '%';
    this.cell.hidden = line < 0;
    const width = this.plot.clientWidth, wide = Math.max(width / cells.columns, 8);
    Object.assign(this.cell.style, {
      top: `calc(${(line + 0.5) / this.rows.length * 100}% - 4px)`, height: '8px',
      left: (state.column + 0.5) / cells.columns * width - wide / 2 + 'px', width: wide + 'px',
    });
  }
}

function setUpDigests() {
  if (!cells.first.some((first) => first >= 0)) {
    document.getElementById('digests').hidden = true;
    return;
  }
  const map = new DigestMap(document.querySelector('#digests .body'));
  watch('filter theme', () => map.draw());
}
