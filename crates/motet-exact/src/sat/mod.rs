//! [`Solver`]: a SAT solver: whether clauses and cardinality constraints over Boolean variables can all
//! hold at once.
//!
//! It does conflict-driven clause learning (CDCL), with "at most k of these" as a constraint of its own
//! beside clauses: what links carry is counted everywhere in [`super::encode`], and counts spelled out as
//! clauses would be many times larger. Effort is measured in conflicts, so that a search ends at the same
//! place on every machine. A search that stopped can be continued.
//!
//! A decision (a literal that is tried) is called an *assumption* here, a cardinality constraint a *count*.
//!
//! - [`propagate`]: draws the consequences of assumptions, and backtracks;
//! - [`learn`]: learns a clause from a conflict;
//! - [`forget`]: deletes learned clauses, and decides when to restart;
//! - [`heap`]: which variable to try next.

mod forget;
mod heap;
mod learn;
mod propagate;
#[cfg(test)]
mod tests;

use motet_synth::Watch as Clock;

use forget::Pace;
use heap::Heap;

/// The clock is read once in so many turns of the search loop.
const TURNS_PER_LOOK: u64 = 256;

/// A variable or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Lit(u32);

impl Lit {
    const fn of(var: u32) -> Self {
        Self(var << 1)
    }

    const fn var(self) -> usize {
        (self.0 >> 1) as usize
    }

    const fn index(self) -> usize {
        self.0 as usize
    }

    const fn is_positive(self) -> bool {
        self.0 & 1 == 0
    }
}

impl std::ops::Not for Lit {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// How a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is an assignment; [`Solver::holds`] reads it.
    Yes,
    /// There is none.
    No,
    /// The conflicts allowed were used up, or the caller's clock says so.
    Stopped,
}

/// What is known of a literal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    Open,
    True,
    False,
}

/// Why a literal holds, or which constraint a conflict violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Assumed, or known from the start.
    None,
    Clause(u32),
    Count(u32),
}

#[derive(Clone, Copy, Debug)]
struct Clause {
    start: u32,
    len: u32,
    /// From how many levels of assumptions its literals came when it was learned (its LBD); 0 if the
    /// clause was given.
    spread: u32,
    /// The number of the conflict in whose analysis it was last used.
    used: u64,
}

/// A watch of a clause: the clause must be visited when the negation of its watched literal turns true.
#[derive(Clone, Copy, Debug)]
struct Watch {
    clause: u32,
    /// Another literal of the clause: if that holds, the clause need not be visited.
    other: Lit,
}

/// A cardinality constraint: at most `most` of its literals hold. `now` counts those that do.
#[derive(Clone, Copy, Debug)]
struct Count {
    start: u32,
    len: u32,
    most: u32,
    now: u32,
}

/// The solver: its constraints, and the state of the search (see the module).
#[derive(Debug, Default)]
pub(super) struct Solver {
    values: Vec<Value>,
    /// Per variable: how many assumptions had been made when it was set.
    level: Vec<u32>,
    /// Per variable: its place on the trail.
    place: Vec<u32>,
    reason: Vec<Reason>,
    /// Per variable: its last value, which is tried first again (phase saving).
    phase: Vec<bool>,
    /// The literals that hold, in the order in which they were set.
    trail: Vec<Lit>,
    /// The place of each assumption on the trail.
    assumed: Vec<u32>,
    /// Up to where on the trail consequences have been drawn.
    head: usize,
    literals: Vec<Lit>,
    clauses: Vec<Clause>,
    /// Per literal: clauses that watch its negation.
    watches: Vec<Vec<Watch>>,
    counted: Vec<Lit>,
    counts: Vec<Count>,
    /// Per literal: the counts that contain it.
    in_counts: Vec<Vec<u32>>,
    heap: Heap,
    pace: Pace,
    learner: learn::Learner,
    contradiction: bool,
    conflicts: u64,
}

impl Solver {
    /// A new variable, tried as false first.
    pub(super) fn variable(&mut self) -> Lit {
        let lit = Lit::of(self.level.len() as u32);
        self.values.extend([Value::Open; 2]);
        self.level.push(0);
        self.place.push(0);
        self.reason.push(Reason::None);
        self.phase.push(false);
        self.watches.extend([Vec::new(), Vec::new()]);
        self.in_counts.extend([Vec::new(), Vec::new()]);
        self.heap.add();
        self.learner.add();
        lit
    }

    pub(super) fn conflicts(&self) -> u64 {
        self.conflicts
    }

