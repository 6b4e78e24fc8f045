//! [`choose`]: who goes on together when not all ranks reach each other.

use std::collections::{BTreeMap, BTreeSet};

/// The most steps that the search takes.
const STEPS: usize = 1 << 16;

/// As many ranks as possible of which no two are apart; among as many, those with the lowest numbers.
///
/// Finding the largest such set is hard in general (a maximum independent set), so after [`STEPS`] steps the best so far is
/// taken. Where few pairs are apart the search ends before that; where a network falls into parts, the first guess is right.
pub(super) fn choose(here: &[u32], apart: &BTreeSet<(u32, u32)>) -> Vec<u32> {
    let mut foes = Foes::new();
    for (low, high) in apart.iter().filter(|it| here.contains(&it.0) && here.contains(&it.1)) {
        foes.entry(*low).or_default().insert(*high);
        foes.entry(*high).or_default().insert(*low);
    }
    let contested: Vec<u32> = foes.keys().copied().collect();
    let mut search =
        Search { best: without_the_worst(&foes), foes: &foes, found: false, steps: STEPS };
    search.extend(&contested, &mut Vec::new());
    let best = search.best;
    here.iter().copied().filter(|it| !foes.contains_key(it) || best.contains(it)).collect()
}

/// Who is apart from whom.
type Foes = BTreeMap<u32, BTreeSet<u32>>;

/// A first guess: drops the rank that is apart from the most others, the higher of several, until no two are apart.
fn without_the_worst(foes: &Foes) -> Vec<u32> {
    let mut left = foes.clone();
    while let Some((worst, _)) =
        left.iter().filter(|it| !it.1.is_empty()).max_by_key(|it| (it.1.len(), *it.0))
    {
        let worst = *worst;
        left.remove(&worst);
        left.values_mut().for_each(|it| {
            it.remove(&worst);
        });
    }
    left.into_keys().collect()
}

/// Searches through all choices, those with low numbers first.
struct Search<'a> {
    foes: &'a Foes,
    best: Vec<u32>,
    /// Whether `best` was found by the search. Then a later choice must be larger to be better; against the guess an equal one
    /// wins, because it has lower numbers.
    found: bool,
    steps: usize,
}

impl Search<'_> {
    fn extend(&mut self, rest: &[u32], chosen: &mut Vec<u32>) {
        let most = chosen.len() + rest.len();
        if self.steps == 0 || most < self.best.len() || (self.found && most == self.best.len()) {
            return;
        }
        self.steps -= 1;
        let Some((first, rest)) = rest.split_first() else {
            self.best.clone_from(chosen);
            self.found = true;
            return;
        };
        let foes = self.foes.get(first);
        if !chosen.iter().any(|it| foes.is_some_and(|foes| foes.contains(it))) {
            chosen.push(*first);
            self.extend(rest, chosen);
            chosen.pop();
        }
        self.extend(rest, chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn of_a_network_in_two_parts_the_larger_is_left() {
        let apart: BTreeSet<(u32, u32)> =
            (0..300).flat_map(|low| (300..1024).map(move |high| (low, high))).collect();
        let here: Vec<u32> = (0..1024).collect();
        assert_eq!(choose(&here, &apart), (300..1024).collect::<Vec<_>>());
    }

    proptest! {
        /// Against trying all choices.
        #[test]
        fn as_few_as_possible_are_dropped(pairs in prop::collection::btree_set((0_u32..7, 0_u32..7), 0..12)) {
            let pairs = pairs.into_iter().filter(|it| it.0 != it.1);
            let apart: BTreeSet<(u32, u32)> =
                pairs.map(|it| (it.0.min(it.1), it.0.max(it.1))).collect();
            let here: Vec<u32> = (0..7).collect();
            let fits = |it: &Vec<u32>| !apart.iter().any(|(a, b)| it.contains(a) && it.contains(b));
            let all = (0..1_u32 << 7).map(|set| (0..7).filter(|it| set >> it & 1 == 1).collect());
            let mut all: Vec<Vec<u32>> = all.filter(fits).collect();
            all.sort_by_key(|it| (7 - it.len(), it.clone()));
            prop_assert_eq!(Some(&choose(&here, &apart)), all.first());
        }
    }
}
