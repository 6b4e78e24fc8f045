//! [`WhatIf`]: the same network with some links failed or slower, to answer "what if this link
//! breaks?" without editing a file.
//!
//! Links are named as people write them and as `motet net show -v` prints them:
//!
//! | name | means |
//! | --- | --- |
//! | `a-b` | every link between nodes `a` and `b`, in both directions |
//! | `a->b` (or `a → b`) | only the links from `a` to `b` |
//! | `a` | every link from and to node `a`: the node itself fails |
//!
//! Node names may contain `-` themselves (`s0-gpu0-s0-nvswitch`), so every place where the text
//! can be cut in two is tried, and the cut whose halves are joined by a link counts.
//!
//! There are two ways to use the result, because they differ in link ids.
//! [`WhatIf::state`] keeps the network and its link ids, so that a program whose routes are link
//! ids still means the same links; [`WhatIf::network`] is a network of its own without the failed
//! links, for questions (such as bounds) that know nothing of states.

use std::collections::BTreeMap;
use std::str::FromStr;

use motet_units::{Bandwidth, LinkId, NodeId};

use super::NetworkState;
use crate::link::{Link, LinkSpec};
use crate::nearest;
use crate::network::{BuildError, Network, NetworkBuilder};

/// A factor is held in parts of this, so that equal texts give equal bytes on every machine.
const WHOLE: u64 = 1_000_000_000;
/// The largest factor: a thousand times the nominal rate.
const MOST: u64 = 1_000 * WHOLE;
/// "Did you mean" looks at no more links than this.
const COMPARED_LINKS: usize = 1 << 16;

/// What a link's bandwidth is multiplied by: more than 0, at most 1000, with up to nine decimals.
/// Reads `0.5` or `50%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(u64);

impl Factor {
    /// `bandwidth` times this factor, rounded down, but never to zero.
    #[must_use]
    pub fn of(self, bandwidth: Bandwidth) -> Bandwidth {
        let scaled = u128::from(bandwidth.bits_per_s()) * u128::from(self.0) / u128::from(WHOLE);
        Bandwidth::from_bits_per_s(u64::try_from(scaled).unwrap_or(u64::MAX).max(1))
    }
}

impl FromStr for Factor {
    type Err = WhatIfError;

    fn from_str(text: &str) -> Result<Self, WhatIfError> {
        let wrong = || {
            WhatIfError::new(format!("`{text}` is not a factor between 0 and 1000"))
                .with_remedy("write for example `0.5` or `50%`")
        };
        let trimmed = text.trim();
        let (number, whole) = match trimmed.strip_suffix('%') {
            Some(number) => (number.trim_end(), WHOLE / 100),
            None => (trimmed, WHOLE),
        };
        let (digits, decimals) = number.split_once('.').unwrap_or((number, ""));
        let plain = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
        let sizes = digits.len() <= 6 && decimals.len() <= 9;
        if !plain(digits) || !plain(decimals) || !sizes || digits.len() + decimals.len() == 0 {
            return Err(wrong());
        }
        let integer: u64 =
            if digits.is_empty() { 0 } else { digits.parse().map_err(|_| wrong())? };
        let rest: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
        let parts = integer * whole + rest * whole / WHOLE;
        match parts {
            0 => Err(WhatIfError::new("a factor of 0 would take the link down")
                .with_remedy("use `--fail` for that")),
            parts if parts > MOST => Err(wrong()),
            parts => Ok(Self(parts)),
        }
    }
}

/// Why a link or a factor cannot be taken as it was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct WhatIfError {
    /// What is wrong.
    pub problem: String,
    /// What to do about it, where that is known.
    pub remedy: Option<String>,
}

impl WhatIfError {
    fn new(problem: impl Into<String>) -> Self {
        Self { problem: problem.into(), remedy: None }
    }

    fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

/// Links of one network that are to fail or to run at another rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhatIf {
    /// What each link that changes can carry: zero for one that fails.
    rates: BTreeMap<LinkId, Bandwidth>,
}

