//! A real C program, compiled with the system's compiler against `include/motet.h`, as several processes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests may fail, and say so"
)]

#[path = "../../motet-exec/tests/it/certificates.rs"]
mod certificates;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use motet_capi::communicator::serve;
use motet_exec::Tls;

/// The C program.
fn host() -> &'static Path {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        // …/deps/c_program-1234, and the library beside it.
        let test = std::env::current_exe().unwrap();
        let library = test.parent().unwrap();
        let host =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("capi-{}", std::process::id()));
        let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
        compiler.arg(crate_folder.join("include")).arg("-o").arg(&host);
        compiler.arg(crate_folder.join("tests/host/main.c")).arg("-L").arg(library);
        compiler.arg("-lmotet_capi").arg(format!("-Wl,-rpath,{}", library.display()));
        assert!(compiler.status().expect("a C compiler").success(), "it does not compile");
        host
    })
}

/// Processes that do not outlive the test.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs it as so many ranks; what each printed.
fn run(ranks: u32, what: &str, environment: &[(&str, &str)]) -> Vec<String> {
    run_with(None, ranks, what, environment)
}

/// The same, where the store may speak TLS.
fn run_with(tls: Option<Tls>, ranks: u32, what: &str, environment: &[(&str, &str)]) -> Vec<String> {
    let store = serve("127.0.0.1:0", "", tls).unwrap();
    let marks = tempfile::tempdir().unwrap();
    let mut all = Ranks(Vec::new());
    for rank in 0..ranks {
        let mut command = Command::new(host());
        command.args([&store.address().to_string(), &rank.to_string(), &ranks.to_string(), what]);
        command.env_remove("MOTET_CLUSTER").env_remove("MOTET_EXEC_TOKEN");
        command.env("MARKS", marks.path()).envs(environment.iter().copied());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        all.0.push(command.spawn().unwrap());
    }
    let outputs = std::mem::take(&mut all.0).into_iter().map(|it| it.wait_with_output().unwrap());
    let outputs: Vec<_> = outputs.collect();
    let errors: Vec<_> = outputs.iter().map(|it| String::from_utf8_lossy(&it.stderr)).collect();
    let ended: Vec<_> = outputs.iter().map(|it| it.status).collect();
    assert!(ended.iter().all(std::process::ExitStatus::success), "{ended:?} {errors:#?}");
    outputs.iter().map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).collect()
}

fn all_done(said: &[String]) {
    for (rank, said) in said.iter().enumerate() {
        assert_eq!(said, &format!("rank {rank} is done\n"));
    }
}

#[test]
fn all_collectives_on_three_ranks() {
    all_done(&run(3, "all", &[]));
}

#[test]
fn one_rank_alone() {
    all_done(&run(1, "all", &[]));
}

#[test]
fn programs_for_a_cluster_file() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = folder.path().join("ring.toml");
    std::fs::write(&cluster, "[[fabric]]\nkind = \"ring\"\ngpus = 4\n").unwrap();
    all_done(&run(4, "all", &[("MOTET_CLUSTER", &cluster.to_string_lossy())]));
}

/// Runs it over TLS, whose files the environment names.
fn run_tls(ranks: u32, what: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    certificates::make(folder.path(), "ca", &["motet"]);
    let files = certificates::files(folder.path(), "ca", "motet");
    let tls = files.load().unwrap();
    let of = |it: Option<PathBuf>| it.unwrap().to_string_lossy().into_owned();
    let (certificate, key, ca) = (of(files.certificate), of(files.key), of(files.ca));
    let environment = [
        ("MOTET_EXEC_TLS_CERTIFICATE", &*certificate),
        ("MOTET_EXEC_TLS_KEY", &*key),
        ("MOTET_EXEC_TLS_CA", &*ca),
    ];
    run_with(tls, ranks, what, &environment)
}

#[test]
fn all_collectives_over_tls() {
    all_done(&run_tls(2, "all"));
}

#[test]
fn a_process_may_end_with_its_last_call() {
    for _ in 0..3 {
        all_done(&run(2, "last-call", &[]));
        all_done(&run_tls(2, "last-call"));
    }
}

#[test]
fn the_others_go_on_over_tls() {
    let said = run_tls(3, "loss");
    all_done(&said[..2]);
    assert_eq!(said[2], "");
}

#[test]
fn the_others_go_on_when_one_is_gone() {
    let said = run(3, "loss", &[]);
    all_done(&said[..2]);
    assert_eq!(said[2], "");
}
