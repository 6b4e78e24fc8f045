//! Lowering to MSCCL++: gives any program the one-sided shape of a plan.
//!
//! In a plan one threadblock does a whole transfer by itself: it writes into the other GPU's memory
//! or reads from it, and nobody receives. [`lower`] cuts a program into such pieces
//! ([`stage`]) and deals them out to threadblocks, in the first of a few ways ([`SPREADS`]) that
//! the executor's limits allow.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::hazards::{Hazards, tidy};
use super::stage::{self, Piece, Staged};
use super::style::only;
use super::{Options, check_counts, limits, shape, style, switch_write};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Lane, LaneKind, Program, TransferId, in_instances};
use crate::verify::Verified;

/// One way to deal the pieces of a rank out to threadblocks.
#[derive(Clone, Copy, Debug)]
struct Spread {
    /// A threadblock for each peer; otherwise one for the rank.
    by_peer: bool,
    /// Pieces in a threadblock beyond which another is taken. Each piece may need a wait, two
    /// meetings and a signal, so that 10 and the handshakes fit the executor's 64 operations
    /// whatever they are.
    most: usize,
}

const SPREADS: [Spread; 4] = [
    Spread { by_peer: true, most: usize::MAX },
    Spread { by_peer: false, most: usize::MAX },
    Spread { by_peer: true, most: 10 },
    Spread { by_peer: false, most: 10 },
];

/// The program as puts, remote reductions and local steps of threadblocks, ready for
/// [`write`](super::write()).
///
/// A program that has this shape keeps its lanes. Any other is ordered anew by its data alone and
/// spread over threadblocks, one for each peer where that fits the executor, or one per rank if it
/// uses ports.
pub fn lower(program: &Verified<Program>, options: &Options) -> Result<Verified<Program>, Report> {
    Ok(lowered(program, options)?.0)
}

/// The program in this shape, and its plan.
pub(super) fn lowered(
    program: &Verified<Program>,
    options: &Options,
) -> Result<(Verified<Program>, String), Report> {
    check_counts(program, options)?;
    if program.uses_switches() {
        return switch_write::lowered(program, options);
    }
    let in_form;
    let program = match program.for_calls(options.in_place) {
        Some(it) => {
            in_form = it;
            &in_form
        }
        None => program,
    };
    let by_port = |a, b| options.channel.by_port(a, b);
    let mut refused = None;
    if shape::is_one_sided(program, by_port) {
        match proved(program, options) {
            Ok(lowered) => return Ok(lowered),
            Err(report) => refused = Some(report),
        }
    }
    let staged = stage::stage(program, by_port).map_err(|it| only(*it))?;
    let mut spreads = SPREADS;
    if staged.pieces.iter().any(|it| it.posted) {
        // What arrives by a port is known to one block; further ones must be told.
        spreads.swap(0, 1);
    }
    for spread in spreads {
        match proved(&spread_out(program, &staged, spread), options) {
            Ok(lowered) => return Ok(lowered),
            Err(report) => refused = refused.or(Some(report)),
        }
    }
    Err(refused.unwrap_or_default())
}

/// A program of this shape in as many instances as asked for, and its plan, if it is right and the
/// executor can load it.
pub(super) fn proved(
    program: &Program,
    options: &Options,
) -> Result<(Verified<Program>, String), Report> {
    let mut report = Report::default();
    limits::check_lanes(program, &mut report);
    if !report.is_right() {
        return Err(report);
    }
    let copies = in_instances(program, options.instances).map_err(|error| {
        let message = format!("in {} instances {error}", options.instances);
        only(Diagnostic::error(Finding::Limit, message))
    })?;
    limits::check_resident(&copies, options, &mut report);
    if !report.is_right() {
        return Err(report);
    }
    let normal = shape::normal(&copies);
    // Whether it fits is cheaper to see than whether it is right.
    let (name, text) = style::text(&normal, options)?;
    let named = normal.to_builder().named(name).build();
    let verified = Verified::new(named, None).map_err(|it| it.report)?;
    Ok((verified, text))
}

/// The pieces in lanes.
fn spread_out(program: &Program, staged: &Staged, spread: Spread) -> Program {
    let deps = dependencies(program, &staged.pieces);
    let keys = keys(&staged.pieces, &deps, spread);
    let mut builder = program.emptied();
    for (rank, chunks) in staged.scratch.iter().enumerate() {
        builder.set_scratch(Rank::from_index(rank), *chunks);
    }
    let mut blocks: BTreeMap<(Rank, Rank), Vec<u32>> = BTreeMap::new();
    for (index, piece) in staged.pieces.iter().enumerate() {
        builder.add(piece.transfer);
        blocks.entry((piece.rank(), keys[index])).or_default().push(index as u32);
    }
    for ((rank, _), pieces) in blocks {
        for part in pieces.chunks(spread.most) {
            for (waiter, awaited) in block_waits(part, &staged.pieces, &deps) {
                builder.wait(TransferId(waiter).sent(), TransferId(awaited).arrived());
            }
            let block = builder.lanes_mut().len() as u32;
            let mut own = Lane { rank, kind: LaneKind::Block, channel: 0, events: Vec::new() };
            let mut ports: BTreeMap<Rank, Lane> = BTreeMap::new();
            for index in part {
                let (piece, id) = (&staged.pieces[*index as usize], TransferId(*index));
                let lane = if piece.posted {
                    let kind = LaneKind::Port { block };
                    let new = || Lane { rank, kind, channel: 0, events: Vec::new() };
                    ports.entry(piece.transfer.dst.rank).or_insert_with(new)
                } else {
                    &mut own
                };
                lane.events.extend([id.sent(), id.arrived()]);
            }
            builder.add_lane(own);
            for lane in ports.into_values() {
                builder.add_lane(lane);
            }
        }
    }
    builder.build()
}

