//! A first guess at how a switch's capacity is divided among the pairs of its neighbours, before the switch is replaced by direct
//! links between them.
//!
//! Any way of taking a switch out that keeps all cuts is right; but the more evenly a switch serves all pairs
//! of its neighbours, the lower trees can be. So the guess spreads each port's capacity over all ports that
//! it may usefully serve: those on the far side of the switch on some shortest path between two ranks. Shares
//! are fitted to the ports' capacities (rows and columns in turn), then rounded so that a port's leftover
//! units go to different servers.
//!
//! If the caller asks for it ([`Rest::Spread`]), capacity that is left after that is spread over all other
//! pairs: those are detours, which the best rate sometimes needs.
//!
//! Whether the guess keeps the rate is for the caller to ask; see [`split`](super::split).

use super::net::FlowNet;

/// Rounds of fitting; more change little.
const FITTINGS: usize = 24;

/// A port of the switch: a neighbour, and the capacity from or to it.
#[derive(Clone, Copy, Debug)]
struct Port {
    node: u32,
    capacity: u64,
    /// The server that the neighbour is in.
    group: u32,
    /// Place within its group.
    place: u32,
}

/// How much capacity `from → switch → to` gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) amount: u64,
}

/// How capacity is used that pairs on shortest paths leave over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    GivenUp,
    Spread,
}

/// How `switch` divides its capacity if it serves all useful pairs evenly. `group` says which server (or the
/// like) each node is in.
pub(super) fn guess(net: &FlowNet, switch: u32, group: &[u32], rest: Rest) -> Vec<Share> {
    let mut from = ports(net.incoming(switch), group);
    let mut to = ports(net.outgoing(switch), group);
    // A switch with only incoming or only outgoing links passes nothing on. Such switches are in networks with one-way links, and
    // arise when other switches are replaced.
    if from.is_empty() || to.is_empty() {
        return Vec::new();
    }
    let mut support = useful(net, switch, &from, &to);
    let mut whole = even(&support, &from, &to, switch);
    if rest == Rest::Spread {
        let columns = to.len();
        for (row, port) in from.iter_mut().enumerate() {
            port.capacity -= whole[row * columns..(row + 1) * columns].iter().sum::<u64>();
        }
        for (column, port) in to.iter_mut().enumerate() {
            port.capacity -= whole.iter().skip(column).step_by(columns).sum::<u64>();
        }
        for (at, support) in support.iter_mut().enumerate() {
            *support = !*support && from[at / columns].node != to[at % columns].node;
        }
        for (whole, more) in whole.iter_mut().zip(even(&support, &from, &to, switch)) {
            *whole += more;
        }
    }
    let pairs = from.iter().flat_map(|a| to.iter().map(move |b| (a.node, b.node)));
    let shares = pairs.zip(whole).map(|((from, to), amount)| Share { from, to, amount });
    shares.filter(|it| it.amount > 0).collect()
}

/// Whole shares for the pairs in `support`, as even as the ports' capacities allow. `turn` is a number that
/// differs from switch to switch, to break ties.
fn even(support: &[bool], from: &[Port], to: &[Port], turn: u32) -> Vec<u64> {
    let mut shares = vec![0.0; support.len()];
    for (at, share) in shares.iter_mut().enumerate().filter(|(at, _)| support[*at]) {
        *share = from[at / to.len()].capacity as f64 * to[at % to.len()].capacity as f64;
    }
    fit(&mut shares, from, to);
    let mut whole = rounded(&shares, from, to, turn);
    fill_columns(&mut whole, &shares, from, turn);
    whole
}

fn ports(neighbours: impl Iterator<Item = (u32, u64)>, group: &[u32]) -> Vec<Port> {
    let mut ports: Vec<Port> = neighbours
        .map(|(node, capacity)| Port { node, capacity, group: group[node as usize], place: 0 })
        .collect();
    ports.sort_unstable_by_key(|it| (it.group, it.node));
    for at in 1..ports.len() {
        if ports[at].group == ports[at - 1].group {
            ports[at].place = ports[at - 1].place + 1;
        }
    }
    ports
}

