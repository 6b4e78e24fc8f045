//! `motet exec`: ranks as processes, and programs of every synthesis method run and checked.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

#[path = "../../motet-exec/tests/it/certificates.rs"]
mod certificates;

use std::collections::BTreeSet;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration as Wall, Instant as Clock};

use motet_collective::{CollectiveKind, Program, Verified};
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, Group, Reduction, SharedClock, Store};
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_net::formats::{ReadOptions, read_any};
use motet_synth::{Effort, Goal, Method, Task, for_sockets, synthesize};
use motet_units::{Bytes, Instant, Rank, Seed};

fn motet() -> Command {
    Command::new(env!("CARGO_BIN_EXE_motet"))
}

fn output(words: &[&str]) -> Output {
    motet().args(words).output().unwrap()
}

#[test]
fn bench_checks_every_element_of_every_size() {
    for more in [&["--checksums", "--no-shared-memory", "--streams", "3"][..], &[]] {
        let words =
            ["--json", "exec", "bench", "-c", "allreduce", "-n", "4", "-t", "bf16", "-i", "2"];
        let sizes = ["--size", "100 B", "--size", "1000002 B", "--cluster", "full-mesh:gpus=4"];
        let output = output(&[&words[..], &sizes, more].concat());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2, "{text}");
        for row in rows {
            assert_eq!(row["wrong"], 0);
            assert!(row["time_us"].as_f64().unwrap() > 0.0 && row["predicted_us"].is_number());
        }
    }
}

/// The same with nccl-tests' sizes and columns.
#[test]
fn bench_prints_the_table_of_nccl_tests() {
    let words = ["bench", "--backend", "tcp", "--ranks", "3", "-c", "reducescatter"];
    let sizes = ["-b", "40", "-e", "64K", "-f", "8"];
    let json = output(&[&["--json"][..], &words, &sizes].concat());
    assert!(json.status.success(), "{}", String::from_utf8_lossy(&json.stderr));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["backend"], &json["wrong"]), (&"tcp".into(), &0.into()));
    // 40 bytes are less than 16 for each of three ranks, so nothing is left of them.
    let found = json["results"].as_array().unwrap().iter();
    let found: Vec<_> = found.map(|it| (it["size_bytes"].as_u64(), it["count"].as_u64())).collect();
    let wanted = [(288, 24), (2544, 212), (20448, 1704)].map(|it| (Some(it.0), Some(it.1)));
    assert_eq!(found, wanted);
    for row in json["results"].as_array().unwrap() {
        assert!(row["out_of_place"]["time_us"].as_f64().unwrap() > 0.0);
    }
    let text = output(&[&words[..], &sizes].concat());
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.starts_with("# Collective test starting: reduce_scatter_perf\n"), "{text}");
    assert!(text.contains("Out of bounds values : 0 OK"), "{text}");
    let refused = output(&[&words[..], &["--plan", "folder"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("`--plan` is of NCCL"));
}

/// Files given by options and by the environment, passed on to the ranks; and what is said of wrong ones.
#[test]
fn bench_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    certificates::make(folder.path(), "ca", &["ranks.example"]);
    let files = certificates::files(folder.path(), "ca", "ranks.example");
    let words = ["--json", "exec", "bench", "-c", "allreduce", "-n", "3", "-i", "2"];
    let words = [&words[..], &["--size", "1000002 B", "--no-shared-memory"]].concat();
    let mut command = motet();
    command.args(&words).arg("--tls-certificate").arg(files.certificate.as_ref().unwrap());
    command.args(["--tls-name", "ranks.example"]).env("MOTET_EXEC_TLS_CA", files.ca.unwrap());
    let without_key = command.output().unwrap();
    let error = String::from_utf8_lossy(&without_key.stderr);
    assert_eq!(without_key.status.code(), Some(2), "{error}");
    assert!(error.contains("TLS also needs its key"), "{error}");
    command.arg("--tls-key").arg(files.key.unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["rows"][0]["wrong"], 0, "{json}");
}

