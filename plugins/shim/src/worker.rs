//! The thread beside the job: looks at the flags of calls under way, tells the manager of them, lets those go that may, and writes
//! the trace. All decisions are `motet_control::Shim`'s.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration as Wall;

use motet_control::manager::Network;
use motet_control::shim::{Call, Mode};
use motet_control::wire::Frame;
use motet_control::{GroupId, Shim};
use motet_runtime::{Collective, Communicator};
use motet_units::{Bytes, Duration, Instant};

use crate::flags::Slot;
use crate::link::Link;
use crate::log;
use crate::recorder::Recorder;
use crate::shared::Shared;

/// How long to sleep between two looks at the flags while calls are under way. A call waits about that much longer for it.
const LOOK: Wall = Wall::from_micros(10);
/// The longest time without a look at the manager's socket.
const IDLE: Wall = Wall::from_millis(50);

/// What the job's threads hand over.
pub(crate) enum Handed {
    Communicator(Communicator),
    Ticket(Ticket),
    /// The job says that an iteration has ended.
    Iteration,
}

/// A call that was put on a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) slot: Slot,
    /// The stream, as a number.
    pub(crate) stream: usize,
    /// The number of its communicator, in the order in which they were handed over.
    pub(crate) communicator: u32,
    /// The group whose circuits it takes, if the job file has one.
    pub(crate) group: Option<GroupId>,
    pub(crate) collective: Collective,
    pub(crate) bytes: Bytes,
    /// Whether its stream waits until it is let go.
    pub(crate) gated: bool,
}

/// A call under way.
struct Open {
    /// In the order in which the job made its calls.
    number: u64,
    ticket: Ticket,
    arrived: Option<Instant>,
    /// Whether the manager was asked and has not answered.
    asked: bool,
    /// Whether the manager was told of it, and so must hear of its end.
    told: bool,
    began: Option<Instant>,
}

/// How many calls there were and how long they waited, for the last line of the log.
#[derive(Debug, Default)]
struct Account {
    calls: u64,
    waited: Duration,
    longest: Duration,
    over_host: u64,
}

pub(crate) struct Worker {
    shared: Arc<Shared>,
    link: Option<Link>,
    shim: Shim,
    /// Calls under way, by stream, in the order in which they were put there.
    streams: BTreeMap<usize, VecDeque<Open>>,
    /// Calls that were handed over so far.
    handed: u64,
    recorder: Option<Recorder>,
    account: Account,
}

impl Worker {
    pub(crate) fn new(
        shared: Arc<Shared>,
        link: Option<Link>,
        mode: Mode,
        recorder: Option<Recorder>,
    ) -> Self {
        let (streams, handed, account) = (BTreeMap::new(), 0, Account::default());
        Self { shared, link, shim: Shim::new(mode), streams, handed, recorder, account }
    }

