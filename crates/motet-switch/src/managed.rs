//! [`Managed`]: a [`Driver`] for any [`Device`]. It implements sessions, time-outs, recovery from unknown
//! states and reading back, once for all protocols.
//!
//! A change is: read, plan the steps, send them, read again until nothing moves any more, compare. If the
//! switch did not say whether it has carried out an order (no answer, a broken connection), that order may
//! still be on its way and take effect later. So the session is closed, and readings on the next one count
//! only when two of them, `settle` apart, agree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use motet_control::{Circuit, SwitchId};
use motet_units::Duration;
use tokio::sync::{Mutex, MutexGuard, Notify, mpsc};
use tokio::time::{Instant, sleep, timeout};

use crate::device::{Device, Fault, Readout, Session, Status};
use crate::driver::{Delta, Driver, Failure, Notice, Pending, PortState, Snapshot, Watch};
use crate::error::{Error, Problem};
use crate::layout::Layout;
use crate::plan;

/// After this many readings in a row that differ, reading is given up as failed.
const RESTLESS: usize = 20;

/// The identity of a switch, and the time-outs for it.
#[derive(Clone, Debug)]
pub struct Manner {
    pub id: SwitchId,
    pub name: String,
    pub address: String,
    pub layout: Layout,
    /// The time-out of each connection attempt, reading and change.
    pub timeout: Duration,
    /// How long the switch may still carry out an order after its connection has broken.
    pub settle: Duration,
    /// The interval at which a watch reads the switch.
    pub poll: Duration,
}

/// A switch with its sessions, as a [`Driver`].
#[derive(Clone)]
pub struct Managed {
    inner: Arc<Inner>,
}

struct Inner {
    manner: Manner,
    device: Box<dyn Device>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<Box<dyn Session>>,
    /// Whether a change was sent whose outcome is not known.
    doubt: bool,
    told: Told,
}

/// The state of the switch as the driver's user knows it, from readings, notices and its own changes. A watch
/// reports only differences from that.
#[derive(Default)]
struct Told {
    /// `None` before the first reading.
    circuits: Option<Vec<Circuit>>,
    /// Ports that are not up.
    ports: BTreeMap<u32, PortState>,
}

impl Told {
    fn circuits(&mut self, now: &Snapshot) {
        self.circuits = Some(now.circuits.clone());
    }

    /// Records the driver's own change.
    fn changed(&mut self, delta: &Delta) {
        let Some(circuits) = &mut self.circuits else { return };
        let mut all: BTreeSet<Circuit> = std::mem::take(circuits).into_iter().collect();
        all.retain(|it| !delta.delete.contains(it));
        all.extend(&delta.create);
        *circuits = all.into_iter().collect();
    }

    /// The differences between a new state and the known one, which it then becomes.
    fn news(&mut self, now: &Snapshot) -> Vec<Notice> {
        let mut news = Vec::new();
        for (number, state) in (0_u32..).zip(now.ports.iter().copied()) {
            let before = match state {
                PortState::Up => self.ports.remove(&number),
                _ => self.ports.insert(number, state),
            };
            if before.unwrap_or_default() != state {
                news.push(Notice::Port(number, state));
            }
        }
        if self.circuits.as_ref().is_some_and(|it| *it != now.circuits) {
            news.push(Notice::Circuits(now.clone()));
        }
        self.circuits(now);
        news
    }
}

impl std::fmt::Debug for Managed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Inner { manner, device, .. } = &*self.inner;
        f.debug_struct("Managed")
            .field("manner", manner)
            .field("device", device)
            .finish_non_exhaustive()
    }
}

impl Managed {
    #[must_use]
    pub fn new(manner: Manner, device: Box<dyn Device>) -> Self {
        Self { inner: Arc::new(Inner { manner, device, state: Mutex::default() }) }
    }
}

/// A duration as a `std` duration, rounded up to nanoseconds.
pub(crate) const fn std_time(time: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_ps().div_ceil(1000))
}

impl Inner {
    fn error(&self, fault: Fault) -> Error {
        let Manner { name, address, .. } = &self.manner;
        Error {
            switch: name.clone(),
            address: address.clone(),
            asked: fault.asked,
            problem: fault.problem,
        }
    }

