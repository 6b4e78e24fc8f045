//! The profiler as NCCL sees it, through the C host in `tests/host`; valgrind where it is installed; and the names
//! that a real NCCL looks for.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;

use common::{clean, command, host, library, passes, plan};
use motet_runtime::{Algorithm, Collective, Protocol, Segment, Source, Trace};
use tempfile::TempDir;

struct Files {
    folder: TempDir,
}

impl Files {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, test: &[&str], every: &str) -> String {
        let mut command = command(test);
        passes(self.with(&mut command, every))
    }

    fn with<'a>(&self, command: &'a mut Command, every: &str) -> &'a mut Command {
        let files = [("TRACE", "trace"), ("METRICS", "%r.prom"), ("CONTROL", "control")];
        for (name, file) in files {
            command.env(format!("MOTET_{name}"), self.path(file));
        }
        command.env("MOTET_TRACE", self.path("%r.trace"));
        let plans = plan(&self.path("plan"));
        command.env("MOTET_PLAN", plans).env("MOTET_PROFILE_EVERY", every)
    }

    fn trace(&self, rank: u32) -> Trace {
        Trace::read(&fs::read(self.path(&format!("{rank}.trace"))).unwrap()).unwrap()
    }
}

#[test]
fn kernels_are_timed_by_the_gpu() {
    for version in 4..=7 {
        let files = Files::new();
        let text = files.run(&["profiler", &version.to_string(), "300", "4"], "1");
        assert!(text.contains("profiled 300\n"), "{text}");
        let trace = files.trace(3);
        let about = &trace.communicators[0];
        assert_eq!((about.id, about.rank, about.ranks, about.nodes), (77, 3, 4, 2));
        assert_eq!(
            (about.name.as_str(), trace.communicators.len(), trace.cut_at),
            ("world", 1, None)
        );
        assert_eq!(trace.calls.len(), 300, "v{version}");
        for (sequence, call) in (0..).zip(&trace.calls) {
            assert_eq!(
                (call.sequence, call.bytes.get(), call.duration_ns),
                (sequence, 1 << 20, 5030)
            );
            assert_eq!(call.start_ns, 1_000_000 + 100_000 * sequence);
            assert_eq!((call.channels, call.finished, call.source), (4, 4, Source::Gpu));
            assert_eq!(call.collective, Collective::AllReduce);
            let setting = (call.algorithm, call.protocol);
            assert_eq!(setting, (Some(Algorithm::Ring), Some(Protocol::Simple)));
        }
    }
}

#[test]
fn older_nccls_have_the_hosts_clock_or_none() {
    for (version, source) in [(1, Source::Unknown), (2, Source::Unknown), (3, Source::Host)] {
        let files = Files::new();
        files.run(&["profiler", &version.to_string(), "100", "4"], "1");
        let entries = fs::read_dir(files.folder.path()).unwrap().map(|it| it.unwrap().path());
        let traces: Vec<_> =
            entries.filter(|it| it.extension() == Some("trace".as_ref())).collect();
        assert!(
            traces.len() == 1 && traces[0].file_name().unwrap().to_str().unwrap().starts_with('p')
        );
        let trace = Trace::read(&fs::read(&traces[0]).unwrap()).unwrap();
        assert_eq!(trace.calls.len(), 100, "v{version}");
        assert!(trace.calls.iter().all(|it| it.source == source && it.bytes.get() == 1 << 20));
        assert!(trace.calls.iter().all(|it| it.algorithm == Some(Algorithm::Ring)));
        assert!(trace.calls.iter().all(|it| (it.duration_ns > 0) == (source == Source::Host)));
    }
}

#[test]
fn a_part_of_the_groups_is_profiled() {
    for (every, expected) in [("16", 1600 / 16), ("0", 0), ("7", 1600 / 7), ("what", 1600 / 256)] {
        let files = Files::new();
        let mut command = command(&["profiler", "6", "1600", "2"]);
        files.with(&mut command, every);
        let text = passes(&mut command);
        let profiled = text.lines().find_map(|it| it.strip_prefix("profiled ")).unwrap();
        let profiled: i64 = profiled.parse().unwrap();
        assert!((profiled - expected).abs() <= 3, "every {every}: {profiled}");
        assert_eq!(
            text.contains("log 2 4000 Motet: MOTET_PROFILE_EVERY=what is not"),
            every == "what"
        );
        assert_eq!(text.contains("MOTET_PROFILE_EVERY is 0; nothing is profiled"), every == "0");
        if every != "0" {
            assert_eq!(files.trace(3).calls.len() as i64, profiled);
        }
    }
}

