//! MSCCL++ plans that have switches copy and reduce (`glres`, `gstore`): judged, written, and read back.

use motet_collective::formats::mscclpp_json::{self, Options, read};
use motet_collective::{Buffer, Collective, CollectiveKind, Finding, Program, Report, Verified};
use serde_json::{Value, json};

use crate::programs;

/// A plan of `ranks` GPUs with one threadblock each, which greets all others, does `ops`, and waits until
/// all others are through. Switch channel 0 joins the buffers `switch` of all.
fn plan(
    kind: &str,
    ranks: u32,
    chunks: [u32; 3],
    switch: &str,
    ops: impl Fn(u32) -> Vec<Value>,
) -> Value {
    let gpu = |rank: u32| {
        let peers: Vec<u32> = (0..ranks).filter(|it| *it != rank).collect();
        let all: Vec<usize> = (0..peers.len()).collect();
        let memory =
            |name: &str| json!({"name": name, "channel_ids": all, "channel_type": "memory"});
        let meet = json!({"name": "nop"});
        let mut steps = vec![memory("signal"), memory("wait"), meet.clone()];
        steps.extend(ops(rank));
        steps.extend([meet, memory("signal"), memory("wait")]);
        let group = json!({"size": ranks, "ranks": (0..ranks).collect::<Vec<_>>()});
        json!({"id": rank, "input_chunks": chunks[0], "output_chunks": chunks[1],
            "scratch_chunks": chunks[2],
            "channels": [{"channel_type": "memory", "connected_to": peers},
                {"channel_type": "switch", "buffer_type": switch, "rank_groups": [group]}],
            "threadblocks": [{"id": 0, "ops": steps, "channels": [
                {"channel_type": "memory", "channel_ids": all},
                {"channel_type": "switch", "channel_ids": [0]}]}]})
    };
    json!({"name": "x", "collective": kind, "protocol": "Simple", "inplace": true,
        "gpus": (0..ranks).map(gpu).collect::<Vec<_>>()})
}

fn everywhere(index: u32) -> Value {
    json!([{"switch_channel_id": 0, "index": index, "size": 1}])
}

/// The NVLS AllReduce of MSCCL++'s own examples: each GPU adds its chunk up and stores it to all.
fn all_reduce(ranks: u32) -> Value {
    plan("allreduce", ranks, [ranks, 0, 0], "i", |rank| {
        vec![
            json!({"name": "glres", "channel_ids": [0], "channel_type": "switch", "reduce_op": "sum",
            "src_buff": everywhere(rank), "dst_buff": everywhere(rank)}),
        ]
    })
}

/// Its AllGather: each GPU stores its chunk to all.
fn all_gather(ranks: u32) -> Value {
    plan("allgather", ranks, [1, ranks, 0], "o", |rank| {
        vec![json!({"name": "gstore", "channel_ids": [0], "channel_type": "switch",
            "src_buff": [{"type": "o", "index": rank, "size": 1}], "dst_buff": everywhere(rank)})]
    })
}

fn check(plan: &Value) -> Report {
    read(&plan.to_string()).unwrap().check(None)
}

/// Import, export, import gives the same program.
fn stays(plan: &Value) {
    let imported = read(&plan.to_string()).unwrap();
    assert_eq!(imported.check(None).to_string(), "");
    let program = imported.program.clone();
    assert!(program.uses_switches());
    let verified = imported.verify(None).unwrap();
    let text = mscclpp_json::write(&verified, &Options::default()).unwrap();
    let again = read(&text).unwrap();
    assert!(again.program == program, "changed when written:\n{text}");
}

#[test]
fn plans_that_use_switches_are_judged() {
    for ranks in [2, 3, 8] {
        stays(&all_reduce(ranks));
        stays(&all_gather(ranks));
    }
    // Two GPUs store the sum of the same chunk, and nobody that of the other.
    let mut twice = all_reduce(2);
    for side in ["src_buff", "dst_buff"] {
        twice["gpus"][1]["threadblocks"][0]["ops"][3][side] = everywhere(0);
    }
    assert!(!check(&twice).is_right());
    // One starts before the other has begun to wait, and reads what is being written.
    let mut apart = all_gather(2);
    apart["gpus"][0]["threadblocks"][0]["ops"][3]["dst_buff"] = everywhere(1);
    assert!(check(&apart).has(Finding::WrongData) || check(&apart).has(Finding::Race));
}

