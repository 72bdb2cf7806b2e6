// What is picked and chosen, and who wants to know of it.

const METRICS = [
  { name: 'upd_ratio', label: 'update ratio', about: 'norm of the update / norm before', log: true, ofUpdate: true },
  { name: 'upd_per_step', label: 'update norm by step', log: true, ofUpdate: true },
  { name: 'rms', label: 'rms', about: 'root of the mean square of the elements', log: true },
  { name: 'cos_prev', label: 'cosine with the update before', about: 'cosine of the update with the one before', twoWays: true, range: [-1, 1], ofUpdate: true },
  { name: 'changed', label: 'changed share', about: 'share of elements with other bits', range: [0, 1], ofUpdate: true },
  { name: 'bad', label: 'NaN and infinities', about: 'number of NaN and infinities', log: true, counts: true },
];

const state = { row: 0, column: 0, metric: METRICS[0], axis: 'order', filter: '' };
const watchers = { picked: [], metric: [], axis: [], filter: [], theme: [] };

function watch(names, call) {
  for (const name of names.split(' ')) watchers[name].push(call);
}

function tell(name) {
  for (const call of watchers[name]) call();
}

function pick(row, column) {
  row = Math.min(Math.max(row, 0), cells.rows - 1);
  column = Math.min(Math.max(column, 0), cells.columns - 1);
  if (row === state.row && column === state.column) return;
  state.row = row;
  state.column = column;
  tell('picked');
}

// Any part of a name, or all of it where the filter has a *.
function matcher(filter) {
  const text = filter.trim().toLowerCase();
  if (text === '') return () => true;
  if (!text.includes('*')) return (name) => name.toLowerCase().includes(text);
  const pattern = new RegExp('^' + text.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('.*') + '$');
  return (name) => pattern.test(name.toLowerCase());
}

// Modules with their rows, by layer; only what the filter leaves.
function shownModules() {
  const matches = matcher(state.filter);
  const modules = new Map();
  report.rows.name.forEach((name, row) => {
    if (!matches(name)) return;
    const module = report.rows.module[row];
    if (!modules.has(module)) modules.set(module, []);
    modules.get(module).push(row);
  });
  for (const rows of modules.values()) {
    rows.sort((a, b) => (report.rows.layer[a] ?? 0) - (report.rows.layer[b] ?? 0) ||
      report.rows.name[a].localeCompare(report.rows.name[b], 'en', { numeric: true }));
  }
  return modules;
}

// What a cell says, for people and for screen readers.
function cellText(row, column) {
  const at = row * cells.columns + column;
  const parts = [report.rows.name[row], columnText(column)];
  if (!(cells.flags[at] & FLAG.present)) return [...parts, 'the checkpoint lacks it'].join(', ');
  const value = cells.values[state.metric.name][at];
  parts.push(state.metric.label + ' ' + (Number.isNaN(value) ? 'not known' : number(value)));
  if (cells.values.bad[at] > 0) parts.push(number(cells.values.bad[at]) + ' NaN or infinite');
  if (cells.flags[at] & FLAG.same) parts.push('unchanged');
  if (cells.flags[at] & FLAG.coarse) parts.push('smaller than the dtype can tell apart');
  if (cells.flags[at] & FLAG.jump) parts.push('jump');
  if (cells.flags[at] & FLAG.other) parts.push('other dtype or shape');
  return parts.join(', ');
}
