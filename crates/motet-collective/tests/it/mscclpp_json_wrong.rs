//! Wrong MSCCL++ plans, at least one for each finding, and the rule of order that the reader
//! goes by.
//!
//! Most start from one right plan, an AllGather of two GPUs, in which each operation can be
//! changed.

use motet_collective::formats::Imported;
use motet_collective::formats::mscclpp_json::read;
use motet_collective::{Finding, Report, Severity};
use serde_json::{Value, json};

fn memory(name: &str) -> Value {
    json!({"name": name, "channel_ids": [0], "channel_type": "memory"})
}

fn nop() -> Value {
    json!({"name": "nop"})
}

/// GPU `rank` puts its input to the other one's output.
fn put(rank: u32) -> Value {
    json!({"name": "put", "channel_type": "memory",
        "src_buff": [{"type": "i", "index": 0, "size": 1}],
        "dst_buff": [{"buffer_id": 0, "index": rank, "size": 1}]})
}

fn gpu(rank: u32, blocks: Vec<Vec<Value>>) -> Value {
    let peer = 1 - rank;
    let block = |(id, ops): (usize, Vec<Value>)| {
        json!({"id": id, "ops": ops,
            "channels": [{"channel_type": "memory", "channel_ids": [id]}, {"channel_type": "port", "channel_ids": [0]}],
            "remote_buffer_refs": [
                {"access_channel_type": "memory", "remote_buffer_ids": [0, 1]},
                {"access_channel_type": "port", "remote_buffer_ids": [0, 1]}]})
    };
    json!({"id": rank, "input_chunks": 1, "output_chunks": 2, "scratch_chunks": 2,
        "channels": [
            {"channel_type": "memory", "connected_to": [peer, peer]},
            {"channel_type": "port", "connected_to": [peer]}],
        "remote_buffers": [
            {"rank": peer, "type": "o", "access_channel_types": ["memory", "port"]},
            {"rank": peer, "type": "s", "access_channel_types": ["memory", "port"]}],
        "semaphores": [{"init_value": 0}],
        "threadblocks": blocks.into_iter().enumerate().map(block).collect::<Vec<_>>()})
}

fn plan(gpus: Vec<Value>) -> Value {
    json!({"name": "x", "collective": "allgather", "protocol": "Simple", "inplace": true,
        "max_message_size": 1 << 30, "gpus": gpus})
}

/// The right plan: put, tell, be told.
fn right() -> Value {
    let ops = |rank| vec![put(rank), nop(), memory("signal"), memory("wait")];
    plan(vec![gpu(0, vec![ops(0)]), gpu(1, vec![ops(1)])])
}

fn imported(plan: &Value) -> Imported {
    read(&plan.to_string()).unwrap()
}

fn check(plan: &Value) -> Report {
    imported(plan).check(None)
}

fn ops(plan: &mut Value, rank: usize) -> &mut Vec<Value> {
    plan["gpus"][rank]["threadblocks"][0]["ops"].as_array_mut().unwrap()
}

/// The plan after a change has the finding, at the severity and in the words given.
#[track_caller]
fn finds(plan: &Value, finding: Finding, severity: Severity, words: &str) {
    let report = check(plan);
    let hit = report.diagnostics().iter().any(|it| {
        it.finding == finding && it.severity == severity && it.to_string().contains(words)
    });
    assert!(hit, "no {} with `{words}` in:\n{report}", finding.name());
    assert_eq!(report.is_right(), severity == Severity::Warning, "{report}");
}

#[test]
fn the_plan_to_be_changed_is_right() {
    assert_eq!(check(&right()).to_string(), "");
    assert_eq!(imported(&right()).program.transfers().len(), 2);
}

#[test]
fn text_that_is_no_plan_is_refused_with_its_place() {
    let error = read("{\n  \"name\": 5}").unwrap_err();
    assert_eq!(error.at.map(|it| it.line), Some(2));
    assert!(read(&"[".repeat(100_000)).is_err());
    assert!(read(&plan(vec![]).to_string()).is_err());
}

