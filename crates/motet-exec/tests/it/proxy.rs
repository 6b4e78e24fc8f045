//! A proxy between a rank and those that connect to it, which understands frames and does one thing wrong.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use motet_exec::wire::{HEADER, Header, Kind};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// A frame is left out.
    Drop,
    /// A frame comes twice.
    Duplicate,
    /// A frame comes half a second late, and all behind it.
    Delay,
    /// The connection ends in the middle of a frame.
    Cut,
    /// One bit of the payload is another.
    Corrupt,
    /// From a frame on nothing passes any more, but the connection stays.
    Silence,
}

/// A proxy.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    /// When it struck.
    pub(crate) struck: Arc<OnceLock<Instant>>,
}

#[derive(Clone)]
struct Plan {
    fault: Fault,
    /// Frames of this kind, and which of them.
    kind: Kind,
    countdown: Arc<AtomicU32>,
    struck: Arc<OnceLock<Instant>>,
}

impl Proxy {
    /// Between whoever connects to it and `target`; it strikes at the frame of a kind with a number.
    pub(crate) fn start(target: SocketAddr, fault: Fault, kind: Kind, number: u32) -> Self {
        let struck = Arc::new(OnceLock::new());
        let countdown = Arc::new(AtomicU32::new(number + 1));
        let plan = Plan { fault, kind, countdown, struck: Arc::clone(&struck) };
        let address = relay(target, move |from, to| pass(from, to, &plan));
        Self { address, struck }
    }
}

/// Hands each connection that comes to the address it gives on to `target`, each direction to `pass` in a thread of its own. It ends with
/// the process.
pub(crate) fn relay(
    target: SocketAddr,
    pass: impl Fn(TcpStream, TcpStream) + Clone + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((near, _)) = listener.accept() {
            let Ok(far) = TcpStream::connect(target) else { continue };
            let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
            for (from, to) in [(near, far), back] {
                let pass = pass.clone();
                std::thread::spawn(move || pass(from, to));
            }
        }
    });
    address
}

/// Passes frames on until one side ends.
fn pass(mut from: TcpStream, mut to: TcpStream, plan: &Plan) {
    let _ = to.set_nodelay(true);
    let mut silent = false;
    loop {
        let mut frame = vec![0; HEADER];
        if from.read_exact(&mut frame).is_err() {
            break;
        }
        let header = Header::decode(frame[..].try_into().unwrap()).unwrap();
        frame.resize(HEADER + header.length as usize, 0);
        if from.read_exact(&mut frame[HEADER..]).is_err() {
            break;
        }
        let strikes = header.kind == plan.kind
            && plan
                .countdown
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, |it| it.checked_sub(1))
                == Ok(1)
            || silent;
        let strikes = strikes && plan.fault != Fault::Nothing;
        if strikes {
            #[allow(clippy::disallowed_methods, reason = "a test may read the clock")]
            plan.struck.get_or_init(Instant::now);
        }
        match plan.fault {
            Fault::Drop if strikes => continue,
            Fault::Duplicate if strikes => frame.extend(frame.clone()),
            Fault::Delay if strikes => std::thread::sleep(Duration::from_millis(500)),
            Fault::Cut if strikes => {
                let _ = to.write_all(&frame[..frame.len() / 2]);
                break;
            }
            Fault::Corrupt if strikes => {
                if let Some(last) = frame.last_mut() {
                    *last ^= 0x10;
                }
            }
            Fault::Silence if strikes => {
                silent = true;
                continue;
            }
            _ => {}
        }
        if to.write_all(&frame).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