/// Ranks that run for as long as they are let, at a store of their own.
fn ranks(store: &str, ranks: u32, more: &[&str]) -> Vec<Child> {
    let start = |rank: u32| {
        let (rank, ranks) = (rank.to_string(), ranks.to_string());
        motet()
            .args([
                "--json",
                "exec",
                "run",
                "-c",
                "allreduce",
                "--size",
                "1 MiB",
                "--iterations",
                "100000",
            ])
            .args(["--rank", &rank, "--ranks", &ranks, "--store", store, "--store-apart"])
            .args(["--silence", "5", "--deadline", "20"])
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    (0..ranks).map(start).collect()
}

fn store() -> Store {
    Store::serve("127.0.0.1:0".parse().unwrap(), "", clock(), Arc::new(|_: &str| {})).unwrap()
}

#[test]
fn a_killed_rank_ends_the_others_with_its_name() {
    let store = store();
    let mut all = ranks(&store.address().to_string(), 3, &[]);
    std::thread::sleep(Wall::from_secs(2));
    all[1].kill().unwrap();
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = Clock::now();
    for (rank, child) in all.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        if rank != 1 {
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert!(error.contains("rank 1"), "{error}");
        }
    }
    assert!(start.elapsed() < Wall::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn the_others_go_on_when_asked() {
    let store = store();
    let more = ["--on-loss", "shrink", "--size", "4 KiB"];
    let mut all = ranks(&store.address().to_string(), 4, &more);
    // The first size is never done; whoever is left begins it again with fewer ranks.
    std::thread::sleep(Wall::from_secs(2));
    all[2].kill().unwrap();
    std::thread::sleep(Wall::from_secs(9));
    for (rank, mut child) in all.into_iter().enumerate() {
        let alive = child.try_wait().unwrap().is_none();
        assert_eq!(alive, rank != 2, "rank {rank}");
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        let notes = String::from_utf8_lossy(&output.stderr);
        assert!(rank == 2 || notes.contains("of 3"), "rank {rank}: {notes}");
    }
}

/// A rank that is a thread of this test: it joins the others, does as it is told, and leaves.
fn join(store: &Store, rank: u32, ranks: u32) -> Group {
    let address = store.address().to_string();
    let config = Config { serve_store: false, ..Config::new(address, rank, ranks) };
    Group::join(&config, clock(), Arc::new(|_: &str| {})).unwrap()
}

/// One rank in a datacenter of its own, and three in another.
const ONE_AND_THREE: &str = r#"
[[node]]
name = "b0"
kind = "gpu"
dc = "b"
[[node]]
name = "a0"
kind = "gpu"
dc = "a"
[[node]]
name = "a1"
kind = "gpu"
dc = "a"
[[node]]
name = "a2"
kind = "gpu"
dc = "a"
[[link]]
from = "a0"
to = "a1"
bandwidth = "10 Gbit/s"
latency = "20 us"
[[link]]
from = "a1"
to = "a2"
bandwidth = "10 Gbit/s"
latency = "20 us"
[[link]]
from = "a0"
to = "b0"
bandwidth = "500 Mbit/s"
latency = "5 ms"
"#;

/// What is left of the group makes all its calls, right in every element, by the program for what is left of the cluster. Rank 0 is
/// lost, and with it a datacenter, so that a program for the wrong three ranks would be another.
#[test]
fn who_goes_on_makes_right_calls_by_a_program_for_those_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one-and-three.toml");
    std::fs::write(&file, ONE_AND_THREE).unwrap();
    let cluster = network(ONE_AND_THREE);
    let goal = Goal::rooted(CollectiveKind::AllGather, 3, Rank(0)).unwrap();
    let made = |members: [u32; 3]| {
        let part = cluster.part(&members.map(Rank)).unwrap();
        let made = for_sockets(&part, true, &goal, Bytes::kib(300), Method::Auto, Seed::new(1));
        made.unwrap().program.name().to_owned()
    };
    assert_ne!(made([1, 2, 3]), made([0, 1, 2]));
    let file = file.to_str().unwrap();
    for cluster in [&[][..], &["--cluster", file]] {
        let store = store();
        let words = ["--on-loss", "shrink", "--size", "300 KiB", "-i", "3"];
        let address = store.address().to_string();
        let start = |rank: u32| {
            let mut command = motet();
            command.args(["--json", "exec", "run", "--store-apart", "--silence", "5"]);
            command.args(["-c", "allgather", "--store", &address]).args(words).args(cluster);
            command.args(["--ranks", "4", "--rank", &rank.to_string()]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let all: Vec<Child> = (1..4).map(start).collect();
        drop(join(&store, 0, 4));
        for (rank, child) in all.into_iter().enumerate() {
            let output = child.wait_with_output().unwrap();
            let notes = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{notes}");
            let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&json["rank"], &json["ranks"]), (&rank.into(), &3.into()), "{json}");
            assert!(json["losses"][0].as_str().unwrap().contains("rank 0"), "{json}");
            let row = &json["rows"][0];
            assert_eq!((&row["wrong"], row["times_us"].as_array().unwrap().len()), (&0.into(), 3));
            assert!(cluster.is_empty() || row["program"] == *made([1, 2, 3]), "{json}");
        }
    }
}

/// A rank is there and does not call. That is a failure of the call on every rank, whoever's time is up first, and nobody goes on
/// without anybody.
#[test]
fn a_call_that_takes_too_long_is_no_loss() {
    let store = store();
    // The last rank would wait longer, and hears of it from the first.
    let mut all = Vec::new();
    for (rank, deadline) in [("0", "4"), ("1", "300")] {
        let mut command = motet();
        command.args(["exec", "run", "-c", "allreduce", "--size", "1 MiB", "--store-apart"]);
        command.args(["--store", &store.address().to_string(), "--ranks", "3"]);
        command.args(["--rank", rank, "--deadline", deadline]);
        command.args(["--on-loss", "shrink"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        all.push(command.spawn().unwrap());
    }
    let there = join(&store, 2, 3);
    for child in all {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let error = said.lines().find(|it| it.starts_with("error")).unwrap_or_default();
        assert!(error.contains("within 4 s"), "{said}");
        assert!(said.contains("--deadline") && !said.contains("going on"), "{said}");
    }
    drop(there);
}

/// A program that is given is for one number of ranks: that is said before anything else, not when a rank is lost.
#[test]
fn a_program_that_is_given_cannot_shrink() {
    let words = ["exec", "run", "PROGRAM.json", "--size", "1 MiB", "--on-loss", "shrink"];
    let rank = ["--rank", "0", "--ranks", "2", "--store", "127.0.0.1:0"];
    let refused = output(&[&words[..], &rank].concat());
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("`--on-loss shrink` cannot go on with a program"), "{error}");
    assert!(error.contains("`-c`"), "{error}");
}

#[test]
fn what_cannot_be_is_said() {
    let refused = output(&["exec", "bench", "-c", "allreduce", "--size", "1 KiB"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--ranks"));
    let open = output(&["exec", "store", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&open.stderr).contains("MOTET_EXEC_TOKEN"));
}

fn clock() -> SharedClock {
    static START: OnceLock<Clock> = OnceLock::new();
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = *START.get_or_init(Clock::now);
    Arc::new(move || Instant::from_ps(start.elapsed().as_nanos() as u64 * 1000 + 1))
}

/// Runs programs on ranks that are threads, each with another type, size and reduction than the one before; every element is checked.
fn run_all(programs: &[Verified<Program>], ranks: u32) {
    let store = store();
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let address = store.address().to_string();
            scope.spawn(move || {
                let config = Config {
                    serve_store: false,
                    // Two hosts: ranks share memory with some and not with others.
                    shared_memory: rank < ranks / 2,
                    slice: 4 << 10,
                    ..Config::new(address, rank, ranks)
                };
                let mut group = Group::join(&config, clock(), Arc::new(|_: &str| {})).unwrap();
                for (index, program) in programs.iter().enumerate() {
                    let forms = program.forms();
                    let call = Call {
                        element: Element::ALL[index % Element::ALL.len()],
                        elements: [5003, 64, 1, 997][index % 4],
                        reduction: Reduction::ALL[index % 7 % Reduction::ALL.len()],
                        in_place: forms.in_place && (index % 2 == 1 || !forms.out_of_place),
                    };
                    let mut operation = group.register(program, call).unwrap();
                    let data = Data::new(program.collective(), call, Seed::new(index as u64));
                    data.fill(rank, operation.input_mut().unwrap());
                    operation.run().unwrap();
                    let wrong = data.wrong(rank, operation.output().unwrap());
                    assert_eq!(wrong, (0, None), "{} of {call:?}", program.name());
                }
            });
        }
    });
}

fn network(cluster: &str) -> Network {
    read_any(cluster, None, &ReadOptions::default(), &|_| Err("no other files".to_owned()))
        .unwrap()
        .network
}

/// Two datacenters of three ranks with an unequal pair of links between them.
const TWO_DCS: &str = r#"
[[node]]
name = "a0"
kind = "gpu"
[[node]]
name = "a1"
kind = "gpu"
[[node]]
name = "a2"
kind = "gpu"
[[node]]
name = "b0"
kind = "gpu"
[[node]]
name = "b1"
kind = "gpu"
[[node]]
name = "b2"
kind = "gpu"
[[link]]
from = "a0"
to = "a1"
bandwidth = "10 Gbit/s"
latency = "20 us"
[[link]]
from = "a1"
to = "a2"
bandwidth = "10 Gbit/s"
latency = "20 us"
[[link]]
from = "b0"
to = "b1"
bandwidth = "10 Gbit/s"
latency = "20 us"
[[link]]
from = "b1"
to = "b2"
bandwidth = "10 Gbit/s"
latency = "20 us"
[[link]]
from = "a0"
to = "b0"
bandwidth = "1 Gbit/s"
latency = "5 ms"
[[link]]
from = "a2"
to = "b2"
bandwidth = "500 Mbit/s"
latency = "5 ms"
"#;

/// A network from a template, as on the command line.
fn template(text: &str) -> Network {
    let (name, words) = text.split_once(':').unwrap_or((text, ""));
    let words = words.split(',').filter(|it| !it.is_empty());
    find(name).unwrap().build(&Params::from_words(words).unwrap()).unwrap()
}

fn goal(kind: CollectiveKind, ranks: u32) -> Goal {
    let goal = match kind {
        CollectiveKind::AllToAllV => {
            Goal::all_to_all_v(ranks, (0..ranks * ranks).map(|it| it % 4).collect())
        }
        CollectiveKind::SendRecv => {
            Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
        }
        kind => Goal::rooted(kind, ranks, Rank(ranks - 1)),
    };
    goal.unwrap()
}

/// Networks of 2 to 16 ranks on which together every method makes every collective that it does at all: none is left out because it had no network to be
/// at home on.
#[test]
fn programs_of_every_method_run_right() {
    let networks = [
        template("full-mesh:gpus=2"),
        template("ring:gpus=3"),
        template("ring:gpus=4"),
        template("full-mesh:gpus=5"),
        network(TWO_DCS),
        template("ring:gpus=7"),
        template("dgx-h100"),
        template("torus-2d:rows=3,columns=4"),
        template("torus-2d:rows=3,columns=5"),
        template("dgx-h100:count=2"),
    ];
    let exact = Method::Recipe(&motet_exact::METHOD);
    let (mut wanted, mut ran) = (BTreeSet::new(), BTreeSet::new());
    for network in &networks {
        let ranks = network.ranks().len() as u32;
        let mut programs = Vec::new();
        for (number, method) in Method::all().chain([exact]).enumerate() {
            for (other, kind) in CollectiveKind::ALL.into_iter().enumerate() {
                if !method.does(kind) {
                    continue;
                }
                let pair = (method.name(), kind.name());
                wanted.insert(pair);
                // Searching to the end takes long on larger networks, and with many ranks so do all methods for all collectives.
                let too_long = method.name() == "exact" && ranks > 4
                    || ranks > 8
                        && !(number + other + ranks as usize).is_multiple_of(4)
                        && ran.contains(&pair);
                if too_long {
                    continue;
                }
                let task = Task::new(network, goal(kind, ranks), Bytes::kib(256));
                let in_switch = matches!(method, Method::InSwitch);
                let task = if in_switch { task.with_switches() } else { task };
                let effort = Effort::times_normal(Seed::new(1), 0.1);
                // Not every method does every collective on every network.
                let made = synthesize(&task, method, &effort).and_then(|it| it.prove(&task));
                if let Ok(made) = made {
                    assert_eq!(made.program.uses_switches(), in_switch, "{}", method.name());
                    ran.insert(pair);
                    programs.push(made.program);
                }
            }
        }
        assert!(programs.len() >= 10, "{}: {} programs", network.name(), programs.len());
        run_all(&programs, ranks);
    }
    let missing: Vec<_> = wanted.difference(&ran).collect();
    assert!(missing.is_empty(), "no network for {missing:?}");
}

/// `motet exec` runs what C, torch and a plan do: what is chosen for the network, links side by side and gateways included.
#[test]
fn bench_runs_what_is_chosen_for_sockets() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/wan/two-dcs-unequal.toml");
    let network = network(&std::fs::read_to_string(file).unwrap());
    for kind in [CollectiveKind::AllGather, CollectiveKind::AllReduce, CollectiveKind::Broadcast] {
        let words = ["--json", "exec", "bench", "-c", kind.name(), "-i", "1", "--size", "1 MiB"];
        let output = output(&[&words[..], &["--cluster", file]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let row = &json["rows"][0];
        let (size, seed) = (Bytes::mib(1), Seed::new(1));
        let goal = Goal::rooted(kind, 8, Rank(0)).unwrap();
        let chosen = for_sockets(&network, true, &goal, size, Method::Auto, seed).unwrap();
        assert_eq!(row["program"], chosen.program.name(), "{kind}");
        assert_eq!(row["predicted_us"], chosen.time.as_us_f64(), "{kind}");
        let by_gateways = kind != CollectiveKind::Broadcast;
        assert_eq!((chosen.method.name() == "gateways", &row["wrong"]), (by_gateways, &0.into()));
    }
}

/// Programs timed between processes of this machine: all tasks are measured, the plan can be read again, and its programs are right.
#[test]
fn a_plan_of_programs_timed_on_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan");
    let plan = plan.to_str().unwrap();
    let said = |words: &[&str]| {
        let output = motet().args(words).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {text}");
        String::from_utf8(output.stdout).unwrap()
    };
    let words = ["--json", "plan", "ring:gpus=3", "-o", plan, "--backend", "tcp"];
    let what =
        ["-c", "allreduce,broadcast", "--min", "1 KiB", "--max", "2 KiB", "--budget", "100s"];
    let json = said(&[&words[..], &what].concat());
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((json["tasks"].as_u64(), json["measured"].as_u64()), (Some(4), Some(4)), "{json}");
    assert_eq!((&json["backend"], &json["wrong"]), (&"tcp".into(), &0.into()));
    let shown = said(&["--json", "plan", "show", plan]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let tasks = shown["tasks"].as_array().unwrap();
    for task in tasks {
        let tried = task["tried"].as_array().unwrap();
        assert!(tried.len() > 1, "{task}");
        // Every candidate was timed at least once, what is run without a plan twice a round.
        assert!(tried.iter().all(|it| !it["times_ps"].as_array().unwrap().is_empty()), "{task}");
        assert!(task["time_ps"].as_u64().unwrap() > 0);
        let program = format!("{plan}/{}", task["program"].as_str().unwrap());
        said(&["verify", &program]);
    }
    assert!(said(&["plan", "show", plan, "--network", "ring:gpus=3"]).contains("allreduce"));
    let checked: serde_json::Value =
        serde_json::from_str(&said(&["--json", "plan", "check", plan])).unwrap();
    assert_eq!((&checked["ok"], &checked["programs"]), (&true.into(), &4.into()));
    // A program that was changed is found.
    let program = format!("{plan}/programs/allreduce-1024.json");
    let text = std::fs::read_to_string(&program).unwrap();
    std::fs::write(&program, text.replacen("\"allreduce\"", "\"allgather\"", 1)).unwrap();
    let output = motet().args(["plan", "check", plan]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
