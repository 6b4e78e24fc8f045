//! The library in a job: a C program that calls a pretended NCCL on a pretended CUDA. The test is its manager.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "tests")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration as Wall;

use motet_control::manager::Network;
use motet_control::shim::{Call, Mode, Tell};
use motet_control::wire::Frame;
use motet_control::{GroupId, JobId};
use motet_runtime::{Collective, Trace};
use motet_testdata::plugin;
use motet_units::{Bytes, Rank};

const JOB: &str = r#"{"job": 9, "ports": [], "groups": [
    {"id": 3, "members": [0, 1], "circuits": [], "ranks": [[0], [1]], "name": "dp_shard"},
    {"id": 4, "members": [0, 2], "circuits": [], "ranks": [[0], [2]]}]}"#;
const DP: GroupId = GroupId(3);
const PP: GroupId = GroupId(4);

/// The folder of the C program and its libraries, made once.
fn host() -> &'static Path {
    static HOST: OnceLock<PathBuf> = OnceLock::new();
    HOST.get_or_init(|| {
        let folder =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shim-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/host");
        let compile = |arguments: &[&str], source: &str| {
            let mut compiler = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()));
            compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra"]).arg(sources.join(source));
            let status = compiler.current_dir(&folder).args(arguments).status();
            assert!(status.expect("a C compiler").success(), "{compiler:?}");
        };
        let library = ["-shared", "-fPIC", "-lpthread", "-o"];
        compile(&[&library[..], &["libcuda.so.1", "-Wl,-soname,libcuda.so.1"]].concat(), "cuda.c");
        compile(
            &[&library[..], &["libnccl.so.2", "-Wl,-soname,libnccl.so.2", "libcuda.so.1"]].concat(),
            "nccl.c",
        );
        compile(&["-o", "job", "libnccl.so.2", "libcuda.so.1"], "job.c");
        folder
    })
}

/// A job with a folder of its own.
struct Job {
    folder: tempfile::TempDir,
    command: Command,
}

impl Job {
    fn new(iterations: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("ran"), [0; 4]).unwrap();
        fs::write(folder.path().join("job.json"), JOB).unwrap();
        let mut command = Command::new(host().join("job"));
        command.arg(iterations.to_string()).arg(folder.path().join("ran"));
        for name in ["SOCKET", "JOB", "TRACE", "PATIENCE", "LOG"] {
            command.env_remove(format!("MOTET_SHIM_{name}"));
        }
        command
            .env("LD_LIBRARY_PATH", host())
            .env("LD_PRELOAD", plugin("shim", "libmotet_shim.so"));
        command.env("MOTET_SHIM_RANK", "0").env("MOTET_SHIM_JOB", folder.path().join("job.json"));
        Self { folder, command }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How many calls NCCL has carried out.
    fn ran(path: &Path) -> u32 {
        u32::from_le_bytes(fs::read(path).unwrap().try_into().unwrap())
    }

    /// Runs it; it must end well, whatever happens to the shim. What it said on stderr.
    fn run(&mut self) -> String {
        let Output { status, stdout, stderr } = self.command.output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
        assert!(status.success(), "{status}\n{out}{err}");
        // NCCL's own status comes through.
        assert_eq!(out, "refused with 4\n");
        assert!(!err.contains("panicked"), "{err}");
        err.into_owned()
    }

    /// Runs it with a manager that does what `work` does with the connection, and gives what both had to say.
    fn with_manager<T: Send>(&mut self, work: impl FnOnce(Peer, &Path) -> T + Send) -> (String, T) {
        let socket = self.path("manager.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        self.command.env("MOTET_SHIM_SOCKET", &socket);
        let ran = self.path("ran");
        std::thread::scope(|scope| {
            let manager = scope.spawn(move || {
                let stream = listener.accept().unwrap().0;
                stream.set_read_timeout(Some(Wall::from_secs(60))).unwrap();
                work(Peer { stream, bytes: Vec::new() }, &ran)
            });
            let said = self.run();
            (said, manager.join().unwrap())
        })
    }
}

/// The manager's end of the connection.
struct Peer {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Peer {
    fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, length)) = Frame::read(&self.bytes).unwrap() {
                self.bytes.drain(..length);
                return Some(frame);
            }
            let mut more = [0; 1024];
            let count = self.stream.read(&mut more).unwrap();
            self.bytes.extend(&more[..count]);
            if count == 0 {
                return None;
            }
        }
    }

    fn say(&mut self, frame: Frame) {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        // A job that has ended does not listen.
        let _ = self.stream.write_all(&bytes);
    }

    fn welcome(&mut self, mode: Mode) {
        assert_eq!(self.next(), Some(Frame::Hello { job: JobId(9), rank: Rank(0) }));
        self.say(Frame::Welcome(mode));
    }

    fn go(&mut self, group: GroupId) {
        self.say(Frame::Go { group, network: Network::Rails });
    }
}

/// The calls of an iteration, in order.
fn calls() -> [Call; 4] {
    let call = |group, collective, bytes| Call { group, collective, bytes: Bytes::new(bytes) };
    [
        call(DP, Collective::AllGather, 400),
        call(DP, Collective::Broadcast, 200),
        call(PP, Collective::SendRecv, 60),
        call(DP, Collective::ReduceScatter, 800),
    ]
}

