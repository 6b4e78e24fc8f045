//! How ranks come to use another table at the same operation: [`Leader`] and [`Member`], two state
//! machines that take and give [`Message`]s and do no IO, so that a plugin and a simulation run
//! the same ones.
//!
//! Ranks that choose differently for one collective hang (NVIDIA/nccl issue 1136). So a switch is
//! a two-phase commit whose outcome takes effect at an operation number:
//!
//! 1. The leader **proposes** a [`Target`] and an operation `at`, well ahead of where ranks are.
//! 2. A member that holds the table with that checksum, sees the network it is for, and has not
//!    begun operation `at`, puts up a **fence** there and **accepts**. It is now *in doubt*.
//!    Otherwise it **refuses**, for good.
//! 3. When all have accepted, the leader's **verdict** is to commit; after one refusal it is to
//!    abort. A member that hears it takes the fence down, and on commit the target decides from
//!    `at` on.
//!
//! Messages may be lost, late, doubled or out of order. A member near its fence **asks** for the
//! verdict, first the leader and at the fence everyone. A leader that is asked before all have
//! accepted aborts. A member that is asked gives the verdict it knows; one that has not heard of
//! the round refuses it for good and thus knows that it is aborted.
//!
//! **Why members may have to wait.** A rank that reaches `at` in doubt can neither stay nor switch:
//! the others may have done the other thing, and with messages that can be lost, no number of
//! further phases makes this certain (two generals). Something must wait, and the question is for
//! what. A barrier among the ranks at fixed operations would need no leader. But it waits for the
//! *calling* threads of other ranks, which may themselves wait for another communicator: a deadlock
//! that the job did not have. And it would put every job at the mercy of the control network at
//! every barrier, proposals or none. Here an operation waits only between an accepted proposal and
//! its verdict, and only for *control* threads, which wait for nothing: one round trip to anyone
//! who knows. With `at` far enough ahead it does not wait at all. Without proposals, or when the
//! control network fails at any other moment, ranks go on with the table they have. It waits on
//! only if no one who knows the verdict can be reached; then the embedder's choice is the
//! communicator's own time-out, for to guess is to risk the hang.
//!
//! Invariants, held by `tests.rs` under any delivery: a committed round was accepted by all, so by
//! then no member was in doubt about an earlier one; a member that is not in doubt about a round it
//! has seen, and has not committed it or a later one, knows it is aborted.

use std::sync::Arc;

use motet_units::Rank;

use crate::checksum::Checksum;
use crate::key::Signature;
use crate::runtime::{Active, Operation, Runtime};
use crate::view::View;

mod leader;

pub use leader::{Leader, RoundOpen};

/// What the ranks are to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The table with this checksum, on the network with this signature.
    Table { checksum: Checksum, signature: Signature },
    /// No table: the library decides. For when the network is no longer the plan's.
    Library,
}

/// What leader and members tell each other. Rounds are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    Propose { round: u64, at: Operation, target: Target },
    Accept { round: u64, rank: Rank },
    Refuse { round: u64, rank: Rank, refusal: Refusal },
    Ask { round: u64, rank: Rank },
    Verdict { round: u64, commit: bool },
}

/// Why a member refuses to switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the rank has begun operation {}; propose one further ahead", position.saturating_sub(1))]
    Late { position: Operation },
    #[error("the rank does not hold that table; send it first, and compare checksums")]
    NotPrepared { held: Option<Checksum> },
    #[error("the rank sees network {observed}; plan for that one")]
    OtherNetwork { observed: Signature },
    #[error("the rank has an earlier switch to make; propose again after it")]
    Busy,
    #[error("the rank has refused this round already; propose again")]
    Refused,
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Leader,
    Rank(Rank),
    /// All members, the leader's own included; from a member, the leader as well.
    All,
}

/// One rank's half of the agreement; drives its [`Runtime`].
#[derive(Debug)]
pub struct Member {
    rank: Rank,
    runtime: Arc<Runtime>,
    prepared: Option<Arc<View>>,
    /// How many operations before the fence to begin asking.
    ask_ahead: u64,
    doubt: Option<Doubt>,
    /// The last round that was accepted or refused; none up to it will be accepted any more.
    seen: u64,
    /// The last round known to be committed; 0 before the first.
    committed: u64,
}