    /// Waits for an answer, at most for the switch's time-out.
    async fn within<T>(
        &self,
        asked: &str,
        work: Pending<'_, Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let time = self.manner.timeout;
        match timeout(std_time(time), work).await {
            Ok(answer) => answer,
            Err(_) => Err(Fault::new(asked, Problem::TimedOut(time))),
        }
    }

    /// Takes the session out of the state, so that a call that is dropped drops it too.
    async fn session(&self, state: &mut State) -> Result<(Box<dyn Session>, bool), Fault> {
        if let Some(session) = state.session.take() {
            return Ok((session, false));
        }
        Ok((self.within("connecting", self.device.connect()).await?, true))
    }

    /// One reading. If the session has broken since it was last used, it is replaced and the reading repeated
    /// once, which is safe because reading changes nothing.
    async fn read_once(&self, state: &mut State) -> Result<Readout, Fault> {
        loop {
            let (mut session, fresh) = self.session(state).await?;
            match self.within("reading circuits", session.read()).await {
                Ok(readout) => {
                    state.session = Some(session);
                    return Ok(readout);
                }
                Err(fault) if fresh || !matches!(fault.problem, Problem::Unreachable(_)) => {
                    return Err(fault);
                }
                Err(_) => {}
            }
        }
    }

    /// A reading that no earlier order can change any more; see the module's documentation.
    async fn read(&self, state: &mut State) -> Result<Readout, Fault> {
        let mut readout = self.read_once(state).await?;
        if state.doubt {
            for _ in 0..RESTLESS {
                sleep(std_time(self.manner.settle)).await;
                let again = self.read_once(state).await?;
                if again == readout && !moves(&again) {
                    state.doubt = false;
                    break;
                }
                readout = again;
            }
            if state.doubt {
                let problem = Problem::Garbled(format!("{RESTLESS} readings in a row that differ"));
                return Err(Fault::new(
                    "reading circuits after an order without an answer",
                    problem,
                ));
            }
        }
        Ok(readout)
    }

    /// Reads until no cross-connection is being made or removed any more.
    async fn read_at_rest(&self, state: &mut State) -> Result<Readout, Fault> {
        let end = Instant::now() + std_time(self.manner.timeout);
        let mut pause = std::time::Duration::from_millis(5);
        loop {
            let readout = self.read(state).await?;
            if !moves(&readout) {
                return Ok(readout);
            }
            if Instant::now() >= end {
                let problem = Problem::TimedOut(self.manner.timeout);
                return Err(Fault::new("waiting for cross-connections to be made", problem));
            }
            sleep(pause).await;
            pause = (pause * 2).min(std::time::Duration::from_millis(200));
        }
    }

    fn snapshot(&self, readout: &Readout) -> Snapshot {
        plan::snapshot(&self.manner.layout, self.manner.id, readout)
    }

    async fn apply(&self, delta: &Delta) -> Result<Snapshot, Failure> {
        let mut state = self.state.lock().await;
        let done = self.apply_in(&mut state, delta).await;
        match &done {
            Ok(_) => state.told.changed(delta),
            Err(Failure { now: Some(now), .. }) => state.told.circuits(now),
            Err(_) => {}
        }
        done
    }

    async fn apply_in(&self, state: &mut State, delta: &Delta) -> Result<Snapshot, Failure> {
        let unread = |fault| Failure { error: self.error(fault), now: None };
        let before = self.read_at_rest(state).await.map_err(unread)?;
        let Manner { layout, id, .. } = &self.manner;
        let steps = match plan::steps(layout, *id, &before, delta) {
            Ok(steps) => steps,
            Err(problem) => {
                let error = self.error(Fault::new("checking a change of circuits", problem));
                return Err(Failure { error, now: Some(self.snapshot(&before)) });
            }
        };
        if steps.is_empty() {
            return Ok(self.snapshot(&before));
        }
        let (mut session, _) = self.session(state).await.map_err(unread)?;
        state.doubt = true;
        let told = self.within("changing circuits", session.change(&steps)).await;
        if !told.as_ref().is_err_and(|it| it.problem.leaves_doubt()) {
            state.doubt = false;
            state.session = Some(session);
        }
        let after = self.read_at_rest(state).await;
        match (told, after) {
            (Ok(()), Ok(after)) => match plan::verify(layout, &before, &steps, &after) {
                Ok(()) => Ok(self.snapshot(&after)),
                Err(problem) => {
                    let error = self.error(Fault::new("changing circuits", problem));
                    Err(Failure { error, now: Some(self.snapshot(&after)) })
                }
            },
            // If a change had no answer but is found in place, it counts as done, because this reading can be
            // trusted.
            (Err(fault), Ok(after)) => match plan::verify(layout, &before, &steps, &after) {
                Ok(()) if fault.problem.leaves_doubt() => Ok(self.snapshot(&after)),
                _ => Err(Failure { error: self.error(fault), now: Some(self.snapshot(&after)) }),
            },
            (Ok(()), Err(fault)) => {
                state.doubt = true;
                Err(unread(fault))
            }
            (Err(fault), Err(_)) => {
                state.doubt = true;
                Err(unread(fault))
            }
        }
    }

