// The page: asks the service every two seconds, or finds the answers in itself when it is a saved file, and shows them.

const EVERY = 2000;
// When nobody answers it asks less and less often, down to this.
const LONGEST = 30000;
const PATIENCE = 10000;
const saved = byId('answers');
const state = { job: null, paused: false, wait: EVERY, good: null, timer: 0, shown: new Map(), last: null, turn: 0 };

// Numbers of jobs may be larger than numbers are exact here: those become texts. Inside a text a quote has a backslash before
// it, so nothing else looks like this.
const parsed = (text) => JSON.parse(text.replace(/"(job)":(\d{16,})/g, '"$1":"$2"'));
const answers = saved ? parsed(saved.textContent) : null;

function token() {
  try {
    return sessionStorage.getItem('motet-token') ?? '';
  } catch {
    // Storage may be forbidden; then the token is asked for after each reload.
    return state.token ?? '';
  }
}

function keepToken(it) {
  state.token = it;
  try {
    sessionStorage.setItem('motet-token', it);
  } catch {
    // As above.
  }
}

const headers = () => (token() === '' ? {} : { authorization: `Bearer ${token()}` });

// One question: { value } if there is an answer, { status, problem } if the service says why not. Fails if it says nothing.
async function ask(path) {
  if (answers) return answers[path] ?? { status: 404, problem: 'this file does not have it' };
  const response = await fetch(path, { headers: headers(), cache: 'no-store', redirect: 'error', signal: AbortSignal.timeout(PATIENCE) });
  const text = await response.text();
  if (response.ok) return { value: parsed(text) };
  let problem = text;
  try {
    problem = parsed(text).problem ?? text;
  } catch {
    // Something in front of the service has answered in its own words.
  }
  return { status: response.status, problem };
}

async function look() {
  state.turn += 1;
  const turn = state.turn;
  try {
    // Who is not let in asks one question, and no other until there is another token: every refusal is counted and logged.
    const health = await ask('/v1/health');
    if (health.status === 401) {
      if (turn === state.turn) locked(health);
      return;
    }
    const rest = ['stats', 'jobs', 'switches', 'circuits', 'journal'];
    const got = await Promise.all(rest.map((it) => ask(`/v1/${it}`)));
    const all = Object.fromEntries([['health', health], ...rest.map((it, at) => [it, got[at]])]);
    const jobs = all.jobs.value ?? [];
    state.job = chosen(jobs);
    if (state.job !== null) {
      const path = `/v1/jobs/${encodeURIComponent(state.job)}`;
      [all.groups, all.timeline] = await Promise.all([ask(`${path}/groups`), ask(`${path}/timeline`)]);
    }
    // Another look may have begun meanwhile.
    if (turn !== state.turn) return;
    show(all);
  } catch (problem) {
    if (turn === state.turn) unreachable(problem);
  }
  if (turn === state.turn) next();
}

function next() {
  clearTimeout(state.timer);
  if (!answers && !state.paused && !document.hidden) state.timer = setTimeout(look, state.wait);
}

// The job that the address names, or the first.
function chosen(jobs) {
  const named = /^#job=(\d+)$/.exec(location.hash)?.[1];
  const wanted = named ?? state.job;
  return (jobs.find((it) => String(it.job) === String(wanted)) ?? jobs[0])?.job ?? null;
}

function contact(kind, text) {
  document.body.classList.toggle('stale', kind === 'bad' && state.good !== null);
  const place = byId('contact');
  place.className = `contact ${kind}`;
  // Said again only if it is another thing: screen readers read it out.
  if (place.textContent !== text) place.textContent = text;
}

function unreachable(problem) {
  state.wait = Math.min(LONGEST, state.wait * 2);
  const since = state.good === null ? 'it has not answered yet' : `what you see is from ${clock(state.good)}`;
  const why = problem?.name === 'TimeoutError' ? `no answer within ${PATIENCE / 1000} s` : 'no connection';
  contact('bad', `The service cannot be reached (${why}); ${since}. Asks again every ${state.wait / 1000} s.`);
}

// Nothing is shown to whoever has no token that counts, not even what an earlier one showed.
function locked({ problem }) {
  clearTimeout(state.timer);
  byId('access').hidden = false;
  document.body.classList.add('locked');
  state.good = null;
  state.last = null;
  state.shown.clear();
  for (const it of document.querySelectorAll('[id$="-body"]')) it.replaceChildren();
  contact('bad', `The service wants a token: ${problem}`);
}

