// Elements out of data. Everything that comes from the service becomes text or an attribute's value, never markup.

const SVG = 'http://www.w3.org/2000/svg';

function fitted(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  // Strings become text nodes.
  element.append(...children.flat(Infinity).filter((it) => it !== null && it !== undefined).map((it) => (it instanceof Node ? it : String(it))));
  return element;
}

const el = (tag, attributes, ...children) => fitted(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fitted(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

// Puts new content in the place of the old. Whoever has the keyboard there keeps it, and what was opened or scrolled stays so.
function swap(place, ...content) {
  const active = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Set([...place.querySelectorAll('details[open]')].map((it) => it.dataset.key));
  const scrolled = new Map([...place.querySelectorAll('.scroll')].map((it) => [it.dataset.key, it.scrollLeft]));
  place.replaceChildren(...content.flat(Infinity));
  for (const it of place.querySelectorAll('details')) it.open ||= open.has(it.dataset.key);
  for (const it of place.querySelectorAll('.scroll')) it.scrollLeft = scrolled.get(it.dataset.key) ?? 0;
  if (active !== undefined) {
    [...place.querySelectorAll('[data-key]')].find((it) => it.dataset.key === active)?.focus();
  }
}

// A table of texts. A column whose name begins with a dot is of words, and stands left. A cell may be a node, or [text, class].
function table(caption, columns, rows, name = '') {
  const words = columns.map((it) => it.startsWith('.'));
  const head = columns.map((it, at) => el('th', { scope: 'col', class: words[at] ? 'text' : null }, it.replace(/^\./, '')));
  const line = (row) => {
    const cells = row.cells ?? row;
    const made = cells.map((cell, at) => {
      const [content, kind] = Array.isArray(cell) ? cell : [cell, ''];
      return el('td', { class: `${words[at] ? 'text' : ''} ${kind}`.trim() || null }, content);
    });
    return el('tr', { 'aria-current': row.current ? 'true' : null }, made);
  };
  const body = rows.length > 0 ? rows.map(line) : [el('tr', null, el('td', { colspan: columns.length, class: 'text soft' }, 'none'))];
  return el('div', { class: 'scroll', 'data-key': `scroll ${caption}`, tabindex: 0, role: 'region', 'aria-label': caption },
    el('table', { class: name || null }, el('caption', null, caption), el('thead', null, el('tr', null, head)), el('tbody', null, body)));
}

// The same drawing for those who cannot see it.
const asTable = (key, ...rest) => el('details', { 'data-key': key }, el('summary', { 'data-key': `${key} summary` }, 'As a table'), table(...rest));

const note = (text, kind = 'soft') => el('p', { class: kind }, text);

// A time in microseconds as people read it.
function time(us) {
  if (us === null || us === undefined) return '–';
  const scales = [[1e3, 1, 'µs'], [1e6, 1e3, 'ms'], [120e6, 1e6, 's'], [7200e6, 60e6, 'min'], [Infinity, 3600e6, 'h']];
  const [, unit, name] = scales.find(([below]) => Math.abs(us) < below);
  const number = us / unit;
  return `${unit === 1 ? number : Number(number.toPrecision(3))} ${name}`;
}

// The host's time in milliseconds since 1970, which may be anything.
function clock(ms) {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? '?' : date.toISOString().replace('T', ' ').replace('Z', '');
}

const count = (number) => Number(number).toLocaleString('en');
const counted = (number, what) => `${count(number)} ${what}${number === 1 ? '' : 's'}`;
