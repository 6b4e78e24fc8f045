//! Colour refinement (one-dimensional Weisfeiler–Lehman): each node's colour is repeatedly replaced
//! by a digest of its own colour and those of its neighbours, until no class of equal colours
//! splits any more.
//!
//! Colours are 128-bit digests that are equal in any two networks for the same neighbourhood, so
//! networks can be compared without numbering or sorting. A multiset of digests is represented by
//! their sum.

use siphasher::sip128::SipHasher13;

use crate::in_network::InNetwork;
use crate::network::Network;

/// Link visits that one refinement may take before it stops short of stable. Only networks that
/// are long and thin (a line of thousands of nodes) get there.
const REFINING_WORK: usize = 1 << 24;
const LEAST_ROUNDS: usize = 8;

/// A digest of a few words, the first of which says what they are.
pub(super) fn digest<const N: usize>(words: [u128; N]) -> u128 {
    let bytes = words.map(u128::to_le_bytes);
    SipHasher13::new().hash(bytes.as_flattened()).as_u128()
}

fn digest_text(text: &str) -> u128 {
    SipHasher13::new().hash(text.as_bytes()).as_u128()
}

/// A multiset of digests.
pub(super) fn total(digests: impl Iterator<Item = u128>) -> u128 {
    digests.fold(0, u128::wrapping_add)
}

/// What of a network the signature sees.
#[derive(Debug)]
pub(super) struct Graph {
    nodes: Vec<u128>,
    /// From, to, and what the link is like.
    links: Vec<(u32, u32, u128)>,
}

impl Graph {
    pub(super) fn new(network: &Network) -> Self {
        let nodes = network.nodes().iter().map(|node| {
            let kind = digest_text(node.kind.name());
            let own = digest([10, kind, u128::from(node.multicast), u128::from(node.reduces)]);
            let InNetwork { copies, reduces, spreads } = node.in_network;
            match node.in_network.is_any() {
                // A node without it has the digest that it had before there was any.
                false => own,
                true => digest([12, own, copies.into(), reduces.into(), spreads.into()]),
            }
        });
        let links = network.link_ids().map(|id| {
            let link = network.link(id);
            let spec = &link.spec;
            let like = digest([
                11,
                u128::from(spec.latency.as_ps()),
                u128::from(spec.bandwidth.bits_per_s()),
                digest_text(spec.class.name()),
                u128::from(spec.lanes),
                u128::from(network.tier(id).get()),
            ]);
            (link.from.0, link.to.0, like)
        });
        Self { nodes: nodes.collect(), links: links.collect() }
    }

    pub(super) fn first_colours(&self) -> Vec<u128> {
        self.nodes.clone()
    }

    /// Digests that one round takes.
    pub(super) fn work(&self) -> usize {
        self.nodes.len() + 2 * self.links.len()
    }

    /// How many rounds a single refinement may take.
    pub(super) fn round_limit(&self) -> usize {
        (REFINING_WORK / self.work().max(1)).max(LEAST_ROUNDS)
    }

    /// The colours once no class splits any more, or after `limit` rounds. At least one round is
    /// run, so that links count even where all nodes differ from the start.
    pub(super) fn refined(&self, mut colours: Vec<u128>, limit: usize) -> Vec<u128> {
        let mut scratch = colours.clone();
        let mut classes = count_classes(&colours, &mut scratch);
        let mut around = vec![0u128; colours.len()];
        for _ in 0..limit {
            self.round(&mut colours, &mut around);
            let now = count_classes(&colours, &mut scratch);
            if now == classes {
                break;
            }
            classes = now;
        }
        colours
    }

    fn round(&self, colours: &mut [u128], around: &mut [u128]) {
        around.fill(0);
        for (from, to, like) in &self.links {
            let (from, to) = (*from as usize, *to as usize);
            around[from] = around[from].wrapping_add(digest([12, *like, colours[to]]));
            around[to] = around[to].wrapping_add(digest([13, *like, colours[from]]));
        }
        for (colour, around) in colours.iter_mut().zip(&*around) {
            *colour = digest([14, *colour, *around]);
        }
    }
}

fn count_classes(colours: &[u128], scratch: &mut Vec<u128>) -> usize {
    scratch.clear();
    scratch.extend_from_slice(colours);
    scratch.sort_unstable();
    scratch.dedup();
    scratch.len()
}
