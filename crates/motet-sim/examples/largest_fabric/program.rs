//! The program: hierarchical AllReduce, in place.
//!
//! 1. Inside each rack every GPU sends each other one its slice (one slice per GPU), which sums
//!    it up.
//! 2. Between racks, GPU i of each rack with GPU i of the others on their rail: three steps of
//!    recursive halving among 8 racks leave each with an eighth of the slice; a binary tree over
//!    the racks that hold the same eighth sums it up and brings it back; three steps of doubling
//!    give every rack the whole slice.
//! 3. Inside each rack every GPU sends its slice to all others.
//!
//! Halving all the way would need 512 pieces a slice, 36,864 chunks in each of 36,864 buffers,
//! more than the verifier holds; with eighths it is 576. A slice crosses between racks about 2¼
//! times its size, where 2 is the least. Every wait that the proof needs is given directly, so
//! that it need not search for one.

use std::error::Error;

use motet_collective::{
    Collective, CollectiveKind, Forms, Program, ProgramBuilder, Slot, Transfer, TransferId,
};
use motet_net::{Network, NodeKind};
use motet_units::{LinkId, Rank};

/// GPUs of a rack.
const GPUS: u32 = 72;
/// Pieces of a slice: two to the number of halvings.
const PARTS: u32 = 8;
const HALVINGS: u32 = PARTS.ilog2();

pub(crate) fn all_reduce(network: &Network, racks: u32) -> Result<Program, Box<dyn Error>> {
    if racks == 0 || !racks.is_multiple_of(PARTS) {
        return Err(format!("the racks must be a multiple of {PARTS}, not {racks}").into());
    }
    let ranks = racks * GPUS;
    let collective = Collective::new(CollectiveKind::AllReduce, ranks, GPUS * PARTS)?;
    let mut maker = Maker {
        b: ProgramBuilder::new("hierarchical-allreduce", collective).forms(Forms::IN_PLACE),
        racks,
        inside: Ports::new(network, NodeKind::NvSwitch)?,
        rail: Ports::new(network, NodeKind::Ocs)?,
        paths_inside: Vec::new(),
        last: vec![None; ranks as usize],
        have: vec![Vec::new(); ranks as usize],
        halved: Vec::new(),
    };
    maker.reduce_inside();
    maker.halve();
    maker.tree();
    maker.double();
    maker.gather_inside();
    Ok(maker.b.build())
}

/// The link of each rank to a switch, and back.
struct Ports {
    up: Vec<LinkId>,
    down: Vec<LinkId>,
}

impl Ports {
    fn new(network: &Network, kind: NodeKind) -> Result<Self, Box<dyn Error>> {
        let is = |node| network.node(node).kind == kind;
        let missing = || format!("a GPU has no link to a {kind}");
        let (mut up, mut down) = (Vec::new(), Vec::new());
        for gpu in network.ranks() {
            let there = network.outgoing(*gpu).iter().find(|it| is(network.link(**it).to));
            let back = network.incoming(*gpu).iter().find(|it| is(network.link(**it).from));
            up.push(*there.ok_or_else(missing)?);
            down.push(*back.ok_or_else(missing)?);
        }
        Ok(Self { up, down })
    }

    fn path(&self, from: Rank, to: Rank) -> Vec<LinkId> {
        vec![self.up[from.index()], self.down[to.index()]]
    }
}

struct Maker {
    b: ProgramBuilder,
    racks: u32,
    inside: Ports,
    rail: Ports,
    /// The path of each transfer of the first phase, which the last goes again.
    paths_inside: Vec<u32>,
    /// The last transfer that reduced into, or completed, each rank's piece.
    last: Vec<Option<TransferId>>,
    /// The transfers that brought each rank what it has of its slice complete.
    have: Vec<Vec<TransferId>>,
    /// The transfer by which each rank gave away a half, for each halving.
    halved: Vec<Vec<TransferId>>,
}

const fn rank(rack: u32, gpu: u32) -> Rank {
    Rank(rack * GPUS + gpu)
}

/// Where the piece of a rack begins after `halvings` halvings, and how long it is.
const fn piece(rack: u32, halvings: u32) -> (u32, u32) {
    let length = PARTS >> halvings;
    // The highest of the bits of the rack's number within its eight decides first.
    ((rack % PARTS) / length * length, length)
}

impl Maker {
    /// Which transfer of the first phase goes `step` GPUs on from this one.
    fn inside(&self, step: u32, rack: u32, gpu: u32) -> TransferId {
        TransferId(((step - 1) * self.racks + rack) * GPUS + gpu)
    }

    /// A transfer of a range of GPU `gpu`'s slice.
    fn transfer(&self, from: Rank, to: Rank, gpu: u32, range: (u32, u32), sum: bool) -> Transfer {
        let offset = gpu * PARTS + range.0;
        let (src, dst) = (Slot::output(from, offset), Slot::output(to, offset));
        if sum { Transfer::reduce(src, dst, range.1) } else { Transfer::copy(src, dst, range.1) }
    }

