//! `motet testbed` and `motet wan --live` as a whole, where there are root, namespaces and TUN devices; elsewhere these tests say that they are skipped.

#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const SCENARIO: &str = r#"
name = "small"
cluster = "two-dc:gpus=2,leaves=1,spines=1,borders=1,intra=10 Gbit/s,wan=200 Mbit/s,wan-latency=1 ms"
count = 4

[[collective]]
kind = "allgather"
size = "256 KiB"

[variation]
kind = "uniform"
wan = ["100 Mbit/s", "200 Mbit/s"]
every = 2
"#;

/// A folder with the scenario, of its own for each test, and where its testbeds are kept.
struct Bench {
    folder: PathBuf,
}

impl Bench {
    /// None where a testbed cannot be made, with the reason said.
    fn new(name: &str) -> Option<Self> {
        let tried = Command::new("unshare").args(["--net", "true"]).output();
        if !tried.is_ok_and(|it| it.status.success()) {
            motet_testdata::skip(
                "no right to make network namespaces, or no `unshare` to try it with",
            );
            return None;
        }
        if std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun").is_err() {
            motet_testdata::skip("/dev/net/tun cannot be opened");
            return None;
        }
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("testbed-{name}"));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("small.toml"), SCENARIO).unwrap();
        Some(Self { folder })
    }

    fn motet(&self, words: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_motet"))
            .args(words)
            .current_dir(&self.folder)
            // Short, because the path of a socket must be.
            .env("MOTET_TESTBED_DIR", self.beds())
            .output()
            .unwrap()
    }

    fn beds(&self) -> PathBuf {
        let name = self.folder.file_name().unwrap().to_string_lossy().into_owned();
        std::env::temp_dir().join(format!("motet-{name}-{}", std::process::id()))
    }

    /// The folders of testbeds that are there.
    fn left(&self) -> usize {
        std::fs::read_dir(self.beds()).map_or(0, Iterator::count)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.motet(&["testbed", "down", "small.toml"]);
        let _ = std::fs::remove_dir_all(self.beds());
    }
}

fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_command_runs_on_every_host_and_nothing_is_left() {
    let Some(bench) = Bench::new("run") else { return };
    let script = "echo $MOTET_RANK of $MOTET_RANKS; test -n \"$MOTET_STORE\"";
    let output = bench.motet(&["testbed", "run", "small.toml", "--", "sh", "-c", script]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    let mut lines: Vec<&str> = text.lines().filter(|it| it.contains(" of ")).collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0: 0 of 4", "1: 1 of 4", "2: 2 of 4", "3: 3 of 4"], "{text}");
    assert_eq!(bench.left(), 0);
    // What fails is named, and ends with 1.
    let output =
        bench.motet(&["testbed", "run", "small.toml", "--", "sh", "-c", "test $MOTET_RANK != 2"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("rank 2"), "{}", said(&output));
}

#[test]
fn collectives_are_right_across_it() {
    let Some(bench) = Bench::new("collectives") else { return };
    let output = bench.motet(&["--json", "testbed", "run", "small.toml", "-i", "3"]);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("\"wrong\":0") || text.contains("\"wrong\": 0"), "{text}");
    assert_eq!(bench.left(), 0);
}

#[test]
fn what_was_killed_is_cleaned_up_by_the_next_start() {
    let Some(bench) = Bench::new("killed") else { return };
    let keeper = |output: &Output| {
        let text = said(output);
        let (_, rest) = text.split_once("held by process ").unwrap_or_else(|| panic!("{text}"));
        rest.split_whitespace().next().unwrap().to_owned()
    };
    let first = keeper(&bench.motet(&["testbed", "up", "small.toml"]));
    assert_eq!(keeper(&bench.motet(&["testbed", "up", "small.toml"])), first);
    assert!(Command::new("kill").args(["-9", &first]).status().unwrap().success());
    // The kernel may take a moment.
    let there = || {
        std::fs::read_to_string(format!("/proc/{first}/stat")).is_ok_and(|it| !it.contains(") Z"))
    };
    for _ in 0..200 {
        if !there() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let again = bench.motet(&["testbed", "up", "small.toml"]);
    assert!(again.status.success(), "{}", said(&again));
    assert_ne!(keeper(&again), first);
    assert_eq!(bench.left(), 1);
    let down = bench.motet(&["testbed", "down", "small.toml"]);
    assert!(said(&down).contains("is down"), "{}", said(&down));
    assert_eq!(bench.left(), 0);
    assert!(said(&bench.motet(&["testbed", "down", "small.toml"])).contains("nothing is up"));
}

/// Whoever is first starts it; the others are told that, or find it up, and nobody takes it from under them.
#[test]
fn of_several_that_start_it_at_once_one_does() {
    let Some(bench) = Bench::new("at-once") else { return };
    let up = || bench.motet(&["testbed", "up", "small.toml"]);
    let all: Vec<Output> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..3).map(|_| scope.spawn(up)).collect();
        all.into_iter().map(|it| it.join().unwrap()).collect()
    });
    for it in &all {
        let told = it.status.code() == Some(1) && said(it).contains("is just starting");
        assert!(it.status.success() || told, "{}", said(it));
    }
    assert!(all.iter().any(|it| it.status.success()));
    assert_eq!((at_work_in(&bench.beds()), bench.left()), (1, 1), "one keeper, one folder");
    let again = up();
    assert!(said(&again).contains("is up already"), "{}", said(&again));
    let down = bench.motet(&["testbed", "down", "small.toml"]);
    assert!(said(&down).contains("is down"), "{}", said(&down));
    assert_eq!((at_work_in(&bench.beds()), bench.left()), (0, 0));
}