    async fn prepare(&self, delta: &Delta) -> Result<(), Error> {
        let mut state = self.state.lock().await;
        let readout = self.read_at_rest(&mut state).await.map_err(|it| self.error(it))?;
        let Manner { layout, id, .. } = &self.manner;
        let checked = plan::steps(layout, *id, &readout, delta);
        let asked = "checking a change of circuits";
        checked.map(|_| ()).map_err(|problem| self.error(Fault::new(asked, problem)))
    }

    /// The loop of a watch.
    async fn watch(self: Arc<Self>, notices: mpsc::Sender<Notice>) {
        let nudge = Arc::new(Notify::new());
        let mut listening = None;
        let mut lost = false;
        loop {
            for notice in self.look(&mut lost).await {
                if notices.send(notice).await.is_err() {
                    return;
                }
            }
            if lost {
                listening = None;
            } else if listening.is_none() {
                listening = self.device.listen(nudge.clone());
            }
            let poll = sleep(std_time(self.manner.poll));
            let Some(listener) = &mut listening else {
                poll.await;
                continue;
            };
            tokio::select! {
                () = poll => {}
                () = nudge.notified() => {}
                _ = listener => {
                    listening = None;
                    sleep(std_time(self.manner.settle)).await;
                }
            }
        }
    }

    /// Reads the switch and returns what has changed.
    async fn look(&self, lost: &mut bool) -> Vec<Notice> {
        let mut state: MutexGuard<'_, State> = self.state.lock().await;
        match self.read_at_rest(&mut state).await {
            Ok(readout) => {
                let now = self.snapshot(&readout);
                let mut news = state.told.news(&now);
                if std::mem::take(lost) {
                    news.retain(|it| !matches!(it, Notice::Circuits(_)));
                    news.insert(0, Notice::Back(now));
                }
                news
            }
            Err(fault) => {
                let known = std::mem::replace(lost, true);
                (!known).then(|| Notice::Lost(self.error(fault))).into_iter().collect()
            }
        }
    }
}

fn moves(readout: &Readout) -> bool {
    readout.crosses.iter().any(|it| it.status == Status::Moving)
}

impl Driver for Managed {
    fn id(&self) -> SwitchId {
        self.inner.manner.id
    }

    fn name(&self) -> &str {
        &self.inner.manner.name
    }

    fn address(&self) -> &str {
        &self.inner.manner.address
    }

    fn ports(&self) -> u32 {
        self.inner.manner.layout.ports
    }

    fn read(&self) -> Pending<'_, Result<Snapshot, Error>> {
        Box::pin(async {
            let mut state = self.inner.state.lock().await;
            let read = self.inner.read(&mut state).await.map_err(|it| self.inner.error(it))?;
            let now = self.inner.snapshot(&read);
            state.told.circuits(&now);
            Ok(now)
        })
    }

    fn prepare<'a>(&'a self, delta: &'a Delta) -> Pending<'a, Result<(), Error>> {
        Box::pin(self.inner.prepare(delta))
    }

    fn apply<'a>(&'a self, delta: &'a Delta) -> Pending<'a, Result<Snapshot, Failure>> {
        Box::pin(self.inner.apply(delta))
    }

    fn watch(&self) -> Watch {
        let (send, receive) = mpsc::channel(64);
        let task = tokio::spawn(self.inner.clone().watch(send));
        Watch::new(receive, task.abort_handle())
    }
}