    /// Whether the literal holds in the assignment found.
    pub(super) fn holds(&self, lit: Lit) -> bool {
        self.values[lit.index()] == Value::True
    }

    /// At least one of these must hold.
    pub(super) fn clause(&mut self, literals: &[Lit]) {
        let mut kept = literals.to_vec();
        kept.sort_unstable();
        kept.dedup();
        let always = kept.windows(2).any(|it| it[0] == !it[1])
            || kept.iter().any(|it| self.values[it.index()] == Value::True);
        if always {
            return;
        }
        kept.retain(|it| self.values[it.index()] != Value::False);
        match kept.as_slice() {
            [] => self.contradiction = true,
            [only] => self.set(*only, Reason::None),
            _ => {
                self.attach(&kept, 0);
            }
        }
    }

    /// At most `most` of these may hold. One that is listed twice counts twice.
    pub(super) fn at_most(&mut self, literals: &[Lit], most: usize) {
        let start = self.counted.len();
        let mut left = most;
        for lit in literals {
            match self.values[lit.index()] {
                Value::Open => self.counted.push(*lit),
                Value::False => {}
                Value::True if left == 0 => self.contradiction = true,
                Value::True => left -= 1,
            }
        }
        let len = self.counted.len() - start;
        if left == 0 || left >= len {
            let dropped = self.counted.split_off(start);
            if left == 0 {
                dropped.into_iter().for_each(|it| self.set(!it, Reason::None));
            }
            return;
        }
        let number = self.counts.len() as u32;
        for lit in &self.counted[start..] {
            self.in_counts[lit.index()].push(number);
        }
        self.counts.push(Count { start: start as u32, len: len as u32, most: left as u32, now: 0 });
    }

    /// At least `least` of these must hold. One that is listed twice counts twice.
    pub(super) fn at_least(&mut self, literals: &[Lit], least: usize) {
        match least {
            0 => {}
            1 => self.clause(literals),
            _ if least > literals.len() => self.contradiction = true,
            _ => {
                let opposites: Vec<Lit> = literals.iter().map(|it| !*it).collect();
                self.at_most(&opposites, literals.len() - least);
            }
        }
    }

    /// Searches until the question is settled, `most_conflicts` more conflicts have been used up or the clock
    /// says that time is up.
    pub(super) fn solve(&mut self, most_conflicts: u64, clock: Clock<'_>) -> Verdict {
        self.back_to(0);
        let end = self.conflicts.saturating_add(most_conflicts);
        let mut turns = 0u64;
        loop {
            if self.contradiction {
                return Verdict::No;
            }
            if let Some(conflict) = self.propagate() {
                if self.assumed.is_empty() {
                    self.contradiction = true;
                    return Verdict::No;
                }
                self.conflicts += 1;
                self.learn(conflict);
                continue;
            }
            let late = turns.is_multiple_of(TURNS_PER_LOOK) && clock.out_of_time();
            turns += 1;
            if late || self.conflicts >= end {
                self.back_to(0);
                return Verdict::Stopped;
            }
            if self.pace.is_time_to_restart(self.conflicts) {
                self.back_to(0);
            }
            if self.pace.is_time_to_forget(self.conflicts) {
                self.back_to(0);
                self.forget();
            }
            let Some(next) = self.choose() else {
                return Verdict::Yes;
            };
            self.assumed.push(self.trail.len() as u32);
            self.set(next, Reason::None);
        }
    }

    /// The unassigned variable of the most activity, with its last value; `None` if all are assigned.
    fn choose(&mut self) -> Option<Lit> {
        while let Some(var) = self.heap.pop() {
            let lit = Lit::of(var);
            if self.values[lit.index()] == Value::Open {
                return Some(if self.phase[var as usize] { lit } else { !lit });
            }
        }
        None
    }

    /// Adds a clause of two or more literals, and watches the first two. The caller has put false literals last, of
    /// these the one of the highest level first.
    fn attach(&mut self, literals: &[Lit], spread: u32) -> u32 {
        let number = self.clauses.len() as u32;
        let start = self.literals.len() as u32;
        self.literals.extend_from_slice(literals);
        let len = literals.len() as u32;
        self.clauses.push(Clause { start, len, spread, used: self.conflicts });
        self.watch(number);
        number
    }

    fn watch(&mut self, clause: u32) {
        let start = self.clauses[clause as usize].start as usize;
        let (first, second) = (self.literals[start], self.literals[start + 1]);
        self.watches[(!first).index()].push(Watch { clause, other: second });
        self.watches[(!second).index()].push(Watch { clause, other: first });
    }
}