#[test]
fn signals_and_waits_are_counted() {
    let mut plan = right();
    ops(&mut plan, 0).remove(2);
    finds(
        &plan,
        Finding::Deadlock,
        Severity::Error,
        "waits 1 times for memory channel 0 from gpu 0 to gpu 1",
    );
    let mut plan = right();
    ops(&mut plan, 1).remove(3);
    finds(
        &plan,
        Finding::UnmatchedSend,
        Severity::Warning,
        "nothing waits for memory channel 0 from gpu 0 to gpu 1",
    );
    let mut plan = right();
    ops(&mut plan, 0).insert(3, memory("signal"));
    finds(
        &plan,
        Finding::UnmatchedSend,
        Severity::Warning,
        "raised 2 times and waited for 1 times",
    );
}

#[test]
fn waits_that_need_one_another_are_a_deadlock() {
    let mut plan = right();
    for rank in 0..2 {
        let ops = ops(&mut plan, rank);
        ops.swap(2, 3);
    }
    finds(&plan, Finding::Deadlock, Severity::Error, "operations wait for one another");
    // In different threads of one phase they do not.
    let mut plan = right();
    for rank in 0..2 {
        plan["gpus"][rank]["threadblocks"][0]["channels"][0]["channel_ids"] = json!([0, 1]);
        let ops = ops(&mut plan, rank);
        ops[2]["channel_ids"] = json!([1, 0]);
        ops[3]["channel_ids"] = json!([0, 1]);
    }
    assert_eq!(check(&plan).to_string(), "");
}

#[test]
fn a_gpu_that_ends_early_is_worth_a_word() {
    let mut plan = right();
    for rank in 0..2 {
        ops(&mut plan, rank).truncate(1);
    }
    finds(&plan, Finding::Race, Severity::Warning, "gpu 0 may end its call before 1 of 1");
}

/// A relaxed signal tells that reads are over, if all threads met before it, and nothing about writes.
#[test]
fn a_relaxed_signal_at_the_end_is_enough_for_readers_alone() {
    let with = |first: fn(u32) -> Value, met: bool, signal: &str, wait: &str| {
        let ops = |rank| {
            let meeting = met.then(nop);
            let ends = [memory(signal), memory(wait)];
            [first(rank)].into_iter().chain(meeting).chain(ends).collect()
        };
        plan(vec![gpu(0, vec![ops(0)]), gpu(1, vec![ops(1)])])
    };
    let get = |rank: u32| {
        json!({"name": "get", "channel_type": "memory",
            "src_buff": [{"buffer_id": 0, "index": 1 - rank, "size": 1}],
            "dst_buff": [{"type": "o", "index": 1 - rank, "size": 1}]})
    };
    assert_eq!(check(&with(get, true, "rlxsignal", "rlxwait")).to_string(), "");
    assert_eq!(check(&with(get, true, "signal", "wait")).to_string(), "");
    let early = "gpu 0 may end its call before 1 of 1";
    for plan in [
        with(get, false, "rlxsignal", "rlxwait"),
        with(put, true, "rlxsignal", "rlxwait"),
        with(put, true, "rlxsignal", "wait"),
        with(put, true, "signal", "rlxwait"),
    ] {
        finds(&plan, Finding::Race, Severity::Warning, early);
    }
}

