//! [`PolicyPilot`]: a policy as the leader of a live job's ranks, in the place of `motet_runtime::Fastest`.
//!
//! A policy decides call by call; a live job has tables, that all ranks switch at an agreed operation. So what a policy
//! takes for one call is here one *period* of a tenth of a second: what was measured in it is one outcome, and one choice
//! for each task holds for the next. What it wants to try is a *trial*: a table that goes out of use by itself after
//! a few turns' calls. A trial has the probes of all tasks at once. So the shares of a policy's budget and the periods of its
//! guard hold for time rather than for calls.
//!
//! - [`book`]: the tasks of a plan's table, with what is known of each before anything is measured;
//! - [`live`]: which policies can be asked for.
//!
//! A job begins with a tour: each hopeful setting is measured a few times, for the profiler's times and the plan's are not
//! on one scale ([`Task::reconciled`]). So what live measurements change is how settings compare to what they were at first.
//!
//! **What is known live:** the communicator's network (the plan's), the size, what each setting took when the plan was
//! measured or takes by the model, and the slowest rank's median for what is in use. **What is not:** the job's model,
//! its schedule and the rhythm of its calls ([`Desk`]). Load is inferred, as in scenarios.

pub mod book;

use motet_runtime::{Candidate, Course, Entry, Pilot, Report, Sight, Table};
use motet_units::{Duration, Seed};

use crate::action::Action;
use crate::desk::{Desk, Topic};
use crate::policy::Choice;
use crate::policy::registry::{Registered, registered};
use book::{Book, Task, Trial};

/// Turns of a period. As many as of a trial: so what a policy takes for one call is as long whether it probes or not.
const PERIOD: u32 = TRIAL;
/// Turns that a trial has first,
const TRIAL: u32 = 2;
/// and at most: twice as many after each that was too short to measure what it was made for.
const LONGEST_TRIAL: u32 = 32;
/// Periods after which the plan's picks are tried again where others are in use: a policy may hold against a setting for
/// long what was a passing load's doing.
const REVISION: u32 = 300;
/// The picks' time as a share of that of what is in use, below which all begins anew.
const REVISED: f64 = 0.93;
/// What is tried must take at most this share of the time of what is in use, in as many trials in a row, to be taken
/// over. This holds for what a policy only wants to explore and for what it is sure of alike: its belief may rest on a plan's
/// times, which are measured otherwise than live ones, and a table holds for many calls.
const WON: f64 = 0.95;
const WINS: u32 = 2;
/// Periods before a setting that has lost a trial is tried again, at first; twice as many after every further loss,
const BACK_OFF: u32 = 8;
/// up to so many times.
const MOST_DOUBLINGS: u32 = 7;
/// What is in use must take so many times as long as when the setting lost for it to be tried earlier.
const WORSE: f64 = 1.1;
/// How often each setting is measured at the beginning of a job, to know what it takes on the ranks' clocks.
const ROUNDS: usize = 3;
/// Settings that take more than so many times as long as the plan's pick, by the plan, are left out of that.
const HOPEFUL: f64 = 1.6;
/// How many new times of each rank make an outcome.
const FRESH: u64 = 3;
/// The policy that is used where none is asked for.
pub const DEFAULT_POLICY: &str = "infer";

/// The policies that can lead a live job: all but the oracle, which needs to be told what nobody knows.
pub fn live() -> impl Iterator<Item = &'static Registered> {
    registered().iter().filter(|it| it.name != "oracle")
}

/// A policy that makes the tables of a live job.
#[derive(Debug)]
pub struct PolicyPilot {
    book: Book,
    desk: Desk,
    /// Turns since the last period ended.
    turns: u32,
    trial: u32,
    /// The tasks of which something is tried, and what; and whether it is the plan's picks that are.
    probes: Vec<(usize, usize)>,
    revises: bool,
    /// Since the picks were last tried.
    periods: u32,
    /// Periods so far.
    age: u32,
    /// Why settings were taken over, until somebody asks.
    reasons: Vec<String>,
    /// Of which table the tasks' counts of samples are.
    table: Option<motet_runtime::Checksum>,
}

