//! [`SimError`]: why a simulation gives no result.

use motet_net::Network;
use motet_units::{Bytes, Instant, LinkId};

use motet_collective::{Program, TransferId};

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

fn at_text(at: Instant) -> motet_units::Duration {
    at.since(Instant::START)
}

/// What a message says of a link and a transfer.
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
            name: names::link(self.network, link),
            at: Instant::from_ps(at),
        }
    }

    pub(super) fn too_long(&self, transfer: TransferId, link: LinkId) -> SimError {
        let text = self.program.transfer(transfer).to_string();
        SimError::TooLong { transfer, text, link, name: names::link(self.network, link) }
    }
}
