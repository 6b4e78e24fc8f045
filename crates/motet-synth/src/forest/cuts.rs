//! [`CutPool`]: the tight node sets met so far, which a new tree must respect.
//!
//! The slack of a set T of ranks is the capacity into T less the weight still due from roots outside T. As
//! long as no set has negative slack, trees for everything that is due exist (Edmonds). A tree of weight w
//! takes w from the slack of T for each arc by which it enters T, except, if its root is outside, for the
//! first. Sets with little slack are minimum cuts of flows that fell short; remembering them lets most wrong
//! arcs be refused without a flow.

/// Most sets that are remembered besides the single ranks; the slackest are forgotten.
const MOST: usize = 192;

/// A set of ranks, with the arcs of the present tree that enter it.
#[derive(Clone, Debug)]
struct Set {
    inside: Vec<u64>,
    slack: u64,
    entered: u32,
}

impl Set {
    fn has(&self, rank: u32) -> bool {
        self.inside[rank as usize / 64] >> (rank % 64) & 1 == 1
    }

    /// How many arcs of the present tree into the set take from its slack.
    fn excess(&self, root: u32) -> u64 {
        u64::from(self.entered).saturating_sub(u64::from(!self.has(root)))
    }
}

#[derive(Clone, Debug)]
pub(super) struct CutPool {
    ranks: usize,
    sets: Vec<Set>,
}

impl CutPool {
    /// Begins with the sets of a single rank, which have these slacks.
    pub(super) fn new(slacks: &[u64]) -> Self {
        let mut pool = Self { ranks: slacks.len(), sets: Vec::new() };
        for (rank, slack) in slacks.iter().enumerate() {
            pool.add(|it| it as usize == rank, *slack);
        }
        pool
    }

    /// Remembers a set, or its new slack if it is known.
    pub(super) fn add(&mut self, inside: impl Fn(u32) -> bool, slack: u64) {
        let mut words = vec![0u64; self.ranks.div_ceil(64)];
        for rank in (0..self.ranks as u32).filter(|it| inside(*it)) {
            words[rank as usize / 64] |= 1 << (rank % 64);
        }
        if let Some(known) = self.sets.iter_mut().find(|it| it.inside == words) {
            known.slack = slack;
            return;
        }
        if self.sets.len() >= self.ranks + MOST {
            let slackest = (self.ranks..self.sets.len()).max_by_key(|it| self.sets[*it].slack);
            if let Some(slackest) = slackest {
                self.sets.swap_remove(slackest);
            }
        }
        self.sets.push(Set { inside: words, slack, entered: 0 });
    }

    /// A new tree begins.
    pub(super) fn begin(&mut self) {
        self.sets.iter_mut().for_each(|it| it.entered = 0);
    }

    /// Whether the present tree out of `root`, with weight `weight`, may also use the arc.
    pub(super) fn allows(&self, root: u32, weight: u64, from: u32, to: u32) -> bool {
        self.sets.iter().all(|set| {
            let enters = set.has(to) && !set.has(from);
            // The first arc into a set without the root is free.
            !enters
                || weight * (set.excess(root) + u64::from(set.entered > 0 || set.has(root)))
                    <= set.slack
        })
    }

    /// Adds an arc to the present tree.
    pub(super) fn enter(&mut self, from: u32, to: u32) {
        for set in &mut self.sets {
            set.entered += u32::from(set.has(to) && !set.has(from));
        }
    }

    /// The present tree is taken out of the net with this weight, which lowers slacks.
    pub(super) fn pay(&mut self, root: u32, weight: u64) {
        for set in &mut self.sets {
            set.slack = set.slack.saturating_sub(weight * set.excess(root));
        }
    }
}
