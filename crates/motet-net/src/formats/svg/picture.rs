//! What is drawn: items and lines. A network that is too large to read is reduced first: all nodes
//! of a server become one item, then all of a rack, then all of a datacenter, then all of a kind.

use std::collections::BTreeMap;

use motet_units::Bandwidth;

use crate::formats::palette;
use crate::{LinkClass, Network, Node, NodeKind};

#[derive(Debug)]
pub(super) struct Item {
    pub(super) label: String,
    pub(super) kind: NodeKind,
    /// What it stands in, for the frame and for the order: datacenter, rack, server.
    pub(super) home: [Option<String>; 3],
    /// Whether it stands for a whole server or more.
    pub(super) gathered: bool,
    /// Latitude and longitude.
    pub(super) place: Option<(f64, f64)>,
}

#[derive(Debug)]
pub(super) struct Stroke {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) class: LinkClass,
    pub(super) bandwidth: Bandwidth,
    pub(super) both_ways: bool,
}

#[derive(Debug)]
pub(super) struct Picture {
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) items: Vec<Item>,
    pub(super) lines: Vec<Stroke>,
    /// The item of each node.
    pub(super) of_node: Vec<usize>,
}

impl Picture {
    pub(super) fn of(network: &Network, most: usize) -> Self {
        let level = (0..=4).find(|level| {
            let count = gather(network, *level).1.len();
            count <= most || *level == 4
        });
        let level = level.unwrap_or(4);
        let (of_node, members) = gather(network, level);
        let items = members.iter().map(|it| item(network, it)).collect();
        // Per pair and class: the bandwidth, and whether data goes up and down the pair.
        let mut lines: BTreeMap<(usize, usize, LinkClass), (Bandwidth, [bool; 2])> =
            BTreeMap::new();
        for line in palette::lines(network) {
            let (from, to) = (of_node[line.from.index()], of_node[line.to.index()]);
            if from != to {
                let sum = lines.entry((from.min(to), from.max(to), line.class)).or_default();
                sum.0 = sum.0.saturating_add(line.bandwidth);
                sum.1[0] |= line.both_ways || from < to;
                sum.1[1] |= line.both_ways || from > to;
            }
        }
        let stroke = |((low, high, class), (bandwidth, [up, down])): (_, (_, [bool; 2]))| {
            let (from, to) = if up { (low, high) } else { (high, low) };
            Stroke { from, to, class, bandwidth, both_ways: up && down }
        };
        Self {
            title: network.name().to_owned(),
            subtitle: subtitle(network, level),
            items,
            lines: lines.into_iter().map(stroke).collect(),
            of_node,
        }
    }
}

fn subtitle(network: &Network, level: usize) -> String {
    let kinds = NodeKind::ALL.iter().map(|it| (it, network.count(*it))).filter(|it| it.1 > 0);
    let counts: Vec<String> = kinds.map(|(kind, count)| format!("{count} {kind}")).collect();
    let mut text = format!("{}, {} links", counts.join(", "), network.links().len());
    let gathered = ["", "server", "rack", "datacenter", "kind of node"];
    if let Some(what) = gathered.get(level).filter(|it| !it.is_empty()) {
        text.push_str(&format!("; too many to draw: each {what} is one box"));
    }
    text
}

/// The item of each node and the nodes of each item. Level 0 keeps nodes apart; 1 gathers
/// servers, 2 racks, 3 datacenters, 4 kinds.
fn gather(network: &Network, level: usize) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut index_of: BTreeMap<(String, Option<String>), usize> = BTreeMap::new();
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut of_node = Vec::with_capacity(network.nodes().len());
    for (index, node) in network.nodes().iter().enumerate() {
        let home = &node.location;
        let key = match level {
            0 => None,
            1 => home.server.clone().map(|it| (it, home.rack.clone())),
            2 => home.rack.clone().map(|it| (it, home.dc.clone())),
            3 => home.dc.clone().map(|it| (it, None)),
            _ => Some((node.kind.name().to_owned(), None)),
        };
        let next = members.len();
        let item = key.map_or(next, |it| *index_of.entry(it).or_insert(next));
        if item == next {
            members.push(Vec::new());
        }
        members[item].push(index);
        of_node.push(item);
    }
    (of_node, members)
}

fn item(network: &Network, members: &[usize]) -> Item {
    let node = &network.nodes()[members[0]];
    let home = [node.location.dc.clone(), node.location.rack.clone(), node.location.server.clone()];
    if let [_] = members {
        return Item {
            label: node.name.clone(),
            kind: node.kind,
            home,
            gathered: false,
            place: place(node),
        };
    }
    let all = || members.iter().map(|it| &network.nodes()[*it]);
    let same = |of: fn(&Node) -> &Option<String>| all().all(|it| of(it) == of(node));
    let name = if same(|it| &it.location.server) {
        node.location.server.clone()
    } else if same(|it| &it.location.rack) {
        node.location.rack.clone()
    } else if same(|it| &it.location.dc) {
        node.location.dc.clone()
    } else {
        None
    };
    let gpus = all().filter(|it| it.kind == NodeKind::Gpu).count();
    let (count, what) = if gpus > 0 { (gpus, NodeKind::Gpu) } else { (members.len(), node.kind) };
    let label = match name {
        Some(name) => format!("{name}: {count} {what}"),
        None => format!("{count} {what}"),
    };
    Item {
        label,
        kind: what,
        home: [home[0].clone(), home[1].clone(), None],
        gathered: true,
        place: None,
    }
}

fn place(node: &Node) -> Option<(f64, f64)> {
    let degrees = |key: &str, most: f64| {
        let value = node.properties.get(key)?.parse::<f64>().ok()?;
        (value.abs() <= most).then_some(value)
    };
    Some((degrees("latitude", 90.0)?, degrees("longitude", 180.0)?))
}