/// Which pairs of ports lie on a shortest path between two ranks through the switch; all, if none does.
fn useful(net: &FlowNet, switch: u32, from: &[Port], to: &[Port]) -> Vec<bool> {
    let mut useful = vec![false; from.len() * to.len()];
    let spans = from.iter().chain(to).any(|it| it.group != from[0].group);
    let mut distance = Distances::new(net.nodes());
    let to_switch = distance.all(net, switch, true);
    for rank in 0..net.ranks() as u32 {
        let hops = to_switch[rank as usize];
        if hops == u32::MAX {
            continue;
        }
        let away = distance.all(net, rank, false);
        // A port leads on if a shortest path from `rank` to some other rank leads through it.
        for (column, b) in to.iter().enumerate() {
            let serves = distance.serves(net, b.node, &away, hops + 1);
            if !serves {
                continue;
            }
            for (row, a) in from.iter().enumerate() {
                let on_way = away[a.node as usize].checked_add(1) == Some(hops) && a.node != b.node;
                // Within a server there are better ways than out of it and back.
                let inside = spans && a.group == b.group;
                let direct = inside && net.capacity_between(a.node, b.node) > 0;
                if on_way && !direct {
                    useful[row * to.len() + column] = true;
                }
            }
        }
    }
    if !useful.contains(&true) {
        for (row, a) in from.iter().enumerate() {
            for (column, b) in to.iter().enumerate() {
                useful[row * to.len() + column] = a.node != b.node;
            }
        }
    }
    useful
}

/// Distances in hops, kept between questions.
struct Distances {
    queue: Vec<u32>,
    /// Per node asked about: its distances to all ranks.
    of: Vec<Option<Vec<u32>>>,
}

impl Distances {
    fn new(nodes: usize) -> Self {
        Self { queue: Vec::new(), of: vec![None; nodes] }
    }

    /// The number of hops from a node to every node, or, with `back`, from every node to it.
    fn all(&mut self, net: &FlowNet, start: u32, back: bool) -> Vec<u32> {
        let mut hops = vec![u32::MAX; net.nodes()];
        hops[start as usize] = 0;
        self.queue.clear();
        self.queue.push(start);
        let mut next = 0;
        while let Some(node) = self.queue.get(next).copied() {
            next += 1;
            for arc in net.arcs_of(node) {
                let to = net.head(*arc);
                let open = net.capacity(if back { *arc ^ 1 } else { *arc }) > 0;
                if open && hops[to as usize] == u32::MAX {
                    hops[to as usize] = hops[node as usize] + 1;
                    self.queue.push(to);
                }
            }
        }
        hops
    }

    /// Whether a shortest path from a rank to some other rank leads through `node`. The rank is given by `away`, its distances to all
    /// ranks, and `hops`, its distance to `node`.
    fn serves(&mut self, net: &FlowNet, node: u32, away: &[u32], hops: u32) -> bool {
        if self.of[node as usize].is_none() {
            let beyond = self.all(net, node, false);
            self.of[node as usize] = Some(beyond[..net.ranks()].to_vec());
        }
        let Some(beyond) = &self.of[node as usize] else { return false };
        let mut ranks = beyond.iter().zip(away).filter(|(beyond, _)| **beyond != u32::MAX);
        ranks.any(|(beyond, away)| hops + beyond == *away)
    }
}

/// Scales rows (one for each neighbour that sends) and columns (one for each that receives) in turn, until
/// they add up to about the ports' capacities. The last round only scales columns down, so that none exceeds
/// its port.
fn fit(shares: &mut [f64], from: &[Port], to: &[Port]) {
    let columns = to.len();
    for round in 0..FITTINGS {
        let last = round + 1 == FITTINGS;
        for (row, port) in from.iter().enumerate() {
            let row = &mut shares[row * columns..(row + 1) * columns];
            scale(row.iter_mut(), port.capacity as f64, false);
        }
        for (column, port) in to.iter().enumerate() {
            let column = shares.iter_mut().skip(column).step_by(columns);
            scale(column, port.capacity as f64, last);
        }
    }
}

/// Scales entries so that their sum is `wanted`; with `only_down`, only if it is more.
fn scale<'a>(entries: impl Iterator<Item = &'a mut f64>, wanted: f64, only_down: bool) {
    let entries: Vec<&mut f64> = entries.collect();
    let sum: f64 = entries.iter().map(|it| **it).sum();
    if sum > 0.0 && !(only_down && sum <= wanted) {
        entries.into_iter().for_each(|it| *it *= wanted / sum);
    }
}

