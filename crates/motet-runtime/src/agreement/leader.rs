//! [`Leader`]: proposes, counts who accepts, and gives the verdict. It runs beside the member of
//! one rank, usually rank 0, and leads one communicator.

use motet_units::Rank;

use super::{Message, Refusal, Target, To};
use crate::runtime::Operation;

/// The leader's side of the [`agreement`](crate::agreement) for one communicator.
#[derive(Debug)]
pub struct Leader {
    /// The first round of this leader; it knows nothing of earlier ones.
    first: u64,
    /// The number of the next round.
    next: u64,
    open: Option<Open>,
    committed: Option<u64>,
    ranks: u32,
    refusal: Option<(Rank, Refusal)>,
}

#[derive(Debug)]
struct Open {
    round: u64,
    at: Operation,
    until: Option<Operation>,
    target: Target,
    accepted: Vec<bool>,
}

impl Open {
    const fn proposal(&self) -> (To, Message) {
        let Self { round, at, until, target, .. } = *self;
        (To::All, Message::Propose { round, at, until, target })
    }
}

/// A proposal was made before the verdict on the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("round {0} is still open; abort it, or wait for its verdict")]
pub struct RoundOpen(pub u64);

impl Leader {
    /// The leader of `ranks` ranks, which counts its rounds from `first_round`, at least 1. One that
    /// takes over from another must begin above all rounds of that one.
    #[must_use]
    pub fn new(ranks: u32, first_round: u64) -> Self {
        let first = first_round.max(1);
        Self { first, next: first, open: None, committed: None, ranks, refusal: None }
    }

    /// Proposes that `target` decide from operation `at` on. `at` should be so far ahead that
    /// proposal, answers and verdict are through before any rank is there.
    ///
    /// # Errors
    /// When a round is open.
    pub fn propose(&mut self, at: Operation, target: Target) -> Result<(To, Message), RoundOpen> {
        self.propose_until(at, None, target)
    }

    /// The same; with `until`, as a trial: from that operation on what was in use before decides again.
    ///
    /// # Errors
    /// When a round is open.
    pub fn propose_until(
        &mut self,
        at: Operation,
        until: Option<Operation>,
        target: Target,
    ) -> Result<(To, Message), RoundOpen> {
        if let Some(open) = &self.open {
            return Err(RoundOpen(open.round));
        }
        let accepted = vec![false; self.ranks as usize];
        let open = Open { round: self.next, at, until, target, accepted };
        let proposal = open.proposal();
        self.next += 1;
        self.refusal = None;
        self.open = Some(open);
        Ok(proposal)
    }

    /// Takes a message, and returns what to send as a result.
    pub fn handle(&mut self, message: Message) -> Option<(To, Message)> {
        match message {
            Message::Accept { round, rank } => self.accept(round, rank),
            Message::Refuse { round, rank, refusal } => {
                let open = self.open.as_ref().is_some_and(|it| it.round == round);
                if !open {
                    return None;
                }
                self.refusal = Some((rank, refusal));
                self.abort()
            }
            Message::Ask { round, rank } => {
                // Who asks may be about to wait, so what is undecided is decided now.
                let open = self.open.as_ref().is_some_and(|it| it.round == round);
                if open { self.abort() } else { self.answer(round, rank) }
            }
            Message::Propose { .. } | Message::Verdict { .. } | Message::Lost { .. } => None,
        }
    }

    /// Ends an open round without a switch, as when a rank does not answer.
    pub fn abort(&mut self) -> Option<(To, Message)> {
        let open = self.open.take()?;
        Some((To::All, Message::Verdict { round: open.round, commit: false }))
    }

    /// What to send again, since messages may be lost: the open proposal, or else the last verdict.
    #[must_use]
    pub fn resend(&self) -> Option<(To, Message)> {
        if let Some(open) = &self.open {
            return Some(open.proposal());
        }
        let round = self.next.checked_sub(1).filter(|it| *it >= self.first)?;
        Some((To::All, Message::Verdict { round, commit: self.committed == Some(round) }))
    }

    /// The last round that was committed.
    #[must_use]
    pub const fn committed(&self) -> Option<u64> {
        self.committed
    }

    /// Who refused the last proposal, and why.
    #[must_use]
    pub const fn refusal(&self) -> Option<(Rank, Refusal)> {
        self.refusal
    }

    fn accept(&mut self, round: u64, rank: Rank) -> Option<(To, Message)> {
        let Some(open) = self.open.as_mut().filter(|it| it.round == round) else {
            return self.answer(round, rank);
        };
        *open.accepted.get_mut(rank.index())? = true;
        if !open.accepted.iter().all(|it| *it) {
            return None;
        }
        self.open = None;
        self.committed = Some(round);
        Some((To::All, Message::Verdict { round, commit: true }))
    }

    /// The verdict on a closed round, for a rank that has not got it. Before the last committed
    /// round no one is in doubt any more, and rounds of another leader are not this one's to judge.
    fn answer(&self, round: u64, rank: Rank) -> Option<(To, Message)> {
        let from = self.committed.unwrap_or(self.first);
        let known = (from..self.next).contains(&round);
        let commit = self.committed == Some(round);
        known.then_some((To::Rank(rank), Message::Verdict { round, commit }))
    }
}
