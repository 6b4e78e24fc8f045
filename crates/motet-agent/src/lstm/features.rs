//! How the network computes an action's logit: as the sum of the logits of its features (*rows*).
//!
//! Action spaces differ from communicator to communicator, and a network has one shape. So its heads give
//! [`ROWS`] logits, one for each feature that actions are made of, and an action's own logit is the sum of
//! its features' rows:
//!
//! | rows | of |
//! | --- | --- |
//! | path | each path |
//! | own | whether algorithm and protocol are left to NCCL; whether channels are |
//! | kernel | each pair of algorithm and protocol; if they are left to NCCL, the pair that NCCL would choose, if known |
//! | protocol × channels, algorithm × channels | channels as powers of two; a number in between is divided among its two neighbours |
//! | threads, chunk, reserved slots | each value |
//! | [`NOMINAL`] | multiplied by the logarithm of the action's nominal time over the least of the space |
//! | [`SURPRISE`] | multiplied by the logarithm of its kernel's recent times over their nominal times ([`Ledger`](super::Ledger)) |
//! | [`UNSEEN`] | multiplied by the uncertainty about the kernel, from 0 to 1 (nothing known) |
//! | [`OWN_SURPRISE`], [`OWN_UNSEEN`] | the same for the action itself in this task: what it took beyond its kernel, and the uncertainty about that |
//!
//! Invalid actions are not in the space and get no probability. The last rows make the network a correction of the plans' cost
//! model rather than a replacement: before training it prefers what is fastest by the model and by recent measurements, and
//! training has to learn where that is wrong and what is worth trying.

use std::collections::BTreeMap;

use motet_nccl::{Algorithm, Protocol};
use motet_runtime::Checksum;

use crate::action::heads::{Coordinates, MOST_CHANNELS};
use crate::action::{ActionSpace, Head, Path};

/// The levels that numbers of channels are mapped to: NCCL's own choice, 1, 2, 4, 8, 16, 32.
pub(super) const LEVELS: usize = 2 + MOST_CHANNELS.ilog2() as usize;
pub(super) const ALGORITHMS: usize = 1 + Algorithm::COUNT;
pub(super) const PROTOCOLS: usize = 1 + Protocol::COUNT;

const PATH: usize = 0;
const OWN_KERNEL: usize = PATH + Head::Path.size();
const OWN_CHANNELS: usize = OWN_KERNEL + 1;
const KERNEL: usize = OWN_CHANNELS + 1;
const PROTOCOL_LEVEL: usize = KERNEL + ALGORITHMS * PROTOCOLS;
const ALGORITHM_LEVEL: usize = PROTOCOL_LEVEL + PROTOCOLS * LEVELS;
const THREADS: usize = ALGORITHM_LEVEL + ALGORITHMS * LEVELS;
const CHUNK: usize = THREADS + Head::Threads.size();
const NIC_STRIPE: usize = CHUNK + Head::Chunk.size();
const PIPELINE_DEPTH: usize = NIC_STRIPE + Head::NicStripe.size();
const ORDER: usize = PIPELINE_DEPTH + Head::PipelineDepth.size();
const PER_LEVEL: usize = ORDER + Head::Order.size();
pub const NOMINAL: usize = PER_LEVEL + Head::Levels.size();
pub const SURPRISE: usize = NOMINAL + 1;
pub const UNSEEN: usize = SURPRISE + 1;
pub const OWN_SURPRISE: usize = UNSEEN + 1;
pub const OWN_UNSEEN: usize = OWN_SURPRISE + 1;
pub const ROWS: usize = OWN_UNSEEN + 1;

/// The rows that are multiplied by a number that depends on the action and the call.
pub(super) const DENSE: [usize; 5] = [NOMINAL, SURPRISE, UNSEEN, OWN_SURPRISE, OWN_UNSEEN];

