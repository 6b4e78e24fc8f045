// The drawings: circuits of a switch, turns of groups in time, and how windows are distributed. Each has a table beside it.

const drawing = (attributes, title, ...content) =>
  svg('svg', { role: 'img', 'aria-label': title, ...attributes }, content);

// A switch: its ports in a row, and an arc over the two of each circuit. Solid arcs are in use and stay; dashed ones are free to go.
function drawSwitch(it, circuits, hue) {
  // Readable first: larger switches scroll.
  const [pitch, every] = it.ports <= 64 ? [19, 1] : it.ports <= 128 ? [14, 2] : [9, 8];
  const farthest = Math.max(1, ...circuits.map((c) => Math.abs(c.a - c.b)));
  const rise = (c) => 12 + Math.min(120, 6 * farthest) * Math.abs(c.a - c.b) / farthest;
  const base = 16 + Math.max(14, ...circuits.map(rise));
  const x = (port) => 14 + port * pitch;
  const parts = [svg('line', { class: 'baseline', x1: 4, x2: x(it.ports - 1) + 10, y1: base, y2: base })];
  const users = new Map();
  for (const c of circuits) {
    const r = Math.abs(x(c.b) - x(c.a)) / 2;
    const arc = svg('path', { class: `arc ${hue(c.job)} ${c.in_use ? 'used' : ''}`, d: `M${x(Math.min(c.a, c.b))} ${base}A${r} ${rise(c)} 0 0 1 ${x(Math.max(c.a, c.b))} ${base}` });
    arc.append(svg('title', null, `ports ${c.a} – ${c.b}: ${owner(c)}${c.in_use ? ', in use' : ''}`));
    parts.push(arc);
    users.set(c.a, c).set(c.b, c);
  }
  const failed = new Set(it.failed);
  for (let port = 0; port < it.ports; port += 1) {
    const user = users.get(port);
    const kind = failed.has(port) ? 'failed' : user ? `set ${hue(user.job)}` : '';
    const word = failed.has(port) ? 'failed' : user ? `to port ${user.a === port ? user.b : user.a}` : 'free';
    parts.push(svg('circle', { class: `port ${kind}`, cx: x(port), cy: base, r: pitch > 16 ? 5 : pitch > 10 ? 4 : 2.5 }, svg('title', null, `port ${port}: ${word}`)));
    if (failed.has(port)) parts.push(svg('path', { class: 'cross', d: `M${x(port) - 4} ${base - 4}l8 8m0 -8l-8 8` }));
    if (port % every === 0) parts.push(svg('text', { x: x(port), y: base + 16, 'text-anchor': 'middle' }, port));
  }
  const [width, height] = [x(it.ports - 1) + 14, base + 22];
  const title = `${counted(circuits.length, 'circuit')} between ${it.ports} ports of ${it.name}; the table has them all`;
  return drawing({ viewBox: `0 0 ${width} ${height}`, width, height }, title, parts);
}

const owner = (c) => (c.job === null ? 'of no job' : `job ${c.job}, ${c.groups.length > 0 ? `group ${c.groups.join(', ')}` : 'no group'}`);

// The stretch of time that is shown, in the service's microseconds.
function stretch(timeline, range) {
  const begins = (it) => Math.min(it.asked?.first_us ?? Infinity, it.held_us ?? Infinity, it.traffic?.began_us ?? Infinity);
  if (range !== 'auto' && range !== 'all') return [Math.max(0, timeline.now_us - Number(range)), timeline.now_us];
  const some = range === 'auto' ? timeline.phases.slice(-40) : timeline.phases;
  if (some.length === 0) return [Math.max(0, timeline.now_us - 1e6), timeline.now_us];
  const from = Math.min(...some.map(begins));
  const to = some.some((it) => it.ended_us === null) && range === 'all' ? timeline.now_us : Math.max(...some.map((it) => it.ended_us ?? it.traffic?.ended_us ?? it.held_us ?? it.asked.last_us));
  // What is open goes on a little beyond the last thing that is known.
  return [from, Math.min(timeline.now_us, Math.max(to, from + 1) + (to - from) * 0.04)];
}

