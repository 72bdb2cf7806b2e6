// Keys, the filter and the help.

function setFilter(text) {
  const filter = document.getElementById('filter');
  filter.value = text;
  state.filter = text;
  tell('filter');
}

function isTyping(target) {
  return target instanceof HTMLElement && target.matches('input, select, textarea');
}

function setUpKeys() {
  const filter = document.getElementById('filter'), help = document.getElementById('help');
  let waiting = 0;
  filter.addEventListener('input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => setFilter(filter.value), 150);
  });
  filter.addEventListener('keydown', (event) => {
    if (event.key === 'Escape' && filter.value !== '') setFilter('');
  });
  document.getElementById('axis').addEventListener('change', (event) => {
    state.axis = event.target.value;
    tell('axis');
  });
  document.getElementById('help-open').addEventListener('click', () => help.showModal());
  document.getElementById('help-close').addEventListener('click', () => help.close());
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || help.open) return;
    if (event.key === '/') {
      event.preventDefault();
      filter.focus();
      filter.select();
    } else if (event.key === '?') {
      event.preventDefault();
      help.showModal();
    }
  });
}
