//! Where each figure of a discovered network comes from, derived for each link from the nodes at
//! its ends.

use motet_units::LinkId;

use super::nvlink::Wiring;
use crate::provenance::{LinkSources, Provenance, Source};
use crate::{LinkClass, Network, Node};

/// The sources of every link.
pub(super) fn of(network: &Network, nvlinks: Option<&Wiring>) -> Vec<LinkSources> {
    let latency = |class: LinkClass| {
        Source::new(Provenance::Template, format!("typical of {class}; not in sysfs"))
    };
    network
        .link_ids()
        .map(|id| {
            let class = network.link(id).spec.class;
            let bandwidth = match class {
                LinkClass::Pcie => pcie(network, id),
                LinkClass::Smp => sockets(network, id),
                LinkClass::NvLink => nvlink(network, id, nvlinks),
                LinkClass::Xgmi => {
                    let lanes = network.link(id).spec.lanes;
                    let gcn = property(lower(network, id), "gcn").unwrap_or("unknown GPU");
                    let detail = format!("lanes ({lanes}) read from kfd, as RCCL rates {gcn}");
                    Source::new(Provenance::Template, detail)
                }
                _ => Source::new(Provenance::Guessed, format!("typical of {class}")),
            };
            LinkSources { bandwidth, latency: latency(class) }
        })
        .collect()
}

/// The end that hangs from the other: links are made from below, the way up first.
fn lower(network: &Network, id: LinkId) -> &Node {
    let link = network.link(id);
    let up = link.reverse.is_none_or(|it| it.index() > id.index());
    network.node(if up { link.from } else { link.to })
}

fn property<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.properties.get(key).map(String::as_str)
}

fn pcie(network: &Network, id: LinkId) -> Source {
    let below = lower(network, id);
    let mut said = (property(below, "link_speed"), property(below, "link_width"));
    // The node of a card with several ports has no figures of its own: its ports have them.
    if property(below, "multiport").is_some() {
        let card = network.find(&below.name);
        let ports = card.into_iter().flat_map(|it| network.incoming(it));
        let ports = ports.map(|it| network.node(network.link(*it).from));
        let port = ports.into_iter().find(|it| property(it, "link_speed").is_some());
        said = port.map_or(said, |it| (property(it, "link_speed"), property(it, "link_width")));
    }
    match said {
        (Some(speed), Some(width)) => {
            Source::new(Provenance::Read, format!("{speed} x{width} in sysfs, as NCCL rates it"))
        }
        (Some(speed), None) => {
            Source::new(Provenance::Guessed, format!("{speed} in sysfs without a width: x16"))
        }
        (None, _) => Source::new(Provenance::Guessed, "no link speed in sysfs: PCIe 3"),
    }
}

fn sockets(network: &Network, id: LinkId) -> Source {
    let node = network.node(network.link(id).from);
    match (property(node, "vendor"), property(node, "arch")) {
        (Some(vendor), _) => {
            let family = property(node, "familyid").unwrap_or("?");
            let model = property(node, "modelid").unwrap_or("?");
            let detail = format!("as NCCL rates {} family {family} model {model}", vendor.trim());
            Source::new(Provenance::Template, detail)
        }
        (None, Some(arch)) => Source::new(Provenance::Template, format!("as NCCL rates {arch}")),
        (None, None) => Source::new(Provenance::Guessed, "the CPU model is unknown"),
    }
}

fn nvlink(network: &Network, id: LinkId, wiring: Option<&Wiring>) -> Source {
    let link = network.link(id);
    let lanes = link.spec.lanes;
    let counted = match wiring {
        Some(it) if it.provenance == Provenance::Read => it.detail.clone(),
        Some(it) => format!("of {}", it.detail),
        None => "counted nowhere".to_owned(),
    };
    let sm = [link.from, link.to].into_iter().find_map(|it| property(network.node(it), "sm"));
    match sm {
        Some(sm) => {
            let detail = format!("lanes ({lanes}) {counted}, as NCCL rates sm {sm}");
            Source::new(Provenance::Template, detail)
        }
        None => {
            let detail = format!("lanes ({lanes}) {counted}, of an unknown generation");
            Source::new(Provenance::Guessed, detail)
        }
    }
}