    /// Adds it, sent after `after` has arrived.
    fn add(&mut self, mut it: Transfer, path: u32, after: &[TransferId]) -> TransferId {
        it.path = Some(path);
        self.b.add_after(it, after)
    }

    fn path_between_racks(&mut self, from: Rank, to: Rank) -> u32 {
        self.b.add_path(self.rail.path(from, to))
    }

    fn reduce_inside(&mut self) {
        for step in 1..GPUS {
            for rack in 0..self.racks {
                for gpu in 0..GPUS {
                    let owner = (gpu + step) % GPUS;
                    let (from, to) = (rank(rack, gpu), rank(rack, owner));
                    let path = self.b.add_path(self.inside.path(from, to));
                    self.paths_inside.push(path);
                    let it = self.transfer(from, to, owner, (0, PARTS), true);
                    let id = self.add(it, path, &[]);
                    self.follow(to, id);
                }
            }
        }
    }

    /// `id` reduces at `to` after the one before it.
    fn follow(&mut self, to: Rank, id: TransferId) {
        if let Some(before) = self.last[to.index()].replace(id) {
            self.b.wait(id.arrived(), before.arrived());
        }
    }

    fn halve(&mut self) {
        for halving in 0..HALVINGS {
            let before = self.last.clone();
            let mut ids = Vec::with_capacity(before.len());
            for rack in 0..self.racks {
                let other = rack ^ (piece(rack, halving).1 / 2);
                for gpu in 0..GPUS {
                    let (from, to) = (rank(rack, gpu), rank(other, gpu));
                    let path = self.path_between_racks(from, to);
                    let it = self.transfer(from, to, gpu, piece(other, halving + 1), true);
                    let after: Vec<TransferId> = before[from.index()].into_iter().collect();
                    let id = self.add(it, path, &after);
                    if let Some(before) = before[to.index()] {
                        self.b.wait(id.arrived(), before.arrived());
                    }
                    self.last[to.index()] = Some(id);
                    ids.push(id);
                }
            }
            self.halved.push(ids);
        }
    }

    /// Up and down a binary tree over the racks whose numbers agree modulo [`PARTS`].
    fn tree(&mut self) {
        let holders = self.racks / PARTS;
        let mut up = vec![None; self.last.len()];
        for down in [false, true] {
            for index in 1..holders {
                // Leaves first on the way up, the root first on the way down.
                let child = if down { index } else { holders - index };
                let parent = (child - 1) / 2;
                for group in 0..PARTS {
                    for gpu in 0..GPUS {
                        let child = rank(child * PARTS + group, gpu);
                        let parent = rank(parent * PARTS + group, gpu);
                        let (from, to) = if down { (parent, child) } else { (child, parent) };
                        let path = self.path_between_racks(from, to);
                        let it = self.transfer(from, to, gpu, piece(group, HALVINGS), !down);
                        let after: Vec<TransferId> = self.last[from.index()].into_iter().collect();
                        let id = self.add(it, path, &after);
                        match up[to.index()] {
                            Some(sent) if down => {
                                let sent: TransferId = sent;
                                self.b.wait(id.arrived(), sent.sent());
                                self.last[to.index()] = Some(id);
                            }
                            _ => self.follow(to, id),
                        }
                        if !down {
                            up[from.index()] = Some(id);
                        }
                    }
                }
            }
        }
        for (have, last) in self.have.iter_mut().zip(&self.last) {
            have.extend(*last);
        }
    }

    fn double(&mut self) {
        for halving in (0..HALVINGS).rev() {
            let before = self.have.clone();
            for rack in 0..self.racks {
                let other = rack ^ (piece(rack, halving).1 / 2);
                for gpu in 0..GPUS {
                    let (from, to) = (rank(rack, gpu), rank(other, gpu));
                    let given = self.halved[halving as usize][to.index()];
                    let there = self.halved[halving as usize][from.index()];
                    let path = self.b.transfers()[there.index()].path.unwrap_or(0);
                    let it = self.transfer(from, to, gpu, piece(rack, halving + 1), false);
                    let id = self.add(it, path, &before[from.index()]);
                    self.b.wait(id.arrived(), given.sent());
                    self.have[to.index()].push(id);
                }
            }
        }
    }

    fn gather_inside(&mut self) {
        let have = std::mem::take(&mut self.have);
        for step in 1..GPUS {
            for rack in 0..self.racks {
                for gpu in 0..GPUS {
                    let other = (gpu + step) % GPUS;
                    let (from, to) = (rank(rack, gpu), rank(rack, other));
                    let path = self.paths_inside[self.inside(step, rack, gpu).index()];
                    let it = self.transfer(from, to, gpu, (0, PARTS), false);
                    let id = self.add(it, path, &have[from.index()]);
                    let given = self.inside(GPUS - step, rack, other);
                    self.b.wait(id.arrived(), given.sent());
                }
            }
        }
    }
}
