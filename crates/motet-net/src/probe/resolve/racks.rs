//! Leaves, spines and border routers, and how what was measured between hosts is split over the
//! links between them.
//!
//! With `α` of a host's link to its leaf, `λ` of a leaf's link to its spine, and `L` a measured
//! latency one way: within a rack `L = α + α'`, so a host's `α` is half of the median of its
//! probes there; between racks `L = α + λ + λ' + α'`, so a rack's `λ` is half of the median of
//! what is left; between datacenters all that is left is the way between border routers.
//!
//! A host's link is as fast as the fastest of its probes. An uplink that holds no pair back
//! cannot be rated by pairs: it is taken as fast as all hosts below it together, and reported.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration, NodeId};

use super::super::sample::{Class, Pair};
use super::super::session::Measurement;
use super::{Evidence, Making, median, probes};
use crate::formats::ReadError;
use crate::provenance::{Provenance, Source, Unseen};
use crate::{LinkClass, NodeKind};

/// Border routers are joined pairwise, so their number is bounded.
const MAX_DCS: usize = 256;

type Rack<'a> = (&'a str, &'a str);
type Sourced<T> = (T, Source);

fn measured(detail: String) -> Source {
    Source::new(Provenance::Measured, detail)
}

fn estimated(detail: impl Into<String>) -> Source {
    Source::new(Provenance::Estimated, detail)
}

fn guessed(detail: impl Into<String>) -> Source {
    Source::new(Provenance::Guessed, detail)
}

pub(super) fn build(
    evidence: &Evidence<'_>,
    making: &mut Making,
    unseen: &mut Vec<Unseen>,
) -> Result<(), ReadError> {
    let tree = Tree::of(evidence);
    let mut members: BTreeMap<Rack<'_>, Vec<usize>> = BTreeMap::new();
    let mut dcs: BTreeMap<&str, Vec<Rack<'_>>> = BTreeMap::new();
    for host in &evidence.seen {
        members.entry(tree.rack(*host)).or_default().push(*host);
    }
    for rack in members.keys() {
        dcs.entry(rack.0).or_default().push(*rack);
    }
    if dcs.len() > MAX_DCS {
        return Err(ReadError::new(format!("there are more than {MAX_DCS} datacenters")));
    }
    let named = |what: &str, dc: &str| {
        if dc.is_empty() { what.to_owned() } else { format!("{what}-{dc}") }
    };
    let mut borders: Vec<(&str, NodeId)> = Vec::new();
    let mut unrated = Vec::new();
    for (dc, racks) in &dcs {
        let mut leaves = Vec::new();
        for rack in racks {
            leaves.push((
                *rack,
                add_rack(evidence, &tree, making, &members[rack], &named("leaf", dc))?,
            ));
        }
        if racks.len() == 1 && dcs.len() == 1 {
            continue;
        }
        let host = &evidence.hosts[members[&racks[0]][0]];
        let spine = making.add(&named("spine", dc), NodeKind::Spine, host, false)?;
        let mut width = Bandwidth::ZERO;
        for (rack, leaf) in leaves {
            let (bandwidth, source) = tree.uplink(rack, &members[&rack]);
            if source.provenance == Provenance::Guessed {
                unrated.push(rack.1);
            }
            width = width.saturating_add(bandwidth);
            let latency = tree.uplink_latency(rack);
            making.join(leaf, spine, LinkClass::Ethernet, (bandwidth, source), latency)?;
        }
        if dcs.len() > 1 {
            let border = making.add(&named("border", dc), NodeKind::Border, host, false)?;
            let bandwidth = (width, guessed("as fast as all racks below together"));
            let latency = (Duration::ZERO, guessed("counted with the way between datacenters"));
            making.join(spine, border, LinkClass::Ethernet, bandwidth, latency)?;
            borders.push((dc, border));
        }
    }
    if !unrated.is_empty() {
        let named = if unrated.len() > 8 {
            format!("{} racks", unrated.len())
        } else {
            format!("racks {}", unrated.join(", "))
        };
        let why = "pairs alone do not tell; uplinks are taken as fast as all hosts below together";
        unseen.push(Unseen::new(format!("what hosts of {named} can send to others at once"), why));
    }
    for (place, (a, border)) in borders.iter().enumerate() {
        for (b, other) in &borders[place + 1..] {
            let (bandwidth, latency) = tree.between(a, b);
            making.join(*border, *other, LinkClass::Wan, bandwidth, latency)?;
        }
    }
    Ok(())
}

