//! Who connects without being one of the group: refused and noted, and the group is not disturbed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use motet_collective::Verified;
use motet_exec::wire::{Header, Kind};
use motet_exec::{Call, Config, Element, Group, Reduction, Store};

use crate::programs;
use crate::ranks::{clock, config, notes, silent};

/// Things that strangers say; the last says nothing and stays.
fn sayings() -> Vec<Vec<u8>> {
    let mut other_version = Header::new(Kind::Hello).encode();
    other_version[2] = 77;
    let huge = Header { length: u32::MAX, ..Header::new(Kind::Hello) }.encode();
    let unexpected = Header::new(Kind::Abort).encode().to_vec();
    let mut no_proof = Header { length: 16, ..Header::new(Kind::Hello) }.encode().to_vec();
    no_proof.extend([7; 16]);
    no_proof.extend(Header { length: 40, ..Header::new(Kind::Intro) }.encode());
    no_proof.extend([0; 40]);
    let mut half = Header { length: 16, ..Header::new(Kind::Hello) }.encode().to_vec();
    half.extend([7; 3]);
    vec![
        b"GET / HTTP/1.1\r\nHost: somewhere.example\r\n\r\n ".to_vec(),
        vec![0xff; 4096],
        other_version.to_vec(),
        huge.to_vec(),
        unexpected,
        no_proof,
        half,
        Vec::new(),
    ]
}

pub(crate) fn visit(address: SocketAddr) -> Vec<TcpStream> {
    let strangers = sayings().into_iter().map(|saying| {
        let mut stream = TcpStream::connect(address).unwrap();
        // They may be thrown out while they talk.
        let _ = stream.write_all(&saying);
        stream
    });
    strangers.collect()
}

