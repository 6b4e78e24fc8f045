//! MSCCL XML: the files that runtimes ship, and programs written and read again.
//!
//! Wrong files are in `msccl_xml_wrong.rs`.

use crate::programs;
use motet_collective::collective::Collective;
use motet_collective::formats::msccl_xml::{self, Options, Runtime};
use motet_collective::program::{Hints, Protocol};
use motet_collective::{
    CollectiveKind, Finding, Program, ProgramBuilder, Slot, Transfer, Verified, verify,
};
use motet_units::{Bytes, Rank};
use proptest::prelude::*;

#[test]
fn shipped_files_are_right_and_round_trip() {
    let Some(folder) = motet_testdata::samples("msccl") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let imported = msccl_xml::read(&text).unwrap();
        let report = imported.check(None);
        assert!(report.is_right(), "{}:\n{report}", path.display());
        let program = imported.program.clone();
        let verified = imported.verify(None).unwrap();
        let written = msccl_xml::write(&verified, &Options::default()).unwrap();
        let again = msccl_xml::read(&written).unwrap();
        assert_eq!(again.check(None).to_string(), "", "{}", path.display());
        assert!(again.program == program, "{} changed when written", path.display());
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} sample files");
}

/// MSCCL's kernel sends the sum of an `rrcs` from registers: what another threadblock writes into
/// the destination meanwhile is not sent. What it writes into the source is.
#[test]
fn steps_that_send_on_do_not_read_their_destination_again() {
    let text = include_str!("../repro/rrcs-sends-from-registers.xml");
    let imported = msccl_xml::read(text).unwrap();
    assert_eq!(imported.check(None).to_string(), "");
    let program = imported.verify(None).unwrap();
    // Written out, the sum is made in scratch, as the kernel does it in registers.
    let written = msccl_xml::write(&program, &Options::default()).unwrap();
    assert!(msccl_xml::read(&written).unwrap().check(None).is_right(), "{written}");
    let second_copy = r#"type="cpy" srcbuf="i" srcoff="1" dstbuf="s""#;
    let at = text.rfind(second_copy).unwrap();
    let mut other = text.to_owned();
    other.replace_range(
        at..at + second_copy.len(),
        &second_copy.replace("srcoff=\"1", "srcoff=\"0"),
    );
    let report = msccl_xml::read(&other).unwrap().check(None);
    assert!(report.diagnostics().iter().any(|it| it.finding == Finding::Race), "{report}");
}

fn verified(program: Program) -> Verified<Program> {
    Verified::new(program, None).unwrap()
}

/// Lowers, writes and reads a program and compares; gives the text.
fn round_trip(program: &Verified<Program>, options: &Options) -> String {
    let lowered = msccl_xml::lower(program, options)
        .unwrap_or_else(|report| panic!("{} does not lower:\n{report}", program.name()));
    let text = msccl_xml::write(program, options)
        .unwrap_or_else(|report| panic!("{} is not written:\n{report}", program.name()));
    let read = msccl_xml::read(&text).unwrap();
    assert_eq!(read.report.to_string(), "", "{text}");
    assert!(read.program == *lowered, "{} differs:\n{text}", program.name());
    // Writing is a projection: what it gives, it keeps.
    assert_eq!(msccl_xml::write(&lowered, options).unwrap(), text);
    assert_eq!(program.transfers().len(), lowered.transfers().len());
    text
}

