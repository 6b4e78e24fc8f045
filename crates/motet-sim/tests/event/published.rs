//! ASTRA-sim's congestion-aware results, to the nanosecond: rings and a store-and-forward switch
//! at 50 GiB/s and 500 ns, each rank's part in 4 splits, every split a ring of its own, all
//! injected at once.

use motet_collective::{
    Action, Collective, CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_sim::{Discipline, SimOptions, SwitchForwarding};
use motet_units::{Bytes, Duration, Rank};

use crate::support::{run_forwarding, template, verified};

const SPLITS: u32 = 4;

/// A ring for each split, in place; AllGather has the second half of the steps only.
fn split_ring(kind: CollectiveKind, ranks: u32) -> Program {
    let chunks = if kind == CollectiveKind::AllReduce { SPLITS * ranks } else { SPLITS };
    let collective = Collective::new(kind, ranks, chunks).unwrap();
    let mut b = ProgramBuilder::new("split-ring", collective).forms(Forms::IN_PLACE);
    let rounds: &[Action] = match kind {
        CollectiveKind::AllReduce => &[Action::Reduce, Action::Copy],
        _ => &[Action::Copy],
    };
    let mut last: Vec<Option<TransferId>> = vec![None; (ranks * SPLITS) as usize];
    for action in rounds {
        // A reduction ends with part r at rank r, where copying begins.
        let ahead = if *action == Action::Reduce { ranks - 1 } else { 0 };
        for step in 0..ranks - 1 {
            let before = last.clone();
            for (rank, split) in (0..ranks).flat_map(|it| (0..SPLITS).map(move |s| (it, s))) {
                let (to, part) = ((rank + 1) % ranks, (rank + ranks - step + ahead) % ranks);
                let at = |rank| Slot::output(Rank(rank), part * SPLITS + split);
                let (src, dst) = (at(rank), at(to));
                let after: Vec<TransferId> =
                    before[(rank * SPLITS + split) as usize].into_iter().collect();
                let transfer = Transfer { action: *action, src, dst, count: 1, path: None };
                last[(to * SPLITS + split) as usize] = Some(b.add_after(transfer, &after));
            }
        }
    }
    b.build()
}

fn check(network: &str, ranks: u32, all_gather_ns: u64, all_reduce_ns: u64) {
    let words = [&*format!("gpus={ranks}"), "bandwidth=50 GiB/s", "latency=500 ns"];
    let network = template(network, &words);
    for (kind, ns) in
        [(CollectiveKind::AllGather, all_gather_ns), (CollectiveKind::AllReduce, all_reduce_ns)]
    {
        let program = verified(split_ring(kind, ranks));
        for discipline in [Discipline::Fifo, Discipline::ProgramOrder] {
            let switches = SwitchForwarding::StoreAndForward;
            let options = SimOptions { discipline, ..SimOptions::default() };
            let outcome = run_forwarding(&program, &network, Bytes::gib(1), options, switches);
            let outcome = outcome.unwrap();
            assert_eq!(outcome.time, Duration::from_ns(ns), "{kind:?} {ranks} {discipline:?}");
            assert!(!outcome.rounded_up);
        }
    }
}

#[test]
fn rings_of_astra_sim() {
    check("ring", 8, 17_500_500, 35_000_500);
    check("ring", 16, 18_750_500, 37_500_500);
    check("ring", 64, 19_688_000, 39_375_500);
}

#[test]
fn switch_of_astra_sim() {
    check("switch", 64, 19_766_625, 39_454_125);
}