/// The hosts of a rack below a leaf, which it gives.
fn add_rack(
    evidence: &Evidence<'_>,
    tree: &Tree<'_>,
    making: &mut Making,
    members: &[usize],
    prefix: &str,
) -> Result<NodeId, ReadError> {
    let first = &evidence.hosts[members[0]];
    let leaf = making.add(&format!("{prefix}-{}", first.rack), NodeKind::Leaf, first, true)?;
    for host in members {
        let (bandwidth, latency) = tree.access(*host);
        let nic = making.add_host(&evidence.hosts[*host], bandwidth.0)?;
        making.join(nic, leaf, LinkClass::Ethernet, bandwidth, latency)?;
    }
    Ok(leaf)
}

/// What was measured, by where it counts.
struct Tree<'a> {
    evidence: &'a Evidence<'a>,
    /// Of each host.
    alpha: BTreeMap<usize, Sourced<Duration>>,
    access: BTreeMap<usize, Sourced<Bandwidth>>,
    /// Of each rack with probes to others.
    lambda: BTreeMap<Rack<'a>, (Duration, usize)>,
    between_racks: BTreeMap<Rack<'a>, Vec<(Pair, Measurement)>>,
    typical_lambda: Option<Duration>,
    /// Probes between two datacenters, the lesser name first.
    between_dcs: BTreeMap<(&'a str, &'a str), Vec<(Pair, Measurement)>>,
    /// What all of those give together.
    all_dcs: Option<(Bandwidth, Duration, usize)>,
}

impl<'a> Tree<'a> {
    fn of(evidence: &'a Evidence<'a>) -> Self {
        let mut tree = Self {
            evidence,
            alpha: BTreeMap::new(),
            access: BTreeMap::new(),
            lambda: BTreeMap::new(),
            between_racks: BTreeMap::new(),
            typical_lambda: None,
            between_dcs: BTreeMap::new(),
            all_dcs: None,
        };
        tree.rate_hosts();
        for (pair, measurement) in evidence.of_class(Class::Racks) {
            for host in [pair.a, pair.b] {
                let rack = tree.rack(host);
                tree.between_racks.entry(rack).or_default().push((pair, measurement));
            }
        }
        for (rack, of_rack) in &tree.between_racks {
            let left = |(pair, it): &(Pair, Measurement)| {
                let left = it.latency() - tree.alpha_of(pair.a) - tree.alpha_of(pair.b);
                Duration::from_ps(left.as_ps() / 2)
            };
            if let Some(lambda) = median(of_rack.iter().map(left)) {
                tree.lambda.insert(*rack, (lambda, of_rack.len()));
            }
        }
        tree.typical_lambda = median(tree.lambda.values().map(|it| it.0));
        let far = evidence.of_class(Class::Dcs);
        tree.all_dcs = tree.rate_far(&far);
        for (pair, measurement) in far {
            let [a, b] = [pair.a, pair.b].map(|it| evidence.hosts[it].dc.as_str());
            let key = (a.min(b), a.max(b));
            tree.between_dcs.entry(key).or_default().push((pair, measurement));
        }
        tree
    }

