//! Skewed exchange among servers that are fast inside and slower between: no search.
//!
//! Data that leaves a server leaves over all of its ranks alike, whichever rank has it, and enters the other
//! server over all of its ranks alike, whichever rank wants it: a rank with more than an equal share to send
//! hands the surplus to ranks of its server with less, and data beyond one receiver's share enters over its
//! neighbours. So the links between servers are loaded as evenly as they can be, as little as possible moves
//! inside servers, and every byte takes at most three legs. The order is left to [`super::timing`], which
//! keeps the busiest receiver busy; stages without contention (Birkhoff and von Neumann) are not needed where
//! switches hold data that waits.

use motet_units::LinkId;
use rustc_hash::FxHashMap;

use super::demand::Demands;
use super::least::NONE as NO_SERVER;
use super::plan::{ExchangePlan, Leg, NONE};
use super::ways::{Shortest, Ways};
use crate::fabric::Fabric;
use crate::task::SynthError;
use crate::tree::PathTable;

/// Chunks of a pair that leave one server by rank `out` and come into another by rank `into`.
#[derive(Clone, Copy, Debug)]
struct Piece {
    pair: u32,
    /// First chunk within the pair.
    base: u32,
    chunks: u32,
    out: u32,
    into: u32,
}

/// The plan, given the server of each node.
pub(super) fn balanced(
    fabric: &Fabric,
    ways: &Ways,
    demands: &Demands,
    server_of_node: &[usize],
) -> Result<ExchangePlan, SynthError> {
    let not_for = |why: &str| SynthError::not_for("servers", why);
    let server: Vec<usize> =
        fabric.ranks().map(|it| server_of_node[fabric.node(it).index()]).collect();
    if server.contains(&NO_SERVER) {
        return Err(not_for("some rank is in no server"));
    }
    let servers = server.iter().max().map_or(0, |it| it + 1);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); servers];
    for (rank, server) in (0..).zip(&server) {
        members[*server].push(rank);
    }
    if members.iter().filter(|it| !it.is_empty()).count() < 2 {
        return Err(not_for("there is one server only"));
    }
    let straight = Straight::new(ways);
    let mut pieces: Vec<Piece> = Vec::with_capacity(demands.pairs.len());
    for (pair, it) in (0..).zip(&demands.pairs) {
        if server[it.src as usize] != server[it.dst as usize] {
            pieces.push(Piece { pair, base: 0, chunks: it.chunks, out: it.src, into: it.dst });
        }
    }
    let apart = |a: usize, b: usize| server[a] != server[b];
    let all = || 0..server.len();
    let sends = all().map(|a| all().any(|b| apart(a, b) && straight.leads(a, b))).collect();
    let receives = all().map(|a| all().any(|b| apart(a, b) && straight.leads(b, a))).collect();
    share_out(&mut pieces, &members, sends, |it| &mut it.out);
    share_out(&mut pieces, &members, receives, |it| &mut it.into);
    Laying { ways, demands, straight, paths: PathTable::default(), known: FxHashMap::default() }
        .plan(&server, &pieces)
        .ok_or_else(|| not_for("some ranks have no path between them that passes by no other"))
}

/// Shares out the pieces of each server evenly over its gateways: ranks with more than an equal share hand
/// pieces to ranks with less, the largest first, and cut them where needed. `gateway` says which ranks have a
/// path of their own from or to other servers; the others hand over everything. `rank` picks the end of a piece
/// that is chosen here, `out` or `into`.
fn share_out(
    pieces: &mut Vec<Piece>,
    members: &[Vec<u32>],
    gateway: Vec<bool>,
    rank: impl Fn(&mut Piece) -> &mut u32,
) {
    let mut of_rank: Vec<Vec<u32>> = vec![Vec::new(); gateway.len()];
    let mut load = vec![0u64; gateway.len()];
    for (at, piece) in (0..).zip(pieces.iter_mut()) {
        let chunks = u64::from(piece.chunks);
        let rank = *rank(piece) as usize;
        of_rank[rank].push(at);
        load[rank] += chunks;
    }
    for members in members {
        let open: Vec<u32> = members.iter().copied().filter(|it| gateway[*it as usize]).collect();
        if open.is_empty() {
            continue;
        }
        let total: u64 = members.iter().map(|it| load[*it as usize]).sum();
        let share = total.div_ceil(open.len() as u64);
        let room = |rank: u32, load: &[u64]| share.saturating_sub(load[rank as usize]);
        let mut takers = open.iter().copied().filter(|it| room(*it, &load) > 0).collect::<Vec<_>>();
        for giver in members {
            let kept = if gateway[*giver as usize] { share } else { 0 };
            let mut surplus = load[*giver as usize].saturating_sub(kept);
            let list = &mut of_rank[*giver as usize];
            if surplus > 0 {
                list.sort_by_key(|it| (pieces[*it as usize].chunks, std::cmp::Reverse(*it)));
            }
            while surplus > 0 {
                let (Some(at), Some(taker)) = (list.last().copied(), takers.last().copied()) else {
                    break;
                };
                let piece = &mut pieces[at as usize];
                let most = surplus.min(room(taker, &load));
                let moved = most.min(u64::from(piece.chunks)) as u32;
                if moved < piece.chunks {
                    let mut rest = *piece;
                    rest.chunks = moved;
                    piece.chunks -= moved;
                    piece.base += moved;
                    *rank(&mut rest) = taker;
                    pieces.push(rest);
                } else {
                    *rank(piece) = taker;
                    list.pop();
                }
                surplus -= u64::from(moved);
                load[*giver as usize] -= u64::from(moved);
                load[taker as usize] += u64::from(moved);
                if room(taker, &load) == 0 {
                    takers.pop();
                }
            }
        }
    }
}

