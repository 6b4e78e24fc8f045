//! Import, export, import gives the same program: plans written by hand in the shapes that real
//! ones have (fused sums, packets, ports that several blocks wait for), and programs with lanes at
//! random.

use motet_collective::formats::mscclpp_json::{self, Channel, Options};
use motet_collective::program::{Hints, Lane, LaneKind, Protocol};
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, TransferId, Verified,
};
use motet_units::Rank;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A plan for `ranks` GPUs, each of which reaches one buffer of every other by every channel.
struct Shape {
    kind: &'static str,
    protocol: &'static str,
    inplace: bool,
    /// Input, output and scratch.
    chunks: [u32; 3],
    remote: &'static str,
    /// By rank and block.
    ops: Vec<Vec<Vec<Value>>>,
}

impl Shape {
    fn text(self) -> String {
        let ranks = self.ops.len() as u32;
        let [input, output, scratch] = self.chunks;
        let gpu = |(rank, blocks): (usize, Vec<Vec<Value>>)| {
            let peers: Vec<u32> = peers(ranks, rank as u32);
            let all: Vec<usize> = (0..peers.len()).collect();
            let kinds = ["memory", "port"];
            let buffer =
                |it: &u32| json!({"rank": it, "type": self.remote, "access_channel_types": kinds});
            let block = |(id, ops): (usize, Vec<Value>)| {
                json!({"id": id, "ops": ops,
                    "channels": kinds.map(|it| json!({"channel_type": it, "channel_ids": all})),
                    "remote_buffer_refs":
                        kinds.map(|it| json!({"access_channel_type": it, "remote_buffer_ids": all}))})
            };
            json!({"id": rank, "input_chunks": input, "output_chunks": output, "scratch_chunks": scratch,
                "channels": kinds.map(|it| json!({"channel_type": it, "connected_to": peers})),
                "remote_buffers": peers.iter().map(buffer).collect::<Vec<_>>(),
                "threadblocks": blocks.into_iter().enumerate().map(block).collect::<Vec<_>>()})
        };
        let gpus: Vec<Value> = self.ops.into_iter().enumerate().map(gpu).collect();
        json!({"name": "x", "collective": self.kind, "protocol": self.protocol,
            "inplace": self.inplace, "gpus": gpus})
        .to_string()
    }
}

fn peers(ranks: u32, rank: u32) -> Vec<u32> {
    (0..ranks).filter(|it| *it != rank).collect()
}

fn own(buffer: &str, index: u32) -> Value {
    json!({"type": buffer, "index": index, "size": 1})
}

/// A chunk at the `peer`-th other GPU.
fn far(peer: usize, index: u32) -> Value {
    json!({"buffer_id": peer, "index": index, "size": 1})
}

fn all_far(peers: &[u32], index: u32) -> Vec<Value> {
    (0..peers.len()).map(|it| far(it, index)).collect()
}

fn op(name: &str, channel: &str, src: Vec<Value>, dst: Vec<Value>) -> Value {
    let ids: Vec<usize> = if channel == "port" { (0..dst.len()).collect() } else { Vec::new() };
    match channel {
        "" => json!({"name": name, "src_buff": src, "dst_buff": dst}),
        _ => {
            json!({"name": name, "channel_type": channel, "channel_ids": ids, "src_buff": src, "dst_buff": dst})
        }
    }
}

fn nop() -> Value {
    json!({"name": "nop"})
}

/// A signal or wait over all channels.
fn all(name: &str, channel: &str, peers: &[u32]) -> Value {
    json!({"name": name, "channel_type": channel, "channel_ids": (0..peers.len()).collect::<Vec<_>>()})
}

/// Each GPU sums one chunk, all in packets; with `keeps` it leaves itself a copy in packets.
fn packet_all_reduce(ranks: u32, keeps: bool) -> Shape {
    let block = |rank: u32| {
        let peers = peers(ranks, rank);
        let sources = peers.iter().map(|it| own("i", *it)).collect();
        let received = peers.iter().map(|it| own("s", *it));
        let sum = [own("i", rank)].into_iter().chain(received).collect();
        let kept = keeps.then(|| own("s", ranks + rank));
        let sent = all_far(&peers, ranks + rank);
        let sent = [own("i", rank)].into_iter().chain(kept).chain(sent).collect();
        let mut ops = vec![
            op("ppkt", "memory", sources, all_far(&peers, rank)),
            op(if keeps { "recspkt" } else { "respkt" }, "memory", sum, sent),
            nop(),
        ];
        let unpack = |it: &u32| op("upkt", "", vec![own("s", ranks + it)], vec![own("i", *it)]);
        ops.extend(peers.iter().map(unpack));
        ops
    };
    let ops = (0..ranks).map(|rank| vec![block(rank)]).collect();
    let chunks = [ranks, ranks, 2 * ranks];
    Shape { kind: "allreduce", protocol: "LL", inplace: true, chunks, remote: "s", ops }
}