/// GPU 0 forwards by way of GPU 1's scratch: put, tell; GPU 1 waits and copies to its output.
fn through_scratch(before_signal: Vec<Value>, signal: &str, after_wait: Vec<Value>) -> Value {
    let to_scratch = json!({"name": "put", "channel_type": "memory",
        "src_buff": [{"type": "i", "index": 0, "size": 1}],
        "dst_buff": [{"buffer_id": 1, "index": 0, "size": 1}]});
    let copy = json!({"name": "copy", "src_buff": [{"type": "s", "index": 0, "size": 1}],
        "dst_buff": [{"type": "o", "index": 0, "size": 1}]});
    let wait = if signal == "rlxsignal" { "rlxwait" } else { "wait" };
    let mut first = vec![to_scratch];
    first.extend(before_signal);
    first.extend([memory(signal), nop(), memory("wait")]);
    let mut second = vec![put(1), memory(wait)];
    second.extend(after_wait);
    second.extend([copy, nop(), memory("signal")]);
    plan(vec![gpu(0, vec![first]), gpu(1, vec![second])])
}

#[test]
fn threads_must_meet_before_a_signal_and_after_a_wait() {
    assert_eq!(check(&through_scratch(vec![nop()], "signal", vec![nop()])).to_string(), "");
    for plan in [
        through_scratch(vec![], "signal", vec![nop()]),
        through_scratch(vec![nop()], "signal", vec![]),
    ] {
        finds(&plan, Finding::Race, Severity::Error, "scratch[0]");
    }
}

#[test]
fn a_relaxed_signal_shows_no_data() {
    let plan = through_scratch(vec![nop()], "rlxsignal", vec![nop()]);
    finds(&plan, Finding::Race, Severity::Error, "scratch[0]");
}

#[test]
fn threads_must_meet_between_moves_of_the_same_data() {
    // A copy of both output chunks' worth into scratch, then of one of them back: other threads.
    let both = json!({"name": "copy", "src_buff": [{"type": "o", "index": 0, "size": 2}],
        "dst_buff": [{"type": "s", "index": 0, "size": 2}]});
    let one = json!({"name": "copy", "src_buff": [{"type": "s", "index": 1, "size": 1}],
        "dst_buff": [{"type": "o", "index": 1, "size": 1}]});
    let with = |between: Vec<Value>| {
        let mut plan = right();
        let ops = ops(&mut plan, 0);
        ops.extend([nop(), both.clone()]);
        ops.extend(between);
        ops.push(one.clone());
        plan
    };
    assert_eq!(check(&with(vec![nop()])).to_string(), "");
    finds(&with(vec![]), Finding::Race, Severity::Error, "one is missing");
    // Of the same range each thread has the same elements.
    let mut plan = with(vec![]);
    let ops = ops(&mut plan, 0);
    ops[5]["src_buff"][0] = json!({"type": "o", "index": 1, "size": 1});
    ops[5]["dst_buff"][0] = json!({"type": "s", "index": 1, "size": 1});
    assert_eq!(check(&plan).to_string(), "");
}

#[test]
fn references_and_ranges_are_checked() {
    let change = |path: &str, value: Value| {
        let mut plan = right();
        *plan.pointer_mut(path).unwrap() = value;
        plan
    };
    let block = "/gpus/0/threadblocks/0";
    for (path, value, words) in [
        (format!("{block}/ops/2/channel_ids/0"), json!(7), "no memory channel 7"),
        (format!("{block}/ops/0/dst_buff/0/buffer_id"), json!(9), "no remote buffer 9"),
        (
            format!("{block}/ops/0/dst_buff/0/index"),
            json!(2),
            "1 chunks from 2 of the output of gpu 1, which has 2",
        ),
        (format!("{block}/ops/0/src_buff/0/size"), json!(u32::MAX), "of the input of gpu 0"),
        (
            format!("{block}/channels/0/channel_ids/0"),
            json!(5),
            "memory channel 5 of 2 does not exist",
        ),
        ("/gpus/0/channels/0/connected_to/0".into(), json!(0), "connected to gpu 0"),
        ("/gpus/0/remote_buffers/0/rank".into(), json!(9), "at gpu 9"),
    ] {
        let report = check(&change(&path, value));
        assert!(
            report.has(Finding::OutOfRange) && report.to_string().contains(words),
            "{words}:\n{report}"
        );
    }
    let plan = change(&format!("{block}/ops/0/dst_buff/0/size"), json!(2));
    assert!(!check(&plan).is_right());
    let plan = change("/gpus/1/id", json!(4));
    finds(&plan, Finding::Mismatch, Severity::Error, "position 1 has id 4");
    let plan = change("/gpus/1/input_chunks", json!(2));
    finds(&plan, Finding::Mismatch, Severity::Error, "2 input chunks");
    let plan = change("/gpus/1/channels/0/connected_to", json!([0]));
    finds(
        &plan,
        Finding::Mismatch,
        Severity::Warning,
        "gpu 0 has 2 memory channels to gpu 1, which has 1 back",
    );
}

