// Says what every line has at the size nearest to the pointer, or at the one chosen with the arrow keys.
// Without it the page has the same numbers in its tables.
for (const charts of document.querySelectorAll('.charts')) {
  const data = JSON.parse(charts.querySelector('script').textContent);
  const tip = charts.querySelector('.tip');
  const all = [...charts.querySelectorAll('svg.chart')].map((svg) => {
    // A browser would show these titles above ours.
    for (const title of svg.querySelectorAll('title')) {
      if (title.parentNode === svg) svg.setAttribute('aria-label', title.textContent);
      title.remove();
    }
    return { svg, guide: svg.querySelector('.guide'), xs: svg.dataset.x.split(' ').map(Number) };
  });
  let at = null;

  const cell = (row, tag, text, name) => {
    const made = row.appendChild(document.createElement(tag));
    made.textContent = text;
    if (name) made.className = name;
    return made;
  };
  const fill = () => {
    const table = document.createElement('table');
    table.createCaption().textContent = data.sizes[at];
    const head = table.createTHead().insertRow();
    for (const [text, name] of [['', 'text'], ['time'], ['algbw'], ['busbw'], ['setting', 'text']]) {
      cell(head, 'th', text, name);
    }
    const body = table.createTBody();
    for (const line of data.lines) {
      const point = line.points[at];
      if (!point) continue;
      const row = body.insertRow();
      cell(row, 'th', line.name, `text key ${line.class}`);
      point.forEach((text, index) => cell(row, 'td', text, index === 3 ? 'text' : ''));
    }
    tip.replaceChildren(table);
  };
  const place = (svg) => {
    const outer = charts.getBoundingClientRect();
    const inner = svg.getBoundingClientRect();
    const scale = inner.width / svg.viewBox.baseVal.width;
    const chart = all.find((it) => it.svg === svg);
    const x = inner.left - outer.left + chart.xs[at] * scale;
    const wide = tip.offsetWidth;
    const fits = (left) => left >= 0 && left + wide <= outer.width;
    const left = [x + 14, x - wide - 14].find(fits);
    // With no room on either side it stands below the chart.
    tip.style.left = `${left ?? 0}px`;
    tip.style.top = `${inner.top - outer.top + (left === undefined ? inner.height + 4 : 24)}px`;
  };
  const hide = () => {
    at = null;
    tip.hidden = true;
    for (const { guide } of all) guide.removeAttribute('d');
  };
  const show = (svg, index) => {
    if (index !== at) {
      at = index;
      tip.hidden = false;
      fill();
      for (const { svg: each, guide, xs } of all) {
        guide.setAttribute('d', `M${xs[at]} ${each.dataset.top}V${each.dataset.bottom}`);
      }
    }
    place(svg);
  };
  for (const { svg, xs } of all) {
    const nearest = (event) => {
      const box = svg.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
      const far = xs.map((it) => Math.abs(it - x));
      show(svg, far.indexOf(Math.min(...far)));
    };
    svg.addEventListener('pointermove', nearest);
    svg.addEventListener('pointerdown', nearest);
    // A finger leaves at once; what it chose stays until something else is touched.
    svg.addEventListener('pointerleave', (event) => event.pointerType === 'touch' || hide());
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === 'Escape') hide();
      if (!step) return;
      event.preventDefault();
      const next = at === null ? (step > 0 ? 0 : xs.length - 1) : at + step;
      show(svg, Math.max(0, Math.min(xs.length - 1, next)));
    });
  }
}
