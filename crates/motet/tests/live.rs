//! `--backend nccl` from end to end without a GPU: ranks as processes, Motet's real plugin, and a fake CUDA and NCCL (`tests/fake`) whose
//! fastest settings are known.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use motet_testdata::plugin;
use tempfile::TempDir;

/// The fake libraries, compiled with the system's compiler, in a folder that the loader is pointed to.
fn fakes() -> &'static Path {
    static FAKES: OnceLock<PathBuf> = OnceLock::new();
    FAKES.get_or_init(|| {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake");
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fake-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        for (source, library) in [("cuda.c", "libcuda.so.1"), ("nccl.c", "libnccl.so.2")] {
            let mut compiler =
                Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
            compiler.args(["-std=c11", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o"]);
            compiler.arg(folder.join(library)).arg(sources.join(source)).arg("-ldl");
            assert!(
                compiler.status().expect("a C compiler").success(),
                "{source} does not compile"
            );
        }
        folder
    })
}

/// A machine to run `motet` on, with the fakes.
struct Machine {
    folder: TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

impl Machine {
    fn new(variables: &[(&'static str, &'static str)]) -> Self {
        Self { folder: TempDir::new().unwrap(), variables: variables.to_vec() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_motet"));
        command.current_dir(self.folder.path()).args(words.split_whitespace());
        command.args(["--backend", "nccl", "--nccl-lib"]).arg(fakes().join("libnccl.so.2"));
        command.arg("--plugin").arg(plugin("nccl", "libmotet_nccl.so"));
        command.env("LD_LIBRARY_PATH", fakes()).env("TMPDIR", self.folder.path());
        for name in ["RANK", "WORLD_SIZE", "LOCAL_RANK", "MOTET_PLAN", "MOTET_CONTROL"] {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().copied());
        command
    }

    fn run(&self, words: &str) -> (i32, String) {
        let Output { status, stdout, stderr } = self.command(words).output().unwrap();
        let text = [stdout, stderr].map(|it| String::from_utf8_lossy(&it).into_owned()).concat();
        (status.code().unwrap_or(-1), text)
    }

    /// No control file is left behind, whatever has happened.
    fn is_tidy(&self) {
        let left: Vec<_> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|it| {
                it.starts_with("motet-") || it.starts_with("fake-") || it.ends_with(".part")
            })
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The budget is far more than it takes: what is measured must not depend on how busy the machine is.
const PLAN: &str = "plan dgx-a100:gpus=2,nics=2 -o made --collectives allreduce,broadcast --min 64K --max 128K --budget 600s";

/// What a plan does for a task.
fn pick(manifest: &serde_json::Value, collective: &str, bytes: u64) -> String {
    let tasks = manifest["tasks"].as_array().unwrap();
    let is = |it: &&serde_json::Value| it["collective"] == collective && it["size_bytes"] == bytes;
    let task = tasks.iter().find(is).unwrap();
    let pick = &task["pick"];
    assert_eq!(pick["basis"], "measured", "{task}");
    let word = |it: &serde_json::Value| it.as_str().unwrap_or("?").to_owned();
    let channels =
        if pick["asked"] == true { format!(" {}", pick["channels"]) } else { String::new() };
    let own = if task["nccl"] == *pick { " (own)" } else { "" };
    format!("{} {}{channels}{own}", word(&pick["algorithm"]), word(&pick["protocol"]))
}

#[test]
fn a_plan_has_what_is_fastest_and_the_plugin_does_it() {
    let machine = Machine::new(&[]);
    let (code, text) = machine.run(PLAN);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("measured   4 of 4 tasks, NCCL 2.28.9 on Fake GPU"), "{text}");
    let manifest = fs::read_to_string(machine.path("made/plan.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert!(pick(&manifest, "allreduce", 65_536).starts_with("Tree LL"), "{manifest}");
    assert_eq!(pick(&manifest, "broadcast", 65_536), "Ring LL (own)");
    for kind in ["allreduce", "broadcast"] {
        assert_eq!(pick(&manifest, kind, 131_072), "Ring Simple 1");
    }
    let mut checked = Command::new(env!("CARGO_BIN_EXE_motet"));
    let checked = checked.args(["plan", "check", &machine.path("made")]).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    // A job that loads the plan is as fast as it says: 0.6 of 113 µs at 64 KiB.
    let bench = "bench --ranks 2 -b 64K -e 64K --json";
    let time = |words: &str| -> f64 {
        let (code, text) = machine.run(words);
        assert_eq!(code, 0, "{text}");
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["wrong"], 0);
        json["results"][0]["out_of_place"]["time_us"].as_f64().unwrap()
    };
    let (own, planned) = (time(bench), time(&format!("{bench} --plan made")));
    assert!((planned / own - 0.6).abs() < 0.03, "{own} {planned}");
    // Again: everything is known.
    let (code, text) = machine.run(PLAN);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("4 points are known"), "{text}");
    machine.is_tidy();
}

#[test]
fn wrong_and_hanging_settings_are_left_out_and_said() {
    let machine = Machine::new(&[("FAKE_WRONG", "tree/ll"), ("FAKE_HANG", "ring/ll128")]);
    let words = PLAN.replace("--max 128K", "--max 64K") + " --limit 3 --graphs";
    let (code, text) = machine.run(&words);
    assert_eq!(code, 1, "wrong results are worth an exit code: {text}");
    assert!(text.contains("allreduce of 64 KiB under Tree/LL: "), "{text}");
    assert!(text.contains("under Ring/LL128 does not run: nothing was heard from rank"), "{text}");
    let manifest = fs::read_to_string(machine.path("made/plan.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(pick(&manifest, "allreduce", 65_536), "Ring LL (own)");
    machine.is_tidy();
}

#[test]
fn a_rank_that_dies_ends_the_run_with_its_name() {
    let machine = Machine::new(&[("FAKE_DIES", "ring/ll")]);
    let (code, text) = machine.run("bench --ranks 3 -b 1K -e 1K");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("rank 1: has ended"), "{text}");
    machine.is_tidy();
}

#[test]
fn the_table_is_nccl_tests_for_every_collective() {
    let machine = Machine::new(&[]);
    for kind in ["allreduce", "allgather", "reducescatter", "broadcast", "reduce", "alltoall"] {
        let (code, text) = machine.run(&format!("bench --ranks 2 -c {kind} -b 4K -e 8K"));
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("# Out of bounds values : 0 OK"), "{text}");
        let rows: Vec<&str> = text.lines().filter(|it| !it.starts_with('#')).collect();
        assert_eq!(rows.len(), 2, "{text}");
        let columns = rows[0].split_whitespace().count();
        assert_eq!(columns, 13, "{text}");
    }
    let (code, text) =
        Machine::new(&[("FAKE_WRONG", "ring/ll")]).run("bench --ranks 2 -c allreduce -b 4K -e 4K");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("# Out of bounds values : 4 FAILED"), "{text}");
}

#[test]
fn ranks_of_a_launcher_find_one_another() {
    let machine = Machine::new(&[]);
    let start = |rank: u32| {
        let mut command =
            machine.command("bench dgx-a100:gpus=3,nics=3 -b 1K -e 2K --json --rendezvous meet");
        for (name, value) in [("RANK", rank), ("WORLD_SIZE", 3), ("LOCAL_RANK", rank)] {
            command.env(name, value.to_string());
        }
        command.env("MASTER_ADDR", "127.0.0.1");
        command.stdout(std::process::Stdio::piped()).spawn().unwrap()
    };
    // An old rendezvous that leads nowhere.
    fs::write(machine.path("meet"), r#"{"host":"127.0.0.1","port":1,"token":"old"}"#).unwrap();
    let ranks = [2, 1, 0].map(start);
    let outputs = ranks.map(|it| it.wait_with_output().unwrap());
    assert!(outputs.iter().all(|it| it.status.success()), "{outputs:?}");
    let json: serde_json::Value = serde_json::from_slice(&outputs[2].stdout).unwrap();
    assert_eq!((&json["ranks"], &json["wrong"]), (&3.into(), &0.into()));
    assert!(outputs[0].stdout.is_empty() && outputs[1].stdout.is_empty());
    machine.is_tidy();
}

#[test]
fn what_is_missing_is_said_with_a_remedy() {
    let machine = Machine::new(&[]);
    let (code, text) = machine.run("bench --ranks 2 -b 1K -e 1K --env LD_LIBRARY_PATH=/nowhere");
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("libcuda.so.1 cannot be loaded") || text.contains("CUDA"), "{text}");
    let bare = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_motet"));
        let output = command.args(words.split_whitespace()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, text) = bare("bench --ranks 2");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("--backend nccl"), "{text}");
    let (code, text) = bare("plan dgx-h100 -o /tmp/none --backend nccl --plugin /nowhere/lib.so");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("cargo build --release -p motet-nccl-plugin"), "{text}");
    let (code, text) = bare("plan dgx-h100 -o /tmp/none --backend nccl --collectives alltoall");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("NCCL chooses no algorithm for alltoall"), "{text}");
    let (code, text) = bare("plan dgx-h100 -o /tmp/none --backend nccl --runtime mscclpp");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("`--runtime` is for programs"), "{text}");
    let (code, text) = bare("nccl-rank --nccl-lib x");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("not by hand"), "{text}");
}
