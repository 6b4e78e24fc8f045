//! [`Spreader`]: trees that follow the nesting of groups (servers, racks, datacenters).
//!
//! Data enters a group at one rank and spreads from there: inside the smallest groups along
//! shortest paths (a star, where they share a switch), between groups in some [`Shape`]. It crosses
//! from one group to another through a *gate*, a pair of ranks that are closest to each other. If
//! the rank where the data entered is part of such a pair, it sends itself and to its counterpart,
//! so that each rank of a server uses its own rail.

use motet_units::Rank;
use rustc_hash::FxHashMap;

use super::levels::Group;
use super::plan::ClassicStep;
use super::routes::{Choice, NO_WAY, Routes};

/// How data goes from group to group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// From the first directly to all others (through others where there is no direct path).
    Star,
    /// From each to the next.
    Chain,
    /// In both directions from the first.
    Chains,
    /// From each to two more.
    Binary,
}

/// Pairs up to this much costlier than the cheapest are gates too, in percent.
const DEARER: u64 = 5;

/// The cost of the cheapest gate between two groups, and all gates that cost about as much.
type Gates = (u64, Vec<(Rank, Rank)>);

/// Makes trees over nested groups, and counts how often each gate was used.
pub(super) struct Spreader<'r, 'f> {
    routes: &'r mut Routes<'f>,
    shape: Shape,
    /// The gates between two groups, by their numbers.
    gates: FxHashMap<(usize, usize), Gates>,
    used: FxHashMap<(Rank, Rank), u32>,
}

impl<'r, 'f> Spreader<'r, 'f> {
    pub(super) fn new(routes: &'r mut Routes<'f>, shape: Shape) -> Self {
        Self { routes, shape, gates: FxHashMap::default(), used: FxHashMap::default() }
    }

    /// The tree from `source` to all ranks of `group`, parents first.
    pub(super) fn tree(&mut self, group: &Group, source: Rank) -> Vec<ClassicStep> {
        let mut steps = Vec::with_capacity(group.members.len());
        self.spread(group, source, &mut steps);
        steps
    }

    fn spread(&mut self, group: &Group, source: Rank, steps: &mut Vec<ClassicStep>) {
        if group.parts.is_empty() {
            return self.inside(&group.members, source, steps);
        }
        let holds = |it: &Group| it.members.binary_search(&source).is_ok();
        let Some(first) = group.parts.iter().position(holds) else { return };
        self.spread(&group.parts[first], source, steps);
        let count = group.parts.len();
        let mut entry = vec![source; count];
        for (from, to) in self.between(group, first) {
            let (exit, at) = self.gate(&group.parts[from], &group.parts[to], entry[from]);
            steps.push(ClassicStep { from: exit, to: at, choice: Choice::Balanced });
            entry[to] = at;
            self.spread(&group.parts[to], at, steps);
        }
    }

    /// Which part sends to which, beginning with part `first`.
    fn between(&mut self, group: &Group, first: usize) -> Vec<(usize, usize)> {
        let count = group.parts.len();
        let at = |it: usize| (first + it) % count;
        match self.shape {
            Shape::Star => self.shortest(group, first),
            Shape::Chain => (1..count).map(|it| (at(it - 1), at(it))).collect(),
            Shape::Binary => (1..count).map(|it| (at((it - 1) / 2), at(it))).collect(),
            Shape::Chains => {
                let back = |it: usize| at(count - it);
                let mut pairs = Vec::with_capacity(count);
                for it in 1..=count / 2 {
                    pairs.push((at(it - 1), at(it)));
                    // With an even count the last one is reached from the front only.
                    if 2 * it != count {
                        pairs.push((back(it - 1), back(it)));
                    }
                }
                pairs
            }
        }
    }

    /// Shortest paths over parts.
    fn shortest(&mut self, group: &Group, first: usize) -> Vec<(usize, usize)> {
        let count = group.parts.len();
        let (mut cost, mut via) = (vec![NO_WAY; count], vec![first; count]);
        let mut done = vec![false; count];
        let mut order = Vec::with_capacity(count);
        cost[first] = 0;
        for _ in 0..count {
            // Ties go to the part after the first, so that not all trees begin with the same part.
            let rotated = (0..count).map(|it| (first + it) % count);
            let Some(next) = rotated.filter(|it| !done[*it]).min_by_key(|it| cost[*it]) else {
                break;
            };
            done[next] = true;
            if next != first {
                order.push((via[next], next));
            }
            for to in (0..count).filter(|it| !done[*it]) {
                let more = self.gate_cost(&group.parts[next], &group.parts[to]);
                let through = cost[next].saturating_add(more);
                if through < cost[to] {
                    (cost[to], via[to]) = (through, next);
                }
            }
            // If the first part reaches all others directly, no relay can be faster.
            if next == first && (0..count).all(|it| cost[it] < NO_WAY) {
                let all: Vec<usize> = (1..count).map(|it| (first + it) % count).collect();
                let least = all.iter().map(|it| cost[*it]).min().unwrap_or(0);
                if all.iter().all(|it| cost[*it] <= 2 * least) {
                    return all.into_iter().map(|it| (first, it)).collect();
                }
            }
        }
        order
    }

