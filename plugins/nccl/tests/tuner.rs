//! The tuner as NCCL sees it, through the C host in `tests/host`.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicU64;

use common::{NODES, RANKS, command, manifest, passes, plan, table, write_plan};
use motet_runtime::folder::{CHECKSUMS, MANIFEST, TABLE};
use motet_runtime::{Algorithm, Collective, Forced, Protocol, Segment};
use tempfile::TempDir;

/// The answers to `questions`, with the lines of the log.
fn ask(version: u32, plans: &str, questions: &[&str]) -> String {
    let (ranks, nodes) = (RANKS.to_string(), NODES.to_string());
    let version = version.to_string();
    let start = ["print", &version, &ranks, &nodes];
    let words = questions.iter().flat_map(|it| it.split(' '));
    let words: Vec<&str> = start.into_iter().chain(words).collect();
    passes(command(&words).env("MOTET_PLAN", plans))
}

const MIB: &str = "4 1048576 plain";

fn answers(text: &str) -> Vec<&str> {
    text.lines().filter(|it| !it.starts_with("log")).collect()
}

#[test]
fn nccl_finds_all_symbols() {
    passes(&mut command(&["symbols"]));
}

#[test]
fn every_version_decides_by_the_plan() {
    let folder = TempDir::new().unwrap();
    let plans = plan(&folder.path().join("plan"));
    for version in 2..=6 {
        let text =
            ask(version, plans.to_str().unwrap(), &[MIB, "2 1048576 plain", "1 1048576 plain"]);
        let chunk = if version == 6 { 65536 } else { 1000 };
        let [all_reduce, all_gather, reduce] = answers(&text)[..] else { panic!("{text}") };
        assert_eq!(
            all_reduce,
            format!("4 1048576: entry 5, channels 2, chunk {chunk}"),
            "v{version}"
        );
        // PAT, behind a program that NCCL cannot run; v2 has no table that says whether NCCL can do PAT.
        let entry = if version == 2 { -1 } else { 20 };
        assert_eq!(all_gather, format!("2 1048576: entry {entry}, channels 0, chunk 1000"));
        assert_eq!(reduce, "1 1048576: entry -1, channels 0, chunk 1000", "not in the plan");
        assert!(text.contains("log 3 40 Motet: 4 ranks on 2 nodes: plan "), "{text}");
        assert_eq!(text.matches("nothing for").count(), 1, "{text}");
    }
}

#[test]
fn what_is_not_said_by_the_plan_is_left_to_nccl_and_said_once() {
    let folder = TempDir::new().unwrap();
    let plans = plan(folder.path());
    let plans = plans.to_str().unwrap();
    let none = ["4 1048576 none"; 3];
    let text = ask(6, plans, &none);
    assert!(answers(&text).iter().all(|it| it.contains("entry -1, channels 0")), "{text}");
    assert_eq!(text.matches("does not offer").count(), 1, "{text}");
    let text = ask(6, plans, &["4 17179869184 plain"; 3]);
    assert!(text.contains("entry -1") && text.matches("more than 16 times").count() == 1, "{text}");
    let text = ask(6, plans, &["4 1048576 nvls"; 3]);
    assert!(
        text.contains("entry -1") && text.matches("reduce in the network").count() == 1,
        "{text}"
    );
}

#[test]
fn what_was_measured_goes_before_a_reduction_in_the_network() {
    let folder = TempDir::new().unwrap();
    write_plan(folder.path(), &manifest("measured"), &table().write());
    let questions = ["4 1048576 nvls", "4 524288 nvls"];
    let text = ask(6, folder.path().to_str().unwrap(), &questions);
    assert!(answers(&text)[0].contains("entry 5, channels 2"), "{text}");
    assert!(answers(&text)[1].contains("entry -1"), "not measured at 512 KiB: {text}");
}

/// NCCL would divide by a chunk that it rounds down to 0, and takes channels within the network for granted.
#[test]
fn what_would_break_nccl_is_not_asked_for() {
    let folder = TempDir::new().unwrap();
    let small = table().entries().to_vec().into_iter().map(|mut entry| {
        entry.candidates[0].setting.knobs.chunk = Some(motet_units::Bytes::new(4095));
        entry
    });
    let small = motet_runtime::Table::new(small.collect()).unwrap();
    write_plan(folder.path(), &manifest("kernels"), &small.write());
    let text = ask(6, folder.path().to_str().unwrap(), &[MIB]);
    assert!(text.contains("entry 5, channels 2, chunk 1000"), "{text}");
    let network = table().write().replace("algorithm=ring", "algorithm=nvls");
    let body = &network[..network.rfind("checksum ").unwrap()];
    let checksum = motet_runtime::Checksum::of(body.as_bytes());
    write_plan(folder.path(), &manifest("kernels"), &format!("{body}checksum {checksum}\n"));
    let text = ask(6, folder.path().to_str().unwrap(), &["4 1048576 nvls"]);
    assert!(text.contains("entry 14, channels 0, chunk 1000"), "{text}");
}

