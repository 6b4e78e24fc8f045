//! The double binary tree that NCCL spans over servers: two trees in which every server is a leaf
//! of one and inner of the other (Sanders, Speck and Träff, 2009).
//!
//! The first tree alternates leaves and inner nodes, so that parents and children follow from the
//! lowest set bit of a server's number. The second is the first one mirrored (an even number of
//! servers) or shifted by one (odd).

/// The neighbours of a server in one tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Neighbours {
    pub(super) parent: Option<usize>,
    pub(super) children: [Option<usize>; 2],
    /// The index of this server among the children of its parent: 0 or 1.
    pub(super) side: usize,
}

impl Neighbours {
    fn map(self, name: impl Fn(usize) -> usize) -> Self {
        let [first, second] = self.children;
        let children = [first.map(&name), second.map(&name)];
        Self { parent: self.parent.map(name), children, side: self.side }
    }
}

fn first_tree(servers: usize, server: usize) -> Neighbours {
    if server == 0 {
        // The root has one child: the highest power of two below the number of servers.
        let top = (servers > 1).then(|| servers.next_power_of_two() >> 1);
        return Neighbours { parent: None, children: [None, top], side: 0 };
    }
    let bit = server & server.wrapping_neg();
    let usual = (server ^ bit) | (bit << 1);
    let parent = if usual < servers { usual } else { server ^ bit };
    let half = bit >> 1;
    let children = if half == 0 {
        [None, None]
    } else {
        // The second child may lie beyond the last server; then the next lower one takes its place.
        let below = std::iter::successors(Some(half), |it| Some(it >> 1)).take_while(|it| *it > 0);
        let second = below.map(|it| server + it).find(|it| *it < servers);
        [Some(server - half), second]
    };
    Neighbours { parent: Some(parent), children, side: usize::from(server > parent) }
}

/// The neighbours of `server` in both trees over `servers` of them.
pub(super) fn both(servers: usize, server: usize) -> [Neighbours; 2] {
    let second = if servers % 2 == 1 {
        first_tree(servers, (server + servers - 1) % servers).map(|it| (it + 1) % servers)
    } else {
        first_tree(servers, servers - 1 - server).map(|it| servers - 1 - it)
    };
    [first_tree(servers, server), second]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_fourteen_of_nccls_picture() {
        let parents: Vec<Option<usize>> = (0..14).map(|it| first_tree(14, it).parent).collect();
        let expected = [
            None,
            Some(2),
            Some(4),
            Some(2),
            Some(8),
            Some(6),
            Some(4),
            Some(6),
            Some(0),
            Some(10),
            Some(12),
            Some(10),
            Some(8),
            Some(12),
        ];
        assert_eq!(parents, expected);
    }

    proptest! {
        /// Parents and children agree, all hang together, and nobody is inner in both trees.
        #[test]
        fn are_trees(servers in 1usize..300) {
            for tree in 0..2 {
                let all: Vec<Neighbours> =
                    (0..servers).map(|it| both(servers, it)[tree]).collect();
                prop_assert_eq!(all.iter().filter(|it| it.parent.is_none()).count(), 1);
                for (server, it) in all.iter().enumerate() {
                    for child in it.children.into_iter().flatten() {
                        prop_assert_eq!(all[child].parent, Some(server));
                    }
                    if let Some(parent) = it.parent {
                        prop_assert_eq!(all[parent].children[it.side], Some(server));
                    }
                    // Up from anywhere is the root within log2 + 1 steps.
                    let mut at = server;
                    let mut steps = 0;
                    while let Some(parent) = all[at].parent {
                        at = parent;
                        steps += 1;
                        prop_assert!(steps <= 10);
                    }
                }
            }
            let inner = |it: &Neighbours| it.children.iter().flatten().count() == 2;
            for server in 0..servers {
                let [a, b] = both(servers, server);
                prop_assert!(!(inner(&a) && inner(&b)));
            }
        }
    }
}
