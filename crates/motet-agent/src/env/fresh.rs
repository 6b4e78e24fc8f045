//! What happens in **fresh** families: troubles and weathers by laws that no policy assumes, on networks and sizes of their own.
//!
//! All of this was written down before any policy had been run on any of it, so that no policy can have been made to
//! suit it. docs/agent.md says how often it was looked at since, and what came out. Whoever changes a policy after looking
//! has to write new ones.

use motet_units::Stream;
use rand::RngExt;
use rand::seq::IndexedRandom;

use super::family::Family;
use super::place::{Brief, Place, PlaceError};
use super::scenario::Task;
use super::timeline::{Episode, Pattern, Timeline};
use super::trouble::{FLOWS, Law, Trouble};
use super::weather::{Ranges, congestion};

/// How heavy the tails of bursts are: the exponent of Pareto's law, under which lengths have a mean but no variance.
const TAIL: f64 = 1.3;

/// The troubles of a communicator that has these tasks.
pub(super) fn troubles(
    family: Family,
    place: &Place,
    tasks: &[Task],
    calls: u64,
    dice: &mut Stream,
) -> Result<Vec<Trouble>, PlaceError> {
    let Some(task) = tasks.choose(dice) else { return Ok(Vec::new()) };
    let brief = place.brief(task.kind, task.bytes)?;
    let first = dice.random_range(calls / 5..=calls * 2 / 5);
    let last = dice.random_range(calls * 7 / 10..=calls * 9 / 10);
    let own = brief.nominal.first().copied().unwrap_or(1.0);
    let law = match family {
        // Late by half, all or twice of what one of its calls takes by itself.
        Family::Straggler => {
            let factor = [0.5, 1.0, 2.0].choose(dice).copied().unwrap_or(1.0);
            Law::Late { micros: factor * own, spread: 0.5 }
        }
        // NCCL's own choice for one of the calls takes 1.5 to 4 times as long by its messages.
        Family::Messages => {
            let messages = brief.counts(0).messages.max(1.0);
            Law::Messages { micros: dice.random_range(0.5..=3.0) * own / messages }
        }
        // A quarter of the flows share their path with others.
        Family::Paths => {
            let mut shares = [1.0; FLOWS];
            for it in &mut shares {
                let shared = dice.random_bool(0.25);
                let share = dice.random_range(0.15..=0.6);
                *it = if shared { share } else { 1.0 };
            }
            Law::Paths { shares: Box::new(shares) }
        }
        Family::Protocols => {
            let mut times = [1.0; motet_nccl::Protocol::COUNT];
            let at = dice.random_range(0..times.len());
            times[at] = dice.random_range(1.5..=3.0);
            Law::Protocols { times }
        }
        Family::Creep => {
            let algorithm = best(&brief);
            let times = dice.random_range(1.5..=3.0);
            return Ok(vec![Trouble {
                calls: (first, calls),
                law: Law::Creep { algorithm, times },
            }]);
        }
        _ => return Ok(Vec::new()),
    };
    Ok(vec![Trouble { calls: (first, last), law }])
}

/// The algorithm that the model holds to be the best for a task.
fn best(brief: &Brief) -> motet_nccl::Algorithm {
    let at = crate::policy::fixed::least(&brief.nominal);
    brief.kernels.get(at).map_or(motet_nccl::Algorithm::Ring, |it| it.0)
}

/// Congestion that comes and goes, with lengths of bursts and of pauses from heavy-tailed laws and each burst of another
/// strength: most bursts last a few calls, some for hundreds.
pub(super) fn bursts(ranges: &Ranges, inside: bool, calls: u64, dice: &mut Stream) -> Timeline {
    let mut episodes = Vec::new();
    let mut at = calls / 10;
    while at < calls {
        let first = at.saturating_add(pareto(12.0, dice));
        let end = first.saturating_add(pareto(4.0, dice)).min(calls);
        if first >= calls {
            break;
        }
        let load = congestion(ranges, inside, dice);
        episodes.push(Episode { calls: (first, end), pattern: Pattern::Abrupt, load });
        at = end;
    }
    Timeline { episodes }
}

