//! From a fractional routing to whole chunks.
//!
//! Each sender's flow is rid of cycles and then gone through against its direction, from the receivers to the
//! sender. Every node knows how many chunks must come to it: those that it wants itself, and those that nodes
//! further on expect from it. It splits that number among the arcs into it as the flow does, but in whole
//! chunks. What rounding adds to a link or takes from it is remembered, and later choices even it out: so the
//! error of a link stays at a few chunks however many senders use it.

use super::demand::Demands;
use super::flow::Flow;
use super::ways::{Shortest, Ways};

/// A flow of fewer chunks than this is a rounding error of the averaging, and counts as none.
const DUST: f64 = 1e-6;

/// An arc whose share is this little above a whole number does not get another chunk.
const LITTLE: f64 = 1e-3;

/// Chunks of one pair that take one route.
#[derive(Clone, Debug)]
pub(super) struct Route {
    /// Index among the demands' pairs.
    pub(super) pair: u32,
    /// First chunk within the pair.
    pub(super) base: u32,
    pub(super) chunks: u32,
    /// The arcs of the [`Ways`] that it crosses, in order.
    pub(super) arcs: Vec<u32>,
}

/// Routes for every pair.
pub(super) fn whole_chunks(ways: &Ways, demands: &Demands, mut flow: Flow) -> Vec<Route> {
    let mut routes = Vec::with_capacity(demands.pairs.len());
    let mut rounding = Rounding::new(ways);
    let mut first = 0;
    for nth in 0..flow.senders.len() {
        let from = flow.senders[nth] as usize;
        cancel_cycles(ways, flow.row_mut(nth), &mut rounding.walk);
        rounding.one_sender(demands, from, first, flow.row(nth), &mut routes);
        first += demands.from(from).len() as u32;
    }
    routes
}

/// Chunks of a pair whose route is known from some node to the receiver.
#[derive(Clone, Copy, Debug)]
struct Parcel {
    pair: u32,
    base: u32,
    chunks: u32,
    /// The route from this node on, as an index into [`Rounding::trail`]; [`END`] at the receiver.
    behind: u32,
}

/// The route ends here.
const END: u32 = u32::MAX;

struct Rounding<'a> {
    ways: &'a Ways,
    /// Per link: by how much rounding has made it busier than the flow says, in picoseconds per byte of a
    /// chunk.
    excess: Vec<f64>,
    /// Per node: the parcels that must come to it.
    parcels: Vec<Vec<Parcel>>,
    /// Routes as linked lists: an arc, and the entry of the next arc or [`END`].
    trail: Vec<(u32, u32)>,
    walk: Walk,
    /// The arcs into the node that is being split.
    shares: Vec<Share>,
    /// Parcels that rounding left at nodes to which hardly any flow comes, and those nodes.
    stranded: Vec<(u32, Parcel)>,
    shortest: Shortest,
}

/// How many of the chunks that must come to a node one arc brings.
#[derive(Clone, Copy, Debug)]
struct Share {
    arc: u32,
    /// As the flow says.
    wanted: f64,
    /// In whole chunks.
    given: u32,
}

impl<'a> Rounding<'a> {
    fn new(ways: &'a Ways) -> Self {
        Self {
            ways,
            excess: vec![0.0; ways.links()],
            parcels: vec![Vec::new(); ways.nodes()],
            trail: Vec::new(),
            walk: Walk::new(ways),
            shares: Vec::new(),
            stranded: Vec::new(),
            shortest: Shortest::new(ways),
        }
    }