impl WhatIf {
    /// Finds the links that `fail` and `scale` name. A link that is scaled twice takes both
    /// factors; one that fails stays failed.
    pub fn new(
        network: &Network,
        fail: &[String],
        scale: &[(String, Factor)],
    ) -> Result<Self, WhatIfError> {
        let mut rates = BTreeMap::new();
        for (name, factor) in scale {
            for link in links_named(network, name)? {
                let rate = rates.entry(link).or_insert(network.link(link).spec.bandwidth);
                *rate = factor.of(*rate);
            }
        }
        for name in fail {
            rates.extend(links_named(network, name)?.into_iter().map(|it| (it, Bandwidth::ZERO)));
        }
        Ok(Self { rates })
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The links that fail, in link order.
    pub fn failed(&self) -> impl Iterator<Item = LinkId> {
        self.rates.iter().filter(|it| it.1.is_zero()).map(|it| *it.0)
    }

    /// The links that run at another rate, in link order.
    pub fn scaled(&self) -> impl Iterator<Item = LinkId> {
        self.rates.iter().filter(|it| !it.1.is_zero()).map(|it| *it.0)
    }

    /// The state of `network`, which must be the one this was made for: failed links are down.
    #[must_use]
    pub fn state(&self, network: &Network) -> NetworkState {
        let mut state = NetworkState::nominal(network);
        for (link, rate) in &self.rates {
            if rate.is_zero() {
                state.set_up(*link, false);
            } else {
                state.set_bandwidth(*link, *rate);
            }
        }
        state
    }

    /// `network`, which must be the one this was made for, without the failed links and with the
    /// others at their new rates. Nodes keep their ids; links are numbered anew.
    pub fn network(&self, network: &Network) -> Result<Network, BuildError> {
        let mut builder = NetworkBuilder::new(network.name());
        for node in network.nodes() {
            builder.add_node(node.clone())?;
        }
        let spec = |id: LinkId, link: &Link| match self.rates.get(&id) {
            Some(rate) if rate.is_zero() => None,
            Some(rate) => Some(LinkSpec { bandwidth: *rate, ..link.spec }),
            None => Some(link.spec),
        };
        for (id, link) in network.link_ids().zip(network.links()) {
            let Some(here) = spec(id, link) else { continue };
            let back = link.reverse.and_then(|it| Some((it, spec(it, network.link(it))?)));
            match back {
                // Only a pair that is still alike in both directions is one duplex connection.
                Some((reverse, there)) if there == here => {
                    if id < reverse {
                        builder.add_duplex(link.from, link.to, here)?;
                    }
                }
                _ => {
                    builder.add_link(link.from, link.to, here)?;
                }
            }
        }
        builder.build()
    }
}

/// The links that `name` means, at least one; the head of this module says how links are named.
pub fn links_named(network: &Network, name: &str) -> Result<Vec<LinkId>, WhatIfError> {
    let name = name.trim();
    for arrow in ["->", "→"] {
        if let Some((from, to)) = name.split_once(arrow)
            && let (Some(from), Some(to)) = (network.find(from.trim()), network.find(to.trim()))
        {
            let links: Vec<LinkId> = between(network, from, to).collect();
            return if links.is_empty() { Err(unknown(network, name)) } else { Ok(links) };
        }
    }
    for (at, _) in name.match_indices('-') {
        let (a, b) = (name[..at].trim_end(), name[at + 1..].trim_start());
        let (Some(a), Some(b)) = (network.find(a), network.find(b)) else { continue };
        let mut links: Vec<LinkId> = between(network, a, b).collect();
        links.extend(between(network, b, a));
        if !links.is_empty() {
            return Ok(links);
        }
    }
    match network.find(name) {
        Some(node) if !network.outgoing(node).is_empty() || !network.incoming(node).is_empty() => {
            Ok([network.outgoing(node), network.incoming(node)].concat())
        }
        _ => Err(unknown(network, name)),
    }
}

fn between(network: &Network, from: NodeId, to: NodeId) -> impl Iterator<Item = LinkId> {
    network.outgoing(from).iter().copied().filter(move |it| network.link(*it).to == to)
}

/// The error for a name that is no link's, with the links whose names are nearest.
fn unknown(network: &Network, name: &str) -> WhatIfError {
    let shown: String = name.chars().take(80).collect();
    let error = WhatIfError::new(format!("there is no link `{shown}`"));
    let links = network.links().iter().enumerate().take(COMPARED_LINKS);
    let names: Vec<String> = links
        .filter(|(index, link)| link.reverse.is_none_or(|it| it.index() > *index))
        .map(|(_, it)| format!("{}-{}", network.node(it.from).name, network.node(it.to).name))
        .collect();
    let remedy = nearest::remedy(name, names.iter().map(String::as_str));
    error.with_remedy(remedy.unwrap_or_else(|| {
        "write `a-b` for the link between nodes a and b, `a->b` for one direction; \
         `motet net show -v` lists the links"
            .to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::testing::build;

    fn what_if(network: &Network, fail: &[&str], scale: &[(&str, &str)]) -> WhatIf {
        let fail: Vec<String> = fail.iter().map(|it| (*it).to_owned()).collect();
        let scale: Vec<(String, Factor)> =
            scale.iter().map(|it| (it.0.to_owned(), it.1.parse().unwrap())).collect();
        WhatIf::new(network, &fail, &scale).unwrap()
    }

    #[test]
    fn links_are_named_as_people_write_them() {
        let net = build("dgx-a100", &[]);
        let both = links_named(&net, "s0-gpu3-s0-nvswitch").unwrap();
        assert_eq!(both.len(), 2);
        assert_eq!(links_named(&net, " s0-nvswitch - s0-gpu3 ").unwrap().len(), 2);
        assert_eq!(links_named(&net, "s0-gpu3->s0-nvswitch").unwrap(), both[..1]);
        assert_eq!(links_named(&net, "s0-nvswitch → s0-gpu3").unwrap(), both[1..]);
        assert_eq!(links_named(&net, "s0-nvswitch").unwrap().len(), 16);
    }

    #[test]
    fn a_slip_is_answered_with_the_nearest_links() {
        let net = build("ring", &["gpus=4"]);
        let error = links_named(&net, "gpu0-gpu9").unwrap_err();
        assert_eq!(error.problem, "there is no link `gpu0-gpu9`");
        assert!(error.remedy.unwrap().contains("did you mean `gpu0-gpu1`"));
        assert!(links_named(&net, "gpu0-gpu2").is_err());
        assert!(links_named(&net, "").is_err());
        assert!(links_named(&net, "-").is_err());
    }

    #[test]
    fn factors_are_exact() {
        let rate = Bandwidth::gb_per_s(10);
        for (text, bits) in [("0.5", 40), ("50%", 40), ("2", 160), (".25", 20), ("12.5 %", 10)] {
            let factor: Factor = text.parse().unwrap();
            assert_eq!(factor.of(rate), Bandwidth::gbit_per_s(bits), "{text}");
        }
        assert_eq!(Factor(1).of(Bandwidth::from_bits_per_s(5)).bits_per_s(), 1);
        for text in ["", ".", "0", "0.0", "-1", "1e3", "half", "1001", "1.0000000001", "99999999"] {
            assert!(text.parse::<Factor>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_state_keeps_link_ids_and_a_network_loses_the_failed_ones() {
        let net = build("ring", &["gpus=4"]);
        let change = what_if(&net, &["gpu0-gpu1"], &[("gpu1-gpu2", "0.5"), ("gpu1->gpu2", "50%")]);
        let state = change.state(&net);
        let rates: Vec<u64> =
            net.link_ids().map(|it| state.bandwidth(it).bits_per_s() / 100_000_000).collect();
        assert_eq!(rates, [0, 0, 1000, 2000, 4000, 4000, 4000, 4000]);
        assert_eq!((change.failed().count(), change.scaled().count()), (2, 2));
        let other = change.network(&net).unwrap();
        assert_eq!((other.nodes(), other.links().len()), (net.nodes(), 6));
        let rates: Vec<u64> =
            other.links().iter().map(|it| it.spec.bandwidth.bits_per_s() / 100_000_000).collect();
        assert_eq!(rates, [1000, 2000, 4000, 4000, 4000, 4000]);
        // What differs by direction is no longer one connection.
        assert_eq!(other.links()[0].reverse, None);
        assert!(other.links()[2].reverse.is_some());
        assert_eq!(what_if(&net, &[], &[]).network(&net).unwrap(), net);
    }
}