    fn gate_cost(&mut self, from: &Group, to: &Group) -> u64 {
        self.find_gates(from, to);
        self.gates.get(&(from.id, to.id)).map_or(NO_WAY, |it| it.0)
    }

    fn find_gates(&mut self, from: &Group, to: &Group) {
        if self.gates.contains_key(&(from.id, to.id)) {
            return;
        }
        let mut least = NO_WAY;
        for exit in &from.members {
            let row = self.routes.row(*exit);
            least = to.members.iter().map(|it| row[it.index()]).fold(least, u64::min);
        }
        let mut pairs = Vec::new();
        if least < NO_WAY {
            let most = least.saturating_add(least / 100 * DEARER);
            for exit in &from.members {
                let row = self.routes.row(*exit);
                let near = to.members.iter().filter(|it| row[it.index()] <= most);
                pairs.extend(near.map(|it| (*exit, *it)));
            }
        }
        self.gates.insert((from.id, to.id), (least, pairs));
    }

    /// The pair of ranks through which data goes that entered `from` at `entry`.
    fn gate(&mut self, from: &Group, to: &Group, entry: Rank) -> (Rank, Rank) {
        self.find_gates(from, to);
        let like = from.members.binary_search(&entry).unwrap_or(0) % to.members.len();
        let like = to.members[like];
        let used = &self.used;
        let gates = self.gates.get(&(from.id, to.id)).map_or(&[][..], |it| &it.1);
        let usage = |it: &(Rank, Rank)| used.get(it).copied().unwrap_or(0);
        let first = gates.partition_point(|it| it.0 < entry);
        let own = gates[first..].iter().take_while(|it| it.0 == entry);
        let chosen = if gates[first..].first().is_some_and(|it| it.0 == entry) {
            own.copied().min_by_key(|it| (it.1 != like, usage(it)))
        } else {
            gates.iter().copied().min_by_key(|it| (usage(it), it.1 != like))
        };
        // Without a gate the path leads through ranks of other groups.
        let chosen = chosen.unwrap_or((entry, like));
        *self.used.entry(chosen).or_insert(0) += 1;
        chosen
    }

    /// Shortest paths inside a group of the lowest level, through no other GPU.
    fn inside(&mut self, members: &[Rank], source: Rank, steps: &mut Vec<ClassicStep>) {
        let count = members.len();
        let start = members.binary_search(&source).unwrap_or(0);
        let (mut cost, mut via) = (vec![NO_WAY; count], vec![start; count]);
        let mut done = vec![false; count];
        cost[start] = 0;
        for _ in 0..count {
            let rotated = (0..count).map(|it| (start + it) % count);
            let Some(next) = rotated.filter(|it| !done[*it]).min_by_key(|it| cost[*it]) else {
                break;
            };
            done[next] = true;
            if next != start {
                let pair = (members[via[next]], members[next]);
                *self.used.entry(pair).or_insert(0) += 1;
                steps.push(ClassicStep::cheapest(pair.0, pair.1));
            }
            let row = self.routes.row(members[next]);
            for to in (0..count).filter(|it| !done[*it]) {
                let through = cost[next].saturating_add(row[members[to].index()]);
                let closer = through < cost[to]
                    || (through == cost[to] && through < NO_WAY && {
                        let usage = |via: usize| {
                            self.used.get(&(members[via], members[to])).copied().unwrap_or(0)
                        };
                        usage(next) < usage(via[to])
                    });
                if closer {
                    (cost[to], via[to]) = (through, next);
                }
            }
        }
    }
}

/// The same tree with another of its ranks as root: the edges between the two are reversed.
pub(super) fn rerooted(steps: &[ClassicStep], root: Rank, ranks: usize) -> Vec<ClassicStep> {
    let mut into: Vec<Option<ClassicStep>> = vec![None; ranks];
    for step in steps {
        into[step.to.index()] = Some(*step);
    }
    let mut at = root;
    let mut turned: Option<ClassicStep> = None;
    while let Some(step) = std::mem::replace(&mut into[at.index()], turned) {
        turned = Some(ClassicStep { from: at, to: step.from, choice: step.choice });
        at = step.from;
    }
    let mut children: Vec<Vec<ClassicStep>> = vec![Vec::new(); ranks];
    for step in into.into_iter().flatten() {
        children[step.from.index()].push(step);
    }
    let mut order: Vec<ClassicStep> = Vec::with_capacity(steps.len());
    order.append(&mut children[root.index()]);
    let mut next = 0;
    while let Some(step) = order.get(next).copied() {
        order.append(&mut children[step.to.index()]);
        next += 1;
    }
    order
}
