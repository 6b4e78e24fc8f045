//! Bounds, counting and symmetry make the search short; here it must agree with the search that
//! knows nothing of them, on networks too large to try everything.

use proptest::prelude::*;

use super::super::bounds::slack;
use super::super::encode::Encoding;
use super::super::sat::Verdict;
use super::super::search::next;
use super::super::symmetry::Group;
use super::brute_force::network;
use super::*;

/// Every way to share out the rounds of a point.
fn shares(point: Point) -> Vec<Vec<u32>> {
    if point.rounds < point.steps || point.steps == 0 {
        return Vec::new();
    }
    let mut share = vec![1; point.steps as usize];
    share[point.steps as usize - 1] = point.rounds - point.steps + 1;
    let mut all = vec![share.clone()];
    while next(&mut share, point.rounds) {
        all.push(share.clone());
    }
    all
}

fn is_plainly_possible(exact: &Exact, chunks: u32, rounds: &[u32]) -> bool {
    let trivial = Group::trivial(&exact.board);
    let verdict =
        Encoding::plain(&exact.board, &trivial, chunks, rounds).solve(u64::MAX, Watch::default());
    assert_ne!(verdict, Verdict::Stopped);
    verdict == Verdict::Yes
}

/// Whether a program is found by the plain search.
pub(super) fn plainly_possible(exact: &Exact, point: Point) -> bool {
    shares(point).iter().any(|it| is_plainly_possible(exact, point.chunks, it))
}

/// Compares share by share; how many were impossible though no bound said so.
fn agree(exact: &Exact, point: Point) -> u32 {
    let board = &exact.board;
    let trivial = Group::trivial(board);
    let mut searched = 0;
    for share in shares(point) {
        let plain = is_plainly_possible(exact, point.chunks, &share);
        if slack(board, point.chunks, &share).is_none() {
            assert!(!plain, "{point} {share:?}");
            continue;
        }
        let full =
            Encoding::new(board, &trivial, point.chunks, &share).solve(u64::MAX, Watch::default());
        assert_eq!(full == Verdict::Yes, plain, "{point} {share:?}");
        searched += u32::from(!plain);
    }
    searched
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Each rank is linked alike to those after it, so that there are symmetries to break; or not.
    #[test]
    fn five_and_six_ranks(
        ranks in 5usize..7,
        capacities in prop::collection::vec(0u64..3, 36),
        alike in any::<bool>(),
        chunks in 1u32..3,
        more in 0u32..3,
    ) {
        let capacity = |from: usize, to: usize| match (to + ranks - from) % ranks {
            0 => 0,
            apart if alike => capacities[apart],
            _ => capacities[from * ranks + to].saturating_sub(1),
        };
        let all: Vec<u64> =
            (0..ranks * ranks).map(|it| capacity(it / ranks, it % ranks)).collect();
        let network = network(ranks, &all);
        let task = task(&network, CollectiveKind::AllGather);
        let Ok(exact) = Exact::new(&task, &Fabric::new(&task).unwrap()) else {
            return Ok(());
        };
        let steps = exact.board.least_steps();
        agree(&exact, Point { chunks, steps, rounds: steps + more });
    }
}

#[test]
fn the_proofs_for_a_dgx1() {
    let network = dgx1();
    let (exact, _) = all_gather(&network);
    let mut searched = 0;
    for (chunks, rounds) in [(2, 3), (3, 4), (4, 5), (5, 6)] {
        searched += agree(&exact, Point { chunks, steps: 2, rounds });
    }
    assert!(searched >= 3, "{searched}");
}
