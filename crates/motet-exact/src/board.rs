//! [`Board`]: a small network as the exact search sees it.
//!
//! Ranks are numbered first, then devices between them. A *cable* is all links from one node to
//! another, taken together; it carries a whole number of chunks per round. A *hop* is a path from
//! one rank to another that passes no third rank, as a list of cables. The unit of capacity is the
//! slowest link: a link of 2.5 times its speed counts as 2. So every program found can be run, but
//! "there is no program" is proved for the network with capacities rounded down.

use std::collections::BTreeMap;

use super::bounds::Cut;
use super::symmetry::{Group, Symmetry, Which};

/// More hops than this are too many for an exact search.
const MOST_HOPS: usize = 4096;

/// The most steps of the search for hops; with more, the network is too large.
const MOST_VISITS: usize = 1 << 20;

/// The distance between ranks that cannot reach each other.
pub(super) const FAR: u32 = u32::MAX;

/// One link of the fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) link: u32,
    pub(super) speed: u64,
}

/// All links from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cable {
    pub(super) from: u32,
    pub(super) to: u32,
    /// Chunks per round.
    pub(super) capacity: u32,
    /// Its links, each with the chunks that it carries per round.
    pub(super) links: Vec<(u32, u32)>,
}

/// A path from one rank to another that passes no third rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) cables: Vec<u32>,
}

/// A small network with everything about it that the search needs (see the module).
#[derive(Clone, Debug)]
pub(super) struct Board {
    pub(super) ranks: usize,
    pub(super) nodes: usize,
    /// Ranks whose data everyone shall have.
    pub(super) roots: Vec<u32>,
    pub(super) cables: Vec<Cable>,
    pub(super) hops: Vec<Hop>,
    /// Per rank: the hops that end there, and those that begin there.
    pub(super) into: Vec<Vec<u32>>,
    pub(super) out_of: Vec<Vec<u32>>,
    /// Per cable: hops over it.
    pub(super) over: Vec<Vec<u32>>,
    /// The least number of hops from rank to rank: a matrix row by row.
    distance: Vec<u32>,
    pub(super) symmetries: Vec<Symmetry>,
    /// Groups of symmetries, the largest first, the trivial one last.
    pub(super) groups: Vec<Group>,
    /// The cuts that bound rounds, the tightest first.
    pub(super) cuts: Vec<Cut>,
}

impl Board {
    /// `None` if the network is too large.
    pub(super) fn new(ranks: usize, nodes: usize, roots: Vec<u32>, wires: &[Wire]) -> Option<Self> {
        let cables = cables(wires)?;
        let mut leaving = vec![Vec::new(); nodes];
        for (number, cable) in (0u32..).zip(&cables) {
            leaving[cable.from as usize].push(number);
        }
        let hops = hops(ranks, &cables, &leaving)?;
        let mut into = vec![Vec::new(); ranks];
        let mut out_of = vec![Vec::new(); ranks];
        let mut over = vec![Vec::new(); cables.len()];
        for (number, hop) in (0u32..).zip(&hops) {
            hop.cables.iter().for_each(|it| over[*it as usize].push(number));
            into[hop.to as usize].push(number);
            out_of[hop.from as usize].push(number);
        }
        let distance = distances(ranks, &hops, &out_of);
        let mut board = Self {
            ranks,
            nodes,
            roots,
            cables,
            hops,
            into,
            out_of,
            over,
            distance,
            symmetries: Vec::new(),
            groups: Vec::new(),
            cuts: Vec::new(),
        };
        board.symmetries = super::symmetry::find(&board, Which::Any);
        board.groups = Group::chain(&board);
        board.cuts = super::bounds::cuts(&board);
        Some(board)
    }

    pub(super) fn distance(&self, from: u32, to: u32) -> u32 {
        self.distance[from as usize * self.ranks + to as usize]
    }

    /// The least number of steps in which every rank can have everything; [`FAR`] if some rank
    /// cannot.
    pub(super) fn least_steps(&self) -> u32 {
        let to = |root: &u32| {
            let row = *root as usize * self.ranks;
            self.distance[row..row + self.ranks].iter().copied().max().unwrap_or(0)
        };
        self.roots.iter().map(to).max().unwrap_or(0)
    }

    /// Whether a chunk of `root` may cross the hop in a step, counted from 1: it can have reached the
    /// hop's start by then, and the hop does not lead back to `root`.
    pub(super) fn can_cross(&self, root: u32, hop: u32, step: u32) -> bool {
        let hop = &self.hops[hop as usize];
        hop.to != root && self.distance(root, hop.from) < step
    }
}

/// Gathers parallel links, in units of the slowest.
fn cables(wires: &[Wire]) -> Option<Vec<Cable>> {
    let unit = wires.iter().map(|it| it.speed).min().unwrap_or(1).max(1);
    let mut cables: BTreeMap<(u32, u32), Cable> = BTreeMap::new();
    for wire in wires {
        let capacity = u32::try_from(wire.speed / unit).ok()?;
        let cable = cables.entry((wire.from, wire.to)).or_insert(Cable {
            from: wire.from,
            to: wire.to,
            capacity: 0,
            links: Vec::new(),
        });
        cable.capacity = cable.capacity.checked_add(capacity)?;
        cable.links.push((wire.link, capacity));
    }
    Some(cables.into_values().collect())
}

/// Every path from rank to rank that passes no node twice and no third rank.
fn hops(ranks: usize, cables: &[Cable], leaving: &[Vec<u32>]) -> Option<Vec<Hop>> {
    let mut hops = Vec::new();
    let mut visits = 0;
    for from in 0..ranks as u32 {
        let mut way: Vec<u32> = Vec::new();
        // Per node on the way: which of its cables comes next.
        let mut next = vec![0usize];
        while let Some(turn) = next.last_mut() {
            let at = way.last().map_or(from, |it: &u32| cables[*it as usize].to);
            let Some(cable) = leaving[at as usize].get(*turn).copied() else {
                next.pop();
                way.pop();
                continue;
            };
            *turn += 1;
            visits += 1;
            if visits > MOST_VISITS {
                return None;
            }
            let to = cables[cable as usize].to;
            if to == from || way.iter().any(|it| cables[*it as usize].to == to) {
                continue;
            }
            way.push(cable);
            if (to as usize) < ranks {
                hops.push(Hop { from, to, cables: way.clone() });
                way.pop();
            } else {
                next.push(0);
            }
            if hops.len() > MOST_HOPS {
                return None;
            }
        }
    }
    Some(hops)
}

fn distances(ranks: usize, hops: &[Hop], out_of: &[Vec<u32>]) -> Vec<u32> {
    let mut distance = vec![FAR; ranks * ranks];
    for (from, row) in distance.chunks_mut(ranks.max(1)).enumerate() {
        row[from] = 0;
        let mut queue = vec![from as u32];
        let mut read = 0;
        while let Some(at) = queue.get(read).copied() {
            read += 1;
            for hop in &out_of[at as usize] {
                let to = hops[*hop as usize].to;
                if row[to as usize] == FAR {
                    row[to as usize] = row[at as usize] + 1;
                    queue.push(to);
                }
            }
        }
    }
    distance
}