impl PolicyPilot {
    /// Has `policy` steer the tasks of a book. What the plan measured is what the policy learns first.
    #[must_use]
    pub fn new(policy: &Registered, seed: Seed, book: Book) -> Self {
        let mut pilot = Self {
            desk: Desk::new(policy.make(seed), book.topology, book.terms),
            book,
            turns: 0,
            trial: TRIAL,
            probes: Vec::new(),
            revises: false,
            periods: 0,
            age: 0,
            reasons: Vec::new(),
            table: None,
        };
        pilot.learn_plan();
        pilot
    }

    /// What a plan has measured. Of the setting that it then took, and of NCCL's own choice, it did so twice, so these come
    /// twice.
    fn learn_plan(&mut self) {
        for number in 0..self.book.tasks.len() {
            let task = &self.book.tasks[number];
            if !task.measured {
                continue;
            }
            let all = 0..task.brief.nominal.len();
            for action in all.chain([0, task.in_use]) {
                let micros = self.book.tasks[number].brief.nominal[action];
                if micros.is_finite() {
                    self.learn(number, Choice::best(action), micros);
                }
            }
        }
    }

    fn learn(&mut self, number: usize, choice: Choice, micros: f64) {
        let task = &self.book.tasks[number];
        let switched = task.in_use != choice.action;
        self.desk.learn(task.topic(number), choice, micros, switched);
    }

    /// What was measured of the tasks in use since they were last learned of; which they are.
    fn learn_in_use(&mut self, table: &Table, reports: &[Report]) -> Vec<usize> {
        if self.table.replace(table.checksum()) != Some(table.checksum()) {
            self.book.tasks.iter_mut().for_each(|it| it.samples = 0);
        }
        let mut fresh = Vec::new();
        for number in 0..self.book.tasks.len() {
            let task = &mut self.book.tasks[number];
            let Some((samples, micros)) = slowest(task.entry, reports) else { continue };
            if samples < task.samples + FRESH {
                continue;
            }
            task.samples = samples;
            task.micros = task.reconciled(task.in_use, micros);
            let (choice, micros) = (Choice::best(task.in_use), task.micros);
            self.learn(number, choice, micros);
            fresh.push(number);
        }
        fresh
    }

    /// Whether the plan's picks have turned out to be the better ones.
    fn learn_trial(&mut self, reports: &[Report]) -> bool {
        let (mut missed, mut logs) = (false, Vec::new());
        for (number, action) in std::mem::take(&mut self.probes) {
            let task = &mut self.book.tasks[number];
            match slowest(task.entry, reports) {
                Some((_, micros)) => {
                    let micros = task.reconciled(action, micros);
                    let won = micros < WON * task.micros;
                    task.tried(action, won, self.age);
                    task.last_trial = micros;
                    logs.push(libm::log(micros.max(1e-6) / task.micros.max(1e-6)));
                    let in_use = self.book.tasks[number].in_use;
                    self.learn(number, Choice::probe(action, in_use), micros);
                }
                None => missed = true,
            }
        }
        if missed {
            self.trial = (2 * self.trial).min(LONGEST_TRIAL);
        }
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        let revised = self.revises && mean < libm::log(REVISED);
        self.revises = false;
        revised
    }

    /// As before the first call.
    fn begin_anew(&mut self) -> Course {
        self.desk.policy.reset();
        self.book.tasks.iter_mut().for_each(|it| it.in_use = it.pick);
        self.learn_plan();
        self.book.table(&[]).map_or(Course::Stay, Course::Switch)
    }

    /// What must be measured first: the next setting of each of these tasks of which too little is known.
    fn unknown(&self, fresh: &[usize]) -> Vec<(usize, usize)> {
        let next = |number: &usize| {
            let task = &self.book.tasks[*number];
            Some((*number, task.unknown()?))
        };
        fresh.iter().filter_map(next).collect()
    }

