//! The turns of links: each link that has them must name every transfer over it once, and they must
//! let every transfer come through.
//!
//! A link that carries transfers in a given order makes one wait for another, as waits do; so turns
//! can deadlock where events alone do not. The unit is a *leg*, one transfer's crossing of one link:
//! it waits for the leg before it on its way and for the leg before it on its link. Links without
//! turns carry legs in the program's order ([`EventGraph::sequence`]).

use motet_graph::Followers;
use motet_units::LinkId;
use rustc_hash::FxHashMap;

use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{EventGraph, Program, TransferId, Turns};

/// Checks the turns of a program whose events can all happen.
pub(super) fn check(program: &Program, graph: &EventGraph, report: &mut Report) {
    if program.turns().is_empty() {
        return;
    }
    let before = report.diagnostics().len();
    let legs = Legs::new(program, report);
    for pair in program.turns().windows(2).filter(|it| it[0].link == it[1].link) {
        let message = format!("link {} has turns twice", pair[0].link);
        report.push(Diagnostic::error(Finding::BadTurns, message));
    }
    for turns in program.turns() {
        legs.check(turns, report);
    }
    if report.diagnostics().len() == before {
        legs.find_deadlock(program, graph, report);
    }
}

/// The legs of a program, numbered transfer by transfer.
struct Legs {
    /// The legs of transfer t: `starts[t]..starts[t + 1]`.
    starts: Vec<u32>,
    link: Vec<LinkId>,
    /// How many legs each link has.
    count: FxHashMap<LinkId, usize>,
}

impl Legs {
    fn new(program: &Program, report: &mut Report) -> Self {
        let mut legs = Self { starts: vec![0], link: Vec::new(), count: FxHashMap::default() };
        for (index, transfer) in program.transfers().iter().enumerate() {
            let path = transfer.path.and_then(|it| program.paths().get(it as usize));
            if path.is_none() && !transfer.is_local() {
                let id = TransferId::from_index(index);
                let message =
                    format!("transfer {index} has no path, but turns are about links on paths");
                report.push(Diagnostic::error(Finding::BadTurns, message).of(id));
            }
            for link in path.filter(|_| !transfer.is_local()).into_iter().flatten() {
                legs.link.push(*link);
                *legs.count.entry(*link).or_default() += 1;
            }
            legs.starts.push(legs.link.len() as u32);
        }
        legs
    }

    fn of(&self, transfer: usize) -> std::ops::Range<usize> {
        self.starts[transfer] as usize..self.starts[transfer + 1] as usize
    }

    /// The leg of a transfer over a link.
    fn over(&self, transfer: TransferId, link: LinkId) -> Option<usize> {
        self.of(transfer.index()).find(|it| self.link[*it] == link)
    }

    /// A link's turns must be the transfers over it, each once.
    fn check(&self, turns: &Turns, report: &mut Report) {
        let link = turns.link;
        let mut bad = |message: String| report.push(Diagnostic::error(Finding::BadTurns, message));
        let mut named = turns.transfers.clone();
        named.sort_unstable();
        for pair in named.windows(2).filter(|it| it[0] == it[1]) {
            bad(format!("link {link} has transfer {} twice in its turns", pair[0].0));
        }
        let transfers = self.starts.len() - 1;
        for id in &named {
            if id.index() >= transfers || self.over(*id, link).is_none() {
                bad(format!(
                    "link {link} has transfer {} in its turns, which is not over it",
                    id.0
                ));
            }
        }
        let over = self.count.get(&link).copied().unwrap_or(0);
        if named.len() < over {
            bad(format!("link {link} has {} of its {over} transfers in its turns", named.len()));
        }
    }

