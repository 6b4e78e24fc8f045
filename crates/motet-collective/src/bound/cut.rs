//! [`Cut`]: a bottleneck that a user can look at.
//!
//! A cut splits the nodes into a sending side and the rest. What must get from one to the other has
//! only the links between them to use, so that their bandwidth limits every program.
//! [`Cut::describe`] puts that into words, with servers, racks and datacenters named instead of
//! their GPUs where a side is made of whole ones.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_net::Network;
use motet_units::{Bandwidth, LinkId, NodeId, Rank};

use super::graph::BoundGraph;
use super::partition::Place;
use super::ratio::Ratio;

/// Most names listed before the rest are counted.
const MAX_NAMES: usize = 8;

/// The nodes on the sending side of a cut and the links that leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Ranks on the sending side.
    pub ranks: Vec<Rank>,
    /// All nodes on the sending side. GPUs outside the group are on neither.
    pub nodes: Vec<NodeId>,
    /// Links from the sending side to the other.
    pub links: Vec<LinkId>,
    /// The sum of their bandwidths, or the largest that the type can hold if that is less.
    pub bandwidth: Bandwidth,
    /// Bytes that must cross per byte of the collective's size.
    pub share: Ratio,
    /// The group's GPUs, which [`describe`](Self::describe) tells the sides by.
    group: Vec<NodeId>,
}

impl Cut {
    pub(super) fn new(
        network: &Network,
        graph: &BoundGraph,
        group: &[NodeId],
        sending: &[bool],
        share: Ratio,
    ) -> Self {
        let inside = |node: NodeId| sending[node.index()];
        let outside = |node: NodeId| graph.usable[node.index()] && !inside(node);
        let crosses = |id: &LinkId| {
            let link = network.link(*id);
            inside(link.from) && outside(link.to)
        };
        let links: Vec<LinkId> = network.link_ids().filter(crosses).collect();
        let bandwidths = links.iter().map(|it| network.link(*it).spec.bandwidth);
        let ranks = (0..group.len()).filter(|it| inside(group[*it])).map(Rank::from_index);
        Self {
            ranks: ranks.collect(),
            nodes: network.node_ids().filter(|it| inside(*it)).collect(),
            bandwidth: bandwidths.fold(Bandwidth::ZERO, Bandwidth::saturating_add),
            links,
            share,
            group: group.to_vec(),
        }
    }

    /// The cut in words: which ranks must send which share of the data, over which links, and how
    /// much bandwidth these have together.
    #[must_use]
    pub fn describe(&self, network: &Network) -> String {
        let mut text = self.sides(network);
        if self.links.is_empty() {
            text.push_str(": no link at all");
            return text;
        }
        let share = self.share.to_f64();
        let _ = match self.share.cmp(&Ratio::ONE) {
            Ordering::Less => write!(text, ": {} of the size ({:.1}%)", self.share, share * 100.0),
            Ordering::Equal => write!(text, ": the whole size"),
            Ordering::Greater => write!(text, ": {share:.2} times the size"),
        };
        text.push_str(" over ");
        let mut kinds: BTreeMap<_, usize> = BTreeMap::new();
        for link in &self.links {
            let spec = network.link(*link).spec;
            *kinds.entry((std::cmp::Reverse(spec.bandwidth), spec.class)).or_default() += 1;
        }
        let kinds: Vec<String> = kinds
            .into_iter()
            .map(|((bandwidth, class), count)| {
                let plural = if count == 1 { "link" } else { "links" };
                format!("{count} {class} {plural} of {}", bandwidth.0)
            })
            .collect();
        text.push_str(&listed(&kinds));
        if self.links.len() > 1 {
            let _ = write!(text, ", {} together", self.bandwidth);
        }
        text
    }

    /// "from rank 3 to the others", by the smaller side.
    fn sides(&self, network: &Network) -> String {
        let sends = |rank: &usize| self.ranks.binary_search(&Rank::from_index(*rank)).is_ok();
        let all = 0..self.group.len();
        let (inside, outside): (Vec<usize>, Vec<usize>) = all.partition(|it| sends(it));
        if inside.len() <= outside.len() {
            format!("from {} to the others", self.named(network, &inside))
        } else {
            format!("to {} from the others", self.named(network, &outside))
        }
    }

    /// Some ranks, by their datacenters, racks or servers where they are all of these.
    fn named(&self, network: &Network, ranks: &[usize]) -> String {
        let places: [(&str, Place); 3] = [
            ("datacenter", |it| it.dc.as_ref()),
            ("rack", |it| it.rack.as_ref()),
            ("server", |it| it.server.as_ref()),
        ];
        if ranks.len() > 1 {
            for (what, place) in places {
                let of = |rank: usize| place(&network.node(self.group[rank]).location);
                let Some(mut names) = ranks.iter().map(|it| of(*it)).collect::<Option<Vec<_>>>()
                else {
                    continue;
                };
                names.sort_unstable();
                names.dedup();
                let held =
                    |rank: usize| of(rank).is_some_and(|it| names.binary_search(&it).is_ok());
                let whole = (0..self.group.len()).filter(|it| held(*it)).count();
                if whole == ranks.len() {
                    let names: Vec<String> = names.into_iter().cloned().collect();
                    let plural = if names.len() == 1 { "" } else { "s" };
                    return format!("{what}{plural} {}", listed(&names));
                }
            }
        }
        let plural = if ranks.len() == 1 { "" } else { "s" };
        format!("rank{plural} {}", listed(&ranges(ranks)))
    }
}

/// "a, b and c", or the first few and how many more.
fn listed(names: &[String]) -> String {
    match names {
        [] => "nobody".to_owned(),
        [one] => one.clone(),
        [.., last] if names.len() <= MAX_NAMES => {
            format!("{} and {last}", names[..names.len() - 1].join(", "))
        }
        _ => {
            let more = names.len() - MAX_NAMES;
            format!("{} and {more} more", names[..MAX_NAMES].join(", "))
        }
    }
}

/// Sorted numbers with runs drawn together: "0–7", "16".
fn ranges(sorted: &[usize]) -> Vec<String> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in sorted {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let text = |(first, last): (usize, usize)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}–{last}"),
    };
    runs.into_iter().map(text).collect()
}