/// Each GPU packs its chunk, forwards the packets to half of the others by memory and to the rest
/// by port, and unpacks each in a block of its own.
fn packets_over_ports(ranks: u32) -> Shape {
    let blocks = |rank: u32| {
        let peers = peers(ranks, rank);
        let packets = || vec![own("s", rank)];
        let pack = op("cpkt", "", vec![own("i", 0)], packets());
        let mut forward: Vec<Value> = Vec::new();
        for (peer, other) in peers.iter().enumerate() {
            let near = (rank + other).is_multiple_of(2);
            let channel = if near { "memory" } else { "port" };
            let mut it = op("rppkt", channel, packets(), vec![far(peer, rank)]);
            it["channel_ids"] = json!([peer]);
            forward.push(it);
        }
        let copy = op("copy", "", vec![own("i", 0)], vec![own("o", rank)]);
        let unpack = |it: &u32| vec![op("upkt", "", vec![own("s", *it)], vec![own("o", *it)])];
        let mut blocks = vec![vec![pack], forward, vec![copy]];
        blocks.extend(peers.iter().map(unpack));
        blocks
    };
    let ops = (0..ranks).map(blocks).collect();
    let chunks = [1, ranks, ranks];
    Shape { kind: "allgather", protocol: "LL", inplace: false, chunks, remote: "s", ops }
}

/// One block posts; `blocks` others wait for what was posted and for what was received.
fn many_wait_on_a_port(ranks: u32, blocks: u32, flush: bool) -> Shape {
    let gpu = |rank: u32| {
        let peers = peers(ranks, rank);
        let barrier =
            || json!({"name": "barrier", "barrier_id": 0, "num_threadblocks": blocks + 1});
        let range = |buffer: &str, from: u32, size: u32| json!({"type": buffer, "index": from, "size": size});
        let sources = vec![range("i", 0, blocks); peers.len()];
        let target = |it| json!({"buffer_id": it, "index": rank * blocks, "size": blocks});
        let targets = (0..peers.len()).map(target).collect();
        let post = op(if flush { "pwsf" } else { "pws" }, "port", sources, targets);
        let mut list = vec![vec![post, all("wait", "port", &peers), barrier()]];
        for part in 0..blocks {
            let at = |rank: u32| rank * blocks + part;
            let mut ops =
                vec![op("copy", "", vec![own("i", part)], vec![own("o", at(rank))]), barrier()];
            let copy = |it: &u32| op("copy", "", vec![own("s", at(*it))], vec![own("o", at(*it))]);
            ops.extend(peers.iter().map(copy));
            list.push(ops);
        }
        list
    };
    let ops = (0..ranks).map(gpu).collect();
    let chunks = [blocks, ranks * blocks, ranks * blocks];
    Shape { kind: "allgather", protocol: "Simple", inplace: false, chunks, remote: "s", ops }
}

/// Each GPU reads, sums and writes `parts` chunks of all others.
fn read_reduce_send(ranks: u32, parts: u32) -> Shape {
    let block = |rank: u32| {
        let peers = peers(ranks, rank);
        let mut ops =
            vec![all("rlxsignal", "memory", &peers), all("rlxwait", "memory", &peers), nop()];
        for index in (0..parts).map(|it| rank * parts + it) {
            let with_own = || [own("i", index)].into_iter().chain(all_far(&peers, index)).collect();
            ops.push(op("rres", "memory", with_own(), with_own()));
        }
        ops.extend([nop(), all("signal", "memory", &peers), all("wait", "memory", &peers)]);
        ops
    };
    let ops = (0..ranks).map(|rank| vec![block(rank)]).collect();
    let chunks = [ranks * parts, ranks * parts, 0];
    Shape { kind: "allreduce", protocol: "Simple", inplace: true, chunks, remote: "i", ops }
}