const LANES = 48;

// Turns of groups: a lane for each, with asks, holds, traffic and changes of circuits, and the windows before traffic.
function drawTimeline(timeline, range) {
  const [from, to] = stretch(timeline, range);
  const seen = (a, b) => (a ?? from) <= to && (b ?? to) >= from;
  const phases = timeline.phases.filter((it) => seen(it.asked?.first_us ?? it.held_us, it.ended_us));
  const changes = timeline.changes.filter((it) => seen(it.begun_us, it.ended_us));
  const all = [...new Set([...phases.map((it) => it.group), ...changes.flatMap((it) => it.groups)])].sort((a, b) => a - b);
  const lanes = all.slice(0, LANES);
  const [left, width, lane, top] = [86, 1160, 26, 6];
  const right = width - 12;
  const x = (at) => left + Math.max(0, Math.min(1, (at - from) / Math.max(1, to - from))) * (right - left);
  const y = (group) => top + lanes.indexOf(group) * lane;
  const bottom = top + Math.max(1, lanes.length) * lane;
  const parts = [];
  const bar = (kind, group, a, b, dy, high, words) => {
    const wide = Math.max(1.5, x(b ?? to) - x(a));
    parts.push(svg('rect', { class: kind, x: x(a).toFixed(2), y: y(group) + dy, width: wide.toFixed(2), height: high, rx: 1 }, svg('title', null, words)));
  };
  for (const group of lanes) {
    parts.push(svg('rect', { class: 'lane', x: left, y: y(group) + 2, width: right - left, height: lane - 4 }));
    parts.push(svg('text', { x: left - 8, y: y(group) + lane / 2 + 4, 'text-anchor': 'end' }, `group ${group}`));
  }
  for (const it of phases.filter((p) => lanes.includes(p.group))) {
    const end = it.ended_us === null ? 'still' : `until ${time(it.ended_us - timeline.now_us)}`;
    if (it.asked && it.held_us === null && it.outcome !== 'open') bar('bar-refused', it.group, it.asked.first_us, it.ended_us, 6, lane - 12, `${it.outcome} after ${time(it.ended_us - it.asked.first_us)}`);
    else if (it.asked) bar('bar-asks', it.group, it.asked.first_us, it.held_us, lane / 2 - 2, 4, `asks, ${time((it.held_us ?? timeline.now_us) - it.asked.first_us)}`);
    if (it.held_us !== null) bar('bar-held', it.group, it.held_us, it.ended_us, 5, lane - 10, `holds circuits, ${end}`);
    if (it.traffic) bar('bar-sent', it.group, it.traffic.began_us, it.traffic.ended_us, 8, lane - 16, `sent for ${time(it.traffic.ended_us - it.traffic.began_us)}`);
  }
  for (const it of changes) {
    const words = `change ${it.change}: ${counted(it.deleted, 'circuit')} go, ${it.created} come; ${it.went.replace('_', ' ')}, ${time((it.ended_us ?? timeline.now_us) - it.begun_us)}`;
    const kind = it.went === 'failed' || it.went === 'rolled_back' ? 'bar-failed' : 'bar-change';
    for (const group of it.groups.filter((g) => lanes.includes(g))) bar(kind, group, it.begun_us, it.ended_us, 1, 4, words);
  }
  for (const it of timeline.windows.filter((w) => lanes.includes(w.after) && w.length_us > 0 && w.to_us >= from && w.from_us <= to)) {
    const at = y(it.after) + lane - 3;
    parts.push(svg('path', { class: 'gap', d: `M${x(it.from_us).toFixed(2)} ${at}H${x(it.to_us).toFixed(2)}` }, svg('title', null, `window on rail ${it.rail}: ${time(it.length_us)}`)));
  }
  for (let tick = 0; tick <= 6; tick += 1) {
    const at = from + ((to - from) * tick) / 6;
    parts.unshift(svg('line', { class: 'grid', x1: x(at), x2: x(at), y1: top, y2: bottom }));
    parts.push(svg('text', { x: x(at), y: bottom + 15, 'text-anchor': tick === 0 ? 'start' : tick === 6 ? 'end' : 'middle' }, tick === 6 && timeline.now_us - at < 1e3 ? 'now' : `${time(Math.round(timeline.now_us - at))} ago`));
  }
  const title = `Turns of ${counted(lanes.length, 'group')} over ${time(Math.round(to - from))}; the table has them all`;
  return { node: drawing({ class: 'chart', viewBox: `0 0 ${width} ${bottom + 22}` }, title, parts), hidden: all.length - lanes.length, phases };
}