/// NCCL's own counters, in the host: a mask that changes between captured calls leaves events that never come.
#[test]
fn captured_calls_leave_nothing_to_wait_for() {
    for version in ["5", "6"] {
        for (every, before, expected) in [
            // The first group of all is one that is profiled, and here the first that is captured: all are, then.
            ("16", "0", "profiled 0 before, 800 captured, 500 after, 0 waited for\n"),
            ("16", "100", "profiled 7 before, 0 captured, 0 after, 0 waited for\n"),
            ("1", "100", "profiled 100 before, 800 captured, 500 after, 0 waited for\n"),
        ] {
            let files = Files::new();
            let text = files.run(&["profiler-graphs", version, before], every);
            assert!(text.contains(expected), "{text}");
            for (level, said, when) in
                [(3, "none are", " 0 captured"), (2, "the first was profiled", "profiled 0 before")]
            {
                let line = format!("log {level} 4000 Motet: calls are captured in CUDA graphs");
                let lines = text.lines().filter(|it| it.starts_with(&line) && it.contains(said));
                assert_eq!(lines.count(), usize::from(expected.contains(when)), "{text}");
            }
        }
    }
}

/// Since 2.31 NCCL counts captured calls right: one that is profiled by chance stays the only one.
#[test]
fn one_profiled_capture_is_enough_where_nccl_counts_right() {
    let files = Files::new();
    let text = files.run(&["profiler-graphs", "7", "0"], "16");
    assert!(text.contains("profiled 0 before, 1 captured, 0 after"), "{text}");
    assert!(
        text.contains("calls are captured in CUDA graphs") && text.contains("none are"),
        "{text}"
    );
    let text = files.run(&["profiler-graphs", "7", "100"], "1");
    assert!(text.contains("profiled 100 before, 800 captured, 500 after"), "{text}");
}

/// Another thread switches the mask at any moment, also between NCCL's reading it and telling us of the capture.
#[test]
fn captures_beside_plain_calls_of_another_thread_leave_nothing_to_wait_for() {
    let files = Files::new();
    let text = files.run(&["profiler-graph-threads", "6", "400"], "2");
    let line = text.lines().find(|it| it.ends_with("waited for")).unwrap();
    assert!(line.ends_with(" 0 waited for"), "{text}");
    let rounds: Vec<u32> =
        line.split(", ").take(2).map(|it| it.split(' ').next().unwrap().parse().unwrap()).collect();
    assert!(rounds[0] > 0 && rounds[1] > 0, "both kinds of first captures are tried: {line}");
}

/// Before version 5 of the profiler NCCL does not tell of captures: nothing is profiled then, unless the user says so.
#[test]
fn nothing_is_profiled_unasked_where_captures_are_not_told() {
    let unasked = |version| {
        let files = Files::new();
        let mut command = command(&["profiler", version, "8192", "2"]);
        files.with(&mut command, "1").env_remove("MOTET_PROFILE_EVERY");
        let text = passes(&mut command);
        let profiled = text.lines().find_map(|it| it.strip_prefix("profiled ")).unwrap();
        (profiled.parse::<i64>().unwrap(), text)
    };
    // Version 3 has no way to say so.
    for (version, lines) in [("3", 0), ("4", 1)] {
        let (profiled, text) = unasked(version);
        assert_eq!(profiled, 0, "v{version}");
        let said = "set MOTET_PROFILE_EVERY to 256 for a job that captures none";
        assert_eq!(text.matches(said).count(), lines, "{text}");
    }
    for version in ["2", "6"] {
        let (profiled, _) = unasked(version);
        assert!((profiled - 8192 / 256).abs() <= 2, "v{version}: {profiled}");
    }
    let files = Files::new();
    let text = files.run(&["profiler", "4", "100", "2"], "16");
    assert!(text.contains("may hang when it ends; set it to 1 or 0"), "{text}");
}

