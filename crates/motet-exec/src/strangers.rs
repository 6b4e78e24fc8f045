//! [`Strangers`]: connections whose other side has not proved yet that it knows the token. They cost a thread and a socket each,
//! so there is a limit; and whoever can reach the port can open any number of them, so none may keep a place for long while
//! others wait, and a log must not grow with each.
//!
//! Where the limit is reached the oldest gives way, once it has had [`PATIENCE`]. A real rank needs one or two round-trip times
//! for its proof, so it is done before its turn comes, however many strangers say nothing. If it is not, it finds the
//! connection closed and tries again.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

use motet_units::{Duration, Instant};

use crate::store::Note;

/// How long a connection keeps its place in any case, for its proof.
const PATIENCE: Duration = Duration::from_ms(1_000);
/// How many lines are noted about strangers in [`PERIOD`]; the others are counted.
const LINES: u32 = 20;
/// See [`LINES`].
const PERIOD: Duration = Duration::from_ms(60_000);

/// Whether a place has become free for another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The oldest stranger's, whose connection was closed.
    Free,
    /// Not yet: the oldest stranger has not had its time.
    Soon,
    /// There is no stranger.
    No,
}

#[derive(Default)]
struct Open {
    /// The number of the last that came.
    last: u64,
    /// From the first that came to the last, each with the time when it came.
    all: BTreeMap<u64, (TcpStream, Instant)>,
}

/// What was noted in the present period.
struct Noted {
    since: Instant,
    lines: u32,
    left_out: u64,
}

/// See the head of the file.
pub(crate) struct Strangers {
    open: Mutex<Open>,
    noted: Mutex<Noted>,
    note: Note,
}

fn locked<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Strangers {
    pub(crate) fn new(note: Note) -> Self {
        let noted = Noted { since: Instant::START, lines: 0, left_out: 0 };
        Self { open: Mutex::default(), noted: Mutex::new(noted), note }
    }

    /// Takes a connection in, and gives it a number.
    pub(crate) fn add(&self, socket: &TcpStream, now: Instant) -> io::Result<u64> {
        let socket = socket.try_clone()?;
        let mut open = locked(&self.open);
        open.last += 1;
        let number = open.last;
        open.all.insert(number, (socket, now));
        Ok(number)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        locked(&self.open).all.len()
    }

    /// A connection is no stranger's any more: it has the proof, or is over. False if it has given way before.
    pub(crate) fn remove(&self, number: u64) -> bool {
        locked(&self.open).all.remove(&number).is_some()
    }

    /// Makes the oldest give way, if it has had its time.
    pub(crate) fn give_way(&self, now: Instant) -> Place {
        let mut open = locked(&self.open);
        let Some(oldest) = open.all.first_entry() else { return Place::No };
        if now.since(oldest.get().1) < PATIENCE {
            return Place::Soon;
        }
        // This ends the thread that waits to read from it.
        let _ = oldest.remove().0.shutdown(Shutdown::Both);
        Place::Free
    }

    /// Shuts them all down, which ends the threads that wait to read from them.
    pub(crate) fn end(&self) {
        for (socket, _) in locked(&self.open).all.values() {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Notes what became of a stranger, or counts it, if there were too many lines lately.
    pub(crate) fn note(&self, what: &str, now: Instant) {
        let mut noted = locked(&self.noted);
        if now.since(noted.since) >= PERIOD {
            self.say_left_out(noted.left_out);
            *noted = Noted { since: now, lines: 0, left_out: 0 };
        }
        if noted.lines < LINES {
            noted.lines += 1;
            (self.note)(what);
        } else {
            noted.left_out += 1;
        }
    }

    fn say_left_out(&self, count: u64) {
        if count > 0 {
            (self.note)(&format!("{count} more connections were refused, which are not listed"));
        }
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        let left_out = locked(&self.noted).left_out;
        self.say_left_out(left_out);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;
    use std::sync::Arc;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::START + Duration::from_ms(ms)
    }

    /// Strangers, and the lines that they note.
    fn strangers() -> (Strangers, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let note = Arc::new(move |line: &str| kept.lock().unwrap().push(line.to_owned()));
        (Strangers::new(note), lines)
    }

    #[test]
    fn the_oldest_gives_way_once_it_has_had_its_time() {
        let (strangers, _) = strangers();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_eq!(strangers.give_way(at(0)), Place::No);
        let mut far = Vec::new();
        let mut numbers = Vec::new();
        for it in 0..3 {
            far.push(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
            let near = listener.accept().unwrap().0;
            numbers.push(strangers.add(&near, at(it)).unwrap());
        }
        // The first has the proof.
        assert!(strangers.remove(numbers[0]));
        assert_eq!(strangers.give_way(at(1_000)), Place::Soon);
        assert_eq!(strangers.give_way(at(1_001)), Place::Free);
        assert_eq!((strangers.count(), strangers.give_way(at(1_001))), (1, Place::Soon));
        // It learns of it, and that it has given way shows afterwards.
        assert_eq!(far[1].read(&mut [0]).unwrap(), 0);
        assert!(!strangers.remove(numbers[1]) && strangers.remove(numbers[2]));
    }

    #[test]
    fn a_log_does_not_grow_with_each_stranger() {
        let (strangers, lines) = strangers();
        let said = || lines.lock().unwrap().len();
        (0..1_000).for_each(|it| strangers.note("no", at(it)));
        assert_eq!(said(), 20);
        strangers.note("no", at(60_000));
        assert_eq!(said(), 22);
        let left_out = "980 more connections were refused, which are not listed";
        assert_eq!(lines.lock().unwrap()[20..], [left_out, "no"]);
        (0..20).for_each(|it| strangers.note("no", at(60_001 + it)));
        drop(strangers);
        assert_eq!(said(), 42);
        assert!(lines.lock().unwrap()[41].starts_with("1 more"));
    }
}
