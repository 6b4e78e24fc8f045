//! [`Symmetry`]: a renumbering of a board that leaves it the same (an automorphism); [`Group`]: a group
//! of symmetries that move every rank.
//!
//! Symmetries have two uses. Of programs that differ only by a symmetry only one must be considered,
//! which shortens proofs that there is none. And a program can be sought that a whole group of
//! symmetries leaves unchanged: then only one root of each orbit has variables of its own.

use std::collections::BTreeMap;

use super::board::Board;

/// The most symmetries that are kept for each image of the first rank; leaving some out is sound.
const MOST_EACH: usize = 24;

/// The most tries in the search for symmetries, for each image of the first rank.
const MOST_TRIES: usize = 1 << 15;

/// On networks of more nodes no symmetries are searched for.
const MOST_NODES: usize = 64;

/// A renumbering: the image of every rank, hop and cable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symmetry {
    pub(super) ranks: Vec<u32>,
    pub(super) hops: Vec<u32>,
    pub(super) cables: Vec<u32>,
}

impl Symmetry {
    /// This one, then `next`.
    fn then(&self, next: &Self) -> Self {
        let through = |one: &[u32], other: &[u32]| -> Vec<u32> {
            one.iter().map(|it| other[*it as usize]).collect()
        };
        Self {
            ranks: through(&self.ranks, &next.ranks),
            hops: through(&self.hops, &next.hops),
            cables: through(&self.cables, &next.cables),
        }
    }

    fn moves_nothing(&self) -> bool {
        (0..).zip(&self.hops).all(|(hop, image)| hop == *image)
            && (0..).zip(&self.ranks).all(|(rank, image)| rank == *image)
    }

    fn moves_every_rank(&self) -> bool {
        (0..).zip(&self.ranks).all(|(rank, image)| rank != *image)
    }
}

/// Which symmetries to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// All but the one that moves nothing.
    Any,
    /// Those that move every rank.
    Moving,
}

/// Symmetries of a board; not all where there are many, but some for every image that the first
/// rank can have.
pub(super) fn find(board: &Board, which: Which) -> Vec<Symmetry> {
    let nodes = board.nodes;
    if nodes > MOST_NODES {
        return Vec::new();
    }
    let mut capacity = vec![0u32; nodes * nodes];
    for cable in &board.cables {
        capacity[cable.from as usize * nodes + cable.to as usize] = cable.capacity;
    }
    let colours: Vec<_> = (0..nodes).map(|it| colour(board, it)).collect();
    let fits = |images: &[u32], to: usize| {
        let node = images.len();
        let stays = node == to && node < board.ranks;
        colours[node] == colours[to]
            && (which == Which::Any || !stays)
            && images.iter().enumerate().all(|(other, image)| {
                let image = *image as usize;
                image != to
                    && capacity[node * nodes + other] == capacity[to * nodes + image]
                    && capacity[other * nodes + node] == capacity[image * nodes + to]
            })
    };
    let mut found = Vec::new();
    for first in (0..nodes).filter(|it| fits(&[], *it)) {
        let mut images = vec![first as u32];
        let mut next = vec![0u32];
        let (mut here, mut tries) = (0, 0);
        while let Some(image) = next.last_mut() {
            if images.len() == nodes && here < MOST_EACH {
                here += 1;
                found.extend(symmetry(board, &images).filter(|it| !it.moves_nothing()));
            }
            let to = *image;
            *image += 1;
            tries += 1;
            if here == MOST_EACH || tries > MOST_TRIES {
                break;
            }
            if images.len() == nodes || to as usize == nodes {
                next.pop();
                images.pop();
            } else if fits(&images, to as usize) {
                images.push(to);
                next.push(0);
            }
        }
    }
    found
}

