//! [`Placement`]: which ranks share a scale-up domain, which a rail, and how far a group reaches.
//!
//! Ranks fill scale-up domains one after the other, and the n-th rank of every domain is on rail n, as in
//! Opus' Fig. 1. A group lies inside a domain, or on one rail, or spans both; then it communicates in two
//! levels, over rails between domains and over scale-up inside them. Members on different rails reach each
//! other through a neighbour in their own domain that is on the other's rail (NCCL's PXN).

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use crate::layout::{Group, Layout};

/// How ranks are placed on scale-up domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// GPUs per scale-up domain, which is also the number of rails; at least 1.
    pub domain: u32,
}

/// How far a group reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reach {
    /// Scale-up domains in which it has members.
    pub domains: u32,
    /// The most members that it has in one of them.
    pub inside: u32,
    /// Whether its members are on the same rails in all of them; otherwise traffic is forwarded
    /// through scale-up to the right rail.
    pub aligned: bool,
}

impl Reach {
    /// Whether it leaves the scale-up domain.
    #[must_use]
    pub const fn on_rail(self) -> bool {
        self.domains > 1
    }
}

impl Placement {
    /// The domain size, at least 1.
    const fn size(self) -> u32 {
        if self.domain == 0 { 1 } else { self.domain }
    }

    #[must_use]
    pub const fn server(self, rank: Rank) -> u32 {
        rank.0 / self.size()
    }

    #[must_use]
    pub const fn rail(self, rank: Rank) -> u32 {
        rank.0 % self.size()
    }

    /// How far one group reaches.
    #[must_use]
    pub fn reach(self, members: &[Rank]) -> Reach {
        let mut rails: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for it in members {
            rails.entry(self.server(*it)).or_default().push(self.rail(*it));
        }
        rails.values_mut().for_each(|it| it.sort_unstable());
        let inside = rails.values().map(Vec::len).max().unwrap_or(0);
        let distinct: BTreeSet<&Vec<u32>> = rails.values().collect();
        Reach {
            domains: u32::try_from(rails.len()).unwrap_or(u32::MAX),
            inside: u32::try_from(inside).unwrap_or(u32::MAX),
            aligned: distinct.len() <= 1,
        }
    }

    /// How far the groups of one kind on a stage reach: one value if stages fill whole domains, several if groups are placed
    /// differently.
    #[must_use]
    pub fn reaches(self, layout: &Layout, group: Group, stage: u32) -> Vec<Reach> {
        let count = u32::try_from(layout.ranks()).unwrap_or(u32::MAX) / layout.pp;
        let first = stage * count;
        let mut seen = vec![false; count as usize];
        let mut found = BTreeSet::new();
        for at in 0..count {
            if seen[at as usize] {
                continue;
            }
            let members = layout.members(group, Rank(first + at));
            for it in &members {
                if let Some(seen) = it.0.checked_sub(first).and_then(|it| seen.get_mut(it as usize))
                {
                    *seen = true;
                }
            }
            found.insert(self.reach(&members));
        }
        found.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reaches(domain: u32, layout: &Layout, group: Group, stage: u32) -> Vec<(u32, u32, bool)> {
        let all = Placement { domain }.reaches(layout, group, stage);
        all.into_iter().map(|it| (it.domains, it.inside, it.aligned)).collect()
    }

    #[test]
    fn opus_job_has_tensor_parallelism_inside_and_the_rest_on_rails() {
        let layout = Layout { tp: 4, dp: 2, pp: 2, ..Layout::default() };
        assert_eq!(reaches(4, &layout, Group::Tensor, 1), [(1, 4, true)]);
        assert_eq!(reaches(4, &layout, Group::Data, 0), [(2, 1, true)]);
        assert_eq!(reaches(4, &layout, Group::Hop { to: 1 }, 0), [(2, 1, true)]);
        assert_eq!(reaches(4, &layout, Group::Pipeline, 0), [(2, 1, true)]);
    }

    /// Eight GPUs a server, two replicas in each: DP in two levels, and the same pair of rails in all.
    #[test]
    fn groups_across_have_two_levels() {
        let layout = Layout { tp: 4, dp: 8, pp: 2, ..Layout::default() };
        assert_eq!(reaches(8, &layout, Group::Data, 1), [(4, 2, true)]);
        // Four ranks a stage, so that stages 1 and 2 are on different servers and rails.
        let layout = Layout { tp: 2, dp: 2, pp: 4, ..Layout::default() };
        assert_eq!(reaches(8, &layout, Group::Hop { to: 1 }, 0), [(1, 2, true)]);
        assert_eq!(reaches(8, &layout, Group::Hop { to: 2 }, 1), [(2, 1, false)]);
        // Three ranks a group on servers of four: some groups are whole, some are not.
        let layout = Layout { tp: 3, dp: 4, ..Layout::default() };
        assert_eq!(reaches(4, &layout, Group::Tensor, 0), [(1, 3, true), (2, 2, false)]);
    }
}