function show(all) {
  byId('access').hidden = Boolean(answers) || token() === '';
  document.body.classList.remove('locked');
  state.wait = EVERY;
  state.good = Date.now();
  state.last = all;
  const health = all.health.value;
  if (answers) contact('good', `Saved from Motet ${health?.version ?? ''}; nothing here changes any more.`);
  else if (!health) contact('bad', `The service says: ${all.health.problem}`);
  else if (health.store_failing) contact('bad', 'The store fails: nothing is granted until it works. See the log.');
  else contact('good', state.paused ? 'Paused.' : 'Connected.');
  byId('version').textContent = health ? `version ${health.version}` : '';
  const job = state.job === null ? '' : `of job ${state.job}`;
  for (const it of document.querySelectorAll('h2 .of')) it.textContent = job;
  const range = byId('range').value;
  // Only what has changed is drawn anew.
  part('health-body', [all.health, all.stats], showHealth);
  part('jobs-body', [all.jobs, state.job], showJobs);
  part('switches-body', [all.switches, all.circuits, all.jobs], showSwitches);
  part('groups-body', [all.groups], showGroups);
  part('timeline-body', [all.timeline, range], showTimeline);
  part('windows-body', [all.timeline && { ...all.timeline, value: all.timeline.value && { windows: all.timeline.value.windows, cdf: all.timeline.value.cdf } }], showWindows);
  part('journal-body', [all.journal], showJournal);
}

function part(id, from, draw) {
  const now = JSON.stringify(from);
  if (state.shown.get(id) === now) return;
  state.shown.set(id, now);
  const refused = from.find((it) => it?.status && it.status !== 403);
  swap(byId(id), refused ? note(refused.problem, 'caution') : draw(...from));
}

const denied = (it) => (it?.status === 403 ? note(`Not shown: ${it.problem}.`) : null);

function showHealth({ value: health }, { value: stats, ...rest }) {
  const tile = (name, value, kind = '') => el('div', { class: `tile ${kind}` }, el('dt', null, name), el('dd', null, value));
  // Red is what is wrong now; what has gone wrong since the start is only marked.
  const alarm = (number) => (number > 0 ? 'marked' : '');
  const tiles = [
    tile('store', health.store_failing ? 'fails' : 'works', health.store_failing ? 'bad' : 'good'),
    tile('switches up', `${health.switches_up} of ${health.switches}`, health.switches_up < health.switches ? 'bad' : 'good'),
    tile('jobs', count(health.jobs)),
    tile('groups that wait', count(health.queue)),
    tile('changes under way', count(health.changing)),
  ];
  if (stats) {
    tiles.push(
      tile('members connected', count(stats.members)),
      tile('reports', count(stats.reports)),
      tile('grants', count(stats.granted)),
      tile('passes for one call', count(stats.passed)),
      tile('ask to answer, p50', stats.ask.count > 0 ? time(stats.ask.p50_us) : '–'),
      tile('ask to answer, p99', stats.ask.count > 0 ? time(stats.ask.p99_us) : '–'),
      tile('sent to the packet network', count(stats.refused)),
      tile('changes done', count(stats.changes_done)),
      tile('changes failed', count(stats.changes_failed), alarm(stats.changes_failed)),
      tile('changes undone', count(stats.changes_rolled_back), alarm(stats.changes_rolled_back)),
      tile('switches lost', count(stats.switches_lost), alarm(stats.switches_lost)),
      tile('store failures', count(stats.store_failures), alarm(stats.store_failures)),
      tile('clients turned away', count(stats.turned_away), alarm(stats.turned_away)),
      tile('slow readers cut off', count(stats.slow_readers), alarm(stats.slow_readers)),
      tile('runs for', time(Math.floor(stats.uptime_us / 1e6) * 1e6)),
    );
  }
  const of = stats && stats.ask.count > 0 ? note(`From a member's ask to the answer: the last ${count(stats.ask.count)} asks, the longest ${time(stats.ask.most_us)}. Counts are since the service started.`) : null;
  return [el('dl', { class: 'tiles' }, tiles), of, denied(rest)].filter(Boolean);
}

const MODES = { observe: 'observe', on_demand: 'on demand', provisioned: 'provisioned' };