/// The weights of the dense rows before training. An action that takes 2 % longer has about a third of the
/// best one's odds. A kernel of which nothing is known counts as about a fifth faster than its nominal time,
/// an action as 4 % faster. So an untrained network acts like a bandit: it goes by the cost model and by
/// recent times, and tries what it does not know.
pub const AT_FIRST: [(usize, f32); 5] =
    [(NOMINAL, -50.0), (SURPRISE, -50.0), (UNSEEN, 10.0), (OWN_SURPRISE, -50.0), (OWN_UNSEEN, 2.0)];

/// How many kernels the ledger tells apart: pairs of algorithm and protocol, and the two other paths.
pub const KERNELS: usize = ALGORITHMS * PROTOCOLS + Head::Path.size() - 1;

/// Logarithmic ratios of times are clipped to this (a factor of e³).
pub(super) const MOST_RATIO: f32 = 3.0;

/// Clips and scales a logarithmic ratio of times for the network; NaN becomes the maximum.
pub(super) fn bounded(log: f64) -> f32 {
    if log.is_nan() { MOST_RATIO } else { (log as f32).clamp(-MOST_RATIO, MOST_RATIO) }
}

/// Identifies the rows: a hash of every value of every head, in order.
#[must_use]
pub fn checksum() -> Checksum {
    let mut text = format!("1 {ROWS} {LEVELS}\n");
    for head in Head::ALL {
        let values = (0..head.size()).filter_map(|it| head.value(it));
        text.push_str(&format!("{head} {}\n", values.collect::<Vec<_>>().join(" ")));
    }
    Checksum::of(text.as_bytes())
}

/// The number of the kernel of an action with these coordinates, below [`KERNELS`].
fn kernel(at: &Coordinates) -> usize {
    match at[Head::Path.index()] {
        0 => {
            let [algorithm, protocol] = [Head::Algorithm, Head::Protocol].map(|it| at[it.index()]);
            usize::from(algorithm) * PROTOCOLS + usize::from(protocol)
        }
        path => ALGORITHMS * PROTOCOLS + usize::from(path) - 1,
    }
}

/// The level at or below a number of channels, and the share of the next level in it, by logarithms.
pub(super) fn level(channels: Option<u32>) -> (usize, f32) {
    match channels {
        None | Some(0) => (0, 0.0),
        Some(it) => {
            let it = it.min(MOST_CHANNELS);
            let below = it.ilog2();
            let share = libm::log2f(it as f32) - below as f32;
            (1 + below as usize, share)
        }
    }
}

/// The features of every action of a space, as weights of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// Pairs of a row and its weight, of all actions one after the other.
    rows: Vec<(u16, f32)>,
    /// Where each action's rows end.
    ends: Vec<u32>,
    kernels: Vec<u8>,
    /// For each action, the first action that results in the same call.
    same: Vec<u16>,
}

impl Catalogue {
    /// The catalogue of a space if only the actions themselves are known.
    #[must_use]
    pub fn of(space: &ActionSpace) -> Self {
        Self::resolved(space, |_| None)
    }

    /// The catalogue of a space if it is known which algorithm, protocol and channels each action results in,
    /// which `comes_to` says.
    #[must_use]
    pub fn resolved(
        space: &ActionSpace,
        comes_to: impl Fn(usize) -> Option<(Algorithm, Protocol, u32)>,
    ) -> Self {
        let mut found = Self::default();
        let mut known: BTreeMap<(Coordinates, Option<u32>), u16> = BTreeMap::new();
        for (number, action) in space.actions().enumerate() {
            // What is in a space has coordinates.
            let mut at = action.coordinates().unwrap_or_default();
            let own = [Head::Algorithm, Head::Channels].map(|it| at[it.index()] == 0);
            let mut channels = action.channels;
            if let Some((algorithm, protocol, used)) = comes_to(number)
                && action.path == Path::Nccl
            {
                // There are fewer than 256 of either.
                at[Head::Algorithm.index()] = 1 + algorithm.index() as u8;
                at[Head::Protocol.index()] = 1 + protocol.index() as u8;
                channels = Some(used);
            }
            found.describe(own, channels, &at);
            at[Head::Channels.index()] = 0;
            // Spaces have fewer than 2¹⁶ actions.
            found.same.push(*known.entry((at, channels)).or_insert(number as u16));
            // Fewer than 256 kernels, and fewer than 2³² rows of all actions.
            found.kernels.push(kernel(&at) as u8);
            found.ends.push(found.rows.len() as u32);
        }
        found
    }

