//! [`Path`]: a path through a network, link by link, and the time data takes along it, in the
//! closed forms of Xiong et al., §III.
//!
//! With α the latency and β = L/b the transmission time of L bytes on each link:
//!
//! | [`Forwarding`] | time of L bytes |
//! | --- | --- |
//! | store and forward | Σ(α + β): every node receives all data before it forwards it |
//! | cut through | Σα + max β: nodes forward data as it arrives, so the slowest link sets the pace |
//! | mixed | GPUs on the path store and forward, all other nodes cut through: the path is divided into segments at the GPUs, and each takes Σα + max β |
//!
//! Each β is rounded up to whole picoseconds, as in the simulator, so the closed forms are exactly
//! what the simulator gives on an idle network. [`search`] finds paths: the shortest, all from one
//! node, the k shortest, link-disjoint ones.

mod disjoint;
mod k_shortest;
pub mod search;
mod shortest;

use motet_units::{Bandwidth, Bytes, Duration, LinkId, NodeId, Rounding};

use crate::network::Network;
use crate::node::NodeKind;
use crate::state::NetworkState;

pub use search::{Cost, Metric, Search, Transit};
pub use shortest::ShortestPaths;

/// How the nodes along a path pass data on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Forwarding {
    StoreAndForward,
    CutThrough,
    /// As each node does by its kind ([`NodeKind::cuts_through`]): Motet's model.
    #[default]
    Mixed,
}

/// Why a list of links is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    #[error("a path needs at least one link")]
    Empty,
    #[error("link {link} is not in the network, which has {links} links")]
    UnknownLink { link: LinkId, links: usize },
    #[error("link {next} does not start where link {link} ends; list the links in travel order")]
    Broken { link: LinkId, next: LinkId },
}

/// A contiguous list of at least one link. It may visit a node twice ([`is_simple`](Self::is_simple)).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    links: Vec<LinkId>,
    /// One more than links.
    nodes: Vec<NodeId>,
}

impl Path {
    /// A path over these links, each of which must begin where the one before it ends.
    pub fn new(network: &Network, links: Vec<LinkId>) -> Result<Self, PathError> {
        let count = network.links().len();
        if let Some(link) = links.iter().find(|it| it.index() >= count) {
            return Err(PathError::UnknownLink { link: *link, links: count });
        }
        for pair in links.windows(2) {
            if network.link(pair[0]).to != network.link(pair[1]).from {
                return Err(PathError::Broken { link: pair[0], next: pair[1] });
            }
        }
        let Some(first) = links.first() else {
            return Err(PathError::Empty);
        };
        Ok(Self::join(network, network.link(*first).from, links))
    }

    /// The path along links that are known to be contiguous, the first from `from`.
    fn join(network: &Network, from: NodeId, links: Vec<LinkId>) -> Self {
        let to = links.iter().map(|it| network.link(*it).to);
        let nodes = std::iter::once(from).chain(to).collect();
        Self { links, nodes }
    }

    /// The links in the order in which data passes them.
    #[must_use]
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// The nodes along the path, both ends included.
    #[must_use]
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// The node at which the path begins.
    #[must_use]
    pub fn from(&self) -> NodeId {
        self.nodes[0]
    }

    /// The node at which the path ends.
    #[must_use]
    pub fn to(&self) -> NodeId {
        self.nodes[self.nodes.len() - 1]
    }

    /// How many links the path has.
    #[must_use]
    pub fn hops(&self) -> usize {
        self.links.len()
    }

    /// Whether it visits no node twice.
    #[must_use]
    pub fn is_simple(&self) -> bool {
        let mut nodes = self.nodes.clone();
        nodes.sort_unstable();
        nodes.windows(2).all(|it| it[0] != it[1])
    }

    /// Σα.
    #[must_use]
    pub fn latency(&self, network: &Network) -> Duration {
        self.links.iter().map(|it| network.link(*it).spec.latency).sum()
    }

    /// The least bandwidth along the path, in the state given or else nominal.
    #[must_use]
    pub fn bottleneck(&self, network: &Network, state: Option<&NetworkState>) -> Bandwidth {
        let rates = self.links.iter().map(|it| bandwidth(network, state, *it));
        rates.min().unwrap_or(Bandwidth::ZERO)
    }

    /// How long `bytes` take along an idle path, in the state given or else at nominal
    /// bandwidth; `None` if a link has none.
    #[must_use]
    pub fn transfer_time(
        &self,
        network: &Network,
        state: Option<&NetworkState>,
        bytes: Bytes,
        forwarding: Forwarding,
    ) -> Option<Duration> {
        // What the segment so far has streamed is owed when the segment ends.
        let (mut total, mut slowest) = (Duration::ZERO, Duration::ZERO);
        for (link, from) in self.links.iter().zip(&self.nodes) {
            if stores(forwarding, network.node(*from).kind) {
                total += slowest;
                slowest = Duration::ZERO;
            }
            let rate = bandwidth(network, state, *link);
            slowest = slowest.max(rate.transfer_time(bytes, Rounding::Up)?);
            total += network.link(*link).spec.latency;
        }
        Some(total + slowest)
    }
}

/// Whether a node of this kind waits for the whole before it passes data on.
const fn stores(forwarding: Forwarding, kind: NodeKind) -> bool {
    match forwarding {
        Forwarding::StoreAndForward => true,
        Forwarding::CutThrough => false,
        Forwarding::Mixed => !kind.cuts_through(),
    }
}