/// Each GPU puts `parts` chunks to each other one, which sums them up.
fn put_then_reduce(ranks: u32, parts: u32) -> Shape {
    let block = |rank: u32| {
        let peers = peers(ranks, rank);
        let mut ops =
            vec![all("rlxsignal", "memory", &peers), all("rlxwait", "memory", &peers), nop()];
        for part in 0..parts {
            let sources = peers.iter().map(|it| own("i", it * parts + part)).collect();
            ops.push(op("put", "memory", sources, all_far(&peers, rank * parts + part)));
        }
        ops.extend([nop(), all("signal", "memory", &peers), all("wait", "memory", &peers), nop()]);
        for part in 0..parts {
            let received = peers.iter().map(|it| own("s", it * parts + part));
            let sum = [own("i", rank * parts + part)].into_iter().chain(received).collect();
            ops.push(op("re", "", sum, vec![own("o", part)]));
        }
        ops
    };
    let ops = (0..ranks).map(|rank| vec![block(rank)]).collect();
    let chunks = [ranks * parts, parts, ranks * parts];
    Shape { kind: "reducescatter", protocol: "Simple", inplace: false, chunks, remote: "s", ops }
}

/// The program for no larger calls than what was written can do, which plans seldom say themselves.
fn within_limits(program: &Program, written: &Program) -> Program {
    let max_size = written.hints().max_size;
    assert!(max_size.is_some_and(|it| it.get() < 1 << 40));
    program.to_builder().hints(Hints { max_size, ..*program.hints() }).build()
}

/// Import, export, import. Returns what was written.
fn comes_back(text: &str, options: &Options) -> Value {
    let imported = mscclpp_json::read(text).unwrap();
    let report = imported.check(None);
    assert!(report.is_right(), "{report}\n{text}");
    let program = imported.program.clone();
    let verified = imported.verify(None).unwrap();
    let written = mscclpp_json::write(&verified, options).unwrap();
    let again = mscclpp_json::read(&written).unwrap();
    assert_eq!(again.check(None).to_string(), "", "{text}\n{written}");
    let program = within_limits(&program, &again.program);
    assert!(again.program == program, "{text}\nchanged when written:\n{written}");
    let twice = mscclpp_json::write(&again.verify(None).unwrap(), options).unwrap();
    assert_eq!(twice, written);
    serde_json::from_str(&written).unwrap()
}

