// Section 1: what was found, each with a command that shows it.

const SHOWN_FINDINGS = 40;

const MEANINGS = {
  nan: 'NaN', inf: 'infinities', jump: 'jump', duplicate: 'duplicate', frozen: 'frozen', dead: 'all zero', reshaped: 'other shape',
  retyped: 'other dtype', added: 'added', removed: 'removed', coarse: 'coarse updates', missing_step: 'missing steps',
};

function detailsOf(finding) {
  const { kind, value, threshold, other } = finding;
  const before = other === null ? '' : 'step ' + other;
  switch (kind) {
    case 'nan':
    case 'inf': {
      const first = finding.first_nan === null ? '' : ', the first at element ' + finding.first_nan;
      const clean = before ? '; ' + before + ' is the last clean one' : '; there is no clean step before';
      return (value === null ? '' : counted(value, 'element')) + first + clean;
    }
    case 'jump':
      return `${number(value)}, expected below ${number(threshold)}`;
    case 'duplicate':
      return 'holds exactly what ' + before + ' holds';
    case 'frozen':
      return 'never changes from ' + (before || 'the first step') + ' on, while others do';
    case 'missing_step':
      return (value === null ? 'steps are' : value === 1 ? 'one step is' : number(value) + ' steps are') + ' missing from here on';
    case 'coarse':
      return 'updates' + (value === null ? '' : ' of rms ' + number(value)) + ' are smaller than what the dtype can tell apart';
    case 'dead':
      return 'every element is 0';
    default:
      return before ? 'compared with ' + before : '';
  }
}

// "The first NaN is in ...", where there is one: findings are in the order of steps.
function firstNan() {
  const first = report.findings.find(({ kind }) => kind === 'nan');
  if (!first) return [];
  const { row, step, other } = first;
  const element = first.first_nan === null ? '' : `, element ${first.first_nan}`;
  const clean = other === null ? '' : `; step ${other} is the last without`;
  return [`The first NaN is in ${report.rows.name[row]}${element}, at step ${stepText(step)}${clean}.`];
}

// "No NaN in 6.2 TiB", and what is not known.
function silences() {
  const { scope } = report;
  const found = new Set(report.findings.map((finding) => finding.kind));
  const lines = firstNan();
  const looked = `${counted(scope.measured, 'tensor')} in ${counted(report.steps.length, 'checkpoint')}`;
  if (scope.measured === 0) lines.push('NaN, infinities and norms are not known: the files were saved without statistics, and no element was read.');
  else {
    if (!found.has('nan') && !found.has('inf')) lines.push(`No NaN and no infinity in ${byteText(scope.bytes)}: ${looked} looked at.`);
    if (!found.has('jump')) lines.push('No jump of ' + (scope.quick ? 'a norm.' : 'an update.'));
    if (!found.has('dead')) lines.push('No tensor is all zero.');
    if (scope.measured < scope.cells) lines.push(`Not known of ${counted(scope.cells - scope.measured, 'tensor')} of ${number(scope.cells)}.`);
  }
  if (scope.with_content > 0 && !found.has('duplicate')) lines.push('No checkpoint holds what another one holds.');
  if (scope.with_content === 0) lines.push('Whether checkpoints far apart are equal is not known: the files record no digests.');
  if (!found.has('missing_step')) lines.push('No step is missing between evenly spaced ones.');
  return lines;
}

function showCell(finding) {
  const row = finding.row ?? state.row;
  if (state.filter !== '' && finding.row !== null && !matcher(state.filter)(report.rows.name[row])) setFilter('');
  pick(row, finding.column);
  focusCell(row, finding.row === null);
}

function findingLine(finding) {
  const show = element('button', { type: 'button', 'aria-label': `Show ${MEANINGS[finding.kind]} at step ${stepText(finding.step)}` }, 'Show');
  show.addEventListener('click', () => showCell(finding));
  const where = finding.tensors > 1 ? `${finding.name} (${counted(finding.tensors, 'tensor')})` : finding.name;
  return element('tr', {},
    element('td', {}, element('span', { className: 'badge' }, MEANINGS[finding.kind] ?? finding.kind)),
    element('td', { className: 'number step' }, stepText(finding.step)),
    element('td', { className: 'name' }, ...breakable(where || 'the checkpoint')),
    element('td', {}, detailsOf(finding)),
    element('td', {}, element('code', {}, finding.command)),
    element('td', {}, show));
}

function shownFindings() {
  const matches = matcher(state.filter);
  return report.findings.filter(({ row }) => row === null || matches(report.rows.name[row]));
}

function drawFindings(all = false) {
  const place = document.querySelector('#findings .body');
  const findings = shownFindings();
  const list = element('ul');
  for (const line of silences()) list.append(element('li', {}, line));
  place.replaceChildren(list);
  if (report.findings.length === 0) {
    place.prepend(element('p', {}, 'Nothing was found.'));
    return;
  }
  const head = element('tr');
  for (const text of ['What', 'Step', 'Where', 'Details', 'Shown by', 'Cell']) {
    head.append(element('th', { scope: 'col', className: text === 'Step' ? 'number' : '' }, text));
  }
  const shown = all ? findings : findings.slice(0, SHOWN_FINDINGS);
  place.append(element('table', {}, element('thead', {}, head), element('tbody', {}, ...shown.map(findingLine))));
  if (shown.length < findings.length) {
    const more = element('button', { type: 'button' }, `Show all ${findings.length} findings`);
    more.addEventListener('click', () => drawFindings(true));
    place.append(more);
  }
  if (report.more_findings > 0) {
    place.append(element('p', { className: 'note' }, `${counted(report.more_findings, 'further finding')}: dsckpt trace lists them.`));
  }
  const button = element('button', { type: 'button', className: 'csv', 'aria-label': 'CSV: findings' }, 'CSV');
  button.addEventListener('click', () => download('findings.csv', csvText(
    ['kind', 'step', 'other_step', 'name', 'tensors', 'value', 'threshold', 'command'],
    shownFindings().map((f) => [f.kind, f.step, f.other, f.name, f.tensors, f.value, f.threshold, f.command]))));
  place.append(button);
}

function setUpFindings() {
  watch('filter', () => drawFindings());
  drawFindings();
}
