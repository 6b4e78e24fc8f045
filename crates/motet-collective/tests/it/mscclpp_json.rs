//! MSCCL++ plans: the files that the runtime ships, and programs written and read again.
//!
//! Wrong plans are in `mscclpp_json_wrong.rs`.

use crate::programs;
use motet_collective::formats::mscclpp_json::{self, Channel, Options};
use motet_collective::program::{Forms, Hints, Lane, LaneKind, ProgramBuilder, Slot, Transfer};
use motet_collective::{Collective, CollectiveKind, Finding, Program, Severity, Verified};
use motet_units::Rank;
use proptest::prelude::*;

fn sample(name: &str) -> Option<String> {
    motet_testdata::sample(&format!("mscclpp/mscclpp_test_execution-files_{name}.json"))
}

#[test]
fn shipped_plans_are_right_and_round_trip() {
    for name in ["allreduce", "allreduce_packet"] {
        let Some(text) = sample(name) else { return };
        let imported = mscclpp_json::read(&text).unwrap();
        let report = imported.check(None);
        assert!(report.is_right(), "{name}: {report}");
        // It says nothing of the calls that are too large for the executor.
        assert!(report.has(Finding::Limit), "{name}: {report}");
        let program = imported.program.clone();
        let verified = imported.verify(None).unwrap();
        let written = mscclpp_json::write(&verified, &Options::default()).unwrap();
        let again = mscclpp_json::read(&written).unwrap();
        assert_eq!(again.check(None).to_string(), "", "{name}:\n{written}");
        let max_size = again.program.hints().max_size;
        let hints = Hints { max_size, ..*program.hints() };
        let program = program.to_builder().hints(hints).build();
        assert!(again.program == program, "{name} changed when written:\n{written}");
    }
}

/// `glres` is judged; that iterations of its pipeline share scratch is not.
#[test]
fn a_pipeline_that_shares_scratch_is_not_judged_by_name() {
    let Some(text) = sample("allreduce_pipeline") else { return };
    let report = mscclpp_json::read(&text).unwrap().check(None);
    let judged = |it: &motet_collective::Diagnostic| it.severity != Severity::NotJudged;
    let reasons = report.diagnostics().iter().filter(|it| !judged(it));
    assert!(reasons.clone().all(|it| it.message.contains("`reuse_resources`")), "{report}");
    assert!(reasons.count() > 0 && !report.is_right());
    // Each iteration in scratch of its own is right.
    let apart = text.replace("\"reuse_resources\": true", "\"reuse_resources\": false");
    let report = mscclpp_json::read(&apart).unwrap().check(None);
    assert!(report.is_right(), "{report}");
}

/// Whether a plan can say the collective at all.
fn has_a_plan(program: &Program) -> bool {
    let kind = program.collective().kind();
    !kind.has_root() && kind != CollectiveKind::AllToAllV
}

/// Lowers, writes and reads a program and compares.
fn round_trip(program: &Program, options: &Options) {
    let name = program.name();
    let verified = Verified::new(program.clone(), None).unwrap();
    let lowered = mscclpp_json::lower(&verified, options)
        .unwrap_or_else(|report| panic!("{name} does not lower with {options:?}:\n{report}"));
    let text = mscclpp_json::write(&verified, options)
        .unwrap_or_else(|report| panic!("{name} is not written with {options:?}:\n{report}"));
    let read = mscclpp_json::read(&text).unwrap();
    assert_eq!(read.report.to_string(), "", "{name} with {options:?}:\n{text}");
    assert!(read.program == *lowered, "{name} with {options:?} differs:\n{text}");
    Verified::new(read.program, None).unwrap();
    // Lowering is a projection: what it gives, it keeps.
    assert!(*mscclpp_json::lower(&lowered, options).unwrap() == *lowered, "{name}");
}

const CHANNELS: [Channel; 3] =
    [Channel::Memory, Channel::Port, Channel::Auto { gpus_per_server: 2 }];

#[test]
fn right_programs_round_trip_over_every_channel() {
    for program in programs::all(5).iter().filter(|it| has_a_plan(it)) {
        for channel in CHANNELS {
            round_trip(
                program,
                &Options { channel, threads_per_block: 512, instances: 0, ..Options::default() },
            );
        }
    }
}

#[test]
fn what_a_plan_cannot_say_is_refused_with_a_reason() {
    for program in
        [programs::tree_broadcast(4, 1), programs::direct_all_to_all_v(2, vec![1, 2, 0, 1])]
    {
        let verified = Verified::new(program, None).unwrap();
        let report = mscclpp_json::write(&verified, &Options::default()).unwrap_err();
        assert!(report.has(Finding::Limit), "{report}");
    }
}

/// Each GPU reads the other's input into its output: only GPU 0's part lies at the same place in both. What the
/// executor would read from the wrong place is written by the source instead.
#[test]
fn nothing_is_read_from_another_place() {
    let collective = Collective::new(CollectiveKind::AllGather, 2, 1).unwrap();
    let mut builder = ProgramBuilder::new("pull", collective).forms(Forms::OUT_OF_PLACE);
    for rank in [0, 1] {
        let from = |it: u32| {
            let (src, dst) = (Slot::input(Rank(it), 0), Slot::output(Rank(rank), it));
            Transfer::copy(src, dst, 1)
        };
        let ids = [from(1 - rank), from(rank)].map(|it| builder.add(it));
        let events = ids.iter().flat_map(|it| [it.sent(), it.arrived()]).collect();
        builder.add_lane(Lane { rank: Rank(rank), kind: LaneKind::Block, channel: 0, events });
    }
    let right = Verified::new(builder.build(), None).unwrap();
    let text = mscclpp_json::write(&right, &Options::default()).unwrap();
    assert!(text.contains("\"put\"") && !text.contains("\"get\""), "{text}");
    assert_eq!(mscclpp_json::read(&text).unwrap().check(None).to_string(), "");
}

#[test]
fn too_many_operations_spread_over_threadblocks() {
    // 62 steps to the next rank, each with a wait, two meetings and a signal: one block holds 12.
    let ring = Verified::new(programs::ring_all_reduce(32, 1), None).unwrap();
    let text = mscclpp_json::write(&ring, &Options::default()).unwrap();
    let read = mscclpp_json::read(&text).unwrap();
    assert_eq!(read.report.to_string(), "");
    assert!(read.program.lanes().len() > 32);
    // Over ports too, where blocks tell one another what has arrived.
    let ports = Options { channel: Channel::Port, ..Options::default() };
    round_trip(&programs::ring_all_reduce(32, 1), &ports);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn rings_and_trees_round_trip(ranks in 2u32..9, chunks in 1u32..4, which in 0usize..5, channel in 0usize..3) {
        let program = match which {
            0 => programs::ring_all_gather(ranks, chunks),
            1 => programs::ring_reduce_scatter(ranks, chunks),
            2 => programs::ring_all_reduce(ranks.min(6), chunks),
            3 => programs::tree_all_reduce(ranks, chunks),
            _ => programs::direct_all_to_all(ranks, chunks),
        };
        let options = Options { channel: CHANNELS[channel].clone(), ..Options::default() };
        round_trip(&program, &options);
        round_trip(&programs::with_lanes(&program), &options);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[\\[\\]{}:,\"a-z0-9 ]{0,60}") {
        let _ = mscclpp_json::read(&text);
    }
}