/// Properties that a node must have in common with its image; they prune the search.
fn colour(board: &Board, node: usize) -> (bool, bool, Vec<u32>, Vec<u32>) {
    let node = node as u32;
    let capacities = |which: &dyn Fn(&super::board::Cable) -> u32| {
        let mut all: Vec<u32> =
            board.cables.iter().filter(|it| which(it) == node).map(|it| it.capacity).collect();
        all.sort_unstable();
        all
    };
    let is_root = board.roots.contains(&node);
    let is_rank = (node as usize) < board.ranks;
    (is_rank, is_root, capacities(&|it| it.from), capacities(&|it| it.to))
}

/// The symmetry of a renumbering of nodes, with the images of cables and hops; `None` if one of them has no image.
fn symmetry(board: &Board, images: &[u32]) -> Option<Symmetry> {
    let ends: BTreeMap<(u32, u32), u32> =
        (0..).zip(&board.cables).map(|(number, it)| ((it.from, it.to), number)).collect();
    let cables: Option<Vec<u32>> = board
        .cables
        .iter()
        .map(|it| ends.get(&(images[it.from as usize], images[it.to as usize])).copied())
        .collect();
    let cables = cables?;
    let ways: BTreeMap<&[u32], u32> =
        (0..).zip(&board.hops).map(|(number, it)| (it.cables.as_slice(), number)).collect();
    let hops: Option<Vec<u32>> = board
        .hops
        .iter()
        .map(|it| {
            let way: Vec<u32> = it.cables.iter().map(|it| cables[*it as usize]).collect();
            ways.get(way.as_slice()).copied()
        })
        .collect();
    Some(Symmetry { ranks: images[..board.ranks].to_vec(), hops: hops?, cables })
}

/// A group of symmetries: the first is the identity, every other one moves every rank, and the composition of
/// any two is in the group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) elements: Vec<Symmetry>,
}

impl Group {
    /// The group of the identity alone.
    pub(super) fn trivial(board: &Board) -> Self {
        let same = |count: usize| (0..count as u32).collect::<Vec<u32>>();
        let identity = Symmetry {
            ranks: same(board.ranks),
            hops: same(board.hops.len()),
            cables: same(board.cables.len()),
        };
        Self { elements: vec![identity] }
    }

    /// A chain of groups, each of which contains the next, from a large one to the trivial one; only the trivial
    /// one if not every rank is a root.
    pub(super) fn chain(board: &Board) -> Vec<Self> {
        let trivial = Self::trivial(board);
        let mut chain = vec![trivial];
        if board.roots.len() == board.ranks {
            for symmetry in find(board, Which::Moving) {
                if let Some(larger) = chain.last().and_then(|it| it.with(&symmetry, board.ranks)) {
                    chain.push(larger);
                }
            }
        }
        chain.reverse();
        chain
    }

    /// The group that this one and one more symmetry generate; `None` if the symmetry is in the group already, or
    /// if some product moves only some of the ranks.
    fn with(&self, symmetry: &Symmetry, most: usize) -> Option<Self> {
        if self.elements.contains(symmetry) {
            return None;
        }
        let mut elements = self.elements.clone();
        let mut read = 0;
        elements.push(symmetry.clone());
        while read < elements.len() {
            let generators = self.elements.len() + 1;
            for generator in 0..generators {
                let product = elements[read].then(&elements[generator]);
                if elements.contains(&product) {
                    continue;
                }
                if elements.len() == most || !product.moves_every_rank() {
                    return None;
                }
                elements.push(product);
            }
            read += 1;
        }
        Some(Self { elements })
    }

    /// Per rank: the lowest rank it can be moved to, and by which element.
    pub(super) fn lowest(&self, ranks: usize) -> Vec<(u32, usize)> {
        (0..ranks)
            .map(|rank| {
                let images = self.elements.iter().enumerate();
                images
                    .map(|(number, it)| (it.ranks[rank], number))
                    .min()
                    .unwrap_or((rank as u32, 0))
            })
            .collect()
    }
}