    /// Asks the policy of each of these tasks.
    fn decide(&mut self, fresh: &[usize]) -> Course {
        let mut changed = false;
        self.probes.clear();
        self.periods += 1;
        self.age += 1;
        if self.periods >= REVISION {
            self.periods = 0;
            let tasks = &self.book.tasks;
            let others = fresh.iter().filter(|it| tasks[**it].in_use != tasks[**it].pick);
            self.probes = others.map(|it| (*it, tasks[*it].pick)).collect();
            self.revises = !self.probes.is_empty() && self.desk.policy.name() != "nccl";
            if self.revises {
                let table = self.book.table(&self.probes);
                return table
                    .map_or(Course::Stay, |table| Course::Try { table, turns: self.trial });
            }
            self.probes.clear();
        }
        let fixed = ["nccl", "plan"].contains(&self.desk.policy.name());
        let unknown = if fixed { Vec::new() } else { self.unknown(fresh) };
        if !unknown.is_empty() {
            self.probes = unknown;
            let table = self.book.table(&self.probes);
            return table.map_or(Course::Stay, |table| Course::Try { table, turns: self.trial });
        }
        for &number in fresh {
            let choice = self.desk.choose(self.book.tasks[number].topic(number));
            let task = &mut self.book.tasks[number];
            let action = choice.action;
            if !task.can(action) || action == task.in_use || !task.may_try(action, self.age) {
                continue;
            }
            // Whoever asks for a policy that never learns gets what it says.
            if task.has_won(action) || fixed {
                self.reasons.push(task.reason(action));
                task.in_use = action;
                task.trials.clear();
                changed = true;
            } else {
                self.probes.push((number, action));
            }
        }
        let (wanted, tries) = if changed {
            // One thing at a time: what was to be tried will be asked for again.
            self.probes.clear();
            (self.book.table(&[]), false)
        } else if self.probes.is_empty() {
            return Course::Stay;
        } else {
            (self.book.table(&self.probes), true)
        };
        match wanted {
            Some(table) if tries => Course::Try { table, turns: self.trial },
            Some(table) => Course::Switch(table),
            None => Course::Stay,
        }
    }
}

impl Pilot for PolicyPilot {
    fn steer(&mut self, sight: &Sight<'_>) -> Course {
        // What is in use is what the ranks have agreed on, which may not be what was last wanted.
        self.book.follow(sight.table);
        if let Some((_, reports)) = sight.trial
            && self.learn_trial(reports)
        {
            return self.begin_anew();
        }
        self.turns += 1;
        if self.turns < PERIOD && sight.trial.is_none() {
            return Course::Stay;
        }
        self.turns = 0;
        let fresh = self.learn_in_use(sight.table, sight.reports);
        self.decide(&fresh)
    }

    fn reasons(&mut self) -> Vec<String> {
        std::mem::take(&mut self.reasons)
    }
}

/// Of an entry's candidate in use: the least samples of a rank, and the slowest rank's median in µs. `None` unless all
/// ranks have one.
fn slowest(entry: u32, reports: &[Report]) -> Option<(u64, f64)> {
    let mut found: Option<(u64, f64)> = None;
    for report in reports {
        let it = report.times.iter().find(|it| it.entry == entry && it.candidate == 0)?;
        let (samples, micros) = found.unwrap_or((u64::MAX, 0.0));
        found = Some((samples.min(it.samples), micros.max(it.median.as_us_f64())));
    }
    found
}

