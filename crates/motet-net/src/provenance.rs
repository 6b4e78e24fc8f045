//! Where the figures of a network come from, for networks that were found rather than written:
//! [`Sourced`] is a network with a [`Source`] for each figure of each link, and a list of what
//! could not be seen.
//!
//! [`discover`](crate::discover) and [`probe`](crate::probe) make them. In a cluster file the
//! sources are comments, so that the file stays one that every reader takes.

use std::fmt;

use motet_units::LinkId;

use crate::formats::cluster_toml;
use crate::{LinkClass, Network};

/// How a figure came to be, the surest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Provenance {
    /// Data was sent and timed.
    Measured,
    /// The machine says so.
    Read,
    /// Known of this kind of hardware.
    Template,
    /// From measurements of others of its class.
    Estimated,
    /// Nothing is known; a common value.
    Guessed,
}

impl Provenance {
    /// Every provenance, the surest first.
    pub const ALL: [Self; 5] =
        [Self::Measured, Self::Read, Self::Template, Self::Estimated, Self::Guessed];

    /// The word that output and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Read => "read",
            Self::Template => "template",
            Self::Estimated => "estimated",
            Self::Guessed => "guessed",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where one figure comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// How the figure was come by.
    pub provenance: Provenance,
    /// From what: a file of sysfs, a table, how many probes.
    pub detail: String,
}

impl Source {
    /// A source of this kind; `detail` says where exactly.
    #[must_use]
    pub fn new(provenance: Provenance, detail: impl Into<String>) -> Self {
        Self { provenance, detail: detail.into() }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.provenance, self.detail)
    }
}

/// Where the figures of a link come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSources {
    /// Where the bandwidth comes from.
    pub bandwidth: Source,
    /// Where the latency comes from.
    pub latency: Source,
}

/// Something that is or may be there and could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unseen {
    /// What could not be seen.
    pub what: String,
    /// Why not, and what to do about it.
    pub why: String,
}

impl Unseen {
    /// Something that could not be seen, and why.
    #[must_use]
    pub fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

/// A network that was found, with the source of each figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sourced {
    /// The network that was found.
    pub network: Network,
    /// Of each link, in link order.
    pub links: Vec<LinkSources>,
    /// What could not be seen.
    pub unseen: Vec<Unseen>,
    /// What was merged, left out or is worth knowing otherwise.
    pub notes: Vec<String>,
}

/// How many links of a class have figures of one provenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// The class of the links.
    pub class: LinkClass,
    /// How the figure was come by.
    pub provenance: Provenance,
    /// Links whose bandwidth is of this provenance, each direction counted.
    pub bandwidths: usize,
    /// How many of their latencies have this provenance.
    pub latencies: usize,
}

impl Sourced {
    /// Where the figures of a link come from.
    #[must_use]
    pub fn sources(&self, link: LinkId) -> &LinkSources {
        &self.links[link.index()]
    }

    /// What the figures rest on, by class and provenance; empty combinations are left out.
    #[must_use]
    pub fn tally(&self) -> Vec<Tally> {
        let mut tallies = Vec::new();
        for class in LinkClass::ALL {
            for provenance in Provenance::ALL {
                let of_class = || {
                    let links = self.network.links().iter().zip(&self.links);
                    links.filter(|(link, _)| link.spec.class == class).map(|(_, it)| it)
                };
                let count = |of: fn(&LinkSources) -> &Source| {
                    of_class().filter(|it| of(it).provenance == provenance).count()
                };
                let (bandwidths, latencies) = (count(|it| &it.bandwidth), count(|it| &it.latency));
                if bandwidths + latencies > 0 {
                    tallies.push(Tally { class, provenance, bandwidths, latencies });
                }
            }
        }
        tallies
    }

    /// The cluster file, with the sources as comments.
    #[must_use]
    pub fn cluster_toml(&self) -> String {
        let mut head = Vec::new();
        for unseen in &self.unseen {
            head.push(format!("not seen: {unseen}"));
        }
        head.extend(self.notes.iter().map(|it| format!("note: {it}")));
        let of_link = |id: LinkId| {
            let sources = self.sources(id);
            vec![format!("bandwidth {}", sources.bandwidth), format!("latency {}", sources.latency)]
        };
        cluster_toml::write_commented(&self.network, &head, &of_link)
    }
}