    fn describe(&mut self, own: [bool; 2], channels: Option<u32>, at: &Coordinates) {
        let value = |head: Head| usize::from(at[head.index()]);
        let (algorithm, protocol) = (value(Head::Algorithm), value(Head::Protocol));
        // Rows are fewer than 2¹⁶.
        let mut put = |row: usize, share: f32| {
            if share != 0.0 {
                self.rows.push((row as u16, share));
            }
        };
        put(PATH + value(Head::Path), 1.0);
        put(OWN_KERNEL, f32::from(own[0]));
        put(OWN_CHANNELS, f32::from(own[1]));
        put(KERNEL + algorithm * PROTOCOLS + protocol, 1.0);
        let (low, share) = level(channels);
        for (level, share) in [(low, 1.0 - share), (low + 1, share)] {
            put(PROTOCOL_LEVEL + protocol * LEVELS + level, share);
            put(ALGORITHM_LEVEL + algorithm * LEVELS + level, share);
        }
        put(THREADS + value(Head::Threads), 1.0);
        put(CHUNK + value(Head::Chunk), 1.0);
        put(NIC_STRIPE + value(Head::NicStripe), 1.0);
        put(PIPELINE_DEPTH + value(Head::PipelineDepth), 1.0);
        put(ORDER + value(Head::Order), 1.0);
        put(PER_LEVEL + value(Head::Levels), 1.0);
    }

    /// How many actions there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a space is never empty")]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The rows of an action.
    pub(super) fn rows(&self, action: usize) -> &[(u16, f32)] {
        let start = action.checked_sub(1).map_or(0, |it| self.ends[it]);
        &self.rows[start as usize..self.ends[action] as usize]
    }

    /// The kernel that an action runs, below [`KERNELS`], and the first action that results in the same call.
    #[must_use]
    pub fn kernel(&self, action: usize) -> (usize, u16) {
        let kernel = self.kernels.get(action).map_or(0, |it| usize::from(*it));
        (kernel, self.same.get(action).copied().unwrap_or_default())
    }
}

/// The cost model's time of every action of a space for a call, as logarithms relative to the least.
#[derive(Clone, Debug, PartialEq)]
pub struct Nominal {
    ratios: Vec<f32>,
}

impl Nominal {
    /// From times in any unit, one for each action; times that are not positive count as the worst.
    #[must_use]
    pub fn of(times: impl Iterator<Item = f64> + Clone) -> Self {
        let valid = |it: &f64| it.is_finite() && *it > 0.0;
        let least = times.clone().filter(valid).fold(f64::INFINITY, f64::min);
        let ratio = |it: f64| if valid(&it) { bounded(libm::log(it / least)) } else { MOST_RATIO };
        Self { ratios: times.map(ratio).collect() }
    }

    /// For when nothing is known: all actions count alike.
    #[must_use]
    pub fn unknown(actions: usize) -> Self {
        Self { ratios: vec![0.0; actions] }
    }

    pub(super) fn ratio(&self, action: usize) -> f32 {
        self.ratios.get(action).copied().unwrap_or(MOST_RATIO)
    }
}

#[cfg(test)]
mod tests {
    use motet_collective::CollectiveKind;
    use motet_nccl::{NcclOptions, Shape};

    use super::*;
    use crate::action::{Action, Grain, Scope, SpaceSpec};

    const OWN: [usize; 2] = [OWN_KERNEL, OWN_CHANNELS];