impl Task {
    fn topic(&self, number: usize) -> Topic<'_> {
        Topic { number, kind: self.kind, bytes: self.bytes, brief: &self.brief }
    }

    /// Whether the table can say it.
    fn can(&self, action: usize) -> bool {
        self.brief.nominal.get(action).is_some_and(|it| it.is_finite())
            && self.setting(action).is_some()
    }

    /// A time of the ranks' profilers on the plan's scale.
    ///
    /// The two cannot be compared: a plan's times are of calls in a row, the profiler's of kernels alone, and what
    /// lies between kernels differs from setting to setting (AllReduce of 1 MiB by trees between sockets: 600 µs and
    /// 1,085). So a setting's first times in a job count as what the plan says, and later ones by how much
    /// longer or shorter they are. If load was there already, it is taken to have made all settings slower alike: by as much as what
    /// is in use had become slower since.
    fn reconciled(&mut self, action: usize, micros: f64) -> f64 {
        let nominal = self.brief.nominal[action];
        let slower = if action == self.in_use { 1.0 } else { self.slowdown() };
        let first = self.first.entry(action).or_default();
        if first.len() < ROUNDS {
            first.push(micros / slower);
        }
        let mut sorted = first.clone();
        sorted.sort_by(f64::total_cmp);
        nominal * micros / sorted[sorted.len() / 2].max(1e-6)
    }

    /// How many times as long as at first what is in use takes, as it was last measured.
    fn slowdown(&self) -> f64 {
        let nominal = self.brief.nominal[self.in_use];
        if self.micros > 0.0 && nominal.is_finite() { self.micros / nominal } else { 1.0 }
    }

    /// A hopeful setting that was not measured often enough.
    fn unknown(&self) -> Option<usize> {
        let nominal = &self.brief.nominal;
        let most = HOPEFUL * nominal[self.pick];
        let known = |it: &usize| self.first.get(it).is_some_and(|it| it.len() >= ROUNDS);
        let hopeful = (0..nominal.len()).filter(|it| *it == 0 || nominal[*it] <= most);
        let mut unknown = hopeful.filter(|it| !known(it) && *it != self.in_use && self.can(*it));
        unknown.next()
    }

    /// Why another setting is taken over, in words.
    fn reason(&self, action: usize) -> String {
        let name = |action: usize| {
            let it = self.brief.space.get(action).unwrap_or(Action::DEFAULT);
            match (it.algorithm, it.protocol, it.channels) {
                (None, None, None) => "NCCL's own choice".to_owned(),
                (algorithm, protocol, channels) => format!(
                    "{}/{}/{}",
                    algorithm.map_or("any", |it| it.name()),
                    protocol.map_or("any", |it| it.name()),
                    channels.map_or_else(|| "any".to_owned(), |it| it.to_string())
                ),
            }
        };
        let (kind, bytes) = (self.kind.name(), self.bytes.get());
        format!(
            "{kind} of {bytes} bytes goes over from {} to {}: {:.1} µs on the plan's scale when last tried, against {:.1}",
            name(self.in_use),
            name(action),
            self.last_trial,
            self.micros
        )
    }

    /// A trial has ended.
    fn tried(&mut self, action: usize, won: bool, age: u32) {
        let trial = self.trials.entry(action).or_default();
        if won {
            trial.wins += 1;
        } else {
            let losses = trial.losses + 1;
            *trial = Trial { wins: 0, losses, after: age, against: self.micros };
            let doublings = (trial.losses - 1).min(MOST_DOUBLINGS);
            trial.after += BACK_OFF << doublings;
        }
    }

    fn may_try(&self, action: usize, age: u32) -> bool {
        let settled = |it: &Trial| age < it.after && self.micros <= WORSE * it.against;
        !self.trials.get(&action).is_some_and(settled)
    }

    fn has_won(&self, action: usize) -> bool {
        self.trials.get(&action).is_some_and(|it| it.wins >= WINS)
    }

    fn setting(&self, action: usize) -> Option<motet_runtime::Setting> {
        self.brief.space.get(action)?.setting(None)
    }
}

impl Book {
    /// The plan's table with what is in use first, and with the probes instead where there are any.
    fn table(&self, probes: &[(usize, usize)]) -> Option<Table> {
        let mut entries: Vec<Entry> = self.plan.entries().to_vec();
        for (number, task) in self.tasks.iter().enumerate() {
            let probe = probes.iter().find(|it| it.0 == number).map(|it| it.1);
            let action = probe.unwrap_or(task.in_use);
            let setting = task.setting(action)?;
            let candidates = &mut entries.get_mut(task.entry as usize)?.candidates;
            let at = candidates.iter().position(|it| it.setting == setting);
            let expected = Duration::from_ps((task.brief.nominal[action] * 1e6) as u64);
            let chosen = at.map_or(Candidate { setting, expected }, |at| candidates.remove(at));
            candidates.insert(0, chosen);
            candidates.truncate(motet_runtime::table::MOST_CANDIDATES);
        }
        Table::new(entries).ok()
    }

    /// Takes over what the ranks use.
    fn follow(&mut self, table: &Table) {
        for task in &mut self.tasks {
            let entry = table.entries().get(task.entry as usize);
            let first = entry.and_then(|it| it.candidates.first());
            if let Some(action) =
                first.and_then(|it| book::action_of(&task.brief.space, &it.setting))
            {
                task.in_use = action;
            }
        }
    }
}

#[cfg(test)]
mod tests;
