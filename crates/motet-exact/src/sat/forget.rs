//! When a search restarts, and which learned clauses it deletes.
//!
//! Two ways of restarting take turns: frequent restarts, whenever recent clauses are worse than the
//! average, which is good at proofs; and rare ones by Luby's sequence, which is good at assignments.

use super::{Solver, Watch};

/// The least conflicts between restarts where they are frequent.
const SHORTEST: u64 = 10;

/// The conflicts that one unit of Luby's sequence stands for.
const LUBY: u64 = 200;

/// Conflicts of the first turn of one way of restarting; each next turn is longer by half.
const FIRST_TURN: u64 = 3000;

/// Learned clauses of at most this spread are never deleted.
const GOOD: u32 = 2;

/// Conflicts until clauses are first deleted, and by how many the interval grows each time.
const FIRST_FORGET: u64 = 2000;
const MORE_FORGET: u64 = 500;

/// When to restart and when to delete clauses; counted in conflicts.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Moving averages of the spread of learned clauses: over about 32 and over about 4096 of them.
    lately: f64,
    overall: f64,
    seldom: bool,
    turn_ends: u64,
    turn: u64,
    restarts: u64,
    next: u64,
    forget_at: u64,
    forget_after: u64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            lately: 0.0,
            overall: 0.0,
            seldom: false,
            turn_ends: FIRST_TURN,
            turn: FIRST_TURN,
            restarts: 0,
            next: SHORTEST,
            forget_at: FIRST_FORGET,
            forget_after: FIRST_FORGET,
        }
    }
}

impl Pace {
    pub(super) fn learned(&mut self, spread: u32) {
        self.lately += (f64::from(spread) - self.lately) / 32.0;
        self.overall += (f64::from(spread) - self.overall) / 4096.0;
    }

    pub(super) fn is_time_to_restart(&mut self, conflicts: u64) -> bool {
        if conflicts >= self.turn_ends {
            self.seldom = !self.seldom;
            self.turn += self.turn / 2;
            self.turn_ends = conflicts + self.turn;
            self.next = conflicts;
        }
        let is_time = conflicts >= self.next && (self.seldom || self.lately > 1.1 * self.overall);
        if is_time {
            self.restarts += 1;
            let wait = if self.seldom { LUBY * luby(self.restarts) } else { SHORTEST };
            self.next = conflicts + wait;
        }
        is_time
    }

    pub(super) fn is_time_to_forget(&mut self, conflicts: u64) -> bool {
        let is_time = conflicts >= self.forget_at;
        if is_time {
            self.forget_after += MORE_FORGET;
            self.forget_at = conflicts + self.forget_after;
        }
        is_time
    }
}

/// Luby's sequence: 1 1 2 1 1 2 4 1 1 2 1 1 2 4 8 …, from index 1.
fn luby(mut index: u64) -> u64 {
    loop {
        let power = (index + 1).next_power_of_two();
        if power == index + 1 {
            return power / 2;
        }
        index -= power / 2 - 1;
    }
}

impl Solver {
    /// Deletes the worse half of the learned clauses that are not good for ever. To be called without decisions.
    pub(super) fn forget(&mut self) {
        let mut little: Vec<u32> = (0..self.clauses.len() as u32)
            .filter(|it| self.clauses[*it as usize].spread > GOOD)
            .collect();
        little.sort_by_key(|it| {
            let clause = &self.clauses[*it as usize];
            (std::cmp::Reverse(clause.spread), clause.used)
        });
        little.truncate(little.len() / 2);
        let mut drop = vec![false; self.clauses.len()];
        little.into_iter().for_each(|it| drop[it as usize] = true);
        let literals = std::mem::take(&mut self.literals);
        let clauses = std::mem::take(&mut self.clauses);
        self.watches.iter_mut().for_each(Vec::clear);
        // What is known without assumptions is never explained, so its reasons may go.
        for lit in &self.trail {
            self.reason[lit.var()] = super::Reason::None;
        }
        for (mut clause, drop) in clauses.into_iter().zip(drop) {
            let old = &literals[clause.start as usize..(clause.start + clause.len) as usize];
            let holds = old.iter().any(|it| self.holds(*it));
            if drop || holds {
                continue;
            }
            clause.start = self.literals.len() as u32;
            self.literals.extend_from_slice(old);
            let number = self.clauses.len() as u32;
            let (first, second) = (old[0], old[1]);
            self.watches[(!first).index()].push(Watch { clause: number, other: second });
            self.watches[(!second).index()].push(Watch { clause: number, other: first });
            self.clauses.push(clause);
        }
    }
}