#[test]
fn what_has_no_meaning_here_is_not_judged() {
    let with = |op: Value| {
        let mut plan = right();
        ops(&mut plan, 0).push(op);
        plan
    };
    let range = |buffer: &str, index: u32| json!([{"type": buffer, "index": index, "size": 1}]);
    for (op, words) in [
        (json!({"name": "glre"}), "`glre` is not an operation"),
        (json!({"name": "frobnicate"}), "`frobnicate` is not an operation"),
        (
            json!({"name": "re", "src_buff": range("o", 0), "dst_buff": range("o", 0), "reduce_op": "max"}),
            "other than sum",
        ),
        (
            json!({"name": "upkt", "src_buff": range("i", 0), "dst_buff": range("o", 0)}),
            "packets outside scratch",
        ),
        (
            json!({"name": "get", "channel_type": "memory", "dst_buff": range("o", 0),
            "src_buff": [{"buffer_id": 0, "index": 1, "size": 1}]}),
            "the executor exchanges the two",
        ),
    ] {
        let report = check(&with(op));
        let hit = |it: &motet_collective::Diagnostic| {
            it.severity == Severity::NotJudged && it.message.contains(words)
        };
        assert!(report.diagnostics().iter().any(hit), "{words}:\n{report}");
    }
    let mut unknown = right();
    unknown["collective"] = json!("test");
    let read = imported(&unknown);
    assert!(read.program.transfers().is_empty());
    assert!(read.check(None).has(Finding::NotJudged));
}

#[test]
fn packets_wait_for_their_writers_alone() {
    let packets = |names: [&str; 2]| {
        let ops = |rank: u32| {
            let to = json!({"name": names[0], "channel_type": "memory",
                "src_buff": [{"type": "i", "index": 0, "size": 1}],
                "dst_buff": [{"buffer_id": 1, "index": 0, "size": 1}]});
            let from = json!({"name": names[1], "src_buff": [{"type": "s", "index": 0, "size": 1}],
                "dst_buff": [{"type": "o", "index": 1 - rank, "size": 1}]});
            vec![to, from]
        };
        plan(vec![gpu(0, vec![ops(0)]), gpu(1, vec![ops(1)])])
    };
    let report = check(&packets(["ppkt", "upkt"]));
    assert_eq!(report.to_string(), "");
    assert!(check(&packets(["put", "copy"])).has(Finding::Race));
    finds(
        &packets(["ppkt", "copy"]),
        Finding::NotJudged,
        Severity::NotJudged,
        "both packets and plain data",
    );
    finds(
        &packets(["put", "upkt"]),
        Finding::Deadlock,
        Severity::Error,
        "packets that nothing writes",
    );
}

/// Each GPU packs its chunk in its own scratch, posts it to the other's and unpacks what comes.
fn packets_by_port(post: &str, doubled: bool) -> Value {
    let ops = |rank: u32| {
        let own = json!({"type": "s", "index": rank, "size": 1});
        let pack = json!({"name": "cpkt", "src_buff": [{"type": "i", "index": 0, "size": 1}], "dst_buff": [own]});
        let post = json!({"name": post, "channel_type": "port", "channel_ids": [0], "src_buff": [own],
            "dst_buff": [{"buffer_id": 1, "index": rank, "size": 1}]});
        let unpack = json!({"name": "upkt", "src_buff": [{"type": "s", "index": 1 - rank, "size": 1}],
            "dst_buff": [{"type": "o", "index": 1 - rank, "size": 1}]});
        vec![pack, nop(), post, unpack]
    };
    let mut plan = plan(vec![gpu(0, vec![ops(0)]), gpu(1, vec![ops(1)])]);
    plan["protocol"] = json!("LL");
    plan["use_double_scratch_buffer"] = json!(doubled);
    plan["max_message_size"] = json!(1 << 20);
    plan
}