#[test]
fn metrics_and_the_shared_file_say_what_was_measured_and_expected() {
    let files = Files::new();
    files.run(&["profiler", "6", "300", "4"], "1");
    let text = fs::read_to_string(files.path("3.prom")).unwrap();
    let labels = "algorithm=\"ring\",collective=\"allreduce\",protocol=\"simple\",rank=\"3\",ranks=\"4\",size=\"1048576\"";
    for line in [
        &format!("motet_nccl_calls_total{{{labels}}} 300\n"),
        &format!("motet_nccl_seconds_total{{{labels}}} 0.001509000000\n"),
        &format!("motet_nccl_bytes_total{{{labels}}} 314572800\n"),
        "motet_nccl_lost_total 0\n",
        "motet_nccl_plan_expected_seconds{collective=\"allreduce\",ranks=\"4\",size=\"1048576\"} 0.000080000000\n",
        "motet_nccl_plan_measured_seconds{collective=\"allreduce\",ranks=\"4\",size=\"1048576\"} 0.000005030000\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!files.path("3.prom.new").exists());
    let bytes = fs::read(files.path("control")).unwrap();
    let words = bytes.chunks_exact(8).map(|it| u64::from_ne_bytes(it.try_into().unwrap()));
    let words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
    let times = Segment::new(&words).unwrap().times();
    assert_eq!(times.len(), 1);
    assert_eq!((times[0].count, times[0].median.as_ps()), (300, 5_030_000));
    assert_eq!((times[0].key.rank.0, times[0].key.channels), (3, 4));
}

#[test]
fn collectives_and_their_kernels_come_on_different_threads() {
    let files = Files::new();
    files.run(&["profiler-threads"], "1");
    let trace = files.trace(0);
    assert_eq!(trace.calls.len(), 6000);
    assert!(trace.calls.iter().all(|it| it.duration_ns == 500 + it.sequence && it.finished == 3));
}

#[test]
fn odd_events_lose_time_and_nothing_else() {
    let files = Files::new();
    files.run(&["profiler-odd"], "1");
    let trace = files.trace(0);
    let late: Vec<_> = trace.calls.iter().filter(|it| it.sequence == 2).collect();
    assert_eq!((late.len(), late[0].duration_ns, late[0].source), (1, 200, Source::Gpu));
    let zero: Vec<_> = trace.calls.iter().filter(|it| it.sequence == 3).collect();
    assert_eq!((zero.len(), zero[0].source), (1, Source::Unknown));
    let text = fs::read_to_string(files.path("0.prom")).unwrap();
    let lost = text.lines().find_map(|it| it.strip_prefix("motet_nccl_lost_total "));
    assert_eq!(lost, Some("1001"), "{text}");
}

#[test]
fn files_that_cannot_be_written_cost_the_files_only() {
    let files = Files::new();
    let mut command = command(&["profiler", "6", "100", "2"]);
    files
        .with(&mut command, "1")
        .env("MOTET_TRACE", "/nowhere/%r")
        .env("MOTET_METRICS", "/nowhere/x");
    let text = passes(&mut command);
    for name in ["MOTET_TRACE", "MOTET_METRICS"] {
        assert_eq!(
            text.matches(&format!("log 2 4000 Motet: {name}: /nowhere/")).count(),
            1,
            "{text}"
        );
    }
    // A device that is always full.
    symlink("/dev/full", files.path("full-3")).unwrap();
    files
        .with(&mut command, "1")
        .env("MOTET_TRACE", files.path("full-%r"))
        .env("MOTET_METRICS", "");
    let text = passes(&mut command);
    assert_eq!(text.matches("no more of the trace is written").count(), 1, "{text}");
}

#[test]
fn without_anything_to_write_nothing_is_profiled() {
    let mut command = command(&["reopen"]);
    let folder = TempDir::new().unwrap();
    let text = passes(command.env("MOTET_PLAN", plan(folder.path())));
    assert!(text.contains("nothing is profiled; set MOTET_TRACE"), "{text}");
}

fn is_installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn valgrind_finds_nothing() {
    if !is_installed("valgrind") {
        motet_testdata::skip("valgrind is not installed");
        return;
    }
    for test in [&["odd"][..], &["reopen"], &["profiler", "7", "300", "4"], &["profiler-odd"]] {
        let files = Files::new();
        let mut command = Command::new("valgrind");
        clean(&mut command);
        command.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        command.args(["--errors-for-leak-kinds=definite,indirect"]);
        // The host has a `malloc` of its own, which is to be watched too.
        command.arg("--soname-synonyms=somalloc=NONE");
        command.arg(host()).arg(library()).args(test);
        passes(files.with(&mut command, "1"));
    }
}

/// A process that is killed leaves a trace that can be read to its last block.
#[test]
fn a_killed_process_leaves_a_trace_that_can_be_read() {
    let files = Files::new();
    let mut command = command(&["profiler-bench"]);
    let mut child = files.with(&mut command, "1").spawn().unwrap();
    let trace = files.path("0.trace");
    for _ in 0..200 {
        std::thread::sleep(std::time::Duration::from_millis(20));
        if fs::metadata(&trace).is_ok_and(|it| it.len() > 1000) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!files.trace(0).calls.is_empty());
}

/// With `MOTET_NCCL_LIB=/path/libnccl.so.2`: the names that it looks for, which stand in it as texts, are ours.
#[test]
fn a_real_nccl_looks_for_our_symbols() {
    let Some(nccl) = std::env::var_os("MOTET_NCCL_LIB") else {
        motet_testdata::skip("MOTET_NCCL_LIB is not set to a libnccl.so.2");
        return;
    };
    let bytes = fs::read(Path::new(&nccl)).unwrap();
    let names = |prefix: &str| {
        let mut found: Vec<u32> = Vec::new();
        let places = bytes.windows(prefix.len()).enumerate().filter(|it| it.1 == prefix.as_bytes());
        for (place, _) in places {
            let digits = bytes[place + prefix.len()..].iter().take_while(|it| it.is_ascii_digit());
            let digits: String = digits.map(|it| char::from(*it)).collect();
            found.extend(digits.parse::<u32>());
        }
        found.sort_unstable();
        found.dedup();
        found
    };
    let (tuners, profilers) = (names("ncclTunerPlugin_v"), names("ncclProfiler_v"));
    println!("{}: tuner {tuners:?}, profiler {profilers:?}", nccl.display());
    assert!(!tuners.is_empty() && tuners.iter().all(|it| (2..=6).contains(it)), "{tuners:?}");
    assert!(!profilers.is_empty() && profilers.iter().all(|it| (1..=7).contains(it)));
    passes(&mut command(&["symbols"]));
}
