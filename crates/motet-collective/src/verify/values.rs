//! Symbolic values: an input chunk, or the sum of two values.
//!
//! Values are numbers into one table, so that copying costs nothing; what a value is made of is
//! found by expanding it when somebody asks. A sum's parts always have smaller numbers than the
//! sum, which makes expansion a sweep from the largest number down, exact with shared parts.

use std::collections::BinaryHeap;

use motet_units::Rank;

use super::budget::WorkBudget;
use crate::program::Program;

/// What comparing a part of a sum costs, in steps of a [`WorkBudget`].
const STEPS_PER_PART: usize = 16;

/// A value; [`Value::UNDEFINED`] is what memory holds before anything is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Value(u32);

impl Value {
    pub(super) const UNDEFINED: Self = Self(0);
}

/// An input chunk of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf {
    pub(super) rank: Rank,
    pub(super) offset: u32,
}

/// What a value is made of.
#[derive(Debug)]
pub(super) struct Expansion {
    /// The inputs in it, in their order, and how often each is.
    pub(super) leaves: Vec<(Leaf, u64)>,
    /// How many parts were looked at.
    pub(super) steps: usize,
    /// Whether that was all of them.
    pub(super) is_whole: bool,
}

/// The values of one run.
#[derive(Debug)]
pub(super) struct Values {
    /// The number of each rank's first input chunk; one more at the end.
    leaf_starts: Vec<u32>,
    /// The parts of each sum; sums are numbered after all leaves.
    sums: Vec<(Value, Value)>,
}

impl Values {
    pub(super) fn new(program: &Program) -> Self {
        let collective = program.collective();
        let mut leaf_starts = Vec::with_capacity(collective.ranks() as usize + 1);
        let mut next = 1;
        for rank in (0..collective.ranks()).map(Rank) {
            leaf_starts.push(next);
            // The total is below the bound on cells, which Memory has checked.
            next += collective.input_chunks(rank);
        }
        leaf_starts.push(next);
        Self { leaf_starts, sums: Vec::new() }
    }

    pub(super) fn leaf(&self, leaf: Leaf) -> Value {
        Value(self.leaf_starts[leaf.rank.index()] + leaf.offset)
    }

    fn first_sum(&self) -> u32 {
        self.leaf_starts.last().copied().unwrap_or(1)
    }

    /// The sum of two values; undefined if either is.
    pub(super) fn add(&mut self, a: Value, b: Value) -> Value {
        if a == Value::UNDEFINED || b == Value::UNDEFINED {
            return Value::UNDEFINED;
        }
        let id = self.first_sum() as usize + self.sums.len();
        self.sums.push((a, b));
        Value(u32::try_from(id).unwrap_or(u32::MAX))
    }

    pub(super) fn as_leaf(&self, value: Value) -> Option<Leaf> {
        if value == Value::UNDEFINED || value.0 >= self.first_sum() {
            return None;
        }
        let after = self.leaf_starts.partition_point(|it| *it <= value.0);
        let rank = Rank::from_index(after - 1);
        Some(Leaf { rank, offset: value.0 - self.leaf_starts[rank.index()] })
    }

    /// The inputs that `value` is made of and how often each is in it; stops after `most`
    /// distinct parts (so that a hostile program cannot make expansion slow), which is enough to
    /// show that a value of more inputs than that is wrong.
    pub(super) fn expand(&self, value: Value, most: usize) -> Expansion {
        // Leaves have smaller numbers than sums, so that they come last, and from the last to the first.
        let mut leaves = Vec::new();
        let mut open = BinaryHeap::from([(value, 1u64)]);
        let mut visited = 0;
        while let Some((value, mut times)) = open.pop() {
            visited += 1;
            if visited > most.saturating_mul(2) {
                open.push((value, times));
                break;
            }
            while let Some((_, more)) = open.peek().filter(|it| it.0 == value) {
                times = times.saturating_add(*more);
                open.pop();
            }
            if let Some(leaf) = self.as_leaf(value) {
                leaves.push((leaf, times));
            } else if value != Value::UNDEFINED {
                let (a, b) = self.sums[(value.0 - self.first_sum()) as usize];
                open.extend([(a, times), (b, times)]);
            }
        }
        leaves.reverse();
        Expansion { leaves, steps: visited, is_whole: open.is_empty() }
    }

    /// Whether two values are the same sum of inputs. Means nothing once the budget is spent.
    pub(super) fn same(&self, a: Value, b: Value, budget: &mut WorkBudget) -> bool {
        if a == b {
            return true;
        }
        if a == Value::UNDEFINED || b == Value::UNDEFINED || budget.is_spent() {
            return false;
        }
        let most = self.sums.len() + 1;
        let (a, b) = (self.expand(a, most), self.expand(b, most));
        budget.spend(STEPS_PER_PART * (a.steps + b.steps));
        a.leaves == b.leaves
    }

    /// A value in words, for messages.
    pub(super) fn describe(&self, value: Value) -> String {
        const SHOWN: usize = 4;
        // Enough to count the parts of any sum people write.
        const COUNTED: usize = 1 << 12;
        if value == Value::UNDEFINED {
            return "nothing".to_owned();
        }
        let Expansion { leaves: parts, is_whole, .. } = self.expand(value, COUNTED);
        let text = |(leaf, times): &(Leaf, u64)| {
            let times = if *times > 1 { format!("{times}× ") } else { String::new() };
            format!("{times}rank {} input[{}]", leaf.rank, leaf.offset)
        };
        let mut words: Vec<String> = parts.iter().take(SHOWN).map(text).collect();
        if parts.len() > SHOWN {
            let least = if is_whole { "" } else { "at least " };
            words.push(format!("{least}{} more", parts.len() - SHOWN));
        }
        words.join(" + ")
    }
}
