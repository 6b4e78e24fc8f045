//! How jobs are numbered where jobs overtake each other but links may have no turns of their own.
//!
//! Every link then carries jobs by number. A job from afar starts long before it reaches the last links of
//! its path, and jobs that start later nearby cross those links first. So numbers cannot simply follow the
//! order of starts: on every link they must follow the order in which that link carries the jobs.

use motet_graph::Followers;

/// A numbering of jobs.
pub(super) struct Numbered {
    pub(super) order: Vec<u32>,
    /// Whether it keeps all of `before`, so that every link carries jobs as it was scheduled to.
    pub(super) is_exact: bool,
}

/// Numbers the jobs of `started`, which lists them in the order of their starts. A pair (job, other) of
/// `before` says that the other must be numbered first; as far as these pairs leave a choice, jobs keep the
/// order of their starts. Two jobs that cross two links in different orders cannot be numbered to suit both
/// links; then the one that started first goes first.
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