    fn wide() -> ActionSpace {
        let shape = Shape { ranks: 32, nodes: 4, sm: 90, nvlink: true, nvswitch: true };
        let spec = SpaceSpec {
            grain: Grain::Every,
            scope: Scope::Communicator,
            chunks: true,
            passthrough: true,
            program: true,
        };
        ActionSpace::of_shape(&shape, &NcclOptions::default(), CollectiveKind::AllReduce, spec)
    }

    /// No two actions have the same features, and the shares of rows add up to 1 per head.
    #[test]
    fn every_action_has_rows_of_its_own() {
        let space = wide();
        let catalogue = Catalogue::of(&space);
        assert_eq!(catalogue.len(), space.len());
        let mut all: Vec<Vec<(u16, u32)>> = Vec::new();
        for (at, action) in space.actions().enumerate() {
            let rows = catalogue.rows(at);
            assert!(rows.iter().all(|it| usize::from(it.0) < NOMINAL));
            let heads = rows.iter().filter(|it| !OWN.contains(&usize::from(it.0)));
            let sum: f32 = heads.map(|it| it.1).sum();
            assert!((sum - 10.0).abs() < 1e-6, "{action:?}: {sum}");
            let own = rows.iter().filter(|it| OWN.contains(&usize::from(it.0))).count();
            let left = [action.algorithm.is_none(), action.channels.is_none()];
            assert_eq!(own, left.into_iter().filter(|it| *it).count());
            assert!(catalogue.kernel(at).0 < KERNELS);
            assert_eq!(usize::from(catalogue.kernel(at).1), at);
            all.push(rows.iter().map(|it| (it.0, it.1.to_bits())).collect());
        }
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), space.len());
    }

    /// NCCL's own choice and the action that names the same kernel have different features but the same
    /// kernel.
    #[test]
    fn what_nccl_would_choose_counts_as_that() {
        let space = wide();
        let ring = (Algorithm::Ring, Protocol::Simple, 8);
        let named = Action { channels: Some(8), ..Action::nccl(Algorithm::Ring, Protocol::Simple) };
        let named = space.index(&named).unwrap();
        let found = Catalogue::resolved(&space, |it| [0, named].contains(&it).then_some(ring));
        assert_eq!(found.kernel(0), found.kernel(named));
        assert_ne!(Catalogue::of(&space).kernel(0), found.kernel(0));
        let own = found.rows(0).iter().filter(|it| !OWN.contains(&usize::from(it.0)));
        assert!(own.eq(found.rows(named)));
        assert_eq!(found.rows(0).len(), found.rows(named).len() + 2);
        let through = space.index(&Action::PASSTHROUGH).unwrap();
        let all = Catalogue::resolved(&space, |_| Some(ring));
        assert_ne!(all.kernel(through), all.kernel(0));
        // All that come to the same but the two other paths.
        assert_eq!(all.kernel(named), all.kernel(0));
    }

    #[test]
    fn channels_lie_between_powers_of_two() {
        assert_eq!(level(None), (0, 0.0));
        assert_eq!(level(Some(1)), (1, 0.0));
        assert_eq!((level(Some(32)), level(Some(64))), ((6, 0.0), (6, 0.0)));
        let (low, share) = level(Some(6));
        assert_eq!(low, 3);
        assert!((share - 0.585).abs() < 1e-3);
    }

    /// Policies are refused by this checksum. A change of heads or rows changes it, which must be deliberate.
    #[test]
    fn the_rows_have_a_checksum() {
        assert_eq!(ROWS, 155);
        assert_eq!(checksum().to_string(), "51bdfff6d62f33e1");
    }

    #[test]
    fn nominal_times_are_bounded() {
        let nominal = Nominal::of([2.0, 1.0, f64::NAN, 0.0, 1e9].into_iter());
        let ratios: Vec<f32> = (0..6).map(|it| nominal.ratio(it)).collect();
        assert!((ratios[0] - std::f32::consts::LN_2).abs() < 1e-6);
        assert_eq!(ratios[1..], [0.0, MOST_RATIO, MOST_RATIO, MOST_RATIO, MOST_RATIO]);
    }
}