function showJobs({ value: jobs }, current) {
  const row = (it) => {
    const gone = it.members - it.present;
    const named = it.absent.join(', ') + (gone > it.absent.length ? ', …' : '');
    const link = el('a', { href: `#job=${it.job}`, 'data-key': `job ${it.job}` }, it.job);
    return {
      current: String(it.job) === String(current),
      cells: [link, it.tenant, it.mode === null ? 'not said' : MODES[it.mode] ?? it.mode, it.groups, it.ports, `${it.present} of ${it.members}`, gone > 0 ? [named, 'bad'] : '–'],
    };
  };
  return [table('Jobs that are registered', ['job', 'tenant', '.mode', 'groups', 'ports', 'members present', '.absent'], jobs.map(row))];
}

function showSwitches(switches, { value: circuits }, { value: jobs }) {
  const places = new Map((jobs ?? []).map((it, at) => [String(it.job), at % 5]));
  const hue = (job) => (job === null ? 'h5' : `h${places.get(String(job)) ?? 4}`);
  const row = (it) => [it.a, it.b, it.job === null ? '–' : it.job, it.members.map((m) => m ?? '–').join(' – '), it.groups.join(', ') || '–', it.in_use ? 'in use' : 'free to go'];
  const columns = ['port', 'port', 'job', '.members', '.groups', '.state'];
  if (!switches.value) {
    return [denied(switches), table('Circuits between your ports', ['switch', ...columns], circuits.map((it) => [it.switch, ...row(it)]))];
  }
  const rail = (it) => {
    const mine = circuits.filter((c) => c.switch === it.switch);
    const failed = it.failed.length > 0 ? [', ', el('span', { class: 'bad-word' }, `failed ports: ${it.failed.join(', ')}`)] : [];
    const words = { up: 'answers', down: 'does not answer', unread: 'is being read' }[it.contact] ?? it.contact;
    return el('div', { class: 'rail' },
      el('h3', null, `${it.name} `, el('span', { class: it.contact === 'up' ? 'soft' : 'bad-word' }, `(switch ${it.switch}; ${words})`)),
      el('p', { class: 'soft' }, it.contact === 'up' ? `${it.ports} ports, ${counted(it.circuits, 'circuit')}, ${counted(it.locked, 'port')} in a change` : `${it.ports} ports; which circuits it has is not known`, failed),
      el('div', { class: 'scroll', 'data-key': `rail ${it.switch}`, tabindex: 0, role: 'region', 'aria-label': `Circuits of ${it.name}` }, drawSwitch(it, mine, hue)),
      asTable(`circuits ${it.switch}`, `Circuits of ${it.name}`, columns, mine.map(row)));
  };
  const entries = [...(jobs ?? []).slice(0, 5).map((it) => [`arc used ${hue(it.job)}`, `job ${it.job}`]), ['arc used h5', 'in use: stays'], ['arc h5', 'free to go']];
  return [legend(entries), ...switches.value.map(rail)];
}

function showGroups(groups) {
  if (!groups) return [note('There is no job.')];
  const row = (it) => {
    const words = [];
    if (it.holding > 0) words.push('holds');
    if (it.asking > 0) words.push('asks');
    if (it.queued) words.push('waits in the queue');
    if (it.changing) words.push('its circuits change');
    return [it.group, words.join(', ') || 'idle', `${it.set} of ${it.circuits}`, it.holding, it.asking, it.away, it.unknown > 0 ? [it.unknown, 'bad'] : 0];
  };
  const columns = ['group', '.state', 'circuits set', 'members that hold', 'ask', 'are away', 'have not reported'];
  return [table('Who holds and who asks', columns, groups.value.map(row))];
}