fn bandwidth(network: &Network, state: Option<&NetworkState>, link: LinkId) -> Bandwidth {
    state.map_or_else(|| network.link(link).spec.bandwidth, |it| it.bandwidth(link))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{LinkClass, LinkSpec};
    use crate::network::NetworkBuilder;
    use crate::node::Node;
    use proptest::prelude::*;

    /// A line of nodes of these kinds, with (gbit/s, ns) of each link between them.
    fn line(kinds: &[NodeKind], links: &[(u64, u64)]) -> Network {
        let mut b = NetworkBuilder::new("line");
        for (index, kind) in kinds.iter().enumerate() {
            b.add_node(Node::new(index.to_string(), *kind)).unwrap();
        }
        for (index, (gbit, ns)) in links.iter().enumerate() {
            let (rate, latency) = (Bandwidth::gbit_per_s(*gbit), Duration::from_ns(*ns));
            let spec = LinkSpec::new(LinkClass::Other, rate, latency);
            b.add_link(NodeId::from_index(index), NodeId::from_index(index + 1), spec).unwrap();
        }
        b.build().unwrap()
    }

    fn whole(network: &Network) -> Path {
        Path::new(network, network.link_ids().collect()).unwrap()
    }

    /// gpu –8 Gbit/s→ leaf –4→ gpu –2→ leaf –8→ gpu, 1 µs each, 1000 bytes: β = 1, 2, 4, 1 µs.
    #[test]
    fn closed_forms_by_hand() {
        use NodeKind::{Gpu, Leaf};
        let links = [(8, 1000), (4, 1000), (2, 1000), (8, 1000)];
        let network = line(&[Gpu, Leaf, Gpu, Leaf, Gpu], &links);
        let path = whole(&network);
        let time = |how| path.transfer_time(&network, None, Bytes::new(1000), how);
        assert_eq!(time(Forwarding::StoreAndForward), Some(Duration::from_us(4 + 8)));
        assert_eq!(time(Forwarding::CutThrough), Some(Duration::from_us(4 + 4)));
        assert_eq!(time(Forwarding::Mixed), Some(Duration::from_us(4 + 2 + 4)));
        assert_eq!(path.bottleneck(&network, None), Bandwidth::gbit_per_s(2));
        assert_eq!(path.latency(&network), Duration::from_us(4));

        let mut state = NetworkState::nominal(&network);
        state.set_bandwidth(LinkId(0), Bandwidth::gbit_per_s(1));
        let mixed = path.transfer_time(&network, Some(&state), Bytes::new(1000), Forwarding::Mixed);
        assert_eq!(mixed, Some(Duration::from_us(4 + 8 + 4)));
        state.set_up(LinkId(3), false);
        assert_eq!(path.bottleneck(&network, Some(&state)), Bandwidth::ZERO);
        let none = path.transfer_time(&network, Some(&state), Bytes::new(1), Forwarding::Mixed);
        assert_eq!(none, None);
    }

    #[test]
    fn broken_lists_are_refused() {
        let network = line(&[NodeKind::Gpu; 3], &[(1, 1), (1, 1)]);
        assert_eq!(Path::new(&network, vec![]), Err(PathError::Empty));
        let back = Path::new(&network, vec![LinkId(1), LinkId(0)]);
        assert_eq!(back, Err(PathError::Broken { link: LinkId(1), next: LinkId(0) }));
        let far = Path::new(&network, vec![LinkId(2)]);
        assert_eq!(far, Err(PathError::UnknownLink { link: LinkId(2), links: 2 }));
        let path = whole(&network);
        assert_eq!((path.from(), path.to(), path.hops()), (NodeId(0), NodeId(2), 2));
        assert!(path.is_simple());
    }

    proptest! {
        /// The three forms from their definitions, each by another way than the code's.
        #[test]
        fn closed_forms_hold(
            hops in prop::collection::vec((1u64..400, 0u64..5000, any::<bool>()), 1..8),
            bytes in 0u64..1 << 30,
        ) {
            let kind = |gpu| if gpu { NodeKind::Gpu } else { NodeKind::Spine };
            let mut kinds = vec![NodeKind::Gpu];
            kinds.extend(hops.iter().map(|it| kind(it.2)));
            let links: Vec<(u64, u64)> = hops.iter().map(|it| (it.0, it.1)).collect();
            let network = line(&kinds, &links);
            let path = whole(&network);
            let alpha: u64 = links.iter().map(|it| it.1 * 1000).sum();
            // bytes × 8 bits at g Gbit/s are bytes × 8000 / g picoseconds.
            let beta: Vec<u64> = links.iter().map(|it| (bytes * 8000).div_ceil(it.0)).collect();
            let time = |how| {
                path.transfer_time(&network, None, Bytes::new(bytes), how).unwrap().as_ps()
            };
            prop_assert_eq!(time(Forwarding::StoreAndForward), alpha + beta.iter().sum::<u64>());
            prop_assert_eq!(time(Forwarding::CutThrough), alpha + beta.iter().max().unwrap());
            let ends: Vec<usize> =
                (1..kinds.len()).filter(|it| kinds[*it] == NodeKind::Gpu || *it == beta.len()).collect();
            let mut start = 0;
            let mut mixed = alpha;
            for end in ends {
                mixed += beta[start..end].iter().max().unwrap();
                start = end;
            }
            prop_assert_eq!(time(Forwarding::Mixed), mixed);
        }
    }
}