/// A number of calls by Pareto's law, at least so many.
fn pareto(least: f64, dice: &mut Stream) -> u64 {
    let u: f64 = dice.random();
    (least * libm::pow(1.0 - u, -1.0 / TAIL)).min(1e6) as u64
}

/// The order of calls where sizes are mixed: few tasks have most of the calls (Zipf's law), and in the second half of
/// the scenario the other half of the tasks takes over.
pub(super) fn mixed(tasks: usize, calls: u64, dice: &mut Stream) -> Vec<usize> {
    let half = (tasks / 2).max(1);
    let zipf: Vec<f64> = (1..=half).map(|it| 1.0 / it as f64).collect();
    let sum: f64 = zipf.iter().sum();
    let draw = |dice: &mut Stream| {
        let mut left = dice.random::<f64>() * sum;
        let found = zipf.iter().position(|it| {
            left -= it;
            left < 0.0
        });
        found.unwrap_or(half - 1)
    };
    (0..calls)
        .map(|call| {
            let other = if 2 * call < calls { 0 } else { tasks - half };
            other + draw(dice)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use motet_units::Seed;

    use super::super::atlas::{Atlas, Split};
    use super::*;

    #[test]
    fn each_fresh_family_has_its_own_law() {
        let atlas = Atlas::default();
        for family in Family::of(Split::Fresh) {
            for seed in 0..3 {
                let drawn = family.draw(&atlas, Seed::new(seed), 1000).unwrap();
                let again = family.draw(&atlas, Seed::new(seed), 1000).unwrap();
                let group = &drawn.groups[0];
                assert_eq!(group.troubles, again.groups[0].troubles);
                let calm = group.timeline.episodes.is_empty();
                match family {
                    Family::Bursts => assert!(!calm && group.troubles.is_empty()),
                    Family::Sizes => assert!(calm && group.troubles.is_empty()),
                    _ => assert!(calm && group.troubles.len() == 1),
                }
                let law = group.troubles.first().map(|it| &it.law);
                assert!(match family {
                    Family::Straggler => matches!(law, Some(Law::Late { .. })),
                    Family::Messages => matches!(law, Some(Law::Messages { .. })),
                    Family::Paths => matches!(law, Some(Law::Paths { .. })),
                    Family::Protocols => matches!(law, Some(Law::Protocols { .. })),
                    Family::Creep => matches!(law, Some(Law::Creep { .. })),
                    _ => law.is_none(),
                });
            }
        }
    }

    #[test]
    fn bursts_have_heavy_tails() {
        let mut dice = Seed::new(3).stream("bursts");
        let drawn = bursts(&Ranges::of(Split::Fresh), false, 100_000, &mut dice);
        let mut lengths: Vec<u64> =
            drawn.episodes.iter().map(|it| it.calls.1 - it.calls.0).collect();
        lengths.sort_unstable();
        let (middle, most) = (lengths[lengths.len() / 2], lengths[lengths.len() - 1]);
        assert!((4..=10).contains(&middle) && most > 50 * middle, "{middle} {most}");
        let pairs = drawn.episodes.windows(2);
        assert!(pairs.into_iter().all(|it| it[0].calls.1 < it[1].calls.0));
    }

    #[test]
    fn mixes_of_sizes_have_rare_calls_and_two_halves() {
        let mut dice = Seed::new(3).stream("mix");
        let order = mixed(14, 2000, &mut dice);
        let (a, b) = order.split_at(1000);
        let of = |it: &[usize]| it.iter().copied().collect::<BTreeSet<_>>();
        assert_eq!((of(a), of(b)), ((0..7).collect(), (7..14).collect()));
        let count = |task: usize| a.iter().filter(|it| **it == task).count();
        assert!(count(0) > 5 * count(6) && count(6) > 0);
    }
}
