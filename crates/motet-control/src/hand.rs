//! [`Hand`]: one interface for whatever may change how a job's collectives run.
//!
//! Motet has four hands: **knobs** (algorithm, protocol and channels of a call), **circuits** (of optical
//! rails), **routes** (the path of each flow through the WAN) and **programs** (the collective algorithm
//! itself). Each is asked at its own pace: before a call, between phases, every few collectives. Each answers
//! with a [`Proposal`] to replace what is in force, with what that [costs](Costs), or with nothing. The
//! caller (a simulation, a service) decides whether to accept a proposal, keeps it until it is due
//! ([`Waiting`]), and tells the hand the results of later collectives. A mode is therefore just a
//! [set](Hands) of hands that may move.
//!
//! What a hand observes and what it proposes are types of its own. Only those of the knobs hand are here
//! ([`Call`], [`Ran`]), because the simulations that use it may not depend on the crate that has its
//! policies.

use std::fmt;
use std::str::FromStr;

use motet_units::{Duration, Instant};

/// One of the four hands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandKind {
    /// Algorithm, protocol, channels of each call.
    Knobs,
    /// Which optical circuits a rail holds.
    Circuits,
    /// Which WAN path each flow takes.
    Routes,
    /// Which program carries a collective out.
    Programs,
}

impl HandKind {
    /// All of them, from the one that moves most often to the one that moves least often.
    pub const ALL: [Self; 4] = [Self::Knobs, Self::Circuits, Self::Routes, Self::Programs];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Knobs => "knobs",
            Self::Circuits => "circuits",
            Self::Routes => "routes",
            Self::Programs => "programs",
        }
    }
}

/// No hand has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no hand `{0}`; there are knobs, circuits, routes and programs")]
pub struct NoSuchHand(pub String);

impl FromStr for HandKind {
    type Err = NoSuchHand;

    fn from_str(text: &str) -> Result<Self, NoSuchHand> {
        let named = |it: &Self| it.name() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| NoSuchHand(text.to_owned()))
    }
}

/// A set of hands: those that may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hands(u8);

impl Hands {
    /// No hand may move: everything stays as it is.
    pub const NONE: Self = Self(0);

    const fn bit(kind: HandKind) -> u8 {
        1 << kind as u8
    }

    /// This set with `kind` added.
    #[must_use]
    pub const fn with(self, kind: HandKind) -> Self {
        Self(self.0 | Self::bit(kind))
    }

    #[must_use]
    pub const fn has(self, kind: HandKind) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// Whether this is a subset of `others`.
    #[must_use]
    pub const fn within(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// Its members, in the order of [`HandKind::ALL`].
    pub fn iter(self) -> impl Iterator<Item = HandKind> {
        HandKind::ALL.into_iter().filter(move |it| self.has(*it))
    }
}

impl FromIterator<HandKind> for Hands {
    fn from_iter<I: IntoIterator<Item = HandKind>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NONE {
            return f.write_str("none");
        }
        for (number, kind) in self.iter().enumerate() {
            if number > 0 {
                f.write_str(", ")?;
            }
            f.write_str(kind.name())?;
        }
        Ok(())
    }
}

/// The delays between a decision and its effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// Time to compute the decision. Collectives go on meanwhile with what is in force.
    pub compute: Duration,
    /// Time to distribute the decision. No collective runs meanwhile.
    pub distribute: Duration,
    /// Time until the decision is in force everywhere: traffic has drained, routes have converged, circuits are up. The first
    /// collective that uses it takes so much longer.
    pub converge: Duration,
}

impl Costs {
    /// How long collectives stand still because of it: distribution and convergence, but not computing.
    #[must_use]
    pub fn pause(&self) -> Duration {
        Duration::from_ps(self.distribute.as_ps().saturating_add(self.converge.as_ps()))
    }
}

/// A change that a hand proposes, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal<A> {
    pub action: A,
    pub costs: Costs,
}

