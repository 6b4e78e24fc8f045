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
//! **When the leader is gone.** Then no member in doubt may decide alone: another rank may have heard the verdict
//! before the leader died. So a member that is [told](Member::lose_leader) that its leader is lost asks all others. A
//! member that knows the verdict answers with it; one that never accepted the round refuses it for good, so that the
//! round is aborted; one that is in doubt itself and has lost the leader too answers **lost**. A member that has this
//! answer from every other member knows that nobody has heard a verdict and nobody ever will, and aborts. All others
//! reach the same result, because they stay in doubt until they have that answer from all others, or the verdict from
//! a member that has. This holds only because losing a leader is for good: whatever that leader still says is ignored.
//! So two ranks never differ. If a member cannot be reached at all, those in doubt stay so, and the embedder ends their
//! calls with an error rather than guess.
//!
//! **Trials.** A proposal can name an operation `until` from which on the table in use before decides again. The end
//! needs no second agreement, so a trial never lasts longer, whichever ranks are silent, late or dead by then.
//!
//! Invariants, held by `tests.rs` under any delivery: a committed round was accepted by all, so by
//! then no member was in doubt about an earlier one; a member that is not in doubt about a round it
//! has seen, and has not committed it or a later one, knows it is aborted.

use std::collections::BTreeSet;
use std::sync::Arc;

use motet_units::Rank;

use crate::checksum::Checksum;
use crate::key::Signature;
use crate::runtime::{Active, Operation, Runtime};
use crate::view::View;

mod leader;

pub use leader::{Leader, RoundOpen};

/// What a proposal asks the ranks to use.
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
    Propose {
        round: u64,
        at: Operation,
        /// For a trial: the operation from which on what was in use before decides again.
        until: Option<Operation>,
        target: Target,
    },
    Accept {
        round: u64,
        rank: Rank,
    },
    Refuse {
        round: u64,
        rank: Rank,
        refusal: Refusal,
    },
    Ask {
        round: u64,
        rank: Rank,
    },
    Verdict {
        round: u64,
        commit: bool,
    },
    /// The answer of a rank that is in doubt itself and has lost the leader.
    Lost {
        round: u64,
        rank: Rank,
    },
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
    /// How many members there are, once the leader is lost.
    leaderless: Option<u32>,
    /// The ranks known to be in doubt about the same round as this member, and to have lost the leader.
    lost: BTreeSet<u32>,
}

/// A proposal that the member has accepted and whose verdict it does not know.
#[derive(Debug)]
struct Doubt {
    round: u64,
    at: Operation,
    until: Option<Operation>,
    active: Active,
}

impl Member {
    /// The member that switches `runtime`, and asks for a late verdict `ask_ahead` operations
    /// before it would have to wait for it: about as many as fit into a few round trips.
    #[must_use]
    pub const fn new(rank: Rank, runtime: Arc<Runtime>, ask_ahead: u64) -> Self {
        Self {
            rank,
            runtime,
            prepared: None,
            ask_ahead,
            doubt: None,
            seen: 0,
            committed: 0,
            leaderless: None,
            lost: BTreeSet::new(),
        }
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

    /// Tells the member that the leader of these `ranks` ranks is lost for good: later messages of that leader must
    /// not be [handled](Self::handle). Returns the question to send to all others, if this member is in doubt.
    pub fn lose_leader(&mut self, ranks: u32) -> Option<(To, Message)> {
        self.leaderless = Some(ranks);
        self.lost.insert(self.rank.0);
        self.conclude();
        self.poll()
    }

    /// Takes a message, and returns the answer to it.
    pub fn handle(&mut self, message: Message) -> Option<(To, Message)> {
        match message {
            Message::Propose { round, at, until, target } => {
                let rank = self.rank;
                let answer = match self.consider(round, (at, until), target) {
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
                let answer = match self.known_verdict(round) {
                    Some(commit) => Message::Verdict { round, commit },
                    None if self.leaderless.is_some() && self.in_doubt_of(round) => {
                        Message::Lost { round, rank: self.rank }
                    }
                    None => return None,
                };
                Some((To::Rank(rank), answer))
            }
            Message::Lost { round, rank } => {
                if self.in_doubt_of(round) {
                    self.lost.insert(rank.0);
                    self.conclude();
                }
                None
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
        let all = position > at || self.leaderless.is_some();
        let to = if all { To::All } else { To::Leader };
        let due = all || position.saturating_add(self.ask_ahead) >= at;
        due.then_some((to, Message::Ask { round, rank: self.rank }))
    }

    fn in_doubt_of(&self, round: u64) -> bool {
        self.doubt.as_ref().is_some_and(|it| it.round == round)
    }

    /// Aborts if every member is in doubt and has lost the leader.
    fn conclude(&mut self) {
        let all = |ranks: u32| (0..ranks).all(|it| self.lost.contains(&it));
        if let Some(round) = self.doubt.as_ref().map(|it| it.round)
            && self.leaderless.is_some_and(all)
        {
            self.settle(round, false);
        }
    }

    fn consider(
        &mut self,
        round: u64,
        (at, until): (Operation, Option<Operation>),
        target: Target,
    ) -> Result<(), Refusal> {
        if self.in_doubt_of(round) {
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
        self.doubt = Some(Doubt { round, at, until, active });
        self.lost.clear();
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
            Some(Doubt { at, until, active, .. }) if commit => {
                self.committed = round;
                self.runtime.switch_at_fence(at, until, active);
            }
            Some(_) => self.runtime.lower_fence(),
            // A round that ends before it is heard of is not to be accepted later.
            None => self.seen = self.seen.max(round),
        }
    }

    /// The verdict on a round, if this member can be sure of it. Asking about a round it has never seen makes it
    /// refuse that round for good.
    fn known_verdict(&mut self, round: u64) -> Option<bool> {
        if self.in_doubt_of(round) || round < self.committed.max(1) {
            return None;
        }
        self.seen = self.seen.max(round);
        Some(round == self.committed)
    }
}

#[cfg(test)]
mod tests;