    /// Works until the process ends.
    pub(crate) fn run(mut self) {
        finer_sleep();
        loop {
            let ending = self.shared.ending.load(Ordering::Acquire);
            self.take();
            self.listen();
            self.look(ending);
            if let Some(recorder) = &mut self.recorder {
                recorder.write(false);
            }
            if ending {
                self.end();
                self.shared.has_ended();
                return;
            }
            if self.streams.is_empty() {
                self.shared.wait(IDLE);
            } else {
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Takes over what the job's threads have handed.
    fn take(&mut self) {
        for it in self.shared.handed() {
            match it {
                Handed::Communicator(about) => {
                    if let Some(recorder) = &mut self.recorder {
                        recorder.communicator(&about);
                    }
                }
                Handed::Ticket(ticket) => {
                    self.handed += 1;
                    let open = Open {
                        number: self.handed,
                        ticket,
                        arrived: None,
                        asked: false,
                        told: false,
                        began: None,
                    };
                    self.streams.entry(ticket.stream).or_default().push_back(open);
                }
                Handed::Iteration => self.shim.iteration(self.shared.now()),
            }
        }
    }

    /// Handles all that the manager has said.
    fn listen(&mut self) {
        while let Some(link) = &mut self.link {
            match link.next() {
                Ok(Some(Frame::Go { group, network })) => self.go(group, network),
                // The manager says `go` to every call while the controller is gone.
                Ok(Some(Frame::Pass)) => log::warn("the controller is gone; calls pass"),
                Ok(Some(Frame::Resume)) => log::warn("the controller is back"),
                Ok(Some(frame)) => self.lose(&format!("the manager says {frame:?}")),
                Ok(None) => return,
                Err(why) => self.lose(&why),
            }
        }
    }

    /// The manager lets the oldest call go that waits for a group's circuits.
    fn go(&mut self, group: GroupId, network: Network) {
        let now = self.shared.now();
        let waiting = self.streams.values_mut().flatten();
        let waiting = waiting.filter(|it| it.asked && it.ticket.group == Some(group));
        // One that was already let go by our own patience is not here any more.
        let Some(open) = waiting.min_by_key(|it| it.arrived) else { return };
        self.account.over_host += u64::from(network == Network::Host);
        grant(&self.shared, &mut self.account, open, now);
    }

    /// The connection has ended: nothing waits any more, now or later.
    fn lose(&mut self, why: &str) {
        self.link = None;
        self.shared.gates.store(false, Ordering::Release);
        log::warn(&format!("{why}; calls pass from now on"));
        let now = self.shared.now();
        for open in self.streams.values_mut().flatten().filter(|it| it.asked) {
            grant(&self.shared, &mut self.account, open, now);
        }
    }

    /// Looks at the flags. At the end of the process nothing is asked for any more.
    fn look(&mut self, ending: bool) {
        let mut failed = None;
        let mut ended = Vec::new();
        let now = self.shared.now();
        for (stream, opens) in &mut self.streams {
            for (place, open) in opens.iter_mut().enumerate() {
                let slot = open.ticket.slot;
                // Those behind it in the stream have not arrived either.
                if open.arrived.is_none() && !self.shared.flags.has_arrived(slot) && !ending {
                    break;
                }
                if open.arrived.is_none() {
                    open.arrived = Some(now);
                    self.account.calls += 1;
                    let tell = open.ticket.group.and_then(|group| {
                        let Ticket { collective, bytes, .. } = open.ticket;
                        self.shim.call(Call { group, collective, bytes }, now)
                    });
                    let link = self.link.as_mut().filter(|_| open.ticket.gated && !ending);
                    match (tell, link) {
                        (Some(tell), Some(link)) => {
                            (open.asked, open.told) = (true, true);
                            failed = link.tell(tell).err().or(failed);
                        }
                        _ => grant(&self.shared, &mut self.account, open, now),
                    }
                }
                let late = open.arrived.is_some_and(|it| now.since(it) > self.shared.patience);
                if open.asked && late {
                    failed = Some("a call has waited too long for its circuits".to_owned());
                }
                if self.shared.flags.has_ended(slot) {
                    ended.push((*stream, place));
                }
            }
        }
        // From behind, so that places stay right; then told in the order in which they were called.
        let remove = |(stream, place)| self.streams.get_mut(&stream)?.remove(place);
        let mut ended: Vec<Open> = ended.into_iter().rev().filter_map(remove).collect();
        ended.sort_by_key(|it| it.number);
        for open in ended {
            failed = self.ended(&open, now).err().or(failed);
        }
        self.streams.retain(|_, it| !it.is_empty());
        if let Some(why) = failed {
            self.lose(&why);
        }
    }

    fn ended(&mut self, open: &Open, now: Instant) -> Result<(), String> {
        self.shared.flags.give_back(open.ticket.slot);
        if let Some(recorder) = &mut self.recorder {
            recorder.call(&open.ticket, open.began.unwrap_or(now), now);
        }
        let Some(group) = open.ticket.group else { return Ok(()) };
        let tells = self.shim.ended(group);
        match &mut self.link {
            Some(link) if open.told => tells.into_iter().try_for_each(|it| link.tell(it)),
            _ => Ok(()),
        }
    }

    fn end(&mut self) {
        if let Some(link) = &mut self.link {
            link.bye();
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.write(true);
        }
        let Account { calls, waited, longest, over_host } = self.account;
        let (hits, misses) = self.shim.score();
        let ms = |it: Duration| it.as_ps() as f64 * 1e-9;
        log::info(|| {
            format!(
                "{calls} calls waited {:.3} ms for circuits, the longest {:.3} ms; {over_host} got none; {hits} came as \
                 foreseen, {misses} otherwise",
                ms(waited),
                ms(longest)
            )
        });
    }
}

/// Lets a call go.
fn grant(shared: &Shared, account: &mut Account, open: &mut Open, now: Instant) {
    if open.ticket.gated {
        shared.flags.grant(open.ticket.slot);
    }
    let waited = open.arrived.map_or(Duration::ZERO, |it| now.since(it));
    account.waited += waited;
    account.longest = account.longest.max(waited);
    (open.asked, open.began) = (false, Some(now));
}

/// Has this thread's sleeps end on time: Linux lets threads sleep 50 µs longer than they ask for, unless told otherwise.
#[allow(unsafe_code, reason = "Rust has no such setting")]
fn finer_sleep() {
    let nanoseconds: libc::c_ulong = 1000;
    // SAFETY: this call takes numbers only, and is about this thread alone. Where it is refused, sleep is as coarse as before.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, nanoseconds) };
}
