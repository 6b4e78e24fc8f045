//! Who connects without being one of the group: refused and noted, and the group is not disturbed.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use motet_collective::Verified;
use motet_exec::wire::{Header, Kind};
use motet_exec::{Call, Config, Element, Group, Reduction, Store};

use crate::programs;
use crate::ranks::{clock, config, notes};

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

pub(crate) fn visit(address: std::net::SocketAddr) -> Vec<TcpStream> {
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
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect(address).is_err() {
            assert!(!rank.is_finished());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        strangers.extend(visit(address));
        scope.spawn(move || work(config(1), std::sync::Arc::new(|_: &str| {})));
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