#[test]
fn the_modes_run_live() {
    let Some(bench) = Bench::new("live") else { return };
    for sight in ["told", "measured"] {
        let output = bench.motet(&["wan", "--live", "small.toml", "--sight", sight]);
        let text = said(&output);
        assert!(output.status.success(), "{text}");
        for mode in ["base", "routes", "programs (synth)", "both (synth)"] {
            assert!(text.contains(mode), "{text}");
        }
        assert_eq!(bench.left(), 0);
    }
}

/// Processes whose command line names this folder.
fn at_work_in(folder: &Path) -> usize {
    let name = folder.to_string_lossy().into_owned();
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    lines
        .filter_map(|it| std::fs::read(it.path().join("cmdline")).ok())
        .filter(|it| String::from_utf8_lossy(it).contains(&name))
        .count()
}

#[test]
fn routers_may_be_frr() {
    let Some(bench) = Bench::new("frr") else { return };
    // Two borders in each datacenter, so that there are routes to choose from.
    let scenario = SCENARIO.replace("borders=1", "borders=2");
    let scenario = format!("{scenario}\n[testbed]\nrouters = \"frr\"\n");
    std::fs::write(bench.folder.join("small.toml"), scenario).unwrap();
    let up = bench.motet(&["testbed", "up", "small.toml"]);
    if !up.status.success() && said(&up).contains("not installed") {
        motet_testdata::skip("FRR is not installed");
        return;
    }
    assert!(up.status.success(), "{}", said(&up));
    let bed = std::fs::read_dir(bench.beds()).unwrap().next().unwrap().unwrap().path();
    // The routes are FRR's own: a router has one to each rank of the other datacenter, for each that sends.
    let mut shown = Command::new("vtysh");
    shown.arg("--vty_socket").arg(bed.join("frr0")).args(["-c", "show running-config"]);
    let shown = said(&shown.output().unwrap());
    assert!(shown.contains("ip route 10.101.") && shown.contains(" table 10"), "{shown}");
    let ran = bench.motet(&["--json", "testbed", "run", "small.toml", "-i", "3"]);
    assert!(ran.status.success() && said(&ran).contains("\"wrong\": 0"), "{}", said(&ran));
    // Daemons of another user end with a keeper that is killed, too.
    assert!(at_work_in(&bed) >= 8);
    let keeper = said(&up);
    let (_, keeper) = keeper.split_once("held by process ").unwrap();
    let keeper = keeper.split_whitespace().next().unwrap();
    assert!(Command::new("kill").args(["-9", keeper]).status().unwrap().success());
    for _ in 0..600 {
        if at_work_in(&bed) == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(at_work_in(&bed), 0);
    let live = bench.motet(&["--json", "wan", "--live", "small.toml"]);
    assert!(live.status.success(), "{}", said(&live));
    let text: serde_json::Value = serde_json::from_slice(&live.stdout).unwrap();
    // By routes and by programs.
    let moves = text["modes"].as_array().unwrap().iter().map(|it| it["live_moves"][0].as_u64());
    assert!(moves.map(Option::unwrap).sum::<u64>() > 0, "{text}");
    assert_eq!((bench.left(), at_work_in(&bed)), (0, 0));
}

#[test]
fn congestion_control_is_the_scenarios() {
    let Some(bench) = Bench::new("congestion") else { return };
    // Every Linux has Reno.
    let scenario = format!("{SCENARIO}\n[testbed]\ncongestion = \"reno\"\n");
    std::fs::write(bench.folder.join("small.toml"), &scenario).unwrap();
    let up = bench.motet(&["--json", "testbed", "up", "small.toml"]);
    assert!(up.status.success(), "{}", said(&up));
    let up: serde_json::Value = serde_json::from_slice(&up.stdout).unwrap();
    assert_eq!(up["congestion"], "reno");
    let sysctl = "/proc/sys/net/ipv4/tcp_congestion_control";
    let run = bench.motet(&["testbed", "run", "small.toml", "--only", "0", "--", "cat", sysctl]);
    assert!(said(&run).contains("reno"), "{}", said(&run));
    bench.motet(&["testbed", "down", "small.toml"]);
    let other = scenario.replace("reno", "carrier-pigeon");
    std::fs::write(bench.folder.join("small.toml"), other).unwrap();
    let refused = bench.motet(&["testbed", "up", "small.toml"]);
    assert!(!refused.status.success());
    assert!(said(&refused).contains("bbr"), "{}", said(&refused));
}

#[test]
fn links_may_be_the_kernels() {
    let Some(bench) = Bench::new("kernel") else { return };
    let write = |links: &str| {
        let scenario = format!("{SCENARIO}\n[testbed]\nlinks = \"{links}\"\n");
        std::fs::write(bench.folder.join("small.toml"), scenario).unwrap();
    };
    let json = |words: &[&str]| -> serde_json::Value {
        let output = bench.motet(words);
        assert!(output.status.success(), "{}", said(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    write("kernel");
    let up = bench.motet(&["--json", "testbed", "up", "small.toml"]);
    let has = !said(&up).contains("it has no ");
    // What may be either is what there is.
    write("auto");
    if has {
        assert!(up.status.success(), "{}", said(&up));
        bench.motet(&["testbed", "down", "small.toml"]);
    }
    let either = json(&["--json", "testbed", "up", "small.toml"]);
    assert_eq!(either["links"], if has { "kernel" } else { "own" });
    bench.motet(&["testbed", "down", "small.toml"]);
    assert_eq!(bench.left(), 0);
    if !has {
        assert!(said(&up).contains("links = \"own\""), "{}", said(&up));
        motet_testdata::skip("the kernel has no netem or no tbf");
        return;
    }
    write("kernel");
    let ran = json(&["--json", "testbed", "run", "small.toml", "-i", "3"]);
    assert_eq!(ran["rows"][0]["wrong"], 0);
    // Half of it crosses the WAN one way, at no more than 200 Mbit/s and 1 ms away.
    assert!(ran["rows"][0]["min_us"].as_f64().unwrap() > 6000.0, "{ran}");
    // Rates are changed, and what links have carried is read.
    json(&["--json", "wan", "--live", "small.toml", "--sight", "measured"]);
    assert_eq!(bench.left(), 0);
}

impl Bench {
    /// Another scenario in the place of the small one.
    fn with(&self, scenario: &str) {
        std::fs::write(self.folder.join("small.toml"), scenario).unwrap();
    }

    /// The keeper of the testbed that is up.
    fn keeper(&self) -> Option<u64> {
        let bed = std::fs::read_dir(self.beds()).ok()?.next()?.ok()?.path();
        let text = std::fs::read(bed.join("state.json")).ok()?;
        let state: serde_json::Value = serde_json::from_slice(&text).ok()?;
        state["keeper"]["pid"].as_u64()
    }

    /// `testbed run` of a command that leaves two sleepers on each host: the command itself, and one in a session of its own.
    fn sleepers(&self, mark: &str) -> Child {
        let script = format!("setsid sleep {mark} & exec sleep {mark}");
        Command::new(env!("CARGO_BIN_EXE_motet"))
            .args(["testbed", "run", "small.toml", "--", "sh", "-c", &script])
            .current_dir(&self.folder)
            .env("MOTET_TESTBED_DIR", self.beds())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }
}

/// Processes with these words in their command line.
fn with_words(words: &[&str]) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let has = |pid: &String| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let line: Vec<&str> = line.split('\0').collect();
        words.iter().all(|it| line.contains(it))
    };
    all.map(|it| it.file_name().to_string_lossy().into_owned()).filter(has).collect()
}

/// Waits until something is so, for half a minute at most.
fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..600 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("{what}: not within half a minute");
}

fn kill(processes: &[String]) {
    assert!(Command::new("kill").arg("-9").args(processes).status().unwrap().success());
}

#[test]
fn nothing_outlives_a_keeper_that_is_killed() {
    let Some(bench) = Bench::new("outlived") else { return };
    // No other process sleeps for so long.
    let mark = format!("3000.{}", std::process::id());
    for is_up in [true, false] {
        if is_up {
            let up = bench.motet(&["testbed", "up", "small.toml"]);
            assert!(up.status.success(), "{}", said(&up));
        }
        let mut run = bench.sleepers(&mark);
        until("the sleepers start", || with_words(&["sleep", &mark]).len() == 8);
        kill(&[bench.keeper().unwrap().to_string()]);
        until("all end", || with_words(&["sleep", &mark]).is_empty());
        assert_eq!(run.wait().unwrap().code(), Some(1));
    }
}

/// The keeper, its guard and who ran a command, all killed: then nobody is there to end what the command has left, and the next start does.
#[test]
fn the_next_start_ends_what_is_left() {
    let Some(bench) = Bench::new("left") else { return };
    let mark = format!("3001.{}", std::process::id());
    let up = bench.motet(&["testbed", "up", "small.toml"]);
    assert!(up.status.success(), "{}", said(&up));
    let mut run = bench.sleepers(&mark);
    until("the sleepers start", || with_words(&["sleep", &mark]).len() == 8);
    let keeper = bench.keeper().unwrap().to_string();
    let guards = with_words(&["guard", "--keeper", &keeper]);
    assert_eq!(guards.len(), 1);
    // The guard first, before it can see the keeper end.
    kill(&[guards, vec![keeper, run.id().to_string()]].concat());
    run.wait().unwrap();
    until("those that were waited for end", || with_words(&["sleep", &mark]).len() == 4);
    let again = bench.motet(&["testbed", "up", "small.toml"]);
    assert!(again.status.success(), "{}", said(&again));
    until("all end", || with_words(&["sleep", &mark]).is_empty());
}

fn json(output: &Output) -> serde_json::Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The scenario without what its links do by themselves.
fn steady() -> &'static str {
    SCENARIO.split("[variation]").next().unwrap()
}