/// The waits of one block's pieces: what the data asks for, and what comes of the block itself
/// waiting before it posts. That holds back all it does later, and a post follows what the block
/// has done before. What an earlier post to the same peer has waited for needs no second wait, for a
/// port carries out its posts in order.
fn block_waits(part: &[u32], pieces: &[Piece], deps: &[Vec<u32>]) -> Vec<(u32, u32)> {
    let posted = |it: &u32| pieces[*it as usize].posted;
    let here: BTreeSet<u32> = part.iter().copied().filter(posted).collect();
    let awaited = part.iter().flat_map(|it| &deps[*it as usize]);
    let flushed: BTreeSet<u32> = awaited.copied().filter(|it| here.contains(it)).collect();
    let mut waits = Vec::new();
    let mut last_own = None;
    let mut held: Vec<u32> = Vec::new();
    // How much of what is held each port has waited for already.
    let mut waited: BTreeMap<Rank, usize> = BTreeMap::new();
    for piece in part {
        let own = &deps[*piece as usize];
        let peer = pieces[*piece as usize].transfer.dst.rank;
        let from = waited.get(&peer).copied().filter(|_| posted(piece)).unwrap_or(0);
        let behind = last_own.filter(|_| posted(piece));
        waits.extend(own.iter().chain(&held[from..]).copied().chain(behind).map(|it| (*piece, it)));
        if posted(piece) {
            waited.insert(peer, held.len());
            held.extend(own);
            held.extend(Some(*piece).filter(|it| flushed.contains(it)));
        } else {
            last_own = Some(*piece);
            held.clear();
            waited.clear();
        }
    }
    waits
}

/// What each piece must follow.
fn dependencies(program: &Program, pieces: &[Piece]) -> Vec<Vec<u32>> {
    let in_place = Some(program.collective()).filter(|_| program.forms().in_place);
    let mut hazards = Hazards::new(in_place);
    let mut deps = Vec::with_capacity(pieces.len());
    for (index, piece) in pieces.iter().enumerate() {
        let mut after = Vec::new();
        hazards.read(index as u32, &piece.transfer, &mut after);
        hazards.write(index as u32, &piece.transfer, &mut after);
        tidy(&mut after, index as u32);
        deps.push(after);
    }
    deps
}

/// Which threadblock of its rank does each piece, named by a peer. What stays within a GPU goes
/// with a piece it follows, to need no meeting of two blocks.
fn keys(pieces: &[Piece], deps: &[Vec<u32>], spread: Spread) -> Vec<Rank> {
    let mut keys: Vec<Rank> = Vec::with_capacity(pieces.len());
    for (piece, after) in pieces.iter().zip(deps) {
        let rank = piece.rank();
        let transfer = &piece.transfer;
        let key = if !spread.by_peer {
            rank
        } else if transfer.is_local() {
            let same =
                after.iter().rev().map(|it| *it as usize).find(|it| pieces[*it].rank() == rank);
            same.map_or(rank, |it| keys[it])
        } else if transfer.src.rank == rank {
            transfer.dst.rank
        } else {
            transfer.src.rank
        };
        keys.push(key);
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Slot, Transfer};

    /// A block that only posts: each post waits for its own data and for the post before, not for all
    /// that any post before it has waited for. A ring over ports of thousands of transfers had millions of
    /// waits, and was refused only after they had been looked at.
    #[test]
    fn posts_do_not_wait_again_for_what_their_port_has_waited_for() {
        let piece = |from: u32, to: u32| Piece {
            transfer: Transfer::copy(Slot::input(Rank(from), 0), Slot::output(Rank(to), 0), 1),
            posted: true,
        };
        // What arrives at rank 1, and what rank 1 posts to ranks 2 and 3 in turn, each after one of these.
        let count = 100u32;
        let pieces: Vec<Piece> = (0..count)
            .map(|_| piece(0, 1))
            .chain((0..count).map(|it| piece(1, 2 + it % 2)))
            .collect();
        let mut deps = vec![Vec::new(); count as usize];
        deps.extend((0..count).map(|it| vec![it]));
        let part: Vec<u32> = (count..2 * count).collect();
        let waits = block_waits(&part, &pieces, &deps);
        assert!(waits.len() < 4 * count as usize, "{} waits", waits.len());
        // Yet a post follows all that the block waited for before it, by itself or through its port.
        for post in 0..count {
            let port = |it: u32| (it - count) % 2;
            let known = waits.iter().filter(|(waiter, _)| {
                *waiter <= count + post && port(*waiter) == port(count + post)
            });
            let known: BTreeSet<u32> = known.map(|it| it.1).collect();
            assert!((0..=post).all(|it| known.contains(&it)), "post {post} knows {known:?}");
        }
    }
}
