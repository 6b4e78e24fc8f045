//! [`PolicyPilot`]: a policy as the leader of a live job's ranks, in the place of `motet_runtime::Fastest`.
//!
//! A policy decides call by call, but a live job uses tables, which all ranks switch at an agreed operation.
//! So what a policy takes for one call is here one *period* of a tenth of a second: the measurements of a
//! period are one outcome per task, and one choice per task holds for the next period. A probe is a *trial*:
//! a table that goes out of use by itself after a few turns, with the probes of all tasks at once. So a
//! policy's budget and the periods of its guard are shares of time rather than of calls.
//!
//! - [`book`]: the tasks of a plan's table, with what is known of each before anything is measured;
//! - [`live`]: which policies can be asked for.
//!
//! At the beginning of a job every promising setting is measured a few times, because times from the profiler
//! and times from the plan are not on one scale ([`Task::reconciled`]). Later live measurements count
//! relative to these first ones.
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

/// Turns of a period, as many as of a trial, so that what the policy takes for one call lasts as long whether
/// it is a probe or not.
const PERIOD: u32 = TRIAL;
/// Turns of a trial, at first.
const TRIAL: u32 = 2;
/// The most turns of a trial; their number doubles whenever a trial was too short to measure all of its
/// probes.
const LONGEST_TRIAL: u32 = 32;
/// Periods after which the plan's picks are tried again where other settings are in use, because a policy may
/// still hold against a pick what a load did that has passed.
const REVISION: u32 = 300;
/// If the plan's picks take less than this share of the time of the settings in use, the policy begins anew
/// with the picks.
const REVISED: f64 = 0.93;
/// A setting wins a trial if it takes less than this share of the time of the setting in use, and is taken
/// over after [`WINS`] wins in a row. This holds even for settings that the policy is sure of: its belief may
/// rest on the plan's times, which are measured differently from live ones, and a table holds for many calls.
const WON: f64 = 0.95;
const WINS: u32 = 2;
/// Periods before a setting that has lost a trial is tried again; they double with every further loss.
const BACK_OFF: u32 = 8;
/// How often they double at the most.
const MOST_DOUBLINGS: u32 = 7;
/// A setting that has lost is tried earlier if the setting in use takes more than this many times as long as
/// then.
const WORSE: f64 = 1.1;
/// How often each promising setting is measured at the beginning of a job, to know its time on the profiler's
/// scale.
const ROUNDS: usize = 3;
/// A setting is promising if, by the plan, it takes at most this many times as long as the plan's pick.
/// NCCL's own choice always is.
const HOPEFUL: f64 = 1.6;
/// How many new measurements every rank must have before they count as an outcome.
const FRESH: u64 = 3;
/// The policy that leads a job if the user names none.
pub const DEFAULT_POLICY: &str = "infer";

/// The policies that can lead a live job: all but the oracle, which needs the true mean times.
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
    /// Turns of the next trial.
    trial: u32,
    /// Pairs of a task and the action that is being tried for it.
    probes: Vec<(usize, usize)>,
    /// Whether these probes are the plan's picks.
    revises: bool,
    /// Periods since the plan's picks were last tried.
    periods: u32,
    /// Periods so far.
    age: u32,
    /// Why settings were taken over, kept until [`reasons`](Pilot::reasons) is called.
    reasons: Vec<String>,
    /// The table that the tasks' counts of samples belong to.
    table: Option<motet_runtime::Checksum>,
}

impl PolicyPilot {
    /// Lets `policy` choose the settings of the tasks of a book. It first learns what the plan has measured.
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

    /// Feeds the plan's measurements to the policy as outcomes. The plan measures its pick and NCCL's own
    /// choice twice, so these two are fed twice.
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

    /// Feeds the policy with new measurements of the settings in use. Returns the tasks that had enough of
    /// them.
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

    /// Feeds the policy with the results of a trial. Returns whether this was a trial of the plan's picks,
    /// and they are clearly faster than what is in use.
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

    /// Resets the policy and goes back to the plan's picks.
    fn begin_anew(&mut self) -> Course {
        self.desk.policy.reset();
        self.book.tasks.iter_mut().for_each(|it| it.in_use = it.pick);
        self.learn_plan();
        self.book.table(&[]).map_or(Course::Stay, Course::Switch)
    }

    /// For each of these tasks, the next promising setting that was not measured often enough, if there is
    /// one.
    fn unknown(&self, fresh: &[usize]) -> Vec<(usize, usize)> {
        let next = |number: &usize| {
            let task = &self.book.tasks[*number];
            Some((*number, task.unknown()?))
        };
        fresh.iter().filter_map(next).collect()
    }

    /// Decides what to do next, by the policy's choice for each of these tasks.
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
            // The choices of policies that never learn (NCCL's own, the plan's) are taken over without
            // trials.
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
            // One thing at a time: the policy will ask again for what it wanted to try.
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
        // The ranks may not have agreed to the last table that was asked for, so see what they use.
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

/// For an entry's candidate in use: the samples of the rank that has the fewest, and the median of the
/// slowest rank in µs. `None` unless all ranks have measured it.
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

    /// Whether an action may be put into a table: it has a known time and a setting.
    fn can(&self, action: usize) -> bool {
        self.brief.nominal.get(action).is_some_and(|it| it.is_finite())
            && self.setting(action).is_some()
    }

    /// Converts a time measured by the ranks' profilers to the plan's scale.
    ///
    /// The two cannot be compared directly: a plan measures whole calls in a row, the profiler kernels alone,
    /// and the difference varies from setting to setting (AllReduce of 1 MiB by trees over sockets: 600 µs
    /// and 1,085). So the median of a setting's first times in a job counts as the plan's time, and later
    /// times count by their ratio to it. If there was load during these first times, it is assumed to have
    /// slowed all settings alike, by the factor by which the setting in use had become slower.
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

    /// The last time of the setting in use as a multiple of the plan's.
    fn slowdown(&self) -> f64 {
        let nominal = self.brief.nominal[self.in_use];
        if self.micros > 0.0 && nominal.is_finite() { self.micros / nominal } else { 1.0 }
    }

    /// A promising setting other than that in use that was not yet measured [`ROUNDS`] times.
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

    /// Records the result of a trial.
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
    /// The plan's table with the setting in use as the first candidate of each task, or the probe for tasks
    /// that have one.
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

    /// Sets each task's setting in use to what the ranks' table has.
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
