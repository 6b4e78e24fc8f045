//! [`candidates`]: selects the few actions of a task that can be worth trying, by the cost model.
//!
//! Trying an action costs time, so most are never tried. Of actions that result in the same call only one is kept; of each
//! algorithm and protocol, the best number of channels and, where it costs little, one with few channels (which a neighbour on
//! the GPU slows least). Actions that are several times slower than the best by the model are dropped.

use motet_nccl::{Algorithm, Protocol};

use crate::env::{Brief, Load, Observation, Where};

/// Candidates take at most so many times as long as the best by the model. Congestion and model error can reverse a difference of a
/// factor of two; four leaves a margin.
const WORST: f64 = 4.0;
/// A variant with few channels is kept if it takes at most so many times as long.
const THRIFTY: f64 = 1.3;

/// The candidates; the first is NCCL's default, the others follow in order of modelled time.
#[must_use]
pub fn candidates(brief: &Brief) -> Vec<usize> {
    let nominal = &brief.nominal;
    let best = nominal.iter().copied().fold(f64::INFINITY, f64::min);
    let mut order: Vec<usize> = (1..nominal.len()).collect();
    order.sort_by(|a, b| nominal[*a].total_cmp(&nominal[*b]).then(a.cmp(b)));
    let same = |a: usize, b: usize| {
        brief.kernels[a] == brief.kernels[b] && brief.channels[a] == brief.channels[b]
    };
    let mut kept: Vec<usize> = vec![0];
    for action in order {
        if nominal[action] > WORST * best || kept.iter().any(|it| same(*it, action)) {
            continue;
        }
        let mut alike = kept.iter().filter(|it| brief.kernels[**it] == brief.kernels[action]);
        let keep = match alike.next() {
            None => true,
            // The default has its channels from NCCL, not from the model: it does not stand for the best.
            Some(0) if alike.next().is_none() => nominal[action] < nominal[0],
            Some(first) => {
                let thrifty = brief.channels[action] * 4 <= brief.channels[*first];
                let few = kept.iter().any(|it| {
                    brief.kernels[*it] == brief.kernels[action]
                        && brief.channels[*it] * 4 <= brief.channels[*first]
                });
                thrifty && !few && nominal[action] <= THRIFTY * nominal[*first]
            }
        };
        if keep {
            kept.push(action);
        }
    }
    kept
}

/// A coarse set of possible loads: reduced bandwidth, delay and both, each weak and strong, and neighbours.
fn loads(at: Where) -> impl Iterator<Item = Load> {
    let sides = [(1.0, 1.0), (0.4, 1.0), (0.12, 1.0), (1.0, 4.0), (1.0, 14.0), (0.3, 6.0)];
    let congested = sides.map(|(share, delay)| Load { at, share, delay, ..Load::NONE });
    let neighbours = [0.5, 1.5].map(|neighbour| Load { neighbour, ..Load::NONE });
    congested.into_iter().chain(neighbours)
}

/// The candidates, and in addition the actions that are the best by the model under some load, and the near-best of each algorithm
/// and protocol.
#[must_use]
pub fn candidates_under_load(seen: &Observation) -> Vec<usize> {
    const NEAR: f64 = 1.25;
    let brief = &seen.brief;
    let inside = seen.state.topology.worst_tier().is_some_and(|it| it.get() <= 1);
    let mut kept = candidates(brief);
    let mut times = Vec::new();
    let as_modelled = [[1.0; Protocol::COUNT]; Algorithm::COUNT];
    for load in loads(if inside { Where::Inside } else { Where::Between }) {
        brief.times(&seen.terms, &load, &as_modelled, &mut times);
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let mut order: Vec<usize> =
            (1..times.len()).filter(|it| times[*it] <= NEAR * best).collect();
        order.sort_by(|a, b| times[*a].total_cmp(&times[*b]).then(a.cmp(b)));
        let mut had: Vec<(Algorithm, Protocol)> = Vec::new();
        for action in order {
            if had.contains(&brief.kernels[action]) {
                continue;
            }
            had.push(brief.kernels[action]);
            let same = |it: &usize| {
                (brief.kernels[*it], brief.channels[*it])
                    == (brief.kernels[action], brief.channels[action])
            };
            if !kept.iter().any(same) {
                kept.push(action);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_units::Bytes;

    use super::*;
    use crate::env::testing::sockets;

    #[test]
    fn candidates_are_few_unlike_and_not_hopeless() {
        let place = sockets();
        for size in [Bytes::kib(4), Bytes::kib(256), Bytes::mib(16)] {
            let brief = place.brief(CollectiveKind::AllReduce, size).unwrap();
            let found = candidates(&brief);
            assert_eq!(found[0], 0);
            assert!(
                found.len() < brief.nominal.len() / 2,
                "{} of {}",
                found.len(),
                brief.nominal.len()
            );
            let best = brief.nominal.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(found[1..].iter().all(|it| brief.nominal[*it] <= WORST * best));
            // The model's best is among them, or NCCL's default comes to the same.
            assert!(found.iter().any(|it| brief.nominal[*it] == best), "{size}");
            for (at, a) in found.iter().enumerate() {
                let same = |b: &&usize| {
                    brief.kernels[**b] == brief.kernels[*a]
                        && brief.channels[**b] == brief.channels[*a]
                };
                assert_eq!(found[at + 1..].iter().find(same), None);
            }
        }
    }
}