#[test]
fn without_anything_to_do_calls_pass() {
    let mut job = Job::new(3);
    assert_eq!(job.run(), "");
    // Messages of one group are two of NCCL's calls.
    assert_eq!(Job::ran(&job.path("ran")), 15);
    // And so they do where nobody listens, where there is no job file, and in graphs.
    let socket = job.path("nobody.sock");
    let said = {
        job.command.env("MOTET_SHIM_SOCKET", &socket);
        job.run()
    };
    assert!(said.contains("nobody.sock") && said.contains("calls pass"), "{said}");
    let said = {
        job.command.env("MOTET_SHIM_JOB", "nowhere.json");
        job.run()
    };
    assert!(said.contains("nowhere.json"), "{said}");
}

#[test]
fn calls_are_recorded() {
    let mut job = Job::new(5);
    let trace = job.path("rank-%r.trace");
    job.command.env("MOTET_SHIM_TRACE", &trace);
    assert_eq!(job.run(), "");
    let trace = Trace::read(&fs::read(job.path("rank-0.trace")).unwrap()).unwrap();
    let communicators: Vec<_> =
        trace.communicators.iter().map(|it| (it.rank, it.ranks, it.name.as_str())).collect();
    assert_eq!(communicators, [(0, 2, "dp_shard"), (0, 2, "")]);
    assert_eq!(trace.calls.len(), 5 * 4 + 1);
    for (place, call) in trace.calls.iter().take(20).enumerate() {
        let expected = calls()[place % 4];
        assert_eq!((call.collective, call.bytes), (expected.collective, expected.bytes));
        assert_eq!(call.communicator, u32::from(expected.group == PP));
        let before = place.checked_sub(1).map_or(0, |it| trace.calls[it].start_ns);
        assert!(call.start_ns >= before);
    }
    // The pretended kernels take 200 µs each, messages two of them; a busy machine may see some begin and end at once.
    let longest = trace.calls.iter().map(|it| it.duration_ns).max().unwrap();
    assert!(longest >= 150_000, "{longest}");
}

#[test]
fn calls_wait_for_the_word_to_go() {
    let mut job = Job::new(3);
    let (said, seen) = job.with_manager(|mut peer, ran| {
        peer.welcome(Mode::OnDemand);
        let mut seen = Vec::new();
        let mut gone = 0;
        while let Some(frame) = peer.next() {
            match frame {
                Frame::Tell(Tell::Call { call, .. }) => {
                    std::thread::sleep(Wall::from_millis(20));
                    // Nothing has run that was not let go.
                    assert_eq!(Job::ran(ran), gone);
                    gone += if call.group == PP { 2 } else { 1 };
                    seen.push(call);
                    peer.go(call.group);
                }
                Frame::Tell(Tell::Ended(_)) => {}
                Frame::Bye => return seen,
                frame => panic!("{frame:?}"),
            }
        }
        panic!("no goodbye");
    });
    assert_eq!(said, "");
    let expected: Vec<Call> = calls().into_iter().cycle().take(12).collect();
    assert_eq!(seen[..12], expected);
    assert_eq!(Job::ran(&job.path("ran")), 15);
}

#[test]
fn what_comes_next_is_said_ahead() {
    let mut job = Job::new(25);
    let (_, ahead) = job.with_manager(|mut peer, _| {
        peer.welcome(Mode::Provisioned);
        let mut ahead = Vec::new();
        while let Some(frame) = peer.next() {
            match frame {
                Frame::Tell(Tell::Call { call, .. }) => peer.go(call.group),
                Frame::Tell(Tell::Next { call, after, .. }) if call.group != after => {
                    ahead.push(call);
                }
                _ => {}
            }
        }
        ahead
    });
    // From the sixth iteration on, at least while it is tried whether that pays. A busy machine may see a call begin before it has said
    // what comes next, so not every time.
    let [_, _, message, reduce] = calls();
    assert!(ahead.contains(&message) && ahead.contains(&reduce), "{ahead:?}");
}

#[test]
fn a_manager_that_goes_leaves_the_job_alone() {
    // It closes the connection while a call waits; it says nothing at all; it says what makes no sense.
    let mut job = Job::new(10);
    let (said, ()) = job.with_manager(|mut peer, _| {
        peer.welcome(Mode::OnDemand);
        peer.next();
    });
    assert!(said.contains("calls pass from now on"), "{said}");
    assert_eq!(Job::ran(&job.path("ran")), 50);

    let mut job = Job::new(10);
    job.command.env("MOTET_SHIM_PATIENCE", "1");
    let (said, ()) = job.with_manager(|mut peer, _| {
        peer.welcome(Mode::OnDemand);
        while peer.next().is_some() {}
    });
    assert!(said.contains("waited too long"), "{said}");
    assert_eq!(Job::ran(&job.path("ran")), 50);

    let mut job = Job::new(10);
    let (said, ()) = job.with_manager(|mut peer, _| {
        peer.welcome(Mode::OnDemand);
        peer.next();
        peer.stream.write_all(&[9, 99]).unwrap();
        while peer.next().is_some() {}
    });
    assert!(said.contains("calls pass from now on"), "{said}");
    assert_eq!(Job::ran(&job.path("ran")), 50);
}
