//! From probes to a network.
//!
//! Two models. **Racks**: each host is a server with its GPUs on one NIC, NICs hang from the leaf
//! of their rack, leaves from the spine of their datacenter, spines from its border router, and
//! border routers are joined pairwise. `racks.rs` splits what was measured between hosts over
//! those links. **Direct**: NICs are joined pairwise by what was measured or, where nothing was,
//! by the median of the pair's class; for few hosts, or where racks mean nothing.
//!
//! A pair alone shows what a way can do, not what many pairs can do at once: how far uplinks are
//! shared cannot be seen, and is said so.

mod direct;
mod racks;

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration, NodeId};

use super::connection::ProbeError;
use super::coordinator::Probed;
use super::hosts::Host;
use super::sample::{Class, Pair};
use super::session::Measurement;
use crate::formats::{ReadError, speeds, unique_name};
use crate::provenance::{LinkSources, Provenance, Source, Sourced, Unseen};
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};

/// What to make of the hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Model {
    #[default]
    Racks,
    Direct,
}

/// The network that the probes tell. `greeted` says of each host whether its agent answered: those
/// that did not are left out.
pub fn resolve(
    name: &str,
    hosts: &[Host],
    greeted: &[Result<(), ProbeError>],
    probed: &[Probed],
    model: Model,
) -> Result<Sourced, ReadError> {
    let mut unseen = Vec::new();
    let mut seen = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        match greeted.get(index) {
            Some(Ok(())) => seen.push(index),
            Some(Err(why)) => {
                unseen.push(Unseen::new(format!("host {}", host.name), why.to_string()));
            }
            None => unseen.push(Unseen::new(format!("host {}", host.name), "it was not asked")),
        }
    }
    let mut probes = BTreeMap::new();
    for probe in probed {
        match &probe.outcome {
            Ok(measured) => drop(probes.insert(probe.pair, *measured)),
            Err(why) => {
                let (a, b) = (&hosts[probe.pair.a].name, &hosts[probe.pair.b].name);
                unseen.push(Unseen::new(format!("the way from {a} to {b}"), why.to_string()));
            }
        }
    }
    if seen.is_empty() || (probes.is_empty() && seen.len() > 1) {
        let why = unseen.first().map(|it| format!(": {it}")).unwrap_or_default();
        return Err(ReadError::new(format!("nothing could be measured{why}"))
            .with_remedy("run `motet probe serve` on every host, reachable from every other"));
    }
    let evidence = Evidence { hosts, seen, probes };
    let mut making = Making { builder: NetworkBuilder::new(name), links: Vec::new() };
    match model {
        Model::Racks => racks::build(&evidence, &mut making, &mut unseen)?,
        Model::Direct => direct::build(&evidence, &mut making)?,
    }
    let within = "not probed; `motet net discover` on a host shows it";
    unseen.push(Unseen::new("what is inside the hosts", within));
    let network = making.builder.build()?;
    let all = evidence.seen.len() * evidence.seen.len().saturating_sub(1) / 2;
    let notes = vec![format!(
        "{} of {all} pairs of {} hosts were measured; the others have the figures of their class",
        evidence.probes.len(),
        evidence.seen.len()
    )];
    Ok(Sourced { network, links: making.links, unseen, notes })
}

/// What is known.
struct Evidence<'a> {
    hosts: &'a [Host],
    /// Hosts whose agent answered.
    seen: Vec<usize>,
    probes: BTreeMap<Pair, Measurement>,
}

impl Evidence<'_> {
    fn class(&self, pair: Pair) -> Class {
        Class::of(&self.hosts[pair.a], &self.hosts[pair.b])
    }

    fn of_class(&self, class: Class) -> Vec<(Pair, Measurement)> {
        let probes = self.probes.iter().map(|(pair, it)| (*pair, *it));
        probes.filter(|(pair, _)| self.class(*pair) == class).collect()
    }
}

/// The network so far, and the sources of its links.
struct Making {
    builder: NetworkBuilder,
    links: Vec<LinkSources>,
}

impl Making {
    fn join(
        &mut self,
        a: NodeId,
        b: NodeId,
        class: LinkClass,
        bandwidth: (Bandwidth, Source),
        latency: (Duration, Source),
    ) -> Result<(), ReadError> {
        // In whole nanoseconds: halves and quarters of what was measured are no finer.
        let alpha = Duration::from_ps(latency.0.as_ps() / 1000 * 1000);
        self.builder.add_duplex(a, b, LinkSpec::new(class, bandwidth.0, alpha))?;
        let sources = LinkSources { bandwidth: bandwidth.1, latency: latency.1 };
        self.links.extend([sources.clone(), sources]);
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        kind: NodeKind,
        of: &Host,
        rack: bool,
    ) -> Result<NodeId, ReadError> {
        let mut node = Node::new(unique_name(&self.builder, name), kind);
        if rack {
            node = node.in_rack(&of.rack);
        }
        if !of.dc.is_empty() {
            node = node.in_dc(&of.dc);
        }
        Ok(self.builder.add_node(node)?)
    }

    /// The GPUs of a host on its NIC, which it gives. The way between them was not probed: it is
    /// taken as PCIe 4, or as fast as the NIC.
    fn add_host(&mut self, host: &Host, nic_bandwidth: Bandwidth) -> Result<NodeId, ReadError> {
        let nic = self.add(&format!("{}-nic", host.name), NodeKind::Nic, host, true)?;
        self.builder.node_mut(nic).location.server = Some(host.name.clone());
        let address = ("address".to_owned(), host.address.clone());
        self.builder.node_mut(nic).properties.extend([address]);
        for gpu in 0..host.gpus {
            let id = self.add(&format!("{}-gpu{gpu}", host.name), NodeKind::Gpu, host, true)?;
            self.builder.node_mut(id).location.server = Some(host.name.clone());
            let width = speeds::pcie(Some("16 GT/s"), None).max(nic_bandwidth);
            let guess = |what: &str| Source::new(Provenance::Guessed, what);
            let bandwidth = (width, guess("not probed: PCIe 4 x16, no slower than the NIC"));
            let latency = (speeds::PCIE_LATENCY, guess("not probed: a PCIe hop"));
            self.join(id, nic, LinkClass::Pcie, bandwidth, latency)?;
        }
        Ok(nic)
    }
}

/// The middle one, the upper of two.
fn median<T: Ord + Copy>(values: impl IntoIterator<Item = T>) -> Option<T> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

fn probes(count: usize) -> String {
    format!("{count} {}", if count == 1 { "probe" } else { "probes" })
}

#[cfg(test)]
mod tests;
