//! [`Sketch`]: which links a program may use; constraints that guide synthesis, in TACCL's sense.
//!
//! A sketch is a TOML file, of which everything may be left out:
//!
//! ```toml
//! name = "rails, two GPUs of a server connect"
//! [links]                                # rules about links
//! allow = ["class:nvlink", "class:ib"]   # only these; without it, all
//! forbid = ["gpu0 -> *", "node:nic3"]    # none of these
//!
//! [binding]                              # which NIC a GPU uses; who is not listed uses none
//! "s0-gpu0" = "s0-nic0"
//! "s1-gpu0" = "s1-nic0"
//!
//! [[group]]                              # NICs that talk to each other; without groups, all
//! nics = ["s0-nic0", "s1-nic0"]          # one of a server at most
//! send = ["s0-gpu0", "s1-gpu0"]          # which of the bound GPUs send; without it, all
//! receive = ["s0-gpu0", "s1-gpu0"]       # which receive
//!
//! [[above]]                              # for collectives of more than this size
//! size = "10 MB"
//! forbid = ["class:smp"]                 # these are not used either
//! ```
//!
//! A rule is `class:NAME`, `tier:N`, `node:NAME` (every link from or to it) or `FROM -> TO`; names
//! may end or begin in `*`. A link may be used if the rules and the connections both let it.

use motet_net::Network;
use motet_net::formats::ReadError;
use motet_units::{Bytes, LinkId};

use super::connections::{self, Connections};
use super::file;
use super::locality::Servers;
use super::rules::{self, LinkRules};

/// Which links may be used, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    pub name: String,
    /// Per link of the network it was read or made for, whatever the size.
    pub allowed: Vec<bool>,
    pub rules: LinkRules,
    pub connections: Option<Connections>,
    pub above: Vec<Above>,
}

/// What else is forbidden to large collectives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Above {
    /// For more than this.
    pub size: Bytes,
    /// The rules, as written.
    pub forbid: Vec<String>,
    /// The links that they are about.
    pub forbidden: Vec<LinkId>,
}

impl Sketch {
    /// Every link of the network.
    #[must_use]
    pub fn full(name: impl Into<String>, network: &Network) -> Self {
        let allowed = vec![true; network.links().len()];
        Self { name: name.into(), allowed, ..Self::default() }
    }

    /// With connections, and all links that they leave.
    pub fn connecting(
        name: impl Into<String>,
        connections: Connections,
        network: &Network,
        servers: &Servers,
    ) -> Result<Self, connections::Misfit> {
        connections.check(network, servers)?;
        let allowed = connections.mask(network, servers)?;
        let connections = Some(connections);
        Ok(Self { name: name.into(), allowed, connections, ..Self::default() })
    }

    /// Forbids links, if any, to collectives of more than `size`.
    #[must_use]
    pub fn forbidding_above(mut self, size: Bytes, links: &[LinkId], network: &Network) -> Self {
        let named = |it: &LinkId| Some((rules::between(network, *it)?, *it));
        let (forbid, forbidden): (Vec<String>, Vec<LinkId>) =
            links.iter().filter_map(named).unzip();
        if !forbid.is_empty() {
            self.above.push(Above { size, forbid, forbidden });
        }
        self
    }

    /// Reads a sketch for a network.
    pub fn read(text: &str, network: &Network) -> Result<Self, ReadError> {
        file::read(text, network)
    }

    /// The sketch as text, which [`read`](Self::read) reads; the same sketch is the same bytes.
    #[must_use]
    pub fn write(&self, network: &Network) -> String {
        file::write(self, network)
    }

    /// Per link, whether a collective of this size may use it.
    #[must_use]
    pub fn allowed_for(&self, size: Bytes) -> Vec<bool> {
        let mut allowed = self.allowed.clone();
        for above in self.above.iter().filter(|it| size > it.size) {
            for link in &above.forbidden {
                allowed[link.index()] = false;
            }
        }
        allowed
    }
}

#[cfg(test)]
mod tests;