#[test]
fn links_follow_a_trace() {
    let Some(bench) = Bench::new("trace") else { return };
    let trace = "time,from,to,bandwidth\n0 s,dc0-border0,dc1-border0,20 Mbit/s\n0 s,dc1-border0,dc0-border0,20 Mbit/s\n";
    std::fs::write(bench.folder.join("trace.csv"), trace).unwrap();
    bench.with(&format!("{}[variation]\nkind = \"trace\"\nfile = \"trace.csv\"\n", steady()));
    let ran = json(&bench.motet(&["--json", "testbed", "run", "small.toml", "-i", "3"]));
    assert_eq!(ran["rows"][0]["wrong"], 0);
    // 128 KiB each way: 5 ms at the link's own 200 Mbit/s, 52 at the trace's 20.
    assert!(ran["rows"][0]["min_us"].as_f64().unwrap() > 40_000.0, "{ran}");
    let live = json(&bench.motet(&["--json", "wan", "--live", "small.toml"]));
    let modes = live["modes"].as_array().unwrap();
    assert_eq!(modes.len(), 4);
    assert!(modes.iter().all(|it| it["live_median_us"].as_f64().unwrap() > 40_000.0), "{live}");
}

#[test]
fn a_link_that_fails_comes_back() {
    let Some(bench) = Bench::new("fault") else { return };
    let down = 3;
    let fault =
        |way: &str| format!("[[fault]]\nlink = \"{way}\"\nat = \"0 s\"\nfor = \"{down} s\"\n");
    let faults = [fault("dc0-border0 -> dc1-border0"), fault("dc1-border0 -> dc0-border0")];
    bench.with(&format!("{}{}{}", steady(), faults[0], faults[1]));
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = std::time::Instant::now();
    let ran = json(&bench.motet(&["--json", "testbed", "run", "small.toml", "-i", "2"]));
    // Ranks of the two datacenters cannot meet before.
    assert!(start.elapsed() > std::time::Duration::from_secs(down), "{:?}", start.elapsed());
    assert_eq!(ran["rows"][0]["wrong"], 0);
}

#[test]
fn what_links_lose_is_sent_again() {
    let Some(bench) = Bench::new("loss") else { return };
    let scenario = steady().replace("256 KiB", "1 MiB");
    bench.with(&format!("{scenario}[testbed]\nloss = 0.05\n"));
    let up = bench.motet(&["testbed", "up", "small.toml"]);
    assert!(up.status.success(), "{}", said(&up));
    let ran = json(&bench.motet(&["--json", "testbed", "run", "small.toml", "-i", "10"]));
    assert_eq!(ran["rows"][0]["wrong"], 0);
    // Of each host since it is there: the second line that begins so has the numbers, in the order of the first.
    let counted =
        bench.motet(&["testbed", "run", "small.toml", "--", "grep", "^Tcp:", "/proc/net/snmp"]);
    let text = said(&counted);
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|it| it.contains("Tcp:")).map(|it| it.split(' ').collect()).collect();
    let place = lines[0].iter().position(|it| *it == "RetransSegs").unwrap();
    let numbers = lines.iter().filter_map(|it| it.get(place)?.parse::<u64>().ok());
    assert!(numbers.sum::<u64>() > 0, "{text}");
}
