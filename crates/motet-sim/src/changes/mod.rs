//! Sources of changes to a network's state. A [`Simulation`](crate::Simulation) takes any list of
//! [`StateEvent`]s in time order; this module makes such lists.
//!
//! - a [`StateTrace`](motet_net::StateTrace) read from a file: `trace.events().iter().copied()`;
//! - [`background`]: background traffic, constant, resampled at intervals, or from a trace;
//! - [`circuits`]: optical circuits that are set up and taken down;
//! - [`merge`]: several of these at once.

pub mod background;
pub mod circuits;

pub use background::{Resampled, Traffic};
pub use circuits::{CircuitError, CircuitSchedule};

use std::iter::Peekable;

use motet_net::StateEvent;

/// Two sources as one, in time order; at equal times `a` comes first.
pub fn merge<A, B>(a: A, b: B) -> Merge<A::IntoIter, B::IntoIter>
where
    A: IntoIterator<Item = StateEvent>,
    B: IntoIterator<Item = StateEvent>,
{
    Merge { a: a.into_iter().peekable(), b: b.into_iter().peekable() }
}

/// The iterator that [`merge`] returns.
#[derive(Clone, Debug)]
pub struct Merge<A: Iterator<Item = StateEvent>, B: Iterator<Item = StateEvent>> {
    a: Peekable<A>,
    b: Peekable<B>,
}

impl<A: Iterator<Item = StateEvent>, B: Iterator<Item = StateEvent>> Iterator for Merge<A, B> {
    type Item = StateEvent;

    fn next(&mut self) -> Option<StateEvent> {
        match (self.a.peek(), self.b.peek()) {
            (Some(a), Some(b)) if b.at < a.at => self.b.next(),
            (Some(_), _) => self.a.next(),
            (None, _) => self.b.next(),
        }
    }
}