#[test]
fn posted_packets_need_double_scratch_and_the_right_operation() {
    assert_eq!(check(&packets_by_port("rppkt", true)).to_string(), "");
    // The next call would pack anew what the proxy may still have to fetch.
    let words = "gpu 0 may end its call before 1 of 2";
    finds(&packets_by_port("rppkt", false), Finding::Race, Severity::Warning, words);
    let words = "`ppkt` over a port names its source by the kind of buffer alone";
    finds(&packets_by_port("ppkt", true), Finding::Limit, Severity::Warning, words);
    // It does not look whether packets are there, either: a block must know.
    let mut early = packets_by_port("ppkt", true);
    ops(&mut early, 0).remove(1);
    finds(&early, Finding::Race, Severity::Error, "scratch");
    // Nobody waits for what is posted, so that nothing tells that it was fetched.
    let mut unread = packets_by_port("rppkt", true);
    ops(&mut unread, 0).truncate(3);
    let report = check(&unread);
    assert!(report.to_string().contains("gpu 0 may end its call before 1 of 1"), "{report}");
}

#[test]
fn semaphores_and_barriers_join_blocks() {
    // Block 0 puts; block 1 may tell only when it knows.
    let joined = |first: Value, second: Value| {
        let ops = |rank: u32| {
            vec![
                vec![put(rank), nop(), first.clone()],
                vec![second.clone(), nop(), memory("signal"), memory("wait")],
            ]
        };
        plan(vec![gpu(0, ops(0)), gpu(1, ops(1))])
    };
    let semaphore = |name: &str| json!({"name": name, "semaphore_ids": [0]});
    let barrier =
        |blocks: u32| json!({"name": "barrier", "barrier_id": 0, "num_threadblocks": blocks});
    let report = check(&joined(semaphore("sem_release"), semaphore("sem_acquire")));
    assert_eq!(report.to_string(), "");
    assert_eq!(check(&joined(barrier(2), barrier(2))).to_string(), "");
    finds(&joined(nop(), nop()), Finding::Race, Severity::Warning, "may end its call");
    finds(
        &joined(nop(), semaphore("sem_acquire")),
        Finding::Deadlock,
        Severity::Error,
        "semaphore 0 of gpu 0",
    );
    finds(
        &joined(barrier(3), barrier(3)),
        Finding::Deadlock,
        Severity::Error,
        "barrier 0 is for 3 threadblocks and 2 use it",
    );
    let bad = json!({"name": "sem_release", "semaphore_ids": [3]});
    finds(
        &joined(bad, nop()),
        Finding::OutOfRange,
        Severity::Error,
        "semaphore 3 of 1 does not exist",
    );
}