/// Shortest paths between ranks that no other rank forwards.
struct Straight {
    nodes: usize,
    /// For each rank, the last arc of the path from it to each node; `u32::MAX` if there is none.
    last: Vec<u32>,
}

impl Straight {
    fn new(ways: &Ways) -> Self {
        let mut shortest = Shortest::new(ways);
        let mut last = Vec::with_capacity(ways.ranks * ways.nodes());
        for from in 0..ways.ranks {
            shortest.search_straight(ways, from, |arc| ways.busy[arc]);
            last.extend_from_slice(shortest.last_arcs());
        }
        Self { nodes: ways.nodes(), last }
    }

    fn leads(&self, from: usize, to: usize) -> bool {
        from != to && self.last[from * self.nodes + to] != u32::MAX
    }

    /// Appends the links of the path, last first.
    fn links(&self, ways: &Ways, from: usize, to: usize, links: &mut Vec<LinkId>) {
        let mut at = to;
        while at != from {
            let arc = self.last[from * self.nodes + at] as usize;
            links.push(ways.link[arc]);
            at = ways.tail[arc] as usize;
        }
    }
}

/// Makes the legs.
struct Laying<'a> {
    ways: &'a Ways,
    demands: &'a Demands,
    straight: Straight,
    paths: PathTable,
    /// The number of the path from one rank to another, where a leg has used it.
    known: FxHashMap<(u32, u32), u32>,
}

impl Laying<'_> {
    /// The plan of the pieces and of the pairs within servers; `None` if a leg needs a third rank to forward.
    fn plan(mut self, server: &[usize], pieces: &[Piece]) -> Option<ExchangePlan> {
        let mut legs = Vec::with_capacity(self.demands.pairs.len() * 2);
        let near = |src: u32, dst: u32| server[src as usize] == server[dst as usize];
        for it in &self.demands.pairs {
            if near(it.src, it.dst) {
                legs.push(Leg {
                    from: it.src,
                    to: it.dst,
                    path: self.path(it.src, it.dst)?,
                    after: NONE,
                    input: it.input,
                    chunks: it.chunks,
                    output: it.output,
                });
            }
        }
        for piece in pieces {
            let pair = &self.demands.pairs[piece.pair as usize];
            let stops = [pair.src, piece.out, piece.into, pair.dst];
            let mut after = NONE;
            for stop in stops.windows(2).filter(|it| it[0] != it[1]) {
                let last = stop[1] == pair.dst;
                legs.push(Leg {
                    from: stop[0],
                    to: stop[1],
                    path: self.path(stop[0], stop[1])?,
                    after,
                    input: pair.input + piece.base,
                    chunks: piece.chunks,
                    output: if last { pair.output + piece.base } else { NONE },
                });
                after = legs.len() as u32 - 1;
            }
        }
        Some(ExchangePlan { paths: self.paths.into_paths(), legs })
    }

    /// The number of the path between two ranks, which it is given if it has none yet.
    fn path(&mut self, from: u32, to: u32) -> Option<u32> {
        if let Some(known) = self.known.get(&(from, to)) {
            return Some(*known);
        }
        if !self.straight.leads(from as usize, to as usize) {
            return None;
        }
        let mut links = Vec::new();
        self.straight.links(self.ways, from as usize, to as usize, &mut links);
        links.reverse();
        let number = self.paths.number(&links);
        self.known.insert((from, to), number);
        Some(number)
    }
}