#[test]
fn strangers_disturb_neither_the_store_nor_the_ranks() {
    let program = Verified::new(programs::ring_all_reduce(2, 1), None).unwrap();
    let call =
        Call { element: Element::I32, elements: 10, reduction: Reduction::Sum, in_place: true };
    let (at_store, note) = notes();
    let store = Store::serve("127.0.0.1:0".parse().unwrap(), "secret", clock(), note).unwrap();
    let mut strangers = visit(store.address());
    let (at_rank, note) = notes();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    std::thread::scope(|scope| {
        let config = |rank| Config { token: "secret".to_owned(), ..config(&store, rank, 2) };
        let (program, first) = (&program, Config { port, ..config(0) });
        let work = move |config: Config, note| {
            let mut group = Group::join(&config, clock(), note).unwrap();
            let mut operation = group.register(program, call).unwrap();
            operation.input_mut().unwrap().fill(1);
            operation.run().unwrap();
            assert_eq!(operation.output().unwrap(), [2; 40]);
        };
        let rank = scope.spawn(move || work(first, note));
        // Rank 0 listens, and waits for rank 1; meanwhile strangers are first in line.
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect(address).is_err() {
            assert!(!rank.is_finished());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        strangers.extend(visit(address));
        scope.spawn(move || work(config(1), Arc::new(|_: &str| {})));
    });
    for stream in &mut strangers[..6] {
        stream.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        // They were sent away: what they read ends.
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
    let said = at_store.lock().unwrap().join("\n") + &at_rank.lock().unwrap().join("\n");
    for part in ["does not speak", "version 77", "4294967295 bytes", "something else", "token"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Strangers who say nothing, each of which comes again when it is turned away, until they are told to go.
struct Crowd {
    gone: Arc<AtomicBool>,
    /// How many connections they have made.
    made: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn of(count: usize, address: SocketAddr) -> Self {
        let (gone, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let come = move |count: usize, gone: Arc<AtomicBool>, made: Arc<AtomicUsize>| {
            let mut here: Vec<TcpStream> = Vec::new();
            while !gone.load(Ordering::Acquire) {
                here.retain(|it| {
                    let said = it.peek(&mut [0]);
                    matches!(said, Err(error) if error.kind() == ErrorKind::WouldBlock)
                });
                while here.len() < count && !gone.load(Ordering::Acquire) {
                    let wait = std::time::Duration::from_millis(500);
                    let Ok(it) = TcpStream::connect_timeout(&address, wait) else { break };
                    it.set_nonblocking(true).unwrap();
                    here.push(it);
                    made.fetch_add(1, Ordering::AcqRel);
                }
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        };
        // Many threads, because one whose connection finds no room in the listener's queue waits a while.
        let threads = (0..count / 50)
            .map(|_| {
                let (gone, made) = (Arc::clone(&gone), Arc::clone(&made));
                std::thread::spawn(move || come(50, gone, made))
            })
            .collect();
        Self { gone, made, threads }
    }

    /// Waits until they have made so many connections, those that came again included.
    fn wait_for(&self, count: usize) {
        for _ in 0..6_000 {
            if self.made.load(Ordering::Acquire) >= count {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("{count} connections could not be made");
    }

    fn go(self) {
        self.gone.store(true, Ordering::Release);
        self.threads.into_iter().for_each(|it| it.join().unwrap());
    }
}

fn both_meet(store: &Store, first: Config) {
    std::thread::scope(|scope| {
        let join = |config: Config| Group::join(&config, clock(), silent()).map(|_| ());
        let rank = scope.spawn(move || join(first));
        let second = Config { token: "secret".to_owned(), ..config(store, 1, 2) };
        join(second).unwrap();
        rank.join().unwrap().unwrap();
    });
}

/// Where rank 0 is said to be: who connects there comes through to it only once the gate is open.
fn gate(target: SocketAddr, open: Arc<AtomicBool>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            let open = Arc::clone(&open);
            std::thread::spawn(move || {
                while !open.load(Ordering::Acquire) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                let Ok(far) = TcpStream::connect(target) else { return };
                let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
                for (mut from, mut to) in [(near, far), back] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                }
            });
        }
    });
    address
}

/// More than a rank talks to at once, and none of them ever says who it is.
#[test]
fn a_crowd_at_a_rank_does_not_keep_others_out() {
    let address = "127.0.0.1:0".parse().unwrap();
    let store = Store::serve(address, "secret", clock(), silent()).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let open = Arc::new(AtomicBool::new(false));
    let first = Config {
        port,
        advertise: Some(gate(address, Arc::clone(&open)).to_string()),
        token: "secret".to_owned(),
        ..config(&store, 0, 2)
    };
    let crowd = Crowd::of(400, address);
    std::thread::scope(|scope| {
        let crowd = &crowd;
        scope.spawn(move || {
            // All places, which there are once rank 1 has come to the store, and some more that wait in the listener's queue.
            crowd.wait_for(300);
            open.store(true, Ordering::Release);
        });
        both_meet(&store, first);
    });
    crowd.go();
}

/// More than a store has places for. That takes many descriptors, so it is a process of its own: this test once more.
#[test]
#[cfg(target_os = "linux")]
fn a_crowd_at_the_store_does_not_keep_ranks_out() {
    const CROWD: usize = 2_400;
    if std::env::var_os("MOTET_TEST_MANY").is_none() {
        let this = std::env::current_exe().unwrap();
        let test = "strangers::a_crowd_at_the_store_does_not_keep_ranks_out";
        let script = format!(
            "ulimit -n 10000 || exit 77; exec '{}' --exact {test} --nocapture",
            this.display()
        );
        let mut shell = std::process::Command::new("sh");
        let output = shell.args(["-c", &script]).env("MOTET_TEST_MANY", "1").output().unwrap();
        if output.status.code() == Some(77) {
            println!("skipped: this user may not have 10,000 open files");
            return;
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let (said, note) = notes();
    let address = "127.0.0.1:0".parse().unwrap();
    let store = Store::serve(address, "secret", clock(), note).unwrap();
    let crowd = Crowd::of(CROWD, store.address());
    crowd.wait_for(2_100);
    let first = Config { token: "secret".to_owned(), ..config(&store, 0, 2) };
    both_meet(&store, first);
    crowd.go();
    drop(store);
    // However many they are, they do not fill the log.
    let said = said.lock().unwrap();
    assert!(said.len() < 100, "{said:?}");
}

/// What a stranger calls a reason is not shown.
#[test]
fn strangers_write_nothing_into_the_log() {
    let (said, note) = notes();
    let store = Store::serve("127.0.0.1:0".parse().unwrap(), "secret", clock(), note).unwrap();
    let text = b"accepted\n\x1b[2J10.0.0.1: joined";
    let mut stream = TcpStream::connect(store.address()).unwrap();
    let header = Header { length: text.len() as u32, ..Header::new(Kind::Refused) };
    stream.write_all(&[&header.encode()[..], text].concat()).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    for _ in 0..1_000 {
        if !said.lock().unwrap().is_empty() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let said = said.lock().unwrap().join("|");
    assert!(said.contains("it said something else than was due"), "{said}");
    assert!(!said.contains("joined") && !said.contains('\n'), "{said}");
}
