// Numbers, steps and elements of the page as text.

function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return '';
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value.toLocaleString('en');
  const size = Math.abs(value);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? value.toExponential(3) : String(Number(value.toPrecision(4)));
}

// For axes: as short as it goes.
function shortNumber(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(2).replace(/\.?0+e/, 'e').replace('e+', 'e');
  return String(Number(value.toPrecision(3)));
}

function plainNumber(value) {
  return value === null || value === undefined || Number.isNaN(value) ? '' : String(Number(value.toPrecision(6)));
}

function byteText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0;
  for (; bytes >= 1024 && unit + 1 < units.length; ++unit) bytes /= 1024;
  return (unit === 0 ? bytes : bytes.toPrecision(3)) + ' ' + units[unit];
}

function counted(count, noun) {
  return count.toLocaleString('en') + ' ' + noun + (count === 1 ? '' : 's');
}

function stepText(step) {
  return step === null ? 'unknown' : String(step);
}

function columnSteps(column) {
  return [report.starts[column], report.starts[column + 1] - 1];
}

// "step 512", or "steps 512 to 1000" where a column stands for several.
function columnText(column) {
  const [first, last] = columnSteps(column);
  if (first === last) return 'step ' + stepText(report.steps[first]);
  return 'steps ' + stepText(report.steps[first]) + ' to ' + stepText(report.steps[last]);
}

// "512" or "512-1000".
function columnLabel(column) {
  const [first, last] = columnSteps(column).map((k) => stepText(report.steps[k]));
  return first === last ? first : first + '-' + last;
}

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('aria-') || name === 'role') made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

// A name that may go on in the next line behind its dots and slashes.
function breakable(name) {
  const parts = name.split(/(?<=[./])/);
  return parts.flatMap((part, i) => i === 0 ? [part] : [element('wbr'), part]);
}

function drawing(tag, attributes = {}, text = null) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  return made;
}