    /// Routes all pairs of the sender `from`, whose flow is `row`; `first` is the index of its first pair.
    fn one_sender(
        &mut self,
        demands: &Demands,
        from: usize,
        first: u32,
        row: &[f64],
        routes: &mut Vec<Route>,
    ) {
        self.trail.clear();
        for (pair, it) in (first..).zip(demands.from(from)) {
            let parcel = Parcel { pair, base: 0, chunks: it.chunks, behind: END };
            self.parcels[it.dst as usize].push(parcel);
        }
        let order = self.walk.topological(self.ways, row, from);
        for node in order.iter().rev() {
            let node = *node as usize;
            if node != from {
                self.split(node, row);
            }
        }
        self.bring_home(from);
        for parcel in std::mem::take(&mut self.parcels[from]) {
            let mut arcs = Vec::new();
            let mut at = parcel.behind;
            while at != END {
                let (arc, behind) = self.trail[at as usize];
                arcs.push(arc);
                at = behind;
            }
            let Parcel { pair, base, chunks, .. } = parcel;
            routes.push(Route { pair, base, chunks, arcs });
        }
    }

    /// Routes stranded parcels over the shortest path.
    fn bring_home(&mut self, from: usize) {
        if self.stranded.is_empty() {
            return;
        }
        let ways = self.ways;
        self.shortest.search(ways, from, |arc| ways.busy[arc]);
        for (node, mut parcel) in std::mem::take(&mut self.stranded) {
            let mut at = node as usize;
            while at != from {
                let last = |it: &&u32| {
                    self.shortest.is_last(ways, **it as usize, ways.busy[**it as usize])
                };
                let Some(arc) = ways.into(at).iter().find(last) else { break };
                self.trail.push((*arc, parcel.behind));
                parcel.behind = self.trail.len() as u32 - 1;
                at = ways.tail[*arc as usize] as usize;
            }
            self.parcels[from].push(parcel);
        }
    }

    /// Splits the parcels that must come to `node` among the arcs into it.
    fn split(&mut self, node: usize, row: &[f64]) {
        let mut parcels = std::mem::take(&mut self.parcels[node]);
        if parcels.is_empty() {
            return;
        }
        let total: u32 = parcels.iter().map(|it| it.chunks).sum();
        self.shares.clear();
        let into = self.ways.into(node).iter().filter(|it| row[**it as usize] > DUST);
        self.shares.extend(into.map(|arc| Share {
            arc: *arc,
            wanted: row[*arc as usize],
            given: 0,
        }));
        let flow: f64 = self.shares.iter().map(|it| it.wanted).sum();
        if flow > 0.0 {
            self.quotas(total, flow);
            self.hand_out(&parcels);
        } else {
            self.stranded.extend(parcels.iter().map(|it| (node as u32, *it)));
        }
        parcels.clear();
        self.parcels[node] = parcels;
    }

    /// Splits `total` chunks into whole numbers close to the flow's shares: these are rounded down, and the
    /// chunks that are left go to the links with the least excess.
    fn quotas(&mut self, total: u32, flow: f64) {
        let mut left = total;
        for share in &mut self.shares {
            share.wanted *= f64::from(total) / flow;
            share.given = (share.wanted as u32).min(left);
            left -= share.given;
        }
        for share in &self.shares {
            let over = f64::from(share.given) - share.wanted;
            self.excess[self.ways.link[share.arc as usize].index()] +=
                over * self.ways.busy[share.arc as usize];
        }
        for _ in 0..left {
            let (ways, excess) = (self.ways, &self.excess);
            let after = |it: &Share| {
                excess[ways.link[it.arc as usize].index()] + ways.busy[it.arc as usize]
            };
            let open = self.shares.iter_mut().filter(|it| it.wanted.fract() > LITTLE);
            let least = open.min_by(|a, b| after(a).total_cmp(&after(b)));
            let arc = match least {
                Some(share) => {
                    share.given += 1;
                    share.arc as usize
                }
                // All shares are whole numbers, up to the precision of floats.
                None => {
                    self.shares[0].given += 1;
                    self.shares[0].arc as usize
                }
            };
            self.excess[ways.link[arc].index()] += ways.busy[arc];
        }
    }

