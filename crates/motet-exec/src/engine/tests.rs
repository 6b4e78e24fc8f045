//! What an engine makes of frames that no rank should send: it ends the group, and tells the others who is at fault.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use super::*;
use crate::socket::Socket;
use crate::wire::HEADER;

/// An engine of rank 0 of three, and the other ends of its connections to ranks 1 and 2.
struct Bench {
    commands: Sender<Command>,
    peers: [TcpStream; 2],
    thread: std::thread::JoinHandle<()>,
}

fn bench() -> Bench {
    #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
    let start = std::time::Instant::now();
    let clock = Arc::new(move || Instant::from_ps(start.elapsed().as_nanos() as u64 * 1000 + 1));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut streams = vec![Vec::new()];
    let peers = [1, 2].map(|rank| {
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        far.set_read_timeout(Some(Wall::from_secs(20))).unwrap();
        let near = listener.accept().unwrap().0;
        near.set_nonblocking(true).unwrap();
        let socket = Socket::new(mio::net::TcpStream::from_std(near), None);
        streams.push(vec![Stream::new(socket, rank, false, clock.now())]);
        far
    });
    let settings = Settings {
        heartbeat: Duration::from_ms(1_000),
        silence: Duration::from_ms(60_000),
        deadline: Duration::from_ms(60_000),
        at_work: 1,
    };
    let (commands, receiver) = std::sync::mpsc::channel();
    let (poll, flow) = (Poll::new().unwrap(), Flow::new(0, 3, 1 << 10));
    let engine = Engine::new(0, poll, receiver, clock, settings, flow, streams).unwrap();
    Bench { commands, peers, thread: std::thread::spawn(move || engine.run()) }
}

/// The Abort that rank 2 gets when rank 1 sends these frames.
fn told(frames: &[(Header, &[u8])]) -> (Header, Vec<u8>) {
    let Bench { commands, peers: [mut first, mut second], thread } = bench();
    for (number, (header, payload)) in frames.iter().enumerate() {
        let (number, length) = (number as u32, payload.len() as u32);
        first.write_all(&Header { number, length, ..*header }.encode()).unwrap();
        // It may have hung up after the header.
        let _ = first.write_all(payload);
    }
    let told = loop {
        let mut header = [0; HEADER];
        second.read_exact(&mut header).unwrap();
        let header = Header::decode(&header).unwrap();
        let mut payload = vec![0; header.length as usize];
        second.read_exact(&mut payload).unwrap();
        if header.kind == Kind::Abort {
            break (header, payload);
        }
    };
    commands.send(Command::Leave).unwrap();
    thread.join().unwrap();
    told
}

/// That rank 1 is at fault, and why.
fn at_fault(frames: &[(Header, &[u8])]) -> String {
    let (header, why) = told(frames);
    let why = String::from_utf8(why).unwrap();
    assert_eq!(header.offset, 1, "{why}");
    why
}

#[test]
fn why_a_group_ended_is_passed_on_at_no_more_than_its_length() {
    let abort = Header { offset: 2, ..Header::new(Kind::Abort) };
    // Three bytes stand in for each that is no UTF-8.
    let (header, why) = told(&[(abort, &[0xff; 4 << 10])]);
    assert_eq!(header.offset, 2);
    let why = String::from_utf8(why).unwrap();
    assert_eq!(why, "\u{fffd}".repeat(MAX_REASON / 3));
    // Who says more is itself at fault.
    let why = at_fault(&[(abort, &[b'a'; (4 << 10) + 1])]);
    assert!(why.contains("Abort frame of 4097 bytes"), "{why}");
}

#[test]
fn a_farewell_is_said_once() {
    let bye = Header::new(Kind::Bye);
    let why = at_fault(&[(bye, &[]), (bye, &[])]);
    assert!(why.contains("a farewell that was not due"), "{why}");
    // Nor is one confirmed that nobody has said.
    at_fault(&[(Header { offset: 1, ..bye }, &[])]);
    at_fault(&[(Header { offset: 2, ..bye }, &[])]);
}

#[test]
fn who_has_left_sends_nothing_more_to_be_kept() {
    // When the second comes, the first was handled.
    let Bench { commands, peers: [mut first, _second], thread } = bench();
    first.write_all(&Header::new(Kind::Bye).encode()).unwrap();
    let mut frame = [0; HEADER];
    first.read_exact(&mut frame).unwrap();
    let confirmed = Header::decode(&frame).unwrap();
    assert_eq!((confirmed.kind, confirmed.offset), (Kind::Bye, 1));
    let started = Header { number: 1, operation: 1, ..Header::new(Kind::Started) };
    first.write_all(&started.encode()).unwrap();
    // To who has left nothing is said any more, but the group ends, and its connections with it.
    let _ = first.read_to_end(&mut Vec::new());
    let (reply, answer) = std::sync::mpsc::channel();
    let registration =
        Registration { digest: [0; 32], title: String::new(), process: 0, memory: Vec::new() };
    commands.send(Command::Register { registration, reply }).unwrap();
    let error = answer.recv_timeout(Wall::from_secs(20)).unwrap().unwrap_err();
    assert!(error.to_string().contains("after its farewell"), "{error}");
    commands.send(Command::Leave).unwrap();
    thread.join().unwrap();
}