// How windows are distributed on each rail: the share that is no longer than so much, over a logarithmic axis.
function drawCdf(curves) {
  const [left, right, top, bottom] = [56, 740, 12, 260];
  // A logarithm has no zero: windows of nothing stand at a microsecond.
  const log = (us) => Math.log10(Math.max(1, us));
  const low = Math.floor(Math.min(...curves.map((it) => log(it.points[0][0]))));
  const high = Math.max(low + 1, Math.ceil(Math.max(...curves.map((it) => log(it.points.at(-1)[0])))));
  const x = (us) => left + ((log(us) - low) / (high - low)) * (right - left);
  const y = (share) => bottom - share * (bottom - top);
  const parts = [];
  for (let power = low; power <= high; power += 1) {
    // Over few decades there is room for steps between them.
    for (const step of power === high ? [1] : high - low <= 3 ? [1, 2, 5] : [1]) {
      const at = x(step * 10 ** power);
      parts.push(svg('line', { class: 'grid', x1: at, x2: at, y1: top, y2: bottom }));
      parts.push(svg('text', { x: at, y: bottom + 15, 'text-anchor': power === high ? 'end' : 'middle' }, `${power === 0 && step === 1 ? '≤ ' : ''}${time(step * 10 ** power)}`));
    }
  }
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    parts.push(svg('line', { class: 'grid', x1: left, x2: right, y1: y(share), y2: y(share) }));
    parts.push(svg('text', { x: left - 8, y: y(share) + 4, 'text-anchor': 'end' }, `${share * 100}%`));
  }
  parts.push(svg('path', { class: 'axis', d: `M${left} ${top}V${bottom}H${right}` }));
  curves.forEach((curve, at) => {
    const steps = curve.points.map(([us, share]) => `H${x(us).toFixed(2)}V${y(share).toFixed(2)}`);
    parts.push(svg('path', { class: `line h${at % 6} d${at % 4}`, d: `M${left} ${y(0)}${steps.join('')}` }, svg('title', null, `rail ${curve.rail}`)));
  });
  parts.push(svg('text', { x: (left + right) / 2, y: bottom + 32, 'text-anchor': 'middle' }, 'window'));
  return drawing({ class: 'chart cdf', viewBox: `0 0 760 ${bottom + 40}` }, `Share of windows that are no longer than so much, on ${counted(curves.length, 'rail')}; the table has quantiles`, parts);
}

// What colours and dashes mean: pairs of a shape's class and words.
function legend(entries) {
  const swatch = (kind) => {
    const isLine = kind.startsWith('line') || kind.startsWith('arc') || kind === 'gap';
    const shape = isLine ? svg('line', { class: kind, x1: 1, x2: 33, y1: 6, y2: 6 }) : svg('rect', { class: kind, x: 1, y: 1, width: 32, height: 10 });
    return svg('svg', { class: 'swatch', viewBox: '0 0 34 12', 'aria-hidden': 'true' }, shape);
  };
  return el('ul', { class: 'legend' }, entries.map(([kind, words]) => el('li', null, swatch(kind), words)));
}
