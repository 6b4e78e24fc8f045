//! Propagation: sets all literals that follow from the assumptions; and backtracking.

use super::{Lit, Reason, Solver, Value, Watch};

impl Solver {
    /// Sets an open literal; if it is false already, the constraints contradict each other.
    pub(super) fn set(&mut self, lit: Lit, reason: Reason) {
        match self.values[lit.index()] {
            Value::True => {}
            Value::False => self.contradiction = true,
            Value::Open => self.put(lit, reason),
        }
    }

    fn put(&mut self, lit: Lit, reason: Reason) {
        let var = lit.var();
        self.values[lit.index()] = Value::True;
        self.values[(!lit).index()] = Value::False;
        self.level[var] = self.assumed.len() as u32;
        self.place[var] = self.trail.len() as u32;
        self.reason[var] = reason;
        self.phase[var] = lit.is_positive();
        self.trail.push(lit);
    }

    /// Draws all consequences; returns the constraint that is violated, if one is.
    pub(super) fn propagate(&mut self) -> Option<Reason> {
        while let Some(lit) = self.trail.get(self.head).copied() {
            self.head += 1;
            if let Some(conflict) = self.count(lit) {
                return Some(conflict);
            }
            if let Some(conflict) = self.visit(lit) {
                return Some(conflict);
            }
        }
        None
    }

    /// Counts a literal that turned true. All its counts are raised even if one of the first is
    /// exceeded: [`back_to`](Self::back_to) lowers all of them.
    fn count(&mut self, lit: Lit) -> Option<Reason> {
        let mut exceeded = None;
        let list = std::mem::take(&mut self.in_counts[lit.index()]);
        for number in &list {
            let count = &mut self.counts[*number as usize];
            count.now += 1;
            if count.now > count.most {
                exceeded = Some(Reason::Count(*number));
            }
        }
        if exceeded.is_none() {
            for number in &list {
                let count = self.counts[*number as usize];
                if count.now == count.most {
                    for place in count.start..count.start + count.len {
                        let other = self.counted[place as usize];
                        if self.values[other.index()] == Value::Open {
                            self.put(!other, Reason::Count(*number));
                        }
                    }
                }
            }
        }
        self.in_counts[lit.index()] = list;
        exceeded
    }

    /// Visits the clauses that watch the negation of a literal that turned true.
    fn visit(&mut self, lit: Lit) -> Option<Reason> {
        let mut list = std::mem::take(&mut self.watches[lit.index()]);
        let mut conflict = None;
        let (mut read, mut kept) = (0, 0);
        while read < list.len() {
            let watch = list[read];
            read += 1;
            if self.values[watch.other.index()] == Value::True {
                list[kept] = watch;
                kept += 1;
                continue;
            }
            let clause = self.clauses[watch.clause as usize];
            let (start, end) = (clause.start as usize, (clause.start + clause.len) as usize);
            if self.literals[start] == !lit {
                self.literals.swap(start, start + 1);
            }
            let first = self.literals[start];
            if self.values[first.index()] != Value::True {
                let values = &self.values;
                let free = self.literals[start + 2..end]
                    .iter()
                    .position(|it| values[it.index()] != Value::False);
                if let Some(free) = free {
                    self.literals.swap(start + 1, start + 2 + free);
                    let new = self.literals[start + 1];
                    let watch = Watch { clause: watch.clause, other: first };
                    self.watches[(!new).index()].push(watch);
                    continue;
                }
            }
            list[kept] = Watch { clause: watch.clause, other: first };
            kept += 1;
            match self.values[first.index()] {
                Value::True => {}
                Value::Open => self.put(first, Reason::Clause(watch.clause)),
                Value::False => {
                    conflict = Some(Reason::Clause(watch.clause));
                    break;
                }
            }
        }
        list.copy_within(read.., kept);
        list.truncate(kept + list.len() - read);
        self.watches[lit.index()] = list;
        conflict
    }

    /// Backtracks: takes back all but the first `level` assumptions, and what followed from the others.
    pub(super) fn back_to(&mut self, level: usize) {
        let Some(keep) = self.assumed.get(level).copied() else {
            return;
        };
        while self.trail.len() > keep as usize {
            let Some(lit) = self.trail.pop() else { break };
            if self.trail.len() < self.head {
                for number in &self.in_counts[lit.index()] {
                    self.counts[*number as usize].now -= 1;
                }
            }
            self.values[lit.index()] = Value::Open;
            self.values[(!lit).index()] = Value::Open;
            self.heap.push(lit.var() as u32);
        }
        self.assumed.truncate(level);
        self.head = self.trail.len();
    }
}
