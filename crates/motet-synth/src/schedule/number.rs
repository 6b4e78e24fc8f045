//! How jobs are numbered where they overtake each other.
//!
//! Links carry jobs by number. Data from afar are sent long before they come to the last links of
//! their way, and what is sent later from nearby passes those links first. So numbers cannot go
//! by when jobs start: they must go, for every link, by when it carries them.

use motet_graph::Followers;

/// A numbering, and whether every link carries jobs in the order of `before`.
pub(super) struct Numbered {
    pub(super) order: Vec<u32>,
    pub(super) is_exact: bool,
}

/// The jobs of `started`, which are in the order of their starts, each after all that must come
/// `before` it (pairs of a job and one before it); otherwise in the order of their starts. Two
/// jobs that pass each other on the way between two links cannot be numbered for both; then the
/// one that started first goes first.
pub(super) fn number(started: &[u32], before: &[(u32, u32)]) -> Numbered {
    let count = started.len();
    let mut position = vec![0u32; count];
    for (at, job) in (0u32..).zip(started) {
        position[*job as usize] = at;
    }
    let followers = Followers::of(count, before.iter().copied());
    let (mut is_exact, mut first) = (true, 0);
    let order = followers.topological_by(
        |job| position[job as usize],
        |at| started[at as usize],
        |is_numbered| {
            is_exact = false;
            while is_numbered(*started.get(first)?) {
                first += 1;
            }
            started.get(first).copied()
        },
    );
    Numbered { order, is_exact }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn what_crosses_first_is_numbered_first() {
        let numbered = number(&[0, 1, 2, 3], &[(0, 2), (2, 1)]);
        assert_eq!(numbered.order, [1, 2, 0, 3]);
        assert!(numbered.is_exact);
    }

    #[test]
    fn of_jobs_that_overtake_each_other_the_first_started_goes_first() {
        let numbered = number(&[2, 1, 0, 3], &[(1, 2), (2, 1), (0, 1), (3, 0)]);
        assert_eq!(numbered.order, [2, 1, 0, 3]);
        assert!(!numbered.is_exact);
    }
}
