//! [`ActionSpace`]: the actions that can be for a collective on a communicator, numbered from 0.
//!
//! A policy's outputs, a bandit's arms and a published table all mean actions by these numbers, so a space has a
//! [checksum](ActionSpace::checksum): a policy for another space is refused. Index 0 is always [`Action::DEFAULT`].

use motet_collective::CollectiveKind;
use motet_nccl::{NcclOptions, NcclVersion, Offer, Protocol, Shape, TunedCollective};
use motet_runtime::Checksum;

use super::heads::{CHUNKS, Coordinates, MOST_CHANNELS, THREADS};
use super::mask::Rules;
use super::{Action, Head, Masked, Path};

/// Which numbers of channels are tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grain {
    /// Powers of two, as plans do.
    #[default]
    PowersOfTwo,
    /// Each from 1 to 32, as in the text.
    Every,
}

/// When an action is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Before a call: threads are given.
    #[default]
    Call,
    /// Before a communicator is made: threads can be chosen too, by NCCL's environment.
    Communicator,
}

/// What a space is asked to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpaceSpec {
    pub grain: Grain,
    pub scope: Scope,
    /// Chunks of powers of two, where NCCL lets a tuner set them.
    pub chunks: bool,
    /// Whether in-network aggregation is there to be passed through to.
    pub passthrough: bool,
    /// Whether the plan has a program for the task.
    pub program: bool,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq)]
pub struct ActionSpace {
    rules: Rules,
    version: NcclVersion,
    kind: CollectiveKind,
    /// In ascending order, the first all zeros.
    actions: Vec<Coordinates>,
}

impl ActionSpace {
    /// The space on a communicator of which NCCL's offers are known (`NcclModel::offer`).
    #[must_use]
    pub fn new(offer: Offer<'_>, kind: CollectiveKind, spec: SpaceSpec) -> Self {
        let rules = Rules::new(offer, TunedCollective::of(kind), spec);
        let mut actions = Vec::new();
        let mut keep = |action: Action| {
            if rules.check(&action).is_ok() {
                actions.extend(action.coordinates());
            }
        };
        Path::ALL.iter().for_each(|path| keep(Action { path: *path, ..Action::DEFAULT }));
        for algorithm in motet_nccl::Algorithm::ALL {
            for protocol in Protocol::ALL {
                let kernel = Action::nccl(algorithm, protocol);
                if rules.check(&kernel).is_err() {
                    continue;
                }
                for channels in own_or(1..=MOST_CHANNELS) {
                    for threads in own_or(THREADS) {
                        for chunk in own_or(CHUNKS) {
                            keep(Action { channels, threads, chunk, ..kernel });
                        }
                    }
                }
            }
        }
        actions.sort_unstable();
        Self { rules, version: offer.options.version, kind, actions }
    }

    /// The space where no more is known than NCCL tells a tuner plugin, and the kind of GPU.
    #[must_use]
    pub fn of_shape(
        shape: &Shape,
        options: &NcclOptions,
        kind: CollectiveKind,
        spec: SpaceSpec,
    ) -> Self {
        let comm = shape.communicator(options);
        Self::new(Offer { comm: &comm, options }, kind, spec)
    }

    /// How many actions there are; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a space is never empty")]
    pub fn len(&self) -> usize {
        self.actions.len()
    }

    #[must_use]
    pub const fn kind(&self) -> CollectiveKind {
        self.kind
    }

    /// The action of a number.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Action> {
        Action::from_coordinates(self.actions.get(index)?)
    }

    /// The number of an action; `None` if it is masked.
    #[must_use]
    pub fn index(&self, action: &Action) -> Option<usize> {
        self.actions.binary_search(&action.coordinates()?).ok()
    }

    /// All actions, in order.
    pub fn actions(&self) -> impl Iterator<Item = Action> {
        self.actions.iter().filter_map(Action::from_coordinates)
    }

    /// Whether an action can be; if not, why.
    pub fn check(&self, action: &Action) -> Result<(), Masked> {
        self.rules.check(action)
    }

    /// Which values of a head can still be chosen after `chosen`, the values of the heads before it. All are false if
    /// these were not valid themselves.
    #[must_use]
    pub fn mask(&self, chosen: &[u8]) -> Vec<bool> {
        let Some(head) = Head::ALL.get(chosen.len()) else { return Vec::new() };
        let from = self.actions.partition_point(|it| &it[..chosen.len()] < chosen);
        let mut mask = vec![false; head.size()];
        for action in self.actions[from..].iter().take_while(|it| it.starts_with(chosen)) {
            mask[usize::from(action[chosen.len()])] = true;
        }
        mask
    }

    /// The number of the valid action nearest to one that may be masked or off the grid. Heads count in their
    /// order: a like path before a like algorithm, that before a like protocol, then threads, channels and
    /// chunk on a log scale. An algorithm that cannot be had is left to NCCL rather than replaced by another.
    #[must_use]
    pub fn nearest(&self, wanted: &Action) -> usize {
        let distances = self.actions().map(|it| distance(wanted, &it));
        distances.enumerate().min_by_key(|it| it.1).map_or(0, |it| it.0)
    }

    /// What tells this space from others: NCCL's version, the collective, and every action.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        let mut bytes = format!("1 {} {}\n", self.version.name(), self.kind).into_bytes();
        bytes.extend(self.actions.iter().flatten());
        Checksum::of(&bytes)
    }
}

fn own_or<T>(values: impl IntoIterator<Item = T>) -> impl Iterator<Item = Option<T>> {
    std::iter::once(None).chain(values.into_iter().map(Some))
}

/// In thousandths of a doubling; what is NCCL's own is farther than any number.
fn apart(wanted: Option<u64>, found: Option<u64>) -> u32 {
    match (wanted, found) {
        (None, None) => 0,
        (Some(a), Some(b)) => {
            let doublings = libm::log2(a.max(1) as f64) - libm::log2(b.max(1) as f64);
            // At most 64 doublings.
            libm::round(doublings.abs() * 1000.0) as u32
        }
        _ => u32::MAX,
    }
}

fn distance(wanted: &Action, found: &Action) -> [u32; 6] {
    let algorithm = match (wanted.algorithm, found.algorithm) {
        (a, b) if a == b => 0,
        (_, None) => 1,
        _ => 2,
    };
    // Rather more bandwidth than less latency, where LL128 cannot be had.
    let protocol = match (wanted.protocol, found.protocol) {
        (a, b) if a == b => 0,
        (Some(Protocol::Ll | Protocol::Simple), Some(Protocol::Ll128))
        | (Some(Protocol::Ll128), Some(Protocol::Simple)) => 1,
        (Some(_), Some(_)) => 2,
        _ => 3,
    };
    let channels = |it: &Action| it.channels.map(u64::from);
    let threads = |it: &Action| it.threads.map(u64::from);
    let chunk = |it: &Action| it.chunk.map(motet_units::Bytes::get);
    [
        u32::from(wanted.path != found.path),
        algorithm,
        protocol,
        apart(threads(wanted), threads(found)),
        apart(channels(wanted), channels(found)),
        apart(chunk(wanted), chunk(found)),
    ]
}

#[cfg(test)]
mod tests;