/// Rounds shares to whole numbers, row by row, and keeps the rows' sums as nearly as it can. Shares are
/// rounded down, and the units left of a row are dealt out one by one: to the group, and in it to the port,
/// that is most below its shares. Of equals the port at the sender's own place in its group comes first, then
/// the next, so that columns fill evenly; for a sender that is alone in its group, the first port differs
/// from switch to switch (`turn`).
fn rounded(shares: &[f64], from: &[Port], to: &[Port], turn: u32) -> Vec<u64> {
    let columns = to.len();
    // Numbers that are whole up to the precision of floats count as whole.
    let mut whole: Vec<u64> = shares.iter().map(|it| (it + 1e-6) as u64).collect();
    let mut room: Vec<u64> = (0..columns)
        .map(|column| {
            let used: u64 = whole.iter().skip(column).step_by(columns).sum();
            to[column].capacity.saturating_sub(used)
        })
        .collect();
    let groups: Vec<usize> = {
        let mut names: Vec<u32> = to.iter().map(|it| it.group).collect();
        names.dedup();
        to.iter().map(|it| names.partition_point(|name| *name < it.group)).collect()
    };
    let group_count = groups.last().map_or(0, |it| it + 1);
    for (row, sender) in from.iter().enumerate() {
        let own = &mut whole[row * columns..(row + 1) * columns];
        let wanted = &shares[row * columns..(row + 1) * columns];
        let mut short = vec![0.0; group_count];
        for column in 0..columns {
            short[groups[column]] += wanted[column] - own[column] as f64;
        }
        let sum: f64 = wanted.iter().sum();
        let mut left = ((sum + 1e-6) as u64).saturating_sub(own.iter().sum());
        let alone = from.iter().filter(|it| it.group == sender.group).count() == 1;
        while left > 0 {
            let open = (0..columns).filter(|it| room[*it] > 0 && wanted[*it] > 0.0);
            let rank = |column: usize| {
                let steps = |value: f64| (value * 1e4) as i64;
                let ports = to.len() as u32;
                let turn = match alone {
                    true => (column as u32 + ports - turn % ports) % ports,
                    false => (to[column].place + ports - sender.place) % ports,
                };
                let lack = wanted[column] - own[column] as f64;
                let server = to[column].group.wrapping_sub(sender.group);
                (-steps(short[groups[column]]), -steps(lack), turn, server)
            };
            let Some(column) = open.min_by_key(|it| rank(*it)) else { break };
            own[column] += 1;
            room[column] -= 1;
            short[groups[column]] -= 1.0;
            left -= 1;
        }
    }
    whole
}

/// Fills columns up: where many senders have less than a unit each, rounding row by row leaves over capacity
/// towards receivers. It is dealt out unit by unit to the sender that is most below its share; which of equals
/// comes first differs from switch to switch (`turn`).
fn fill_columns(whole: &mut [u64], shares: &[f64], from: &[Port], turn: u32) {
    let (rows, columns) = (from.len(), shares.len() / from.len().max(1));
    let sums = |row: usize, whole: &[u64]| -> u64 {
        whole[row * columns..(row + 1) * columns].iter().sum()
    };
    let mut room: Vec<u64> =
        (0..rows).map(|row| from[row].capacity.saturating_sub(sums(row, whole))).collect();
    for column in 0..columns {
        let wanted: f64 = shares.iter().skip(column).step_by(columns).sum();
        let given: u64 = whole.iter().skip(column).step_by(columns).sum();
        for _ in given..(wanted + 1e-6) as u64 {
            let open = (0..rows).filter(|it| room[*it] > 0 && shares[it * columns + column] > 0.0);
            let rank = |row: usize| {
                let at = row * columns + column;
                let lack = ((shares[at] - whole[at] as f64) * 1e4) as i64;
                (-lack, (row as u32 + rows as u32 - turn % rows as u32) % rows as u32)
            };
            let Some(row) = open.min_by_key(|it| rank(*it)) else { break };
            whole[row * columns + column] += 1;
            room[row] -= 1;
        }
    }
}
