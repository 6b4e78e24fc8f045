//! Whether the runtime loads a program that has been lowered.
//!
//! One limit may be broken by thousands of threadblocks. Each is named once, with the worst place
//! and how many more there are.

use std::collections::BTreeMap;

use motet_net::formats::xml;
use motet_units::Bytes;

use super::Options;
use super::limits::{
    COUNT_LIMIT, MAX_ATTRIBUTE, MAX_BLOCKS, MAX_CHANNELS, MAX_CHILDREN, MAX_ELEMENTS, MAX_OFFSET,
    MAX_PEERS_PER_CHANNEL,
};
use super::steps::XmlSteps;
use super::write::{channels, peers};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::Program;

pub(super) fn header(program: &Program, report: &mut Report) {
    let mut refuse = |message: String| {
        report.push(Diagnostic::error(Finding::Limit, message));
    };
    let name = xml::escape(program.name());
    if name.len() > MAX_ATTRIBUTE {
        let length = name.len();
        refuse(format!(
            "the name has {length} characters of XML; the parser holds {MAX_ATTRIBUTE}"
        ));
    }
    let hints = program.hints();
    let sizes = [Some(hints.min_size), hints.max_size];
    if sizes.into_iter().flatten().any(|it| i64::try_from(it.get()).is_err()) {
        refuse("a size limit does not fit 63 bits".to_owned());
    }
    if hints.max_size.is_some_and(Bytes::is_zero) {
        refuse("a largest size of 0 would mean no limit; leave it out instead".to_owned());
    }
    let ranks = program.collective().ranks() as usize;
    if ranks > MAX_CHILDREN {
        refuse(format!("there are {ranks} ranks; the parser holds {MAX_CHILDREN}"));
    }
    let channels = channels(program);
    if channels > MAX_CHANNELS {
        refuse(format!("{channels} channels are needed; the runtime has {MAX_CHANNELS}"));
    }
}

/// The limits that a program's threadblocks can break, in the order in which they are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Limit {
    Blocks,
    Steps,
    Peers,
    Count,
    Offset,
    Elements,
}

/// What breaks limits.
#[derive(Debug, Default)]
struct Broken(BTreeMap<Limit, (usize, String, usize)>);

impl Broken {
    /// `by` is how much of what is limited there is here.
    fn add(&mut self, limit: Limit, by: usize, message: impl FnOnce() -> String) {
        match self.0.get_mut(&limit) {
            None => {
                self.0.insert(limit, (by, message(), 0));
            }
            Some((worst, text, more)) => {
                *more += 1;
                if by > *worst {
                    (*worst, *text) = (by, message());
                }
            }
        }
    }

    fn report(self, report: &mut Report) {
        for (_, mut text, more) in self.0.into_values() {
            if more > 0 {
                text += &format!(" (the worst of {})", more + 1);
            }
            report.push(Diagnostic::error(Finding::Limit, text));
        }
    }
}

pub(super) fn blocks(program: &Program, plan: &XmlSteps, options: &Options, report: &mut Report) {
    let ranks = program.collective().ranks() as usize;
    let mut broken = Broken::default();
    let mut elements = vec![1 + ranks; ranks];
    let mut blocks = vec![0; ranks];
    let mut peers_on = BTreeMap::new();
    let most = options.runtime.max_steps() as usize;
    for (index, lane) in program.lanes().iter().enumerate() {
        let name = || format!("gpu {}, threadblock {}", lane.rank, plan.block_ids[index]);
        let length = plan.length(index);
        elements[lane.rank.index()] += length + 1;
        blocks[lane.rank.index()] += 1;
        if length > most {
            let text = || format!("{} has {length} steps; the runtime holds {most}", name());
            broken.add(Limit::Steps, length, text);
        }
        let (send, recv) = peers(program, lane);
        for (peer, what) in [(send, "send"), (recv, "receive")] {
            if peer.is_some() {
                let count = peers_on.entry((lane.rank, lane.channel, what)).or_insert(0usize);
                *count += 1;
                if *count > MAX_PEERS_PER_CHANNEL {
                    broken.add(Limit::Peers, *count, || {
                        format!(
                            "gpu {} has {count} threadblocks that {what} on channel {}; the runtime \
                             holds {MAX_PEERS_PER_CHANNEL}",
                            lane.rank, lane.channel
                        )
                    });
                }
            }
        }
        steps(plan, index, &name, &mut broken);
    }
    for (rank, (elements, blocks)) in elements.into_iter().zip(blocks).enumerate() {
        if blocks > MAX_BLOCKS as usize {
            broken.add(Limit::Blocks, blocks, || {
                format!(
                    "gpu {rank} needs {blocks} threadblocks; no more than {MAX_BLOCKS} threadblocks \
                     can be told apart"
                )
            });
        }
        if elements > MAX_ELEMENTS {
            broken.add(Limit::Elements, elements, || {
                format!("gpu {rank} makes {elements} elements; the parser holds {MAX_ELEMENTS}")
            });
        }
    }
    broken.report(report);
}

/// What the steps of a threadblock move.
fn steps(plan: &XmlSteps, index: usize, name: &dyn Fn() -> String, broken: &mut Broken) {
    let mut number = 0;
    for step in &plan.steps[index] {
        number += step.waits.len().max(1);
        let (at, count) = (number - 1, step.count);
        if count >= COUNT_LIMIT {
            let most = COUNT_LIMIT - 1;
            broken.add(Limit::Count, count as usize, || {
                format!("{}, step {at} moves {count} chunks; the most is {most}", name())
            });
        }
        let offset = step.src.offset.max(step.dst.offset);
        if offset > MAX_OFFSET {
            broken.add(Limit::Offset, offset as usize, || {
                format!("{}, step {at} has offset {offset}; the largest is {MAX_OFFSET}", name())
            });
        }
    }
}