fn some_program(kind: u8, ranks: u32, chunks: u32) -> Program {
    match kind {
        0 => programs::ring_all_gather(ranks, chunks),
        1 => programs::ring_reduce_scatter(ranks, chunks),
        2 => programs::ring_all_reduce(ranks, chunks),
        3 => programs::tree_broadcast(ranks, chunks),
        4 => programs::tree_reduce(ranks, chunks),
        5 => programs::tree_all_reduce(ranks, chunks),
        6 => programs::direct_all_to_all(ranks, chunks),
        7 => programs::direct_gather(ranks, chunks),
        _ => programs::direct_scatter(ranks, chunks),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn written_programs_come_back(
        kind in 0u8..9,
        ranks in 2u32..=8,
        chunks in 1u32..=3,
        laned in any::<bool>(),
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        channels in 0u32..4,
        steps in 3u32..64,
        max_size in prop::option::of(1u64..1 << 40),
    ) {
        let program = some_program(kind, ranks, chunks);
        let program = if laned { programs::with_lanes(&program) } else { program };
        let hints = Hints { protocol, min_size: Bytes::new(64), max_size: max_size.map(Bytes::new) };
        let program = program.to_builder().hints(hints).build();
        // In one lane per rank, some of these deadlock with a short buffer: not this test's.
        let Ok(program) = Verified::new(program, None) else { return Ok(()) };
        let options = Options { runtime: Runtime::Custom { steps }, channels, ..Options::default() };
        match msccl_xml::write(&program, &options) {
            Ok(_) => {
                round_trip(&program, &options);
            }
            Err(report) => prop_assert!(report.has(Finding::Limit) && steps < 48, "{report}"),
        }
    }
}

#[test]
fn a_ring_becomes_receive_copy_send_steps() {
    let text = round_trip(&verified(programs::ring_all_gather(4, 1)), &Options::default());
    let count = |kind: &str| text.matches(&format!("type=\"{kind}\"")).count();
    assert_eq!(["s", "rcs", "r", "cpy", "nop"].map(count), [4, 8, 4, 4, 0], "{text}");
    let text = round_trip(&verified(programs::ring_all_reduce(4, 1)), &Options::default());
    let count = |kind: &str| text.matches(&format!("type=\"{kind}\"")).count();
    assert_eq!(["s", "rrcs", "rcs", "r", "rrc"].map(count), [4, 12, 8, 4, 0], "{text}");
}

#[test]
fn long_lanes_are_split_over_channels() {
    let program = verified(programs::ring_all_reduce(64, 1));
    let text = round_trip(&program, &Options::default());
    assert!(text.contains("nchannels=\"2\""), "{}", &text[..200]);
    let long = Options { runtime: Runtime::Msccl, ..Options::default() };
    assert!(round_trip(&program, &long).contains("nchannels=\"1\""));
}

#[test]
fn many_peers_are_spread_over_channels() {
    let program = verified(programs::direct_all_to_all(48, 1));
    assert!(round_trip(&program, &Options::default()).contains("nchannels=\"2\""));
    let program = verified(programs::direct_all_to_all(100, 1));
    let report = msccl_xml::write(&program, &Options::default()).unwrap_err();
    assert!(report.to_string().contains("threadblocks can be told apart"), "{report}");
}

#[test]
fn an_exchange_in_place_is_sent_ahead() {
    // Each rank's chunks change places with the other's: no transfer can arrive before both
    // have been sent.
    let kind = CollectiveKind::AllToAll;
    let mut b = ProgramBuilder::new("swap", Collective::new(kind, 2, 1).unwrap())
        .forms(motet_collective::Forms::IN_PLACE);
    let slot = |rank: u32| Slot::input(Rank(rank), 1 - rank);
    let there = b.add(Transfer::copy(slot(0), slot(1), 1));
    let back = b.add(Transfer::copy(slot(1), slot(0), 1));
    b.wait(there.arrived(), back.sent());
    b.wait(back.arrived(), there.sent());
    round_trip(&verified(b.build()), &Options::default());
}

#[test]
fn transfers_too_large_for_a_step_are_cut() {
    let program = verified(programs::direct_all_to_all(2, 72));
    let text = msccl_xml::write(&program, &Options::default()).unwrap();
    assert!(text.contains("cnt=\"71\"") && !text.contains("cnt=\"72\""), "{text}");
    let back = msccl_xml::read(&text).unwrap();
    assert!(back.check(None).is_right(), "{text}");
}

#[test]
fn what_the_format_cannot_say_is_refused() {
    let refusal = |program: Program, part: &str| {
        let report = msccl_xml::write(&verified(program), &Options::default()).unwrap_err();
        assert!(report.to_string().contains(part), "{report}");
    };
    refusal(programs::shift_send_recv(3, 1), "no sendrecv");
    refusal(programs::direct_all_to_all_v(2, vec![1, 2, 3, 4]), "no alltoallv");
    refusal(programs::direct_all_to_all(2, 40_000), "offset 40000; the largest is 32767");
    let renamed = |name: String| {
        let program = programs::ring_all_gather(2, 1);
        let mut b = ProgramBuilder::new(name, program.collective().clone());
        for transfer in program.transfers() {
            b.add(*transfer);
        }
        b
    };
    refusal(renamed("n".repeat(256)).build(), "the name has 256 characters");
    let sized = |max_size| Hints { max_size: Some(Bytes::new(max_size)), ..Hints::default() };
    refusal(renamed("n".to_owned()).hints(sized(0)).build(), "would mean no limit");
    refusal(renamed("n".to_owned()).hints(sized(u64::MAX)).build(), "63 bits");
    let text =
        round_trip(&verified(renamed("<a & \"b\">".to_owned()).build()), &Options::default());
    assert!(text.contains("name=\"&lt;a &amp; &quot;b&quot;&gt;\""), "{text}");
}

#[test]
fn waits_between_ranks_are_refused_unless_data_implies_them() {
    let base = programs::direct_all_to_all(3, 1);
    let mut b = base.to_builder();
    let ids: Vec<_> = (0..9).map(motet_collective::TransferId::from_index).collect();
    // Rank 1 sends to 2 only when rank 0 has sent to 2, which rank 1 cannot know.
    b.wait(ids[4].sent(), ids[2].sent());
    let report = msccl_xml::lower(&verified(b.build()), &Options::default()).unwrap_err();
    assert!(report.has(Finding::BadWait), "{report}");
    // When it has what rank 0 sent to it before, it does not matter who waits.
    let mut b = base.to_builder();
    b.wait(ids[4].sent(), ids[1].sent());
    b.wait(ids[4].sent(), ids[1].arrived());
    round_trip(&verified(b.build()), &Options::default());
}

#[test]
fn unlowered_lanes_are_kept() {
    let program = verified(programs::ring_all_gather(3, 1));
    let two = Options { channels: 2, ..Options::default() };
    let lowered = msccl_xml::lower(&program, &two).unwrap();
    let channels = |it: &Program| it.lanes().iter().map(|it| it.channel).max();
    assert_eq!(channels(&lowered), Some(1));
    assert_eq!(msccl_xml::lower(&lowered, &Options::default()).unwrap(), lowered);
    assert!(verify::check(&lowered, None).is_right());
}

/// A file of `gpus`, each a list of threadblocks (send, recv, steps), each step as (type, source,
/// destination, depid, deps, hasdep).
type Steps<'a> = &'a [(&'a str, &'a str, &'a str, i32, i32, u8)];

fn file(header: &str, gpus: &[&[(i32, i32, Steps<'_>)]]) -> String {
    let mut text =
        format!("<algo name=\"t\" nchannels=\"1\" minBytes=\"0\" maxBytes=\"0\" {header}>");
    for (gpu, blocks) in gpus.iter().enumerate() {
        text += &format!("<gpu id=\"{gpu}\" i_chunks=\"1\" o_chunks=\"1\" s_chunks=\"1\">");
        for (block, (send, recv, steps)) in blocks.iter().enumerate() {
            text += &format!("<tb id=\"{block}\" send=\"{send}\" recv=\"{recv}\" chan=\"0\">");
            for (step, (kind, src, dst, depid, deps, hasdep)) in steps.iter().enumerate() {
                text += &format!(
                    "<step s=\"{step}\" type=\"{kind}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" \
                     dstoff=\"{}\" cnt=\"1\" depid=\"{depid}\" deps=\"{deps}\" hasdep=\"{hasdep}\"/>",
                    &src[..1],
                    &src[1..],
                    &dst[..1],
                    &dst[1..]
                );
            }
            text += "</tb>";
        }
        text += "</gpu>";
    }
    text + "</algo>"
}

#[test]
fn a_sum_that_is_only_sent_on_needs_no_buffer_of_the_file() {
    let header = "proto=\"LL\" nchunksperloop=\"1\" ngpus=\"3\" coll=\"reduce\" inplace=\"1\" outofplace=\"0\"";
    let text = file(
        header,
        &[
            &[(1, -1, &[("s", "i0", "i0", -1, -1, 0)])],
            &[(2, 0, &[("rrs", "i0", "i0", -1, -1, 0)])],
            &[(-1, 1, &[("rrc", "i0", "i0", -1, -1, 0)])],
        ],
    );
    let imported = msccl_xml::read(&text).unwrap();
    assert_eq!(imported.check(None).to_string(), "");
    let program = imported.program.clone();
    assert_eq!(program.collective().root(), Some(Rank(2)));
    assert_eq!((0..3).map(|it| program.scratch_chunks(Rank(it))).collect::<Vec<_>>(), [1, 2, 1]);
    let written = round_trip(&imported.verify(None).unwrap(), &Options::default());
    assert_eq!(written.matches("type=\"rrs\"").count(), 1, "{written}");
    assert_eq!(written.matches("s_chunks=\"1\"").count(), 3, "{written}");
    // Stored in the file's own scratch it is another step, and stays one.
    let text = text.replace(
        "type=\"rrs\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"i\"",
        "type=\"rrcs\" srcbuf=\"i\" srcoff=\"0\" dstbuf=\"s\"",
    );
    let stored = msccl_xml::read(&text).unwrap();
    assert_eq!(stored.program.scratch_chunks(Rank(1)), 1);
    let program = stored.program.clone();
    let written = msccl_xml::write(&stored.verify(None).unwrap(), &Options::default()).unwrap();
    assert!(msccl_xml::read(&written).unwrap().program == program, "{written}");
}

#[test]
fn steps_are_not_fused_where_that_would_deadlock() {
    // Every rank sends as much ahead as the connections hold. Receiving first makes room; a step
    // that receives and sends at once waits for room first, as does every other rank's.
    let header = "proto=\"Simple\" nchunksperloop=\"2\" ngpus=\"2\" coll=\"allgather\" inplace=\"1\" outofplace=\"0\"";
    let lane: Steps<'_> = &[
        ("s", "o0", "o0", -1, -1, 0),
        ("s", "o0", "s0", -1, -1, 0),
        ("r", "i0", "o1", -1, -1, 0),
        ("s", "o1", "o1", -1, -1, 0),
        ("r", "i0", "s0", -1, -1, 0),
        ("r", "i0", "s0", -1, -1, 0),
    ];
    let mirrored: Vec<_> = lane
        .iter()
        .map(|(kind, src, dst, a, b, c)| {
            let swap = |it: &str| match it {
                "o0" => "o1",
                "o1" => "o0",
                _ => "s0",
            };
            (*kind, swap(src), swap(dst), *a, *b, *c)
        })
        .collect();
    let text = file(header, &[&[(1, 1, lane)], &[(0, 0, &mirrored)]])
        .replace("o_chunks=\"1\"", "o_chunks=\"2\"");
    let imported = msccl_xml::read(&text).unwrap();
    assert_eq!(imported.check(None).to_string(), "");
    let program = imported.program.clone();
    let verified = imported.verify(None).unwrap();
    let written = msccl_xml::write(&verified, &Options::default()).unwrap();
    assert!(!written.contains("rcs") && msccl_xml::read(&written).unwrap().program == program);
    // With room for eight nothing is in the way.
    let roomy = program.to_builder().hints(Hints { protocol: Protocol::Ll, ..Hints::default() });
    let written = msccl_xml::write(&self::verified(roomy.build()), &Options::default()).unwrap();
    assert_eq!(written.matches("type=\"rcs\"").count(), 2, "{written}");
}

#[test]
fn reductions_are_kept_apart_where_the_runtime_cannot_fuse_them() {
    // Rank 0 has 20 chunks sent to its scratch and adds them all to one place.
    let kind = CollectiveKind::Reduce;
    let ranks = 21;
    let collective = Collective::rooted(kind, ranks, 1, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("direct", collective).forms(motet_collective::Forms::IN_PLACE);
    b.set_scratch(Rank(0), ranks - 1);
    let sent: Vec<_> = (1..ranks)
        .map(|it| {
            b.add(Transfer::copy(Slot::input(Rank(it), 0), Slot::scratch(Rank(0), it - 1), 1))
        })
        .collect();
    let mut last = None;
    for chunk in 0..ranks - 1 {
        let sum = Transfer::reduce(Slot::scratch(Rank(0), chunk), Slot::output(Rank(0), 0), 1);
        // All data first, then one reduction after the other.
        let after: Vec<_> = last.map_or_else(|| sent.clone(), |it| vec![it]);
        last = Some(b.add_after(sum, &after));
    }
    let text = round_trip(&verified(b.build()), &Options::default());
    assert_eq!(text.matches("type=\"re\"").count(), 20, "{text}");
    assert_eq!(text.matches("type=\"nop\"").count(), 18, "{text}");
}

/// AllReduce by recursive doubling, in place: in each round pairs exchange all they have and add it.
fn doubling_all_reduce(ranks: u32, chunks: u32) -> Program {
    let kind = CollectiveKind::AllReduce;
    let mut b = ProgramBuilder::new("doubling", Collective::new(kind, ranks, chunks).unwrap())
        .forms(motet_collective::Forms::IN_PLACE);
    let mut last: Vec<Option<motet_collective::TransferId>> = vec![None; ranks as usize];
    let mut width = 1;
    while width < ranks {
        let ids: Vec<_> = (0..ranks)
            .map(|rank| {
                let slot = |rank| Slot::output(Rank(rank), 0);
                let it = Transfer::reduce(slot(rank), slot(rank ^ width), chunks);
                let after: Vec<_> = last[rank as usize].into_iter().collect();
                b.add_after(it, &after)
            })
            .collect();
        for rank in 0..ranks {
            // Nothing is added to what has not been read.
            b.wait(ids[rank as usize].arrived(), ids[(rank ^ width) as usize].sent());
            last[(rank ^ width) as usize] = Some(ids[rank as usize]);
        }
        width *= 2;
    }
    b.build()
}

#[test]
fn exchanges_larger_than_a_connection_holds_go_by_way_of_scratch() {
    // One chunk each fits the connections' buffers and is added where it arrives.
    let small =
        msccl_xml::write(&verified(doubling_all_reduce(4, 1)), &Options::default()).unwrap();
    assert!(small.contains("s_chunks=\"0\"") && !small.contains("type=\"re\""), "{small}");
    // Of eight chunks only two fit: both ends would send for ever before they received.
    let program = verified(doubling_all_reduce(4, 8));
    let lowered = msccl_xml::lower(&program, &Options::default()).unwrap();
    let text = msccl_xml::write(&program, &Options::default()).unwrap();
    assert!(text.contains("type=\"re\""), "{text}");
    let back = msccl_xml::read(&text).unwrap();
    assert!(back.check(None).is_right() && back.program == *lowered, "{text}");
}

#[test]
fn what_is_sent_ahead_leaves_room_for_what_must_follow() {
    // Rank 0's output is free only when its input has been sent to everyone. Rank 2's data comes
    // to it by way of rank 1, whose own come by the same connection: were what is passed on sent
    // first, it would fill the connection and wait for what is behind it.
    let kind = CollectiveKind::AllReduce;
    let mut b = ProgramBuilder::new("line", Collective::new(kind, 3, 1).unwrap())
        .forms(motet_collective::Forms { in_place: true, out_of_place: true });
    let (i, o, s) = (
        |rank: u32| Slot::input(Rank(rank), 0),
        |rank: u32| Slot::output(Rank(rank), 0),
        |rank: u32, at| Slot::scratch(Rank(rank), at),
    );
    b.set_scratch(Rank(1), 2);
    let own: Vec<_> = (0..3).map(|it| b.add(Transfer::copy(i(it), o(it), 1))).collect();
    let through =
        [b.add(Transfer::copy(i(0), s(1, 0), 1)), b.add(Transfer::copy(i(2), s(1, 1), 1))];
    let on = [
        b.add_after(Transfer::reduce(s(1, 0), o(2), 1), &[through[0]]),
        b.add_after(Transfer::reduce(s(1, 1), o(0), 1), &[through[1]]),
    ];
    let near = [(0, 1), (1, 0), (1, 2), (2, 1)]
        .map(|(from, to)| (to, b.add(Transfer::reduce(i(from), o(to), 1))));
    for (rank, copy) in own.iter().enumerate() {
        let reads: Vec<_> = b
            .transfers()
            .iter()
            .enumerate()
            .filter(|(_, it)| it.src == i(rank as u32) && !it.is_local())
            .map(|(index, _)| motet_collective::TransferId::from_index(index))
            .collect();
        for read in reads {
            b.wait(copy.arrived(), read.sent());
        }
    }
    let mut last = own.clone();
    let sums = near.into_iter().chain([(2, on[0]), (0, on[1])]);
    for (to, id) in sums {
        b.wait(id.arrived(), last[to as usize].arrived());
        last[to as usize] = id;
    }
    round_trip(&verified(b.build()), &Options::default());
}

#[test]
fn too_much_is_refused_from_counts_alone() {
    // 8,192 chunks of a ring of four: 24,576 sendings a rank, and nothing of it is lowered.
    let collective = Collective::new(CollectiveKind::AllGather, 4, 8_192).unwrap();
    let mut b = ProgramBuilder::new("ring", collective);
    for chunk in 0..8_192 {
        for rank in 0..4 {
            let (from, to) = (Slot::input(Rank(rank), chunk), Rank((rank + 1) % 4));
            b.add(Transfer::copy(from, Slot::output(to, rank * 8_192 + chunk), 1));
        }
    }
    let program = b.build();
    // It is not even right, which counting does not ask.
    let report = msccl_xml::check_counts(&program, &Options::default()).unwrap_err().to_string();
    assert!(report.contains("gpu 0 has at least 8192 steps"), "{report}");
    assert!(report.contains("the parser holds 4096"), "{report}");
    let small = programs::ring_all_gather(4, 8);
    assert!(msccl_xml::check_counts(&small, &Options::default()).is_ok());
    let many = Options { instances: 200, ..Options::default() };
    let report = msccl_xml::check_counts(&small, &many).unwrap_err().to_string();
    assert!(report.contains("needs at least 200 threadblocks"), "{report}");
    let plan = motet_collective::formats::mscclpp_json::Options::default();
    let report = motet_collective::formats::mscclpp_json::check_counts(&program, &plan);
    assert!(report.is_ok(), "8,192 is what a plan may have");
    let plan = motet_collective::formats::mscclpp_json::Options { instances: 2, ..plan };
    let report = motet_collective::formats::mscclpp_json::check_counts(&program, &plan);
    assert!(report.unwrap_err().to_string().contains("16384 transfers to do"));
}
