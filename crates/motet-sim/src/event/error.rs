//! [`SimError`]: why a simulation gives no result.

use motet_net::Network;
use motet_units::{Bytes, Duration, Instant, LinkId};

use motet_collective::{Event, Program, TransferId};

use crate::names;

/// Why a simulation gives no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    #[error(
        "the state is of {links} links and the network has {network}; make it from the network"
    )]
    WrongState { links: usize, network: usize },
    #[error(
        "{size} are too much for one collective: a transfer has over 2⁶⁴ bytes; use a smaller size"
    )]
    TooLarge { size: Bytes },
    #[error(
        "transfer {} ({text}) never ends: link {name} has no bandwidth from {} on; \
         bring the link back or route around it", transfer.0, at_text(*at)
    )]
    NeverEnds { transfer: TransferId, text: String, link: LinkId, name: String, at: Instant },
    #[error(
        "transfer {} ({text}) is still on link {name} after 2⁶⁴ ps (213 days); use a \
         smaller size or a faster link", transfer.0
    )]
    TooLong { transfer: TransferId, text: String, link: LinkId, name: String },
    #[error(
        "program {program} comes to a halt: transfer {} ({text}) never comes through, it waits for \
         {awaited}; no verified program should: please report it as a fault in Motet, and try \
         another discipline", transfer.0
    )]
    Stuck { program: String, transfer: TransferId, text: String, awaited: String },
    #[error(
        "program {program} keeps link {name} busy for {busy} in a run of {time}, more than it can \
         carry; please report this as a fault in Motet"
    )]
    OverCapacity { program: String, link: LinkId, name: String, busy: Duration, time: Duration },
    #[error("ranks copy within themselves at 0 bit/s; set local_bandwidth to more, or to none")]
    NoLocalBandwidth,
    #[error("a copy within a rank lasts beyond 2⁶⁴ ps (213 days); set a higher local_bandwidth")]
    LocalTooLong,
    #[error(
        "the network changed {limit} times and the program is not done; are changes too frequent \
         for the size, or links too slow?"
    )]
    TooManyChanges { limit: u64 },
    #[error("a change is of link {link}, but the network has only {links} links")]
    UnknownLink { link: LinkId, links: usize },
    #[error("a change at {} comes after one at {}; sort changes by time", at_text(*at), at_text(*before))]
    ChangesOutOfOrder { at: Instant, before: Instant },
}

fn at_text(at: Instant) -> Duration {
    at.since(Instant::START)
}

/// Makes errors, with the names of transfers, links and events that their messages show.
pub(super) struct Names<'a> {
    pub(super) program: &'a Program,
    pub(super) network: &'a Network,
}

impl Names<'_> {
    pub(super) fn never_ends(&self, transfer: TransferId, link: LinkId, at: u64) -> SimError {
        SimError::NeverEnds {
            transfer,
            text: self.program.transfer(transfer).to_string(),
            link,
            name: self.link(link),
            at: Instant::from_ps(at),
        }
    }

    pub(super) fn too_long(&self, transfer: TransferId, link: LinkId) -> SimError {
        let text = self.program.transfer(transfer).to_string();
        SimError::TooLong { transfer, text, link, name: self.link(link) }
    }

    pub(super) fn stuck(&self, transfer: TransferId, awaited: String) -> SimError {
        let text = self.program.transfer(transfer).to_string();
        SimError::Stuck { program: self.program.name().to_owned(), transfer, text, awaited }
    }

    pub(super) fn over_capacity(&self, link: LinkId, busy: Duration, time: Duration) -> SimError {
        let (program, name) = (self.program.name().to_owned(), self.link(link));
        SimError::OverCapacity { program, link, name, busy, time }
    }

    pub(super) fn link(&self, link: LinkId) -> String {
        names::link(self.network, link)
    }

    pub(super) fn transfer(&self, id: TransferId) -> String {
        format!("transfer {} ({})", id.0, self.program.transfer(id))
    }

    /// An event as that which somebody waits for: "transfer 3 (…) to be sent".
    pub(super) fn event(&self, event: Event) -> String {
        let what = if event.is_sent() { "be sent" } else { "arrive" };
        format!("{} to {what}", self.transfer(event.transfer()))
    }
}