    fn rack(&self, host: usize) -> Rack<'a> {
        let host = &self.evidence.hosts[host];
        (&host.dc, &host.rack)
    }

    fn alpha_of(&self, host: usize) -> Duration {
        self.alpha.get(&host).map(|it| it.0).unwrap_or_default()
    }

    /// `α` and the access bandwidth of every host.
    fn rate_hosts(&mut self) {
        let evidence = self.evidence;
        let mut near: BTreeMap<usize, Vec<Measurement>> = BTreeMap::new();
        let mut any: BTreeMap<usize, Vec<Measurement>> = BTreeMap::new();
        for (pair, measurement) in &evidence.probes {
            for host in [pair.a, pair.b] {
                any.entry(host).or_default().push(*measurement);
                if evidence.class(*pair) == Class::Rack {
                    near.entry(host).or_default().push(*measurement);
                }
            }
        }
        for (host, of_host) in &near {
            let halves = of_host.iter().map(|it| Duration::from_ps(it.latency().as_ps() / 2));
            let detail = format!("half of the median of {} in its rack", probes(of_host.len()));
            let alpha = median(halves).unwrap_or_default();
            self.alpha.insert(*host, (alpha, measured(detail)));
        }
        let typical = median(self.alpha.values().map(|it| it.0));
        // Where no two hosts share a rack, a way has four links: two accesses and two uplinks.
        let least = evidence.probes.values().map(Measurement::latency).min().unwrap_or_default();
        let alone = match typical {
            Some(typical) => (typical, estimated("the median of the hosts that share a rack")),
            None => {
                let quarter = Duration::from_ps(least.as_ps() / 4);
                (quarter, estimated("a quarter of the shortest way between racks"))
            }
        };
        for (host, of_host) in &any {
            let counted = near.get(host).unwrap_or(of_host);
            let fastest = counted.iter().map(Measurement::bandwidth).max().unwrap_or_default();
            let detail = format!("the fastest of {}", probes(counted.len()));
            self.access.insert(*host, (fastest, measured(detail)));
        }
        let usual = median(self.access.values().map(|it| it.0));
        let usual = usual.unwrap_or(Bandwidth::gbit_per_s(1));
        for host in &evidence.seen {
            self.alpha.entry(*host).or_insert_with(|| alone.clone());
            let from =
                || (usual, estimated("the median of the other hosts; none of its probes came"));
            self.access.entry(*host).or_insert_with(from);
        }
    }

    fn access(&self, host: usize) -> (Sourced<Bandwidth>, Sourced<Duration>) {
        // `rate_hosts` has rated every host that was seen.
        let bandwidth = self.access.get(&host).cloned();
        let latency = self.alpha.get(&host).cloned();
        let none = || guessed("nothing was measured");
        (
            bandwidth.unwrap_or_else(|| (Bandwidth::gbit_per_s(1), none())),
            latency.unwrap_or_else(|| (Duration::ZERO, none())),
        )
    }

    fn uplink(&self, rack: Rack<'_>, members: &[usize]) -> Sourced<Bandwidth> {
        let width = |host: &usize| self.access(*host).0.0;
        let of_rack = self.between_racks.get(&rack).map(Vec::as_slice).unwrap_or_default();
        let best = of_rack.iter().max_by_key(|it| (it.1.bandwidth(), it.0));
        if let Some((pair, it)) = best {
            let hosts = width(&pair.a).min(width(&pair.b));
            // A tenth is what one probe differs from the next anyway.
            if it.bandwidth().saturating_mul(10) < hosts.saturating_mul(9) {
                let count = probes(of_rack.len());
                let detail =
                    format!("the fastest of {count} to other racks, slower than the hosts");
                return (it.bandwidth(), measured(detail));
            }
        }
        let all = members.iter().map(width).fold(Bandwidth::ZERO, Bandwidth::saturating_add);
        (all, guessed("held no pair back: as fast as all hosts below together"))
    }

    fn uplink_latency(&self, rack: Rack<'_>) -> Sourced<Duration> {
        if let Some((lambda, count)) = self.lambda.get(&rack) {
            let detail = format!("what {} to other racks took beyond the hosts", probes(*count));
            return (*lambda, measured(detail));
        }
        match self.typical_lambda {
            Some(lambda) => (lambda, estimated("the median of the other racks")),
            None => (Duration::ZERO, guessed("nothing was measured between racks")),
        }
    }

    /// The fastest of probes between datacenters, the median of what they took beyond the links
    /// inside, and how many there are.
    fn rate_far(&self, of: &[(Pair, Measurement)]) -> Option<(Bandwidth, Duration, usize)> {
        let left = |(pair, it): &(Pair, Measurement)| {
            let inside = [pair.a, pair.b]
                .map(|host| self.alpha_of(host) + self.uplink_latency(self.rack(host)).0);
            it.latency() - inside[0] - inside[1]
        };
        let bandwidth = of.iter().map(|it| it.1.bandwidth()).max()?;
        Some((bandwidth, median(of.iter().map(left))?, of.len()))
    }

    /// The way between two datacenters.
    fn between(&self, a: &str, b: &str) -> (Sourced<Bandwidth>, Sourced<Duration>) {
        let own = self.between_dcs.get(&(a.min(b), a.max(b)));
        let own = own.and_then(|it| self.rate_far(it));
        let (bandwidth, latency, source) = match (own, self.all_dcs) {
            (Some((bandwidth, latency, count)), _) => {
                (bandwidth, latency, measured(format!("{} between the two", probes(count))))
            }
            (None, Some((bandwidth, latency, count))) => {
                let detail = format!("from {} between other datacenters", probes(count));
                (bandwidth, latency, estimated(detail))
            }
            (None, None) => {
                let source = guessed("nothing was measured between datacenters");
                (Bandwidth::gbit_per_s(1), Duration::from_ms(10), source)
            }
        };
        ((bandwidth, source.clone()), (latency, source))
    }
}