#[test]
fn wrong_switch_channels_are_found() {
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut plan = all_reduce(2);
        change(&mut plan["gpus"][0]);
        check(&plan)
    };
    let group =
        |gpu: &mut Value, ranks: Value| gpu["channels"][1]["rank_groups"][0]["ranks"] = ranks;
    for (report, words) in [
        (changed(&|it| group(it, json!([0, 7]))), "gpus that do not exist"),
        (changed(&|it| group(it, json!([1]))), "joins other gpus only"),
        (changed(&|it| it["channels"][1]["buffer_type"] = Value::Null), "no `buffer_type`"),
        (
            changed(&|it| it["threadblocks"][0]["channels"][1]["channel_ids"] = json!([1])),
            "does not exist",
        ),
        (
            changed(&|it| {
                it["threadblocks"][0]["ops"][3]["src_buff"][0]["switch_channel_id"] = json!(4);
            }),
            "no switch channel 4",
        ),
        (
            changed(&|it| it["threadblocks"][0]["ops"][3]["src_buff"][0]["index"] = json!(9)),
            "which has 2",
        ),
        (
            changed(&|it| it["threadblocks"][0]["ops"][3]["reduce_op"] = json!("max")),
            "other than sum",
        ),
    ] {
        assert!(report.to_string().contains(words), "no `{words}` in:\n{report}");
        assert!(!report.is_right());
    }
}

/// Packets that are multicast: `gstorepkt` from scratch to everyone's scratch, unpacked there.
#[test]
fn packets_may_go_through_switches() {
    let chunk = |buffer: &str, index: u32| json!([{"type": buffer, "index": index, "size": 1}]);
    let mut plan = plan("allgather", 2, [1, 2, 2], "s", |rank| {
        let copy = |name: &str, src: Value, dst: Value| json!({"name": name, "src_buff": src, "dst_buff": dst});
        vec![
            copy("cpkt", chunk("o", rank), chunk("s", rank)),
            json!({"name": "gstorepkt", "channel_ids": [0], "channel_type": "switch",
                "src_buff": chunk("s", rank), "dst_buff": everywhere(rank)}),
            copy("upkt", chunk("s", 1 - rank), chunk("o", 1 - rank)),
            // Its own come back to it, too, as they were.
            copy("upkt", chunk("s", rank), chunk("o", rank)),
        ]
    });
    plan["protocol"] = json!("LL");
    plan["use_double_scratch_buffer"] = json!(true);
    let imported = read(&plan.to_string()).unwrap();
    let report = imported.check(None);
    assert!(report.is_right(), "{report}");
    assert_eq!(imported.program.transfers().iter().filter(|it| it.is_in_switch()).count(), 6);
}

#[test]
fn programs_that_use_switches_are_written() {
    let both = |ranks| {
        [programs::in_switch_all_reduce(ranks, 3), programs::in_switch_all_gather(ranks, 3)]
    };
    for program in [2, 3, 8].into_iter().flat_map(both) {
        for (source, instances) in
            [(program.clone(), 1), (program.clone(), 4), (programs::with_lanes(&program), 1)]
        {
            let options = Options { instances, ..Options::default() };
            let verified = Verified::new(source, None).unwrap();
            let lowered = mscclpp_json::lower(&verified, &options)
                .unwrap_or_else(|it| panic!("{}: {it}", program.name()));
            let text = mscclpp_json::write(&verified, &options).unwrap();
            assert!(text.contains("\"glres\"") || text.contains("\"gstore\""));
            let back = read(&text).unwrap();
            assert_eq!(back.check(None).to_string(), "");
            assert!(back.program == *lowered, "{}:\n{text}", program.name());
            assert!(*mscclpp_json::lower(&lowered, &Options::default()).unwrap() == *lowered);
        }
    }
}

#[test]
fn what_the_executor_cannot_do_is_refused() {
    let refused = |program: Program| {
        let verified = Verified::new(program, None).unwrap();
        mscclpp_json::write(&verified, &Options::default()).unwrap_err().to_string()
    };
    for program in [programs::in_switch_reduce_scatter(3, 1), programs::in_switch_spread(3, 1)] {
        let report = refused(program);
        assert!(report.contains("no such operation"), "{report}");
    }
    let verified = Verified::new(programs::in_switch_all_gather(2, 1), None).unwrap();
    let options = motet_collective::formats::msccl_xml::Options::default();
    let report = motet_collective::formats::msccl_xml::write(&verified, &options).unwrap_err();
    assert!(report.to_string().contains("cannot have switches copy or reduce"), "{report}");
}

/// A switch slot serves one rank, and has a place to be.
#[test]
fn switch_slots_are_checked() {
    use motet_collective::{ProgramBuilder, Slot, Transfer};
    use motet_units::Rank;
    let it = Collective::new(CollectiveKind::AllGather, 2, 1).unwrap();
    let mut b = ProgramBuilder::new("x", it);
    b.set_switch(Rank(0), 1);
    b.add(Transfer::copy(Slot::switch(Rank(0), 0), Slot::switch(Rank(1), 0), 1));
    let report = motet_collective::verify::check(&b.build(), None).to_string();
    assert!(report.contains("a switch slot serves one rank only"), "{report}");
    assert!(report.contains("of the switch of rank 1, which has 0"), "{report}");
    assert_eq!(Buffer::Switch.name(), "switch");
}
