// The numbers of a chart as a table and as a CSV file.

const MOST_ROWS = 1000;

function csvText(headers, rows) {
  const field = (value) => {
    const text = typeof value === 'number' ? plainNumber(value) : String(value ?? '');
    return /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [headers, ...rows].map((row) => row.map(field).join(',')).join('\r\n') + '\r\n';
}

function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  element('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

function tableOf(headers, rows) {
  const kind = (value) => typeof value === 'number' ? 'number' : 'name';
  const head = element('tr');
  const first = rows[0] ?? [];
  headers.forEach((text, i) => head.append(element('th', { scope: 'col', className: kind(first[i]) }, text)));
  const body = element('tbody');
  for (const row of rows.slice(0, MOST_ROWS)) {
    const line = element('tr');
    row.forEach((value) => {
      line.append(element('td', { className: kind(value) }, typeof value === 'number' ? number(value) : value ?? ''));
    });
    body.append(line);
  }
  const table = element('table', {}, element('thead', {}, head), body);
  if (rows.length <= MOST_ROWS) return table;
  const rest = counted(rows.length - MOST_ROWS, 'more row');
  return element('div', {}, table, element('p', { className: 'note' }, rest + ': the CSV file has them.'));
}

// A table that is made when it is opened, and a button. `shown` and `all` return {headers, rows}.
function numbersOf(name, about, shown, all = shown) {
  const place = element('div', { className: 'table', tabIndex: 0, role: 'region', 'aria-label': 'Table: ' + about });
  const details = element('details', {}, element('summary', { 'aria-label': 'Table: ' + about }, 'Table'), place);
  const fill = () => {
    if (!details.open) return;
    const { headers, rows } = shown();
    place.replaceChildren(tableOf(headers, rows));
  };
  details.addEventListener('toggle', fill);
  const button = element('button', { type: 'button', className: 'csv', 'aria-label': 'CSV: ' + about }, 'CSV');
  button.addEventListener('click', () => {
    const { headers, rows } = all();
    download(name + '.csv', csvText(headers, rows));
  });
  const box = element('div', { className: 'numbers' }, details, button);
  box.refresh = fill;
  return box;
}
