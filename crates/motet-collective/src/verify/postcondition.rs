//! The last step: does every output chunk hold what the collective says?
//!
//! Neighbouring chunks with the same fault are reported together.

use motet_units::Rank;
use rustc_hash::FxHashMap;

use super::budget::WorkBudget;
use super::execute::{End, form};
use super::memory::Memory;
use super::values::{Expansion, Leaf, Value, Values};
use crate::collective::Expected;
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Buffer, Program, Slot};

/// What is wrong with one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    finding: Finding,
    message: String,
}

pub(super) fn check(program: &Program, memory: &Memory, end: &End, report: &mut Report) {
    let collective = program.collective();
    let mut sums = Sums {
        ranks: collective.ranks(),
        values: &end.values,
        known: FxHashMap::default(),
        budget: WorkBudget::new(program),
    };
    for rank in (0..collective.ranks()).map(Rank) {
        let start = memory.cell(Slot::new(rank, Buffer::Output, 0));
        // The faults of the chunk before, and the first chunk that had the same.
        let mut open: (u32, Vec<Fault>) = (0, Vec::new());
        for offset in 0..collective.output_chunks(rank) {
            let value = end.cells[start + offset as usize];
            let faults = match collective.expected(rank, offset) {
                Expected::Anything => Vec::new(),
                Expected::Input { rank, offset } => {
                    one(&end.values, value, Leaf { rank, offset }).into_iter().collect()
                }
                Expected::Sum { offset } => sums.faults(value, offset),
            };
            if sums.budget.is_spent() {
                report.push(sums.budget.refusal(
                    "finding out what sums are made of",
                    "most of them are wrong; mend what is reported first",
                ));
                return;
            }
            if faults != open.1 {
                close(rank, &open, offset, form(program, memory), report);
                open = (offset, faults);
            }
        }
        close(rank, &open, collective.output_chunks(rank), form(program, memory), report);
    }
}

fn close(rank: Rank, open: &(u32, Vec<Fault>), end: u32, form: &str, report: &mut Report) {
    let (start, faults) = open;
    let chunks = match end.saturating_sub(*start) {
        0 | 1 => format!("chunk {start}"),
        _ => format!("chunks {start} to {}", end - 1),
    };
    for fault in faults {
        report.push(Diagnostic::error(
            fault.finding,
            format!("rank {rank} output {chunks}{form}: {}", fault.message),
        ));
    }
}

fn one(values: &Values, value: Value, expected: Leaf) -> Option<Fault> {
    if value == values.leaf(expected) {
        return None;
    }
    if value == Value::UNDEFINED {
        return Some(Fault {
            finding: Finding::MissingData,
            // The offset is left out so that a whole missing part is one finding.
            message: format!("nothing arrives from rank {}", expected.rank),
        });
    }
    Some(Fault {
        finding: Finding::WrongData,
        message: format!(
            "holds {} instead of rank {} input[{}]",
            values.describe(value),
            expected.rank,
            expected.offset
        ),
    })
}

/// Sums over all ranks, with what is already known about a value: copies share it.
struct Sums<'a> {
    ranks: u32,
    values: &'a Values,
    known: FxHashMap<(Value, u32), Vec<Fault>>,
    budget: WorkBudget,
}

impl Sums<'_> {
    fn faults(&mut self, value: Value, offset: u32) -> Vec<Fault> {
        if value == Value::UNDEFINED {
            let message = "nothing arrives".to_owned();
            return vec![Fault { finding: Finding::MissingData, message }];
        }
        if let Some(known) = self.known.get(&(value, offset)) {
            return known.clone();
        }
        let faults =
            if self.is_right(value, offset) { Vec::new() } else { self.find(value, offset) };
        self.known.insert((value, offset), faults.clone());
        faults
    }

    fn is_right(&mut self, value: Value, offset: u32) -> bool {
        let Expansion { leaves: parts, steps, .. } = self.values.expand(value, self.ranks as usize);
        self.budget.spend(steps);
        parts.len() == self.ranks as usize
            && parts.iter().all(|(leaf, times)| *times == 1 && leaf.offset == offset)
    }

    fn find(&mut self, value: Value, offset: u32) -> Vec<Fault> {
        // Enough to name the faults of any program people write; a hostile one may be cut short.
        const MOST: usize = 1 << 20;
        let Expansion { leaves: parts, steps, .. } = self.values.expand(value, MOST);
        self.budget.spend(steps + self.ranks as usize);
        let mut twice = Vec::new();
        let mut there = vec![false; self.ranks as usize];
        let mut foreign = Vec::new();
        for (leaf, times) in &parts {
            if leaf.offset != offset {
                foreign.push(format!("rank {} input[{}]", leaf.rank, leaf.offset));
                continue;
            }
            there[leaf.rank.index()] = true;
            if *times > 1 {
                twice.push(format!("{} ({times} times)", leaf.rank));
            }
        }
        let missing: Vec<String> =
            (0..self.ranks).filter(|it| !there[*it as usize]).map(|it| it.to_string()).collect();
        let mut faults = Vec::new();
        let mut add = |finding, words: &[String], text: &str| {
            if !words.is_empty() {
                faults.push(Fault { finding, message: format!("{text} {}", list(words)) });
            }
        };
        add(Finding::ReducedTwice, &twice, "more than once in the sum: rank");
        add(Finding::NotReduced, &missing, "not in the sum: rank");
        add(Finding::WrongData, &foreign, "in the sum but not of it:");
        faults
    }
}

/// The first few of a list.
fn list(words: &[String]) -> String {
    const SHOWN: usize = 8;
    let mut text = words.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    if words.len() > SHOWN {
        text.push_str(&format!(" and {} more", words.len() - SHOWN));
    }
    text
}