function showTimeline(answer, range) {
  if (!answer) return [note('There is no job.')];
  const timeline = answer.value;
  if (timeline.phases.length === 0) return [note('Nobody has asked for circuits yet.')];
  const { node, hidden, phases } = drawTimeline(timeline, range);
  const entries = [['bar-asks', 'asks'], ['bar-held', 'holds circuits'], ['bar-sent', 'sends'], ['bar-change', 'circuits change'], ['bar-refused', 'refused or withdrawn'], ['gap', 'window']];
  const row = (it) => {
    const ago = (us) => (us === null || us === undefined ? '–' : `${time(timeline.now_us - us)} ago`);
    const sent = it.traffic ? time(it.traffic.ended_us - it.traffic.began_us) : 'not told';
    const waited = it.asked && it.held_us !== null ? time(it.held_us - it.asked.last_us) : '–';
    return [it.group, ago(it.asked?.first_us), waited, ago(it.held_us), ago(it.ended_us), sent, it.outcome];
  };
  const change = (it) => [it.change, it.groups.join(', '), it.switches.join(', '), it.deleted, it.created, it.ended_us === null ? '–' : time(it.ended_us - it.begun_us), [it.went.replace('_', ' '), it.went === 'failed' || it.went === 'rolled_back' ? 'bad' : '']];
  return [
    legend(entries), el('div', { class: 'scroll', 'data-key': 'timeline scroll', tabindex: 0, role: 'region', 'aria-label': 'Timeline' }, node),
    hidden > 0 ? note(`${hidden} more groups are in the table only.`) : null,
    timeline.dropped > 0 ? note(`${count(timeline.dropped)} earlier turns are no longer kept.`) : null,
    asTable('turns', 'Turns of groups, the last first', ['group', 'asked', 'then waited', 'held from', 'until', 'sent for', '.outcome'], phases.toReversed().slice(0, 200).map(row)),
    el('details', { 'data-key': 'changes' }, el('summary', { 'data-key': 'changes summary' }, 'Changes of circuits'), table('Changes, the last first', ['change', '.groups', '.switches', 'circuits go', 'come', 'took', '.outcome'], timeline.changes.toReversed().slice(0, 200).map(change))),
  ].filter(Boolean);
}

function showWindows(answer) {
  if (!answer) return [note('There is no job.')];
  const { windows, cdf } = answer.value;
  if (cdf.length === 0) return [note('No windows are known: groups have not taken turns yet, or their members do not tell when they sent.')];
  const quantiles = table('Windows by rail', ['rail', 'windows', 'p50', 'p90', 'p99'], cdf.map((it) => [it.rail, count(it.count), time(it.p50_us), time(it.p90_us), time(it.p99_us)]));
  const row = (it) => [it.rail, it.before.join(', '), it.after, time(it.length_us), it.overlap_us > 0 ? time(it.overlap_us) : '–'];
  return [
    legend(cdf.map((it, at) => [`line h${at % 6} d${at % 4}`, `rail ${it.rail}`])), drawCdf(cdf), quantiles,
    el('details', { 'data-key': 'windows' }, el('summary', { 'data-key': 'windows summary' }, 'The last windows'), table('The last windows', ['rail', '.after groups', 'before group', 'window', 'overlap'], windows.toReversed().slice(0, 200).map(row))),
  ];
}

function showJournal(journal) {
  if (!journal.value) return [denied(journal)];
  const records = journal.value.toReversed().slice(0, 100);
  return [table('The last records', ['number', '.host time (UTC)', '.what'], records.map((it) => [it.number, clock(it.time), it.text]), 'journal')];
}

async function save() {
  const response = await fetch('/v1/report', { headers: headers(), cache: 'no-store' });
  if (!response.ok) throw new Error(String(response.status));
  const link = el('a', { href: URL.createObjectURL(await response.blob()), download: `motet-${clock(Date.now()).slice(0, 19).replace(/[ :]/g, '-')}.html` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

byId('pause').addEventListener('click', ({ currentTarget }) => {
  state.paused = !state.paused;
  currentTarget.setAttribute('aria-pressed', String(state.paused));
  currentTarget.textContent = state.paused ? 'Go on' : 'Pause';
  if (state.paused) contact('good', 'Paused.');
  look();
});
byId('save').addEventListener('click', () => save().catch(() => contact('bad', 'The file could not be made: the service did not answer.')));
byId('access').addEventListener('submit', (event) => {
  event.preventDefault();
  keepToken(byId('token').value.trim());
  byId('token').value = '';
  look();
});
byId('range').addEventListener('change', () => state.last && show(state.last));
addEventListener('hashchange', () => location.hash.startsWith('#job=') && look());
document.addEventListener('visibilitychange', () => {
  // Nobody looks: nobody asks. Whoever comes back sees the latest, unless a token is missing.
  if (document.hidden) clearTimeout(state.timer);
  else if (!state.paused && !document.body.classList.contains('locked')) look();
});
for (const id of ['pause', 'save']) byId(id).hidden = Boolean(answers);
look();
