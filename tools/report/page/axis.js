// Where steps and values lie, and which of them get a label.

function niceTicks(low, high, count) {
  if (!(high > low)) return [low];
  const raw = (high - low) / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) ticks.push(i * step);
  return ticks;
}

// Powers of ten, each or each second and so on; where there are less than two, numbers between them.
function powerTicks(low, high, count) {
  const from = Math.ceil(Math.log10(low) - 1e-9), to = Math.floor(Math.log10(high) + 1e-9);
  if (to <= from) return niceTicks(low, high, count);
  const stride = Math.max(1, Math.ceil((to - from + 1) / Math.max(count, 1)));
  const ticks = [];
  for (let power = from; power <= to; power += stride) ticks.push(10 ** power);
  return ticks;
}

// A scale from values to 0..1, with ticks. `log`: logarithmic where values span enough for it, or 'always'.
function valueScale(values, { log = false, range = null, count = 5 } = {}) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value) || (log && value <= 0)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (!(low <= high)) return null;
  if (log && high > low * (log === 'always' ? 1 : 10)) {
    const from = Math.log10(low), span = Math.log10(high) - from;
    return { place: (value) => value > 0 ? (Math.log10(value) - from) / span : NaN, ticks: powerTicks(low, high, count), log: true };
  }
  if (range) [low, high] = range;
  else {
    const margin = high > low ? (high - low) * 0.05 : Math.abs(high) * 0.05 || 1;
    [low, high] = [low - margin, high + margin];
  }
  return { place: (value) => (value - low) / (high - low), ticks: niceTicks(low, high, count), log: false };
}

const knownSteps = report.steps.filter((step) => step !== null);

// How far along the axis a step is; steps are never negative, but -1 would do no harm.
function stretched(step) {
  return state.axis === 'symlog' ? Math.sign(step) * Math.log1p(Math.abs(step)) : step;
}

function stepPlace(step) {
  const low = stretched(knownSteps[0]), high = stretched(knownSteps[knownSteps.length - 1]);
  return high > low ? (stretched(step) - low) / (high - low) : 0.5;
}

// 0..1 of a checkpoint by position. Those of unknown step come last.
function checkpointPlace(k) {
  const step = report.steps[k];
  if (state.axis === 'order' || knownSteps.length === 0) return (k + 0.5) / report.steps.length;
  return step === null ? 1 : stepPlace(step);
}

function columnPlace(column) {
  const [first, last] = columnSteps(column);
  return (checkpointPlace(first) + checkpointPlace(last)) / 2;
}

function columnPlaces() {
  return Float64Array.from({ length: cells.columns }, (_, column) => columnPlace(column));
}

// {place, text} for about `count` labels.
function stepTicks(count) {
  const steps = report.steps.length;
  if (state.axis === 'order' || knownSteps.length < 2) {
    return niceTicks(0, steps - 1, count).filter(Number.isInteger)
      .map((k) => ({ place: checkpointPlace(k), text: stepText(report.steps[k]) }));
  }
  const low = knownSteps[0], high = knownSteps[knownSteps.length - 1];
  let values = niceTicks(low, high, count);
  if (state.axis === 'symlog') {
    values = powerTicks(Math.max(low, 1), Math.max(high, 1), Math.max(count - 1, 1));
    if (low <= 0) values.unshift(0);
  }
  return values.map((step) => ({ place: stepPlace(step), text: step.toLocaleString('en') }));
}
