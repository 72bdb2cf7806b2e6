// Section 8: where the bytes are; and what the page is made of.

function sizeLine(label, dtype, size, most) {
  const bar = element('div', { className: 'bar', 'aria-hidden': 'true' });
  bar.style.width = size.bytes / most * 100 + '%';
  return element('tr', {},
    element('td', { className: 'name' }, ...breakable(label)), element('td', {}, dtype),
    element('td', { className: 'number' }, number(size.tensors)), element('td', { className: 'number' }, size.elements.toLocaleString('en')),
    element('td', { className: 'number' }, byteText(size.bytes)), element('td', { className: 'bars' }, bar));
}

function setUpSizes() {
  const place = document.querySelector('#sizes .body');
  const most = Math.max(...report.sizes.map(({ bytes }) => bytes), 1);
  const head = element('tr');
  for (const [text, kind] of [['Module', ''], ['Dtype', ''], ['Tensors', 'number'], ['Elements', 'number'], ['Bytes', 'number'], ['', '']]) {
    head.append(element('th', { scope: 'col', className: kind }, text));
  }
  const total = report.sizes.reduce((sum, size) => ({
    tensors: sum.tensors + size.tensors, elements: sum.elements + size.elements, bytes: sum.bytes + size.bytes,
  }), { tensors: 0, elements: 0, bytes: 0 });
  const lines = report.sizes.slice(0, 60).map((size) => sizeLine(size.module, size.dtype, size, most));
  if (report.sizes.length > 1) lines.push(sizeLine('all', '', { ...total }, Math.max(total.bytes, 1)));
  lines.at(-1)?.lastChild.replaceChildren(...(report.sizes.length > 1 ? [] : lines.at(-1).lastChild.childNodes));
  const button = element('button', { type: 'button', className: 'csv', 'aria-label': 'CSV: sizes' }, 'CSV');
  button.addEventListener('click', () => download('sizes.csv', csvText(['module', 'dtype', 'tensors', 'elements', 'bytes'],
    report.sizes.map((size) => [size.module, size.dtype, size.tensors, String(size.elements), String(size.bytes)]))));
  place.append(element('p', { className: 'about' }, 'Tensors as the last checkpoint that has them holds them.'),
    element('div', { className: 'wide-table' }, element('table', {}, element('thead', {}, head), element('tbody', {}, ...lines))), button);
}

function setUpScope() {
  const { scope } = report, place = document.querySelector('#scope .body');
  const lines = [`${counted(report.steps.length, 'checkpoint')} of ${report.runs.join(', ')}, ${counted(cells.rows, 'tensor name')}, ${byteText(scope.bytes)} of tensors.`,
    scope.quick ? `Only indexes were read, ${byteText(scope.read_bytes)}: numbers are those that files were saved with.`
      : `${byteText(scope.read_bytes)} were read.`];
  if (scope.skipped > 0) lines.push(`${counted(scope.skipped, 'tensor')} of packed or unknown dtype cannot be measured.`);
  if (cells.columns < report.steps.length) {
    lines.push(`A column of the charts stands for ${Math.ceil(report.steps.length / cells.columns)} checkpoints at most, and shows the greatest value of them.`);
  }
  for (const { path, why } of report.left_out) lines.push(`Not counted: ${path}: ${why}`);
  lines.push(`Made by dsckpt ${report.version}.`);
  const list = element('ul');
  for (const line of lines) list.append(element('li', {}, line));
  place.append(list);
}