#[test]
fn what_the_plan_leaves_as_nccl_has_it_is_not_forced() {
    let folder = TempDir::new().unwrap();
    let own = |protocol: &str, basis: &str| {
        let own = format!(
            r#""nccl": {{"basis": "kernels", "algorithm": "pat", "protocol": "{protocol}", "channels": 3}}"#
        );
        let task = format!(
            r#"{{"collective": "allgather", "size_bytes": 1048577, "pick": {{"basis": "{basis}"}}, {own}}}"#
        );
        let text = manifest("kernels").replace("\"tasks\": [", &format!("\"tasks\": [{task},"));
        write_plan(folder.path(), &text, &table().write());
        ask(6, folder.path().to_str().unwrap(), &["2 1048576 plain", MIB])
    };
    let text = own("simple", "kernels");
    assert!(text.contains("16 entries (1 as NCCL has it)"), "{text}");
    assert!(text.contains("2 1048576: entry -1, channels 0") && text.contains("entry 5"), "{text}");
    assert!(own("ll", "kernels").contains("2 1048576: entry 20"), "NCCL would do something else");
    assert!(own("simple", "measured").contains("2 1048576: entry 20"), "no model is asked");
}

/// Every way in which a plan can be wrong leaves the call to NCCL, with a line that says which file and why.
#[test]
fn a_wrong_plan_is_as_good_as_none() {
    type Wrong = (&'static str, fn(&Path), &'static str);
    let wrong: [Wrong; 12] = [
        ("missing", |it| fs::remove_dir_all(it).unwrap(), "cannot be read"),
        ("no list", |it| fs::remove_file(it.join(CHECKSUMS)).unwrap(), "checksums cannot be read"),
        ("no table", |it| fs::remove_file(it.join(TABLE)).unwrap(), "table cannot be read"),
        ("damaged", |it| fs::write(it.join(TABLE), "x").unwrap(), "table is not what the plan"),
        ("changed", |it| fs::write(it.join(MANIFEST), "{}").unwrap(), "plan.json is not what"),
        ("no list at all", |it| fs::write(it.join(CHECKSUMS), "\n").unwrap(), "checksums"),
        ("not text", |it| fs::write(it.join(TABLE), [0xff; 9]).unwrap(), "UTF-8"),
        ("not a plan", |it| write_plan(it, "[]", &table().write()), "plan.json is not a plan's"),
        ("not a table", |it| write_plan(it, &manifest("kernels"), "x\n"), "line 1"),
        (
            "newer",
            |it| write_plan(it, &manifest("x").replace("plan\": 2", "plan\": 3"), &table().write()),
            "has version 3",
        ),
        (
            "a folder",
            |it| {
                fs::remove_file(it.join(TABLE)).unwrap();
                fs::create_dir(it.join(TABLE)).unwrap();
            },
            "not an ordinary file",
        ),
        (
            "a device",
            |it| {
                fs::remove_file(it.join(TABLE)).unwrap();
                symlink("/dev/zero", it.join(TABLE)).unwrap();
            },
            "not an ordinary file",
        ),
    ];
    let folder = TempDir::new().unwrap();
    for (name, spoil, said) in wrong {
        let plans = plan(&folder.path().join("100% wrong"));
        spoil(&plans);
        let text = ask(6, plans.to_str().unwrap(), &[MIB; 2]);
        assert!(
            answers(&text).iter().all(|it| it.contains("entry -1, channels 0")),
            "{name}: {text}"
        );
        let lines: Vec<_> = text.lines().filter(|it| it.starts_with("log 2 40 Motet: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(said), "{name}: {text}");
        assert!(lines[0].contains("100% wrong") && lines[0].contains("NCCL decides"), "{text}");
        let _ = fs::remove_dir_all(&plans);
    }
}

#[test]
fn a_plan_for_other_threads_and_buffers_is_used_and_says_so() {
    let folder = TempDir::new().unwrap();
    let text =
        manifest("x").replace("\"setup\": {}", r#""setup": {"threads": 512, "buffer": "8 MiB"}"#);
    write_plan(folder.path(), &text, &table().write());
    let mut command = command(&["print", "6", "4", "2", "4", "1048576", "plain"]);
    command
        .env("MOTET_PLAN", folder.path())
        .env("NCCL_NTHREADS", "512")
        .env_remove("NCCL_BUFFSIZE");
    let text = passes(&mut command);
    assert!(
        text.contains("entry 5") && text.contains("was made for NCCL_BUFFSIZE=8388608"),
        "{text}"
    );
    assert!(!text.contains("NCCL_NTHREADS"), "{text}");
}

#[test]
fn a_pipe_in_place_of_a_table_does_not_hang_the_job() {
    let folder = TempDir::new().unwrap();
    let plans = plan(folder.path());
    fs::remove_file(plans.join(TABLE)).unwrap();
    assert!(Command::new("mkfifo").arg(plans.join(TABLE)).status().unwrap().success());
    let text = ask(6, plans.to_str().unwrap(), &[MIB]);
    assert!(text.contains("not an ordinary file") && text.contains("entry -1"), "{text}");
}

#[test]
fn a_plan_is_for_its_ranks_and_nodes_only_and_several_can_be_given() {
    let folder = TempDir::new().unwrap();
    let ours = plan(&folder.path().join("ours"));
    let other = folder.path().join("other");
    write_plan(&other, &manifest("x").replace("\"nodes\": 2", "\"nodes\": 4"), &table().write());
    let text = ask(6, other.to_str().unwrap(), &[MIB]);
    assert!(text.contains("entry -1") && text.contains("is for 4 ranks on 4 nodes"), "{text}");
    let both = format!("{}:/nowhere:{}", other.display(), ours.display());
    let text = ask(6, &both, &[MIB]);
    assert!(
        text.contains("entry 5") && text.contains("/nowhere/checksums cannot be read"),
        "{text}"
    );
    let text = passes(&mut command(&["print", "6", "4", "2", "4", "1048576", "plain"]));
    assert!(text.contains("MOTET_PLAN is not set") && text.contains("entry -1"), "{text}");
}

/// The manifest of a plan that `motet plan` wrote; its table is empty here, as no entry of ours is of its network.
#[test]
fn a_manifest_of_motets_own_is_read() {
    let text = include_str!("../../../fuzz/corpus/tune_plan_json/one.json");
    let folder = TempDir::new().unwrap();
    write_plan(folder.path(), text, &table().write());
    let text = ask(6, folder.path().to_str().unwrap(), &[MIB]);
    assert!(text.contains("is for ") && !text.contains("log 2"), "{text}");
}

/// Changes the control file as a driver does.
fn force(path: &Path, collective: Collective, forced: Option<Forced>) {
    let bytes = fs::read(path).unwrap();
    let words = bytes.chunks_exact(8).map(|it| u64::from_ne_bytes(it.try_into().unwrap()));
    let words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
    Segment::new(&words).unwrap().force(collective, forced).unwrap();
    let bytes = words.into_iter().flat_map(|it| it.into_inner().to_ne_bytes());
    fs::write(path, bytes.collect::<Vec<_>>()).unwrap();
}

fn noted(path: &Path, collective: Collective) -> (u64, u64) {
    let bytes = fs::read(path).unwrap();
    let words = bytes.chunks_exact(8).map(|it| u64::from_ne_bytes(it.try_into().unwrap()));
    let words: Vec<AtomicU64> = words.map(AtomicU64::new).collect();
    Segment::new(&words).unwrap().noted(collective)
}

#[test]
fn a_driver_forces_settings_through_the_control_file() {
    let folder = TempDir::new().unwrap();
    let plans = plan(&folder.path().join("plan"));
    let control = folder.path().join("control");
    let ask = |shape: &str| {
        let mut command = command(&["print", "6", "4", "2", "4", "1048576", shape]);
        passes(command.env("MOTET_PLAN", &plans).env("MOTET_CONTROL", &control))
    };
    assert!(ask("plain").contains("entry 5, channels 2"), "an empty file forces nothing");
    let tree = Forced {
        algorithm: Some(Algorithm::Tree),
        protocol: Some(Protocol::Ll128),
        channels: Some(7),
        chunk: Some(4096),
    };
    force(&control, Collective::AllReduce, Some(tree));
    assert!(ask("plain").contains("entry 1, channels 7, chunk 4096"));
    assert!(ask("nvls").contains("entry 1, channels 7"), "whatever NCCL would do");
    assert!(ask("none").contains("entry -1, channels 0"), "but not what NCCL excludes");
    assert_eq!(noted(&control, Collective::AllReduce), (2, 1));
    force(&control, Collective::AllReduce, Some(Forced::default()));
    assert!(ask("plain").contains("entry -1, channels 0"), "NCCL's own, in spite of the plan");
    force(&control, Collective::AllReduce, None);
    assert!(ask("plain").contains("entry 5, channels 2"));
    fs::write(&control, "something else").unwrap();
    let text = ask("plain");
    assert!(text.contains("entry 5") && text.contains("log 2 40 Motet: MOTET_CONTROL"), "{text}");
    fs::remove_file(&control).unwrap();
    symlink(folder.path().join("elsewhere"), &control).unwrap();
    assert!(ask("plain").contains("MOTET_CONTROL"), "links are not followed");
}

#[test]
fn odd_inputs_many_communicators_threads_fork_and_reopen() {
    let folder = TempDir::new().unwrap();
    let plans = plan(folder.path());
    for test in ["odd", "allocations", "many", "fork", "reopen"] {
        passes(command(&[test]).env("MOTET_PLAN", &plans));
    }
    passes(&mut command(&["odd"]));
}