#[derive(Debug)]
struct Doubt {
    round: u64,
    at: Operation,
    active: Active,
}

impl Member {
    /// The member that switches `runtime`, and asks for a late verdict `ask_ahead` operations
    /// before it would have to wait for it: about as many as fit into a few round trips.
    #[must_use]
    pub const fn new(rank: Rank, runtime: Arc<Runtime>, ask_ahead: u64) -> Self {
        Self { rank, runtime, prepared: None, ask_ahead, doubt: None, seen: 0, committed: 0 }
    }

    #[must_use]
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Holds a table ready: it has been read, and its programs are loaded. A proposal of it can now
    /// be accepted.
    pub fn prepare(&mut self, view: Arc<View>) {
        self.prepared = Some(view);
    }

    /// Whether this member has accepted a proposal and does not know the verdict.
    #[must_use]
    pub const fn in_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// Takes a message; gives the answer to it.
    pub fn handle(&mut self, message: Message) -> Option<(To, Message)> {
        match message {
            Message::Propose { round, at, target } => {
                let rank = self.rank;
                let answer = match self.consider(round, at, target) {
                    Ok(()) => Message::Accept { round, rank },
                    Err(refusal) => Message::Refuse { round, rank, refusal },
                };
                Some((To::Leader, answer))
            }
            Message::Verdict { round, commit } => {
                self.settle(round, commit);
                None
            }
            Message::Ask { round, rank } => {
                let commit = self.known_verdict(round)?;
                Some((To::Rank(rank), Message::Verdict { round, commit }))
            }
            Message::Accept { .. } | Message::Refuse { .. } => None,
        }
    }

    /// The question to send, if a verdict is due: to be called when an operation is in doubt, and
    /// now and then before.
    #[must_use]
    pub fn poll(&self) -> Option<(To, Message)> {
        let Doubt { round, at, .. } = *self.doubt.as_ref()?;
        let position = self.runtime.position();
        let to = if position > at { To::All } else { To::Leader };
        let due = position.saturating_add(self.ask_ahead) >= at;
        due.then_some((to, Message::Ask { round, rank: self.rank }))
    }

    fn consider(&mut self, round: u64, at: Operation, target: Target) -> Result<(), Refusal> {
        if self.doubt.as_ref().is_some_and(|it| it.round == round) {
            // The leader has not heard it the first time.
            return Ok(());
        }
        if round <= self.seen {
            return Err(Refusal::Refused);
        }
        self.seen = round;
        if self.doubt.is_some() || self.runtime.switch_ahead() {
            return Err(Refusal::Busy);
        }
        let active = self.target(target)?;
        self.runtime.raise_fence(at).map_err(|position| Refusal::Late { position })?;
        self.doubt = Some(Doubt { round, at, active });
        Ok(())
    }

    fn target(&self, target: Target) -> Result<Active, Refusal> {
        let Target::Table { checksum, signature } = target else {
            return Ok(self.runtime.leaving());
        };
        if let Some(observed) = self.runtime.observed().filter(|it| *it != signature) {
            return Err(Refusal::OtherNetwork { observed });
        }
        let held = self.prepared.as_ref().map(|it| it.table().checksum());
        let fits =
            |it: &&Arc<View>| it.table().checksum() == checksum && it.signature() == signature;
        let view = self.prepared.as_ref().filter(fits).ok_or(Refusal::NotPrepared { held })?;
        Ok(Active::Table(Arc::clone(view)))
    }

    fn settle(&mut self, round: u64, commit: bool) {
        match self.doubt.take_if(|it| it.round == round) {
            Some(Doubt { at, active, .. }) if commit => {
                self.committed = round;
                self.runtime.switch_at_fence(at, active);
            }
            Some(_) => self.runtime.lower_fence(),
            // A round that ends before it is heard of is not to be accepted later.
            None => self.seen = self.seen.max(round),
        }
    }

    /// The verdict on a round, where this member can be sure of it.
    fn known_verdict(&mut self, round: u64) -> Option<bool> {
        let in_doubt = self.doubt.as_ref().is_some_and(|it| it.round == round);
        if in_doubt || round < self.committed.max(1) {
            return None;
        }
        self.seen = self.seen.max(round);
        Some(round == self.committed)
    }
}

#[cfg(test)]
mod tests;
