//! Programs in instances: the same collective, cut finer, done by copies side by side.

use std::collections::BTreeMap;

use crate::programs;
use motet_collective::formats::{msccl_xml, mscclpp_json};
use motet_collective::program::{Forms, LaneKind, in_instances};
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Turns,
    Verified, verify,
};
use motet_units::{LinkId, Rank};
use proptest::prelude::*;

/// Chunks from one rank to another.
fn traffic(program: &Program) -> BTreeMap<(Rank, Rank), u64> {
    let mut traffic = BTreeMap::new();
    for it in program.transfers() {
        *traffic.entry((it.src.rank, it.dst.rank)).or_insert(0) += u64::from(it.count);
    }
    traffic
}

/// AllGather by recursive doubling: each rank sends all it has, so that transfers hold several
/// parts.
fn doubling_all_gather(ranks: u32, chunks: u32) -> Program {
    let collective = Collective::new(CollectiveKind::AllGather, ranks, chunks).unwrap();
    let mut b = ProgramBuilder::new("doubling", collective).forms(Forms::IN_PLACE);
    let mut last: Vec<Option<TransferId>> = vec![None; ranks as usize];
    let mut width = 1;
    while width < ranks {
        let before = last.clone();
        for rank in 0..ranks {
            let (peer, first) = (rank ^ width, rank / width * width * chunks);
            let (from, to) = (Slot::output(Rank(rank), first), Slot::output(Rank(peer), first));
            let after: Vec<TransferId> = before[rank as usize].into_iter().collect();
            let id = b.add_after(Transfer::copy(from, to, width * chunks), &after);
            last[peer as usize] = Some(id);
        }
        width *= 2;
    }
    b.build()
}

fn some_programs() -> Vec<Program> {
    let mut all = programs::all(4);
    for (ranks, chunks) in [(4, 1), (4, 3), (8, 1)] {
        let doubling = doubling_all_gather(ranks, chunks);
        all.extend([programs::with_lanes(&doubling), doubling]);
    }
    all
}

#[test]
fn copies_are_right_and_move_as_much() {
    for program in some_programs() {
        let name = program.name();
        if !verify::check(&program, None).is_right() {
            // In one lane per rank some deadlock with finite buffers.
            continue;
        }
        assert!(in_instances(&program, 1).unwrap() == program, "{name}");
        assert!(in_instances(&program, 0).unwrap() == program, "{name}");
        for k in [2, 3] {
            let copies = in_instances(&program, k).unwrap();
            let report = verify::check(&copies, None);
            assert!(report.is_right(), "{name} in {k} instances:\n{report}");
            // Chunks are k times smaller, so that as many bytes are k times as many chunks.
            let whole: BTreeMap<_, _> =
                traffic(&program).into_iter().map(|it| (it.0, it.1 * u64::from(k))).collect();
            assert_eq!(traffic(&copies), whole, "{name}");
            assert_eq!(copies.lanes().len(), program.lanes().len() * k as usize, "{name}");
        }
    }
}

#[test]
fn whole_transfers_stay_whole_and_others_are_cut_at_parts() {
    let ring = in_instances(&programs::ring_all_gather(3, 4), 2).unwrap();
    assert_eq!(ring.transfers().len(), 2 * programs::ring_all_gather(3, 4).transfers().len());
    assert!(ring.transfers().iter().all(|it| it.count == 4));
    // Rank 0's second round sends the parts of ranks 0 and 1: two pieces for each of two copies.
    let doubling = in_instances(&doubling_all_gather(4, 3), 2).unwrap();
    let offsets: Vec<(u32, u32)> = doubling
        .transfers()
        .iter()
        .filter(|it| it.src.rank == Rank(0) && it.dst.rank == Rank(2))
        .map(|it| (it.src.offset, it.count))
        .collect();
    assert_eq!(offsets, [(0, 3), (6, 3), (3, 3), (9, 3)]);
}

