//! [`Trouble`]: what slows a communicator's calls by another [`Law`] than [`Load`](super::Load)'s hops, bytes and
//! thread blocks.
//!
//! Policies that infer load assume that load acts by what a call was counted to do. A machine need not: a rank may come late, a
//! switch may count packets, flows may share links by chance, the caches may suit one protocol only. Fresh families
//! ([`fresh`](super::fresh)) have such troubles, to see what a policy is worth when its assumption is wrong.

use motet_nccl::{Algorithm, NcclTerms, Protocol};
use motet_units::Seed;

use super::environment::log_normal;
use super::place::Brief;

/// The most channels that flows are told apart by.
pub const FLOWS: usize = 32;

/// How a trouble slows a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Law {
    /// A straggler: one rank is late and all wait for it, whatever the call does. The delay averages `micros` µs and is drawn anew for each
    /// call, log-normal with this standard deviation of the logarithm.
    Late { micros: f64, spread: f64 },
    /// A fixed delay of so many µs for every message of the busiest proxy, whatever its size.
    Messages { micros: f64 },
    /// Every channel's flow was hashed onto a path of its own, which has this share of its bandwidth left. The data of a call
    /// takes as long as that of its slowest channel.
    Paths { shares: Box<[f64; FLOWS]> },
    /// Calls with a protocol take so many times as long.
    Protocols { times: [f64; Protocol::COUNT] },
    /// Calls by an algorithm take longer and longer, up to so many times as long at the end.
    Creep { algorithm: Algorithm, times: f64 },
}

/// A slowdown that acts on a communicator for some calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    /// Its first call, and the first call after its end.
    pub calls: (u64, u64),
    pub law: Law,
}

impl Trouble {
    /// The calls before which it changes times abruptly.
    pub(super) fn changes(&self) -> Vec<u64> {
        match self.law {
            Law::Creep { .. } => Vec::new(),
            _ => vec![self.calls.0, self.calls.1],
        }
    }

    /// Prolongs the time of each action in a call. `seed` is the communicator's.
    pub(super) fn act(
        &self,
        call: u64,
        seed: Seed,
        brief: &Brief,
        terms: &NcclTerms,
        means: &mut [f64],
    ) {
        let (first, end) = self.calls;
        if !(first..end).contains(&call) {
            return;
        }
        let along = (call - first + 1) as f64 / (end - first) as f64;
        // The same for all actions of the call, so that it is drawn once.
        let late = match self.law {
            Law::Late { micros, spread } => {
                micros * log_normal(&mut seed.named("late").numbered(call).stream("wait"), spread)
            }
            _ => 0.0,
        };
        for (at, mean) in means.iter_mut().enumerate() {
            let (algorithm, protocol) = brief.kernels[at];
            let counts = brief.counts(at);
            match &self.law {
                Law::Late { .. } => *mean += late,
                Law::Messages { micros } => *mean += micros * counts.messages,
                Law::Paths { shares } => {
                    let used = (counts.channels as usize).clamp(1, FLOWS);
                    let least = shares[..used].iter().copied().fold(1.0, f64::min);
                    *mean *= 1.0 + data(terms, counts) * (1.0 / least.max(1e-3) - 1.0);
                }
                Law::Protocols { times } => *mean *= times[protocol.index()],
                Law::Creep { algorithm: one, times } if *one == algorithm => {
                    *mean *= libm::pow(*times, along);
                }
                Law::Creep { .. } => {}
            }
        }
    }
}

/// The share of a call's time that its data takes, by the terms.
fn data(terms: &NcclTerms, counts: &motet_nccl::fitted::Counts) -> f64 {
    let mut empty = *counts;
    (empty.bytes_inside, empty.bytes_between, empty.bytes_rank) = (0.0, 0.0, 0.0);
    let whole = terms.micros(counts).max(1e-9);
    (1.0 - terms.micros(&empty) / whole).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_units::Bytes;

    use super::*;
    use crate::env::testing::sockets;

    /// The factors by which a law slows a call, by action; and the call's brief.
    fn times(law: Law, call: u64, bytes: Bytes) -> (Vec<f64>, std::sync::Arc<Brief>) {
        let place = sockets();
        let brief = place.brief(CollectiveKind::AllReduce, bytes).unwrap();
        let mut means = brief.nominal.clone();
        let trouble = Trouble { calls: (10, 20), law };
        trouble.act(call, Seed::new(1), &brief, place.terms(), &mut means);
        let by = means.iter().zip(&brief.nominal).map(|(a, b)| a / b).collect();
        (by, brief)
    }

    #[test]
    fn troubles_act_while_they_last_and_by_their_own_law() {
        let (kib, mib) = (Bytes::kib(4), Bytes::mib(16));
        let late = || Law::Late { micros: 1000.0, spread: 0.5 };
        assert!(
            times(late(), 9, kib).0.iter().chain(&times(late(), 20, kib).0).all(|it| *it == 1.0)
        );
        let (by, brief) = times(late(), 10, kib);
        let waits: Vec<f64> = by.iter().zip(&brief.nominal).map(|(a, b)| (a - 1.0) * b).collect();
        assert!(waits.iter().all(|it| (it - waits[0]).abs() < 1e-6 && *it > 100.0), "{waits:?}");
        let (other, _) = times(late(), 11, kib);
        assert_ne!(by, other, "each call is drawn by itself");

        let (by, brief) = times(Law::Messages { micros: 10.0 }, 10, mib);
        for (at, by) in by.iter().enumerate() {
            let extra = (by - 1.0) * brief.nominal[at];
            assert!((extra - 10.0 * brief.counts(at).messages).abs() < 1e-6 * brief.nominal[at]);
        }

        let mut shares = [1.0; FLOWS];
        shares[1] = 0.25;
        let (by, brief) = times(Law::Paths { shares: Box::new(shares) }, 10, mib);
        for (at, by) in by.iter().enumerate() {
            let one = brief.counts(at).channels < 2.0;
            assert!(if one { *by == 1.0 } else { *by > 2.0 && *by <= 4.0 }, "{at} {by}");
        }
        assert!(by.contains(&1.0) && by.iter().any(|it| *it > 2.0));

        let (by, brief) = times(Law::Protocols { times: [2.0, 1.0, 3.0] }, 10, kib);
        for (by, (_, protocol)) in by.iter().zip(&brief.kernels) {
            assert!((by - [2.0, 1.0, 3.0][protocol.index()]).abs() < 1e-9);
        }

        let creep = || Law::Creep { algorithm: Algorithm::Ring, times: 4.0 };
        let (half, brief) = times(creep(), 14, kib);
        let (whole, _) = times(creep(), 19, kib);
        for (at, (algorithm, _)) in brief.kernels.iter().enumerate() {
            let ring = *algorithm == Algorithm::Ring;
            let expected = if ring { (2.0, 4.0) } else { (1.0, 1.0) };
            assert!((half[at] - expected.0).abs() < 1e-9 && (whole[at] - expected.1).abs() < 1e-9);
        }
    }
}
