//! Times that a formula gives exactly: one transfer along any path, and the textbook collectives
//! on networks whose links are all alike.

use std::collections::BTreeSet;

use motet_collective::{
    Collective, CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_net::{Forwarding, NodeKind, Path};
use motet_sim::{Discipline, SimOptions, SwitchForwarding};
use motet_units::{Bytes, Duration, LinkId, Rank};
use proptest::prelude::*;

use crate::programs;
use crate::support::{funnel, line, run, run_forwarding, send, template, time, verified};

const DISCIPLINES: [Discipline; 3] =
    [Discipline::ProgramOrder, Discipline::Fifo, Discipline::FairShare];

proptest! {
    /// T_SF = Σ(α+β), T_CT = Σα + max β, and mixed paths, on any path under any discipline.
    #[test]
    fn one_transfer_alone(
        middle in prop::collection::vec(any::<bool>(), 0..6),
        links in prop::collection::vec((1u64..2_000_000_000_000, 0u64..2_000_000_000), 7),
        size in prop_oneof![0u64..100, 0u64..1 << 34],
    ) {
        let mut kinds = vec![NodeKind::Gpu];
        kinds.extend(middle.iter().map(|it| if *it { NodeKind::Gpu } else { NodeKind::Leaf }));
        kinds.push(NodeKind::Gpu);
        let network = line(&kinds, &links[..kinds.len() - 1]);
        let ranks = network.ranks().len() as u32;
        let ids: Vec<LinkId> = network.link_ids().collect();
        let path = Path::new(&network, ids.clone()).unwrap();
        let program = verified(send(ranks, 0, ranks - 1, Some(ids)));
        let size = Bytes::new(size);
        for (switches, forwarding) in [
            (SwitchForwarding::StoreAndForward, Forwarding::StoreAndForward),
            (SwitchForwarding::CutThrough, Forwarding::Mixed),
        ] {
            let expected = path.transfer_time(&network, None, size, forwarding);
            for discipline in DISCIPLINES {
                let options = SimOptions { discipline, ..SimOptions::default() };
                let outcome = run_forwarding(&program, &network, size, options, switches);
                // Slow links and large sizes go beyond what a clock of 64 bits holds.
                match expected.filter(|it| *it < Duration::MAX) {
                    Some(time) => prop_assert_eq!(outcome.unwrap().time, time),
                    None => prop_assert!(outcome.is_err()),
                }
            }
        }
        if middle.iter().all(|it| !it) {
            let cut = path.transfer_time(&network, None, size, Forwarding::CutThrough);
            prop_assert_eq!(cut, path.transfer_time(&network, None, size, Forwarding::Mixed));
        }
    }
}

/// α and β of the templates' links (50 GB/s, 500 ns) for some bytes.
fn link_times(bytes: u64) -> (u64, u64) {
    (500_000, bytes * 20)
}

#[test]
fn rings() {
    for ranks in [2u32, 3, 8, 13] {
        let network = template("ring", &[&format!("gpus={ranks}")]);
        let steps = u64::from(ranks) - 1;
        let size = Bytes::new(u64::from(ranks) * 4_000);
        let (alpha, beta) = link_times(4_000);
        let expected = |steps| Duration::from_ps(steps * (alpha + beta));
        assert_eq!(time(programs::ring_all_gather(ranks, 1), &network, size), expected(steps));
        assert_eq!(time(programs::ring_reduce_scatter(ranks, 1), &network, size), expected(steps));
        let all_reduce = programs::ring_all_reduce(ranks, 1);
        for discipline in DISCIPLINES {
            let options = SimOptions { discipline, ..SimOptions::default() };
            let outcome = run(&verified(all_reduce.clone()), &network, size, options).unwrap();
            assert_eq!(outcome.time, expected(2 * steps), "{ranks} {discipline:?}");
        }
        let laned = programs::with_lanes(&programs::ring_all_reduce(ranks, 1));
        assert!(time(laned, &network, size) >= expected(2 * steps));
    }
}

/// Recursive doubling AllGather on a hypercube: log₂N·α + (N − 1)·β.
fn doubling_all_gather(dimensions: u32) -> Program {
    let ranks = 1u32 << dimensions;
    let collective = Collective::new(CollectiveKind::AllGather, ranks, 1).unwrap();
    let mut b = ProgramBuilder::new("doubling", collective);
    let mut there: Vec<Vec<TransferId>> = (0..ranks)
        .map(|rank| {
            let own = Slot::output(Rank(rank), rank);
            vec![b.add(Transfer::copy(Slot::input(Rank(rank), 0), own, 1))]
        })
        .collect();
    for step in 0..dimensions {
        let before = there.clone();
        for rank in 0..ranks {
            let (to, block) = (rank ^ (1 << step), rank >> step << step);
            let copy = Transfer::copy(
                Slot::output(Rank(rank), block),
                Slot::output(Rank(to), block),
                1 << step,
            );
            there[to as usize].push(b.add_after(copy, &before[rank as usize]));
        }
    }
    b.build()
}

/// Recursive doubling AllReduce: all exchange all they have with a partner, log₂N times.
fn doubling_all_reduce(dimensions: u32) -> Program {
    let ranks = 1u32 << dimensions;
    let collective = Collective::new(CollectiveKind::AllReduce, ranks, 1).unwrap();
    let mut b = ProgramBuilder::new("doubling", collective).forms(Forms::IN_PLACE);
    let mut reduced: Vec<Vec<TransferId>> = vec![Vec::new(); ranks as usize];
    for step in 0..dimensions {
        let sends: Vec<TransferId> = (0..ranks)
            .map(|rank| {
                let to = Rank(rank ^ (1 << step));
                b.set_scratch(to, dimensions);
                let slot = Slot::scratch(to, step);
                let copy = Transfer::copy(Slot::output(Rank(rank), 0), slot, 1);
                b.add_after(copy, &reduced[rank as usize])
            })
            .collect();
        for rank in 0..ranks {
            let own = Slot::output(Rank(rank), 0);
            let partner = sends[(rank ^ (1 << step)) as usize];
            let add = Transfer::reduce(Slot::scratch(Rank(rank), step), own, 1);
            let id = b.add_after(add, &[partner]);
            b.wait(id.arrived(), sends[rank as usize].sent());
            reduced[rank as usize] = vec![id];
        }
    }
    b.build()
}

#[test]
fn recursive_doubling() {
    for dimensions in 1..=5 {
        let network = template("hypercube", &[&format!("dimensions={dimensions}")]);
        let ranks = 1u64 << dimensions;
        let (alpha, beta) = link_times(4_000);
        let steps = u64::from(dimensions);
        assert_eq!(
            time(doubling_all_gather(dimensions), &network, Bytes::new(4_000 * ranks)),
            Duration::from_ps(steps * alpha + (ranks - 1) * beta)
        );
        assert_eq!(
            time(doubling_all_reduce(dimensions), &network, Bytes::new(4_000)),
            Duration::from_ps(steps * (alpha + beta))
        );
    }
}

/// A renumbering of a prime number of ranks under which no edge of the binary tree is one again.
fn second_tree(ranks: u32) -> impl Fn(u32) -> u32 {
    let edges = |map: &dyn Fn(u32) -> u32| -> BTreeSet<(u32, u32)> {
        let edge = |a: u32, b: u32| (a.min(b), a.max(b));
        (1..ranks).map(|it| edge(map(it), map((it - 1) / 2))).collect()
    };
    let first = edges(&|it| it);
    let (factor, shift) = (2..ranks)
        .flat_map(|factor| (0..ranks).map(move |shift| (factor, shift)))
        .find(|(factor, shift)| edges(&|it| (it * factor + shift) % ranks).is_disjoint(&first))
        .unwrap();
    move |it| (it * factor + shift) % ranks
}

/// Two binary trees without a common edge, each for half of the chunks: every chunk is reduced up
/// and copied down, one after the other in a pipeline.
fn double_tree(ranks: u32, chunks: u32) -> Program {
    let second = second_tree(ranks);
    let collective = Collective::new(CollectiveKind::AllReduce, ranks, 2 * chunks).unwrap();
    let mut b = ProgramBuilder::new("double-tree", collective).forms(Forms::IN_PLACE);
    for chunk in 0..2 * chunks {
        let slot = |node: u32| {
            let rank = if chunk < chunks { node } else { second(node) };
            Slot::output(Rank(rank), chunk)
        };
        let mut into: Vec<Vec<TransferId>> = vec![Vec::new(); ranks as usize];
        for node in (1..ranks).rev() {
            let parent = (node - 1) / 2;
            let up = Transfer::reduce(slot(node), slot(parent), 1);
            let id = b.add_after(up, &into[node as usize].clone());
            if let Some(before) = into[parent as usize].last() {
                b.wait(id.arrived(), before.arrived());
            }
            into[parent as usize].push(id);
        }
        let mut down: Vec<Vec<TransferId>> = vec![into[0].clone()];
        for node in 1..ranks {
            let parent = (node - 1) / 2;
            let copy = Transfer::copy(slot(parent), slot(node), 1);
            let id = b.add_after(copy, &down[parent as usize].clone());
            down.push(vec![id]);
        }
    }
    b.build()
}

/// With depth d and k chunks a tree: 2dα + (2d + k − 1)β.
#[test]
fn double_trees() {
    for (ranks, depth) in [(7u32, 2u64), (31, 4)] {
        let network = template("full-mesh", &[&format!("gpus={ranks}")]);
        for chunks in [1u32, 2, 8] {
            let (alpha, beta) = link_times(1_000);
            let size = Bytes::new(2_000 * u64::from(chunks));
            let expected = 2 * depth * alpha + (2 * depth + u64::from(chunks) - 1) * beta;
            for discipline in [Discipline::ProgramOrder, Discipline::Fifo] {
                let options = SimOptions { discipline, ..SimOptions::default() };
                let program = verified(double_tree(ranks, chunks));
                let outcome = run(&program, &network, size, options).unwrap();
                assert_eq!(outcome.time, Duration::from_ps(expected), "{ranks} {chunks}");
            }
        }
    }
}

/// Launch and local copies add what they are said to.
#[test]
fn launch_and_local_copies() {
    let network = template("ring", &["gpus=4"]);
    let program = verified(programs::ring_all_gather(4, 1));
    let size = Bytes::new(16_000);
    let (alpha, beta) = link_times(4_000);
    let ring = 3 * (alpha + beta);
    let options = SimOptions { launch: Duration::from_us(7), ..SimOptions::default() };
    let launched = run(&program, &network, size, options).unwrap();
    assert_eq!(launched.time, Duration::from_ps(7_000_000 + ring));
    // Slower than the whole ring: the own part is the last to be there.
    let local_bandwidth = Some(motet_units::Bandwidth::from_bits_per_s(1_000_000_000));
    for discipline in DISCIPLINES {
        let options = SimOptions { local_bandwidth, discipline, ..SimOptions::default() };
        let slow = run(&program, &network, size, options).unwrap();
        assert_eq!(slow.time, Duration::from_us(32), "{discipline:?}");
    }
}

/// k streams from slow links share a fast one behind them as far as it goes: alike under every
/// discipline, 2α + the longer of β over a slow link and k·β over the fast one. The fast one is
/// busy for the latter, however slowly tails come.
#[test]
fn slow_streams_share_a_fast_link() {
    let rate = |bits: u64| bits * 1_000_000_000_000;
    for (streams, fast) in [(2u32, 2), (2, 3), (6, 3), (8, 8), (16, 8), (4, 1), (1, 5)] {
        let (network, program) = funnel(streams, (rate(1), 700), (rate(fast), 700));
        let size = Bytes::new(15_000 * u64::from(streams + 1));
        let (slow, all) = (120_000, 120_000 / fast * u64::from(streams));
        for discipline in DISCIPLINES {
            let options = SimOptions { discipline, ..SimOptions::default() };
            let outcome = run(&verified(program.clone()), &network, size, options).unwrap();
            let expected = Duration::from_ps(1_400 + all.max(slow));
            assert_eq!(outcome.time, expected, "{streams} {fast} {discipline:?}");
            let last = LinkId::from_index(network.links().len() - 1);
            if discipline != Discipline::FairShare {
                assert_eq!(outcome.links[last.index()].busy, Duration::from_ps(all));
            }
            assert!(outcome.utilization(last) <= 1.0);
        }
    }
}

/// Flows that share a link get what the others cannot use, and go on when those have ended.
#[test]
fn fair_shares() {
    let (gpu, leaf) = (NodeKind::Gpu, NodeKind::Leaf);
    let mut b = motet_net::NetworkBuilder::new("fork");
    let kinds = [gpu, gpu, leaf, gpu];
    let ids: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(index, kind)| b.add_node(motet_net::Node::new(format!("n{index}"), *kind)).unwrap())
        .collect();
    let fast = crate::support::link(8_000_000_000_000, 0);
    b.add_link(ids[0], ids[2], fast).unwrap();
    b.add_link(ids[1], ids[2], crate::support::link(2_000_000_000_000, 0)).unwrap();
    b.add_link(ids[2], ids[3], fast).unwrap();
    let network = b.build().unwrap();
    // Ranks 0 and 1 both send 8 chunks of 1 byte, over links of 8 and 2 bit/ps, to rank 2 over
    // one of 8 bit/ps: rates 6 and 2. Rank 0's 64 bits take 10⅔ ps; rank 1's go on alone at 2.
    let three = Collective::rooted(CollectiveKind::Gather, 3, 8, Rank(2)).unwrap();
    let mut b = ProgramBuilder::new("gather", three);
    for rank in [0, 1, 2] {
        let to = Slot::output(Rank(2), rank * 8);
        b.add(Transfer::copy(Slot::input(Rank(rank), 0), to, 8));
    }
    let options = SimOptions { discipline: Discipline::FairShare, ..SimOptions::default() };
    let outcome = run(&verified(b.build()), &network, Bytes::new(24), options).unwrap();
    assert_eq!(outcome.time, Duration::from_ps(32));
    let busy: Vec<u64> = outcome.links.iter().map(|it| it.busy.as_ps()).collect();
    assert_eq!(busy, [11, 32, 32]);
}
