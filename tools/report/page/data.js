// The data of the page: `report` is what stands in it as JSON, `cells` the matrices.

const report = JSON.parse(document.getElementById('data').textContent);

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function unzip(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const cells = {
  rows: report.rows.name.length,
  columns: report.starts.length - 1,
  values: {},   // by metric: a Float32Array, NaN where there is no value
  flags: null,
  first: null,  // the column in which the content was first seen; -1: not known
};
const FLAG = { coarse: 1, jump: 2, same: 4, other: 8, present: 16 };

// Codes of 16 bits, as Pack() of tools/report/cells.h writes them.
function decoded(metric, low, high, codes) {
  const out = new Float32Array(codes.length);
  for (let row = 0, at = 0; row < cells.rows; ++row) {
    const step = (high[row] - low[row]) / 65533;
    for (let column = 0; column < cells.columns; ++column, ++at) {
      const code = codes[at];
      if (code === 0) out[at] = NaN;
      else if (code === 1) out[at] = 0;
      else {
        const scaled = low[row] + step * (code - 2);
        out[at] = metric.log ? Math.exp(scaled) : scaled;
      }
    }
  }
  return out;
}

// The root of the mean square, from the norm and the number of finite elements.
function rmsOf() {
  const { norm, nan, inf } = cells.values;
  const out = new Float32Array(norm.length);
  for (let at = 0; at < out.length; ++at) {
    const finite = report.rows.n[Math.floor(at / cells.columns)] - (nan[at] || 0) - (inf[at] || 0);
    out[at] = finite > 0 ? norm[at] / Math.sqrt(finite) : NaN;
  }
  return out;
}

function badOf() {
  const { nan, inf } = cells.values;
  return nan.map((count, at) => count + inf[at]);
}

async function unpackCells() {
  const bytes = await unzip(bytesOfBase64(document.getElementById('cells').textContent));
  const size = cells.rows * cells.columns;
  let at = 0;
  const floats = () => {
    const view = new DataView(bytes.buffer, at, 4 * cells.rows);
    at += 4 * cells.rows;
    return Float32Array.from({ length: cells.rows }, (_, i) => view.getFloat32(4 * i, true));
  };
  const codes = () => {
    const out = new Uint16Array(size);
    for (let i = 0; i < size; ++i) out[i] = bytes[at + i] << 8 | bytes[at + size + i];
    at += 2 * size;
    return out;
  };
  for (const metric of report.metrics) {
    const low = floats(), high = floats();
    cells.values[metric.name] = decoded(metric, low, high, codes());
  }
  cells.values.rms = rmsOf();
  cells.values.bad = badOf();
  cells.flags = bytes.slice(at, at + size);
  at += size;
  cells.first = Int32Array.from(codes(), (code, i) => code === 0 ? -1 : i % cells.columns - (code - 1));
}

function rowValues(name, row) {
  return cells.values[name].subarray(row * cells.columns, (row + 1) * cells.columns);
}

function hasValues(name) {
  return cells.values[name].some((value) => !Number.isNaN(value));
}