    /// Lets everything happen as far as it can; what is left is stuck.
    fn find_deadlock(&self, program: &Program, graph: &EventGraph, report: &mut Report) {
        let (events, transfers) = (graph.events(), self.starts.len() - 1);
        let node = |leg: usize| (events + leg) as u32;
        // (waiting, awaited): events first, then legs.
        let mut waits: Vec<(u32, u32)> = Vec::new();
        for transfer in 0..transfers {
            let id = TransferId::from_index(transfer);
            let (sent, arrived) = (id.sent().index(), id.arrived().index());
            let legs = self.of(transfer);
            let first = legs.clone().next().map_or(sent as u32, node);
            waits.extend(graph.preds(sent).iter().map(|it| (first, *it)));
            waits.extend(graph.preds(arrived).iter().map(|it| (arrived as u32, *it)));
            waits.extend(legs.clone().skip(1).map(|it| (node(it), node(it) - 1)));
            if let Some(last) = legs.clone().last() {
                waits.push((sent as u32, first));
                waits.push((arrived as u32, node(last)));
            }
        }
        let mut last: FxHashMap<LinkId, u32> = FxHashMap::default();
        for turns in program.turns() {
            let legs: Vec<u32> = turns
                .transfers
                .iter()
                .filter_map(|it| self.over(*it, turns.link))
                .map(node)
                .collect();
            waits.extend(legs.windows(2).map(|it| (it[1], it[0])));
            last.insert(turns.link, u32::MAX);
        }
        for event in graph.sequence().into_iter().filter(|it| it.is_sent()) {
            for leg in self.of(event.transfer().index()) {
                let before = last.entry(self.link[leg]).or_insert(node(leg));
                if *before != u32::MAX && *before != node(leg) {
                    waits.push((node(leg), *before));
                    *before = node(leg);
                }
            }
        }
        if let Some(stuck) = first_stuck(events + self.link.len(), &waits, events) {
            let transfer = self.starts.partition_point(|it| (*it as usize) <= stuck) - 1;
            let id = TransferId::from_index(transfer);
            let link = self.link[stuck];
            let message =
                format!("transfer {transfer} never gets its turn on link {link}: turns contradict");
            report.push(Diagnostic::error(Finding::Deadlock, message).of(id));
        }
    }
}

/// The first leg that never happens, if any: a number from `legs_from` on, counted from there.
fn first_stuck(nodes: usize, waits: &[(u32, u32)], legs_from: usize) -> Option<usize> {
    let order = Followers::of(nodes, waits.iter().copied()).topological();
    let mut happens = vec![false; nodes];
    for node in order {
        happens[node as usize] = true;
    }
    happens[legs_from..].iter().position(|it| !it)
}

#[cfg(test)]
mod tests {
    use motet_units::{LinkId, Rank};

    use crate::collective::{Collective, CollectiveKind};
    use crate::diagnostic::Finding;
    use crate::program::{Program, ProgramBuilder, Slot, Transfer, TransferId, Turns};
    use crate::verify::check;

    /// Rank 0 sends two chunks to rank 1, one after the other or not, both over links 5 and 6.
    fn program(in_order: bool, turns: &[(u32, &[u32])]) -> Program {
        let collective = Collective::rooted(CollectiveKind::Broadcast, 2, 2, Rank(0)).unwrap();
        let mut builder = ProgramBuilder::new("two", collective);
        let path = builder.add_path(vec![LinkId(5), LinkId(6)]);
        for chunk in 0..2 {
            let (from, to) = (Slot::input(Rank(0), chunk), Slot::output(Rank(1), chunk));
            builder.add(Transfer { path: Some(path), ..Transfer::copy(from, to, 1) });
        }
        builder.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), 2));
        if in_order {
            builder.wait(TransferId(1).sent(), TransferId(0).arrived());
        }
        let turns = turns.iter().map(|(link, transfers)| Turns {
            link: LinkId(*link),
            transfers: transfers.iter().map(|it| TransferId(*it)).collect(),
        });
        builder.set_turns(turns.collect());
        builder.build()
    }

    fn findings(program: &Program) -> Vec<Finding> {
        check(program, None).diagnostics().iter().map(|it| it.finding).collect()
    }

    #[test]
    fn turns_that_let_all_come_through_are_right() {
        assert_eq!(findings(&program(false, &[(5, &[1, 0]), (6, &[1, 0])])), []);
        assert_eq!(findings(&program(false, &[(6, &[1, 0])])), []);
        assert_eq!(findings(&program(true, &[(6, &[0, 1])])), []);
    }

    #[test]
    fn turns_against_waits_are_a_deadlock() {
        assert_eq!(findings(&program(true, &[(6, &[1, 0])])), [Finding::Deadlock]);
    }

    #[test]
    fn turns_name_each_transfer_over_their_link_once() {
        let bad: [&[(u32, &[u32])]; 6] = [
            &[(5, &[1])],
            &[(5, &[1, 1])],
            &[(5, &[1, 0, 2])],
            &[(5, &[1, 0, 9])],
            &[(7, &[0])],
            &[(5, &[0, 1]), (5, &[1, 0])],
        ];
        for turns in bad {
            let found = findings(&program(false, turns));
            assert!(found.contains(&Finding::BadTurns), "{turns:?}: {found:?}");
        }
    }
}
