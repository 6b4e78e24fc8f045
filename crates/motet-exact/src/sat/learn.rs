//! Conflict analysis: learns a clause that would have prevented the conflict.
//!
//! The conflict's literals are replaced by their reasons until only one literal of the current decision
//! level is left (the first unique implication point). Literals that follow from the others are then
//! left out (clause minimization).

use super::{Lit, Reason, Solver};

/// How many reasons deep a literal is traced to find out whether the others imply it.
const DEEPEST: u32 = 64;

/// What is known of a variable during the analysis of a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Unknown,
    /// It is in the clause, or was replaced by its reasons.
    Seen,
    /// It follows from literals in the clause.
    Implied,
    /// It does not follow from literals in the clause.
    Needed,
}

/// Working memory of the analysis, kept between conflicts.
#[derive(Debug, Default)]
pub(super) struct Learner {
    marks: Vec<Mark>,
    marked: Vec<u32>,
    clause: Vec<Lit>,
    /// Literals under inspection, as a stack.
    stack: Vec<Lit>,
    /// Per level: the last conflict that counted it.
    counted: Vec<u64>,
}

impl Learner {
    pub(super) fn add(&mut self) {
        self.marks.push(Mark::Unknown);
        self.counted.push(0);
        if self.counted.len() == 1 {
            self.counted.push(0);
        }
    }

    fn mark(&mut self, var: usize, mark: Mark) {
        if self.marks[var] == Mark::Unknown {
            self.marked.push(var as u32);
        }
        self.marks[var] = mark;
    }
}

impl Solver {
    /// Learns a clause from the conflict, backtracks to the lowest level at which the clause is unit, and sets
    /// the literal that follows there.
    pub(super) fn learn(&mut self, conflict: Reason) {
        let first = self.resolve(conflict);
        self.shorten();
        let mut clause = std::mem::take(&mut self.learner.clause);
        clause.insert(0, first);
        for var in self.learner.marked.drain(..) {
            self.learner.marks[var as usize] = Mark::Unknown;
        }
        let spread = self.spread(&clause);
        self.pace.learned(spread);
        // The second watched literal must be the one of the highest level among the others.
        let latest = (1..clause.len()).max_by_key(|it| self.level[clause[*it].var()]);
        let level = latest.map_or(0, |it| {
            clause.swap(1, it);
            self.level[clause[1].var()]
        });
        self.back_to(level as usize);
        if clause.len() == 1 {
            self.set(first, Reason::None);
        } else {
            let number = self.attach(&clause, spread);
            self.set(first, Reason::Clause(number));
        }
        self.heap.decay();
        clause.clear();
        self.learner.clause = clause;
    }

    /// Fills the learner's clause with all but the literal of the current decision level, which it returns.
    fn resolve(&mut self, conflict: Reason) -> Lit {
        let now = self.assumed.len() as u32;
        let mut open = 0u32;
        let mut place = self.trail.len();
        let mut reason = conflict;
        let mut of = None;
        loop {
            self.learner.stack.clear();
            self.explain(reason, of);
            while let Some(lit) = self.learner.stack.pop() {
                let var = lit.var();
                if self.learner.marks[var] != Mark::Unknown || self.level[var] == 0 {
                    continue;
                }
                self.learner.mark(var, Mark::Seen);
                self.heap.raise(var);
                if self.level[var] == now {
                    open += 1;
                } else {
                    self.learner.clause.push(lit);
                }
            }
            let lit = loop {
                place -= 1;
                let lit = self.trail[place];
                if self.learner.marks[lit.var()] == Mark::Seen {
                    break lit;
                }
            };
            open -= 1;
            if open == 0 {
                return !lit;
            }
            reason = self.reason[lit.var()];
            of = Some(lit);
        }
    }

    /// Puts on the stack the false literals that made `of` true, or the conflict.
    fn explain(&mut self, reason: Reason, of: Option<Lit>) {
        match reason {
            Reason::None => {}
            Reason::Clause(number) => {
                let clause = &mut self.clauses[number as usize];
                clause.used = self.conflicts;
                let range = clause.start as usize..(clause.start + clause.len) as usize;
                let others = self.literals[range].iter().copied().filter(|it| Some(*it) != of);
                self.learner.stack.extend(others);
            }
            Reason::Count(number) => {
                let count = self.counts[number as usize];
                let range = count.start as usize..(count.start + count.len) as usize;
                // Only literals that held before `of` can be its reason, and no more of them than the limit.
                let before = of.map_or(u32::MAX, |it| self.place[it.var()]);
                let wanted = count.most as usize + usize::from(of.is_none());
                let (values, place) = (&self.values, &self.place);
                let held = self.counted[range].iter().filter(|it| {
                    values[it.index()] == super::Value::True && place[it.var()] < before
                });
                self.learner.stack.extend(held.take(wanted).map(|it| !*it));
            }
        }
    }

    /// Leaves out of the learner's clause the literals that follow from the others.
    fn shorten(&mut self) {
        let mut clause = std::mem::take(&mut self.learner.clause);
        self.learner.stack.clear();
        clause.retain(|it| self.reason[it.var()] == Reason::None || !self.follows(*it, DEEPEST));
        self.learner.clause = clause;
    }

    /// Whether the reasons of a false literal are all in the clause, or follow from it.
    fn follows(&mut self, lit: Lit, deepest: u32) -> bool {
        let base = self.learner.stack.len();
        self.explain(self.reason[lit.var()], Some(!lit));
        let mut all = true;
        while self.learner.stack.len() > base {
            let Some(next) = self.learner.stack.pop() else { break };
            let var = next.var();
            let fine = match self.learner.marks[var] {
                Mark::Seen | Mark::Implied => true,
                Mark::Needed => false,
                Mark::Unknown if self.level[var] == 0 => true,
                Mark::Unknown if self.reason[var] == Reason::None || deepest == 0 => false,
                Mark::Unknown => {
                    let follows = self.follows(next, deepest - 1);
                    self.learner.mark(var, if follows { Mark::Implied } else { Mark::Needed });
                    follows
                }
            };
            if !fine {
                all = false;
                break;
            }
        }
        self.learner.stack.truncate(base);
        all
    }

    /// From how many decision levels the literals come (the literal block distance, LBD): clauses with few are
    /// the most useful.
    fn spread(&mut self, clause: &[Lit]) -> u32 {
        let mut spread = 0;
        for lit in clause {
            let counted = &mut self.learner.counted[self.level[lit.var()] as usize];
            if *counted != self.conflicts {
                *counted = self.conflicts;
                spread += 1;
            }
        }
        spread
    }
}