impl<A> Proposal<A> {
    /// A proposal that costs nothing and can be in force at once.
    pub fn free(action: A) -> Self {
        Self { action, costs: Costs::default() }
    }
}

/// A decision maker for one kind of change. `Sight` is what it observes when it is asked.
pub trait Hand<Sight> {
    /// What it would put in force.
    type Action;
    /// The observed result of a collective, from which it learns.
    type Outcome;
    /// Why it could not decide.
    type Error;

    fn kind(&self) -> HandKind;

    /// What should replace what is in force; `None` to leave everything as it is.
    fn propose(&mut self, sight: Sight) -> Result<Option<Proposal<Self::Action>>, Self::Error>;

    /// Reports the result of a collective that it was asked about.
    fn learn(&mut self, outcome: &Self::Outcome);
}

/// At most one accepted proposal that is not in force yet, because its [computing](Costs::compute) takes time.
#[derive(Clone, Debug, Default)]
pub struct Waiting<A>(Option<(Instant, Proposal<A>)>);

impl<A> Waiting<A> {
    /// With no proposal.
    #[must_use]
    pub const fn new() -> Self {
        Self(None)
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Accepts a proposal at `now`. One that was waiting before is dropped.
    pub fn take(&mut self, proposal: Proposal<A>, now: Instant) {
        self.0 = Some((now + proposal.costs.compute, proposal));
    }

    /// When the waiting proposal can be put in force.
    #[must_use]
    pub fn from(&self) -> Option<Instant> {
        self.0.as_ref().map(|it| it.0)
    }

    /// Takes out the waiting proposal, if it can be put in force by `now`.
    pub fn due(&mut self, now: Instant) -> Option<Proposal<A>> {
        self.0.take_if(|it| it.0 <= now).map(|it| it.1)
    }

    /// Drops the waiting proposal.
    pub fn clear(&mut self) {
        self.0 = None;
    }
}

/// What the knobs hand sees before a call. It answers with the index of one of the settings that the caller offers for that task;
/// index 0 always means NCCL's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which of the job's recurring calls this is.
    pub task: usize,
}

/// The result of a call, for the knobs hand to learn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    pub task: usize,
    /// The index of the setting that it ran with.
    pub setting: usize,
    pub time: Duration,
}

/// The knobs hand as simulations use it. It cannot fail.
pub trait KnobsHand:
    Hand<Call, Action = usize, Outcome = Ran, Error = std::convert::Infallible>
{
}

impl<T> KnobsHand for T where
    T: Hand<Call, Action = usize, Outcome = Ran, Error = std::convert::Infallible>
{
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_hands_are_sets() {
        let both: Hands =
            [HandKind::Programs, HandKind::Routes, HandKind::Routes].into_iter().collect();
        assert_eq!(both.to_string(), "routes, programs");
        assert!(both.has(HandKind::Routes) && !both.has(HandKind::Knobs));
        assert!(Hands::NONE.within(both) && both.within(both.with(HandKind::Knobs)));
        assert!(!both.with(HandKind::Circuits).within(both));
        assert_eq!(Hands::NONE.to_string(), "none");
        for kind in HandKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("feet".parse::<HandKind>().unwrap_err().to_string().contains("circuits"));
    }

    #[test]
    fn what_is_being_computed_waits() {
        let mut waiting = Waiting::new();
        let at = |ms: u64| Instant::START + Duration::from_ms(ms);
        let costs = Costs { compute: Duration::from_ms(5), ..Costs::default() };
        waiting.take(Proposal { action: 'a', costs }, at(1));
        assert_eq!((waiting.from(), waiting.due(at(5))), (Some(at(6)), None));
        assert_eq!(waiting.due(at(6)).map(|it| it.action), Some('a'));
        assert!(waiting.is_empty() && waiting.due(at(9)).is_none());
        waiting.take(Proposal::free('b'), at(1));
        waiting.clear();
        assert!(waiting.due(at(9)).is_none());
    }
}
