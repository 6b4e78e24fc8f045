//! [`Seat`]: a member's side of one group: which calls may begin, and what the controller must be told. The other
//! side is the [`controller`](crate::controller)'s; [`protocol`](crate::protocol) says what goes between them.

use crate::protocol::{GroupId, JobId, Member, Reply, Report, Stance, Word};

/// How a call may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Go {
    /// Over the group's circuits.
    Circuits,
    /// Over the host's packet network: no circuits are to be had.
    Host,
}

/// What follows from an event: a report to send, and whether the call that waits may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub report: Option<Report>,
    pub go: Option<Go>,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seat {
    job: JobId,
    member: Member,
    group: GroupId,
    version: u64,
    stance: Stance,
    begun: u64,
    ended: u64,
    /// The last call that took the packet network.
    host: u64,
    /// The job has made the next call, which waits for an answer.
    waiting: bool,
    /// The next call was answered before the job has made it.
    early: Option<Go>,
    /// See [`Report::run`].
    run: u64,
}

/// A [`run`](Report::run) that does not end.
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

    /// How many calls of the group come in a row, from the next one on; 0 if that is not known. Until it is told, a seat takes it
    /// that there is no other group.
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

    /// Calls that were begun so far, by whatever network.
    #[must_use]
    pub const fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether calls are under way.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.begun > self.ended
    }

    /// Whether the job waits for an answer.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// The job makes the group's next call. If nothing says that it may go, it waits until [`hear`](Self::hear) does.
    pub fn call(&mut self) -> Step {
        if let Some(go) = self.early.take() {
            // Counted already when the controller answered.
            return Step { report: None, go: Some(go) };
        }
        match self.stance {
            Stance::Holding => {
                self.begun += 1;
                Step { report: None, go: Some(Go::Circuits) }
            }
            Stance::Asking { .. } => {
                self.waiting = true;
                Step::default()
            }
            Stance::Away => {
                self.waiting = true;
                Step { report: Some(self.ask()), go: None }
            }
        }
    }

    /// The job will make the group's next call soon: circuits are asked for ahead of it.
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

    /// The member needs the circuits no longer, as far as it knows. A call that waits still wants them.
    pub fn release(&mut self) -> Option<Report> {
        if self.waiting {
            return None;
        }
        let changed = self.drop_early() || self.stance != Stance::Away;
        changed.then(|| self.change(Stance::Away))
    }

    /// Gives back a pass that was not used. A refusal stands: all members take the packet network for that call.
    fn drop_early(&mut self) -> bool {
        let dropped = self.early == Some(Go::Circuits);
        if dropped {
            self.early = None;
            self.begun -= 1;
        }
        dropped
    }

    /// The controller has not been reached for so long that nobody waits for it any more: a call that waits takes the
    /// packet network. Circuits that are held stay: nobody can take them while the controller is gone.
    ///
    /// This is the one case in which members may take different networks for one call: when the controller has answered some
    /// of them and is gone before it has answered all ([`protocol`](crate::protocol) says why). A job that goes on is worth more
    /// than one that waits for ever.
    pub fn give_up(&mut self) -> Step {
        if !matches!(self.stance, Stance::Asking { .. }) {
            return Step::default();
        }
        let go = std::mem::take(&mut self.waiting).then_some(Go::Host);
        if go.is_some() {
            self.begun += 1;
            self.ended += 1;
            self.host = self.begun;
        }
        Step { report: Some(self.change(Stance::Away)), go }
    }

    /// A call that went over circuits has ended.
    pub fn ended(&mut self) -> Option<Report> {
        self.ended = (self.ended + 1).min(self.begun);
        // Somebody may wait for that, unless this member holds the circuits anyway.
        let tell = self.stance != Stance::Holding && !self.is_busy();
        tell.then(|| self.change(self.stance))
    }

    /// The controller says something about this group.
    pub fn hear(&mut self, word: Word) -> Step {
        match word {
            Word::Reply { version, reply } => self.take(version, reply),
            Word::Report => Step { report: Some(self.report()), go: None },
            Word::Recall => {
                let changed = self.drop_early() || self.stance == Stance::Holding;
                let report = if changed { self.change(Stance::Away) } else { self.report() };
                Step { report: Some(report), go: None }
            }
        }
    }

    fn take(&mut self, version: u64, reply: Reply) -> Step {
        if version != self.version || !matches!(self.stance, Stance::Asking { .. }) {
            return Step::default();
        }
        let go = match reply {
            Reply::Grant => {
                self.stance = Stance::Holding;
                if !self.waiting {
                    return Step::default();
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
            Step { report: None, go: Some(go) }
        } else {
            self.early = Some(go);
            Step::default()
        }
    }

    /// What to say again while nothing is heard.
    #[must_use]
    pub fn again(&self) -> Option<Report> {
        matches!(self.stance, Stance::Asking { .. }).then(|| self.report())
    }

    /// All that the controller may know.
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
