//! [`DisjointSets`]: what hangs together, by joining one pair after another (union–find).

/// Numbers `0..count` in sets that can be joined. The root of a set is its least member whatever
/// the order of joins, so that results which name a set by its root never depend on that order.
#[derive(Clone, Debug)]
pub struct DisjointSets {
    /// A member of the same set nearer to the root; of the root, itself.
    parent: Vec<u32>,
}

impl DisjointSets {
    /// Every number a set of its own. Fewer than 2³² of them.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self { parent: (0..count as u32).collect() }
    }

    /// The least member of the set that `member` is in.
    pub fn root(&mut self, member: usize) -> usize {
        let mut at = member as u32;
        while self.parent[at as usize] != at {
            // Halving the way to the root as we go keeps later searches short.
            self.parent[at as usize] = self.parent[self.parent[at as usize] as usize];
            at = self.parent[at as usize];
        }
        at as usize
    }

    /// Makes one set of two. Returns the two roots there were, the one that stays and the one that
    /// is a root no more, or `None` if they were one set already.
    pub fn join(&mut self, a: usize, b: usize) -> Option<(usize, usize)> {
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b) as u32;
        (a != b).then_some((a.min(b), a.max(b)))
    }

    /// The sets numbered from 0 in the order of their least members: the number of each member's
    /// set, and how many sets there are.
    #[must_use]
    pub fn numbered(mut self) -> (Vec<u32>, usize) {
        let mut number = vec![0u32; self.parent.len()];
        let mut count = 0;
        for member in 0..number.len() {
            let root = self.root(member);
            // A root is its set's least member, so that it is numbered before all others.
            number[member] = if root == member { count } else { number[root] };
            count += u32::from(root == member);
        }
        (number, count as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against labels that are repainted at every join.
        #[test]
        fn agrees_with_repainting(pairs in prop::collection::vec((0usize..12, 0usize..12), 0..20)) {
            let mut sets = DisjointSets::new(12);
            let mut label: Vec<usize> = (0..12).collect();
            for (a, b) in pairs {
                let (old, new) = (label[a].max(label[b]), label[a].min(label[b]));
                prop_assert_eq!(sets.join(a, b), (old != new).then_some((new, old)));
                label.iter_mut().filter(|it| **it == old).for_each(|it| *it = new);
            }
            for (member, label) in label.iter().enumerate() {
                prop_assert_eq!(sets.root(member), *label);
            }
            let mut roots = label.clone();
            roots.sort_unstable();
            roots.dedup();
            let (number, count) = sets.numbered();
            prop_assert_eq!(count, roots.len());
            for (member, number) in number.into_iter().enumerate() {
                prop_assert_eq!(roots[number as usize], label[member]);
            }
        }
    }
}
