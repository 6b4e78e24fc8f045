//! [`Seat`]: the state that a member keeps for one of its groups: which of the group's calls may start, and what must be reported to
//! the controller. The [`controller`](crate::controller) has the other half; [`protocol`](crate::protocol) defines the messages
//! between the two.

use crate::protocol::{GroupId, JobId, Member, Reply, Report, Stance, Word};

/// The network that a call is allowed to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Go {
    /// Over the group's circuits.
    Circuits,
    /// Over the host's packet network, because the group gets no circuits for this call.
    Host,
}

/// What a member has to do after an event: send `report`, and start the call that waits on the network that `go` names. Either may be
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatStep {
    pub report: Option<Report>,
    pub go: Option<Go>,
}

/// A member's state in one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    job: JobId,
    member: Member,
    group: GroupId,
    version: u64,
    stance: Stance,
    begun: u64,
    ended: u64,
    /// Number of the last call that used the packet network instead of circuits, 0 if none did: what [`Report::host`] says.
    host: u64,
    /// Whether the job has made its next call and is blocked until the controller's answer to it comes.
    waiting: bool,
    /// The controller's answer to the group's next call, where it came before the job made that call because it had been
    /// asked for ahead of time. That call is counted in `begun` already.
    early: Option<Go>,
    /// How many calls of this group come in a row: what [`Report::run`] says.
    run: u64,
}

/// The [`run`](Report::run) of a member that will never turn to another group.
pub const ENDLESS: u64 = u64::MAX;

impl Seat {
    #[must_use]
    pub const fn new(job: JobId, member: Member, group: GroupId) -> Self {
        Self {
            job,
            member,
            group,
            version: 0,
            stance: Stance::Away,
            begun: 0,
            ended: 0,
            host: 0,
            waiting: false,
            early: None,
            run: ENDLESS,
        }
    }

    /// Sets how many calls of this group come in a row from the next one on, before a call of another group; 0 if that is not known. A
    /// new seat starts with [`ENDLESS`].
    pub const fn expect(&mut self, run: u64) {
        self.run = run;
    }

    #[must_use]
    pub const fn group(&self) -> GroupId {
        self.group
    }

    #[must_use]
    pub const fn stance(&self) -> Stance {
        self.stance
    }

    /// Calls begun so far, over either network.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether calls that have begun have not ended yet.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.begun > self.ended
    }

    /// Whether the job is blocked in a call until the controller answers.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// The job makes the group's next call. If the returned step has no `go`, the call waits until a later step, from
    /// [`hear`](Self::hear) or [`give_up`](Self::give_up), has one.
    pub fn call(&mut self) -> SeatStep {
        if let Some(go) = self.early.take() {
            // `take` counted this call in `begun` when the answer came.
            return SeatStep { report: None, go: Some(go) };
        }
        match self.stance {
            Stance::Holding => {
                self.begun += 1;
                SeatStep { report: None, go: Some(Go::Circuits) }
            }
            Stance::Asking { .. } => {
                self.waiting = true;
                SeatStep::default()
            }
            Stance::Away => {
                self.waiting = true;
                SeatStep { report: Some(self.ask()), go: None }
            }
        }
    }

    /// The job will make the group's next call soon: asks for circuits now, so that they are set by then (*provisioning*).
    pub fn foresee(&mut self) -> Option<Report> {
        (self.stance == Stance::Away && self.early.is_none()).then(|| self.ask())
    }

    fn ask(&mut self) -> Report {
        self.change(Stance::Asking { call: self.begun + 1 })
    }

    fn change(&mut self, stance: Stance) -> Report {
        self.stance = stance;
        self.version += 1;
        self.report()
    }

    /// The member expects no further call of this group for now: gives the circuits back. Does nothing while a call waits for them.
    pub fn release(&mut self) -> Option<Report> {
        if self.waiting {
            return None;
        }
        let changed = self.drop_early() || self.stance != Stance::Away;
        changed.then(|| self.change(Stance::Away))
    }

    /// Gives back a pass for a call that the job has not made yet, and says whether there was one. An early refusal is kept, because all
    /// other members were refused the same call and will use the packet network for it.
    fn drop_early(&mut self) -> bool {
        let dropped = self.early == Some(Go::Circuits);
        if dropped {
            self.early = None;
            self.begun -= 1;
        }
        dropped
    }

    /// The controller has been unreachable for too long: a call that waits takes the packet network. Circuits that are held are
    /// kept, because only the controller could give them to others.
    ///
    /// This is the one case in which members may take different networks for one call: when the controller has answered some
    /// of them and is gone before it has answered all ([`protocol`](crate::protocol) says why). A job that goes on is worth more
    /// than one that waits for ever.
    pub fn give_up(&mut self) -> SeatStep {
        if !matches!(self.stance, Stance::Asking { .. }) {
            return SeatStep::default();
        }
        let go = std::mem::take(&mut self.waiting).then_some(Go::Host);
        if go.is_some() {
            self.begun += 1;
            self.ended += 1;
            self.host = self.begun;
        }
        SeatStep { report: Some(self.change(Stance::Away)), go }
    }

    /// A call that went over circuits has ended.
    pub fn ended(&mut self) -> Option<Report> {
        self.ended = (self.ended + 1).min(self.begun);
        // A recalled member's circuits can be taken down once its last call has ended, so the controller must hear of it. While
        // the member holds the circuits nobody waits for that.
        let tell = self.stance != Stance::Holding && !self.is_busy();
        tell.then(|| self.change(self.stance))
    }

    /// Handles a message of the controller about this group.
    pub fn hear(&mut self, word: Word) -> SeatStep {
        match word {
            Word::Reply { version, reply } => self.take(version, reply),
            Word::Report => SeatStep { report: Some(self.report()), go: None },
            Word::Recall => {
                let changed = self.drop_early() || self.stance == Stance::Holding;
                let report = if changed { self.change(Stance::Away) } else { self.report() };
                SeatStep { report: Some(report), go: None }
            }
        }
    }

    fn take(&mut self, version: u64, reply: Reply) -> SeatStep {
        if version != self.version || !matches!(self.stance, Stance::Asking { .. }) {
            return SeatStep::default();
        }
        let go = match reply {
            Reply::Grant => {
                self.stance = Stance::Holding;
                if !self.waiting {
                    return SeatStep::default();
                }
                Go::Circuits
            }
            Reply::Pass => {
                self.stance = Stance::Away;
                Go::Circuits
            }
            Reply::Refuse(_) => {
                self.stance = Stance::Away;
                self.ended += 1;
                self.host = self.begun + 1;
                Go::Host
            }
        };
        self.begun += 1;
        if std::mem::take(&mut self.waiting) {
            SeatStep { report: None, go: Some(go) }
        } else {
            self.early = Some(go);
            SeatStep::default()
        }
    }

    /// The report to repeat, in case the last one was lost, while the controller has not answered.
    #[must_use]
    pub fn again(&self) -> Option<Report> {
        matches!(self.stance, Stance::Asking { .. }).then(|| self.report())
    }

    /// The present state as a report.
    #[must_use]
    pub const fn report(&self) -> Report {
        Report {
            job: self.job,
            member: self.member,
            group: self.group,
            version: self.version,
            stance: self.stance,
            begun: self.begun,
            ended: self.ended,
            host: self.host,
            run: self.run,
        }
    }
}
