//! Puts bandwidths measured on the machine into its network.
//!
//! A measurement covers a whole path (host to GPU, GPU to GPU), one at a time. It is assigned to
//! the one link that belongs to the device: the GPU's PCIe link for the host, the NVLink or xGMI
//! link of a pair, or the link to the NVSwitch. Paths that share links with others (PCIe between
//! GPUs) keep their figures, since a pair alone does not show which link was the bottleneck.
//! Latencies stay too, because the time of a copy includes setting up the copy engine, which a
//! collective does not pay.

use motet_units::{Bandwidth, Duration, LinkId, NodeId};

use crate::provenance::{Provenance, Source, Sourced};
use crate::{BuildError, LinkClass, Network, NetworkBuilder, NodeKind};

/// A measured way, one direction. Ends are bus ids of GPUs; `None` is the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The bus id of the sending GPU; `None` for the host.
    pub from: Option<String>,
    /// The bus id of the receiving GPU; `None` for the host.
    pub to: Option<String>,
    /// What the copy reached, one way.
    pub bandwidth: Bandwidth,
    /// Of a copy of a few bytes.
    pub latency: Duration,
    /// Whether it goes without passing through host memory.
    pub direct: bool,
}

/// `found` with the bandwidths that `measured` tells.
pub fn with_measured(found: Sourced, measured: &[Measured]) -> Result<Sourced, BuildError> {
    let Sourced { network, mut links, unseen, mut notes } = found;
    let mut bandwidths: Vec<Option<Bandwidth>> = vec![None; network.links().len()];
    for figure in measured.iter().filter(|it| it.direct && !it.bandwidth.is_zero()) {
        let end = |bus_id: &Option<String>| bus_id.as_deref().map(|it| gpu(&network, it));
        let own = match (end(&figure.from), end(&figure.to)) {
            (Some(Some(from)), None) => own_pcie(&network, from, Direction::Out),
            (None, Some(Some(to))) => own_pcie(&network, to, Direction::In),
            (Some(Some(from)), Some(Some(to))) => between(&network, from, to),
            (None, None) => Vec::new(),
            _ => {
                notes.push("measured a GPU that sysfs does not show; left out".to_owned());
                Vec::new()
            }
        };
        for link in own {
            // Into a switch the best of all pairs counts: each shows what the link can at least do.
            let slot = &mut bandwidths[link.index()];
            *slot = Some(slot.unwrap_or_default().max(figure.bandwidth));
        }
    }
    for id in network.link_ids() {
        // A duplex link has one figure: the lesser of its two ways.
        let back = network.link(id).reverse.and_then(|it| bandwidths[it.index()]);
        let Some(way) = bandwidths[id.index()] else { continue };
        let detail = match back {
            Some(back) if back != way => format!("copies alone: {way} one way, {back} the other"),
            _ => "copies alone".to_owned(),
        };
        links[id.index()].bandwidth = Source::new(Provenance::Measured, detail);
    }
    let lesser = |id: LinkId| {
        let link = network.link(id);
        let back = link.reverse.and_then(|it| bandwidths[it.index()]);
        bandwidths[id.index()].into_iter().chain(back).min().unwrap_or(link.spec.bandwidth)
    };
    for id in network.link_ids() {
        // The other way was not measured, but has the same figure now.
        let back = network.link(id).reverse.filter(|it| bandwidths[it.index()].is_some());
        if let (Some(back), None) = (back, bandwidths[id.index()]) {
            links[id.index()].bandwidth = links[back.index()].bandwidth.clone();
        }
    }
    let network = rebuild(&network, &lesser)?;
    Ok(Sourced { network, links, unseen, notes })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

fn gpu(network: &Network, bus_id: &str) -> Option<NodeId> {
    let is = |id: &NodeId| {
        let node = network.node(*id);
        let own = node.properties.get("busid");
        node.kind == NodeKind::Gpu && own.is_some_and(|it| it.eq_ignore_ascii_case(bus_id))
    };
    network.node_ids().find(is)
}

fn own_pcie(network: &Network, gpu: NodeId, direction: Direction) -> Vec<LinkId> {
    let links = match direction {
        Direction::In => network.incoming(gpu),
        Direction::Out => network.outgoing(gpu),
    };
    let own =
        |it: &LinkId| matches!(network.link(*it).spec.class, LinkClass::Pcie | LinkClass::C2c);
    links.iter().copied().filter(own).take(1).collect()
}

/// The direct link of two GPUs, or their two links to the switch between them.
fn between(network: &Network, from: NodeId, to: NodeId) -> Vec<LinkId> {
    let fast =
        |it: &LinkId| matches!(network.link(*it).spec.class, LinkClass::NvLink | LinkClass::Xgmi);
    let out = || network.outgoing(from).iter().copied().filter(fast);
    if let Some(direct) = out().find(|it| network.link(*it).to == to) {
        return vec![direct];
    }
    for up in out() {
        let switch = network.link(up).to;
        let mut down = network.outgoing(switch).iter().copied().filter(fast);
        if let (NodeKind::NvSwitch, Some(down)) =
            (network.node(switch).kind, down.find(|it| network.link(*it).to == to))
        {
            return vec![up, down];
        }
    }
    Vec::new()
}

/// The same network with other bandwidths, links in the same order.
fn rebuild(
    network: &Network,
    bandwidth: &dyn Fn(LinkId) -> Bandwidth,
) -> Result<Network, BuildError> {
    let mut builder = NetworkBuilder::new(network.name());
    for node in network.nodes() {
        builder.add_node(node.clone())?;
    }
    for id in network.link_ids() {
        let link = network.link(id);
        let mut spec = link.spec;
        spec.bandwidth = bandwidth(id);
        match link.reverse {
            None => drop(builder.add_link(link.from, link.to, spec)?),
            // The two links of a pair stand one after the other.
            Some(back) if back.index() > id.index() => {
                builder.add_duplex(link.from, link.to, spec)?;
            }
            Some(_) => {}
        }
    }
    builder.build()
}