    /// Hands parcels to the arcs according to their quotas. Going through both in order cuts few parcels.
    fn hand_out(&mut self, parcels: &[Parcel]) {
        let mut shares = self.shares.iter().filter(|it| it.given > 0);
        let Some(mut share) = shares.next().copied() else { return };
        for parcel in parcels {
            let mut rest = *parcel;
            while rest.chunks > 0 {
                let chunks = rest.chunks.min(share.given);
                self.trail.push((share.arc, parcel.behind));
                let behind = self.trail.len() as u32 - 1;
                let tail = self.ways.tail[share.arc as usize] as usize;
                self.parcels[tail].push(Parcel { chunks, behind, ..rest });
                rest.base += chunks;
                rest.chunks -= chunks;
                share.given -= chunks;
                if share.given == 0 {
                    match shares.next() {
                        Some(next) => share = *next,
                        None => return,
                    }
                }
            }
        }
    }
}

/// Depth-first walks over the arcs that carry flow.
///
/// Not [`motet_graph::Followers`]: that says that there is a cycle but not which, would be built anew after every
/// cycle taken away, and orders nodes differently, on which it depends how the rounding comes out.
struct Walk {
    /// Per node: 0 not seen, 1 on the path being walked, 2 done.
    seen: Vec<u8>,
    /// (node, next arc to try)
    stack: Vec<(u32, u32)>,
    done: Vec<u32>,
}

impl Walk {
    fn new(ways: &Ways) -> Self {
        Self { seen: vec![0; ways.nodes()], stack: Vec::new(), done: Vec::new() }
    }

    /// The nodes that flow reaches from `from`, in topological order. The flow must have no cycles.
    fn topological(&mut self, ways: &Ways, row: &[f64], from: usize) -> Vec<u32> {
        self.seen.fill(0);
        self.done.clear();
        self.visit(ways, row, from);
        self.done.iter().rev().copied().collect()
    }

    /// Depth-first search; returns the first arc that closes a cycle, if there is one, and leaves the path to
    /// that arc on the stack.
    fn visit(&mut self, ways: &Ways, row: &[f64], from: usize) -> Option<usize> {
        self.stack.clear();
        self.stack.push((from as u32, ways.out_of(from).start as u32));
        self.seen[from] = 1;
        while let Some((node, next)) = self.stack.last_mut() {
            let range = ways.out_of(*node as usize);
            let arc = *next as usize;
            if arc >= range.end {
                self.seen[*node as usize] = 2;
                self.done.push(*node);
                self.stack.pop();
                continue;
            }
            *next += 1;
            if row[arc] <= DUST {
                continue;
            }
            let to = ways.head[arc] as usize;
            match self.seen[to] {
                0 => {
                    self.seen[to] = 1;
                    self.stack.push((to as u32, ways.out_of(to).start as u32));
                }
                1 => return Some(arc),
                _ => {}
            }
        }
        None
    }
}

/// Takes away flow on cycles.
fn cancel_cycles(ways: &Ways, row: &mut [f64], walk: &mut Walk) {
    loop {
        walk.seen.fill(0);
        walk.done.clear();
        let mut found = None;
        for node in 0..ways.nodes() {
            if walk.seen[node] == 0 {
                found = walk.visit(ways, row, node);
                if found.is_some() {
                    break;
                }
            }
        }
        let Some(closing) = found else { return };
        let cycle = cycle_of(ways, &walk.stack, closing);
        let least = cycle.iter().map(|it| row[*it]).fold(f64::INFINITY, f64::min);
        for arc in cycle {
            row[arc] -= least;
            if row[arc] <= DUST {
                row[arc] = 0.0;
            }
        }
    }
}

/// The arcs of the cycle that `closing` makes with the path on the stack.
fn cycle_of(ways: &Ways, stack: &[(u32, u32)], closing: usize) -> Vec<usize> {
    let start = ways.head[closing];
    let mut cycle = vec![closing];
    // Each node of the path but the last was left by the arc before its next one to try.
    let left_by = stack.iter().rev().skip(1);
    if ways.tail[closing] == start {
        return cycle;
    }
    for (node, next) in left_by {
        cycle.push(*next as usize - 1);
        if *node == start {
            break;
        }
    }
    cycle
}