#[test]
fn lanes_get_channels_of_their_own_and_ports_their_blocks() {
    let mut b = programs::with_lanes(&programs::ring_all_gather(2, 1)).to_builder();
    b.lanes_mut()[1].channel = 2;
    let first = b.lanes_mut()[0].clone();
    let port = motet_collective::program::Lane { kind: LaneKind::Port { block: 1 }, ..first };
    b.lanes_mut().push(motet_collective::program::Lane { events: Vec::new(), ..port });
    let copies = in_instances(&b.build(), 2).unwrap();
    let lanes: Vec<_> = copies.lanes().iter().map(|it| (it.rank.0, it.kind, it.channel)).collect();
    let block = LaneKind::Block;
    let port = |block| LaneKind::Port { block };
    assert_eq!(
        lanes,
        [
            (0, block, 0),
            (1, block, 2),
            (0, port(1), 0),
            (0, block, 3),
            (1, block, 5),
            (0, port(4), 3)
        ]
    );
}

#[test]
fn turns_and_paths_are_kept() {
    let collective = Collective::rooted(CollectiveKind::Broadcast, 2, 2, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("two", collective);
    let path = b.add_path(vec![LinkId(5)]);
    for chunk in 0..2 {
        let (from, to) = (Slot::input(Rank(0), chunk), Slot::output(Rank(1), chunk));
        b.add(Transfer { path: Some(path), ..Transfer::copy(from, to, 1) });
    }
    b.add(Transfer::copy(Slot::input(Rank(0), 0), Slot::output(Rank(0), 0), 2));
    b.set_turns(vec![Turns { link: LinkId(5), transfers: vec![TransferId(1), TransferId(0)] }]);
    let copies = in_instances(&b.build(), 2).unwrap();
    assert!(verify::check(&copies, None).is_right());
    assert_eq!(copies.turns()[0].transfers, [2, 3, 0, 1].map(TransferId));
    assert_eq!(copies.transfers().iter().filter(|it| it.path == Some(path)).count(), 4);
}

#[test]
fn too_many_chunks_are_refused() {
    let program = programs::ring_all_gather(4, 1 << 20);
    assert!(in_instances(&program, 4).is_ok());
    assert!(in_instances(&program, 5).is_err());
}

#[test]
fn files_hold_the_copies() {
    for program in [programs::ring_all_reduce(4, 1), programs::direct_all_to_all(3, 2)] {
        let program = Verified::new(program, None).unwrap();
        let options = msccl_xml::Options { instances: 3, ..msccl_xml::Options::default() };
        let one = msccl_xml::lower(&program, &msccl_xml::Options::default()).unwrap();
        let text = msccl_xml::write(&program, &options).unwrap();
        let back = msccl_xml::read(&text).unwrap();
        assert!(back.check(None).is_right(), "{text}");
        assert_eq!(back.program.lanes().len(), 3 * one.lanes().len());
        assert_eq!(back.program.collective(), &program.collective().refined(3).unwrap());
        assert!(back.program == *msccl_xml::lower(&program, &options).unwrap());

        let options = mscclpp_json::Options { instances: 3, ..mscclpp_json::Options::default() };
        let one = mscclpp_json::lower(&program, &mscclpp_json::Options::default()).unwrap();
        let text = mscclpp_json::write(&program, &options).unwrap();
        let back = mscclpp_json::read(&text).unwrap();
        assert!(back.check(None).is_right(), "{text}");
        assert_eq!(back.program.lanes().len(), 3 * one.lanes().len());
        assert!(back.program == *mscclpp_json::lower(&program, &options).unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn exported_copies_are_right(index in 0usize..1000, k in 2u32..5, ports in any::<bool>()) {
        let all = some_programs();
        let program = all[index % all.len()].clone();
        let Ok(program) = Verified::new(program, None) else { return Ok(()) };
        let options = msccl_xml::Options { instances: k, ..msccl_xml::Options::default() };
        if msccl_xml::write(&program, &msccl_xml::Options::default()).is_ok() {
            let text = msccl_xml::write(&program, &options).unwrap();
            prop_assert!(msccl_xml::read(&text).unwrap().check(None).is_right());
        }
        let channel = if ports { mscclpp_json::Channel::Port } else { mscclpp_json::Channel::Memory };
        let options = mscclpp_json::Options { instances: k, channel, threads_per_block: 512, ..mscclpp_json::Options::default() };
        if let Ok(text) = mscclpp_json::write(&program, &options) {
            prop_assert!(mscclpp_json::read(&text).unwrap().check(None).is_right());
        }
    }
}