#[test]
fn what_is_posted_goes_on_by_itself() {
    let local = |from: &str, at: u32, to: &str| {
        json!({"name": "copy", "src_buff": [{"type": from, "index": at, "size": 1}],
            "dst_buff": [{"type": to, "index": 0, "size": 1}]})
    };
    let wait = json!({"name": "wait", "channel_type": "port", "channel_ids": [0]});
    // Each posts from scratch, and then puts what has come from the other there.
    let with = |name: &str, more: Vec<Value>| {
        let ops = |rank: u32| {
            let post = json!({"name": name, "channel_type": "port", "channel_ids": [0],
                "src_buff": [{"type": "s", "index": 0, "size": 1}],
                "dst_buff": [{"buffer_id": 0, "index": rank, "size": 1}]});
            let mut ops = vec![local("i", 0, "s"), nop(), post, wait.clone(), nop()];
            ops.extend(more.clone());
            ops.push(local("o", 1 - rank, "s"));
            ops
        };
        plan(vec![gpu(0, vec![ops(0)]), gpu(1, vec![ops(1)])])
    };
    // A block and its port, at each rank.
    assert_eq!(imported(&with("pws", vec![])).program.lanes().len(), 4);
    finds(&with("pws", vec![]), Finding::Race, Severity::Error, "scratch[0]");
    assert_eq!(check(&with("pwsf", vec![])).to_string(), "");
    // The executor's flush is not one.
    let flush = json!({"name": "flush", "channel_type": "port", "channel_ids": [0]});
    let report = check(&with("pws", vec![flush, nop()]));
    assert!(report.has(Finding::Race) && report.has(Finding::BadWait), "{report}");
    assert!(report.to_string().contains("`flush` by itself waits for nothing"), "{report}");
}

#[test]
fn limits_of_the_executor_are_checked() {
    let mut plan = right();
    ops(&mut plan, 1).extend(vec![nop(); 70]);
    finds(
        &plan,
        Finding::Limit,
        Severity::Error,
        "74 operations in a threadblock; the executor takes at most 64",
    );
    let mut plan = right();
    ops(&mut plan, 1).extend(vec![nop(); 3000]);
    finds(&plan, Finding::TooLarge, Severity::Error, "too many to look at");
    let mut plan = right();
    plan["gpus"][0]["scratch_chunks"] = json!(u32::MAX);
    finds(&plan, Finding::TooLarge, Severity::Error, "chunks in all");
    let mut plan = right();
    let barrier = json!({"name": "barrier", "barrier_id": 16, "num_threadblocks": 1});
    ops(&mut plan, 1).push(barrier);
    finds(&plan, Finding::Limit, Severity::Error, "barrier 16");
}

#[test]
fn groups_share_out_a_range() {
    let ops = |rank: u32, block: u32| {
        let mut put = put(rank);
        put["tbg_info"] = json!({"tb_id": block, "tbg_size": 2});
        vec![put, nop(), memory("signal"), memory("wait")]
    };
    let both = |rank| gpu(rank, vec![ops(rank, 0), ops(rank, 1)]);
    let shared = plan(vec![both(0), both(1)]);
    assert_eq!(check(&shared).to_string(), "");
    assert_eq!(imported(&shared).program.collective().chunks(), 2);
    let half = plan(vec![gpu(0, vec![ops(0, 0)]), both(1)]);
    let report = check(&half);
    assert!(report.has(Finding::MissingData), "{report}");
}

#[test]
fn a_pipeline_is_judged_by_one_iteration_where_that_is_enough() {
    let looped = |units: [u32; 2]| {
        let ops = |rank: u32| {
            let inner = vec![put(rank), nop(), memory("signal"), memory("wait"), nop()];
            let cut = json!({"unit_size": units[rank as usize], "num_chunks": 1});
            vec![json!({"name": "pipeline", "iter_context": cut, "ops": inner})]
        };
        plan(vec![gpu(0, vec![ops(0)]), gpu(1, vec![ops(1)])])
    };
    assert_eq!(check(&looped([1024, 1024])).to_string(), "");
    finds(&looped([1024, 2048]), Finding::NotJudged, Severity::NotJudged, "cut differently");
    let mut reused = looped([1024, 1024]);
    reused["gpus"][0]["threadblocks"][0]["ops"][0]["iter_context"]["num_chunks"] = json!(2);
    reused["gpus"][1]["threadblocks"][0]["ops"][0]["iter_context"]["num_chunks"] = json!(2);
    finds(&reused, Finding::NotJudged, Severity::NotJudged, "another size than `num_chunks`");
}