fn names(plan: &Value, gpu: usize, block: usize) -> Vec<&str> {
    let ops = plan["gpus"][gpu]["threadblocks"][block]["ops"].as_array().unwrap();
    ops.iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[test]
fn packets_are_written_as_packets() {
    let options = Options::default();
    let plan = comes_back(&packet_all_reduce(8, false).text(), &options);
    let mut expected = vec!["ppkt", "respkt", "nop"];
    expected.extend(["upkt"; 7]);
    assert_eq!(names(&plan, 3, 0), expected);
    assert_eq!(plan["use_double_scratch_buffer"], true);
    assert_eq!(plan["gpus"][0]["semaphores"], json!([]));
    let plan = comes_back(&packet_all_reduce(5, true).text(), &options);
    assert_eq!(names(&plan, 0, 0)[..3], ["ppkt", "recspkt", "nop"]);
    let plan = comes_back(&packets_over_ports(4).text(), &options);
    assert_eq!(names(&plan, 1, 0), ["cpkt"]);
    let forwards = names(&plan, 1, 1);
    assert!(forwards.contains(&"rppkt") && !forwards.contains(&"wait"), "{forwards:?}");
}

#[test]
fn fused_sums_are_written_fused() {
    // Apart they are 84 and 70 operations: a threadblock has 64.
    let plan = comes_back(&read_reduce_send(8, 6).text(), &Options::default());
    assert_eq!(names(&plan, 0, 0).iter().filter(|it| **it == "rres").count(), 6);
    let plan = comes_back(&put_then_reduce(8, 5).text(), &Options::default());
    assert_eq!(names(&plan, 0, 0).iter().filter(|it| **it == "re").count(), 5);
}

#[test]
fn several_blocks_wait_on_one_port() {
    for flush in [false, true] {
        let plan = comes_back(&many_wait_on_a_port(2, 3, flush).text(), &Options::default());
        // A fifth block at each end waits for the port and tells the three.
        let blocks = plan["gpus"][0]["threadblocks"].as_array().unwrap();
        assert_eq!(blocks.len(), 5);
        assert_eq!(names(&plan, 0, 4)[..3], ["wait", "nop", "sem_release"]);
        assert_eq!(names(&plan, 0, 0).contains(&"pwsf"), flush);
        // These GPUs share no memory as far as the plan goes: signals go by port as well.
        let channels = plan["gpus"][0]["channels"].as_array().unwrap();
        assert!(channels.iter().all(|it| it["channel_type"] == "port"), "{channels:?}");
    }
}

#[test]
fn packets_posted_before_they_are_packed_are_a_deadlock() {
    let mut shape = packets_over_ports(2);
    for blocks in &mut shape.ops {
        let pack = blocks.remove(0);
        blocks[0].extend(pack);
    }
    let report = mscclpp_json::read(&shape.text()).unwrap().check(None);
    assert!(report.has(motet_collective::Finding::Deadlock), "{report}");
}

/// An AllGather through scratch with lanes as `picks` has it: which block does what, what goes by
/// port, and what is forwarded rather than sent directly.
fn gather_at_random(ranks: u32, blocks: u32, ll: bool, picks: &[u32]) -> Program {
    let collective = Collective::new(CollectiveKind::AllGather, ranks, 1).unwrap();
    let protocol = if ll { Protocol::Ll } else { Protocol::Simple };
    let hints = Hints { protocol, ..Hints::default() };
    let mut b = ProgramBuilder::new("random", collective).hints(hints);
    let mut picks = picks.iter().copied().cycle();
    let mut pick = |below: u32| picks.next().unwrap_or(0) % below;
    let mut lanes: std::collections::BTreeMap<(Rank, u32, Option<Rank>), Vec<TransferId>> = (0
        ..ranks * blocks)
        .map(|it| ((Rank(it / blocks), it % blocks, None), Vec::new()))
        .collect();
    for rank in (0..ranks).map(Rank) {
        b.set_scratch(rank, ranks);
        let copy = b.add(Transfer::copy(Slot::input(rank, 0), Slot::output(rank, rank.0), 1));
        lanes.entry((rank, pick(blocks), None)).or_default().push(copy);
        let mut there: Vec<(Rank, Option<TransferId>)> = vec![(rank, None)];
        for to in peers(ranks, rank.0).into_iter().map(Rank) {
            let (from, arrived) = there[pick(there.len() as u32) as usize];
            let source = match arrived {
                None => Slot::input(rank, 0),
                Some(_) => Slot::scratch(from, rank.0),
            };
            let put = Transfer::copy(source, Slot::scratch(to, rank.0), 1);
            let put = b.add_after(put, &Vec::from_iter(arrived));
            let port = Some(to).filter(|_| pick(2) == 0);
            lanes.entry((from, pick(blocks), port)).or_default().push(put);
            let copy = Transfer::copy(Slot::scratch(to, rank.0), Slot::output(to, rank.0), 1);
            let copy = b.add_after(copy, &[put]);
            lanes.entry((to, pick(blocks), None)).or_default().push(copy);
            there.push((to, Some(put)));
        }
    }
    let mut block = 0;
    let mut channels = std::collections::BTreeMap::new();
    for ((rank, _, port), ids) in lanes {
        let (mut kind, mut channel) = (LaneKind::Block, 0);
        match port {
            None => block = b.lanes_mut().len() as u32,
            Some(peer) => {
                kind = LaneKind::Port { block };
                let count = channels.entry((rank, peer)).or_insert(0);
                channel = *count;
                *count += 1;
            }
        }
        let events = ids.iter().flat_map(|it| [it.sent(), it.arrived()]).collect();
        b.add_lane(Lane { rank, kind, channel, events });
    }
    b.build()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn plans_of_every_shape_come_back(
        which in 0usize..5, ranks in 2u32..8, parts in 1u32..6, flag: bool, per_server in 1u32..4
    ) {
        let shape = match which {
            0 => packet_all_reduce(ranks, flag),
            1 => packets_over_ports(ranks),
            2 => many_wait_on_a_port(ranks.min(4), parts, flag),
            3 => read_reduce_send(ranks, parts),
            _ => put_then_reduce(ranks, parts),
        };
        let text = shape.text();
        comes_back(&text, &Options::default());
        // Where the servers are is for what is laid out anew; these must be kept where they fit.
        if which == 2 {
            let channel = Channel::Auto { gpus_per_server: per_server };
            comes_back(&text, &Options { channel, threads_per_block: 256, ..Options::default() });
        }
    }

    #[test]
    fn programs_with_lanes_at_random_come_back(
        ranks in 2u32..6, blocks in 1u32..4, ll: bool,
        picks in proptest::collection::vec(0u32..60, 1..200)
    ) {
        let program = gather_at_random(ranks, blocks, ll, &picks);
        let verified = Verified::new(program, None).unwrap();
        let text = mscclpp_json::write(&verified, &Options::default()).unwrap();
        comes_back(&text, &Options::default());
    }
}
