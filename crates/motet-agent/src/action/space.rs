//! [`ActionSpace`]: the valid actions for a collective on a communicator, numbered from 0.
//!
//! A policy's outputs, a bandit's arms and a published table all mean actions by these numbers, so a space has a
//! [checksum](ActionSpace::checksum): a policy for another space is refused. Index 0 is always [`Action::DEFAULT`].

use motet_collective::CollectiveKind;
use motet_nccl::{NcclOptions, NcclVersion, Offer, Protocol, Shape, TunedCollective};
use motet_runtime::Checksum;

use super::heads::{CHUNKS, Coordinates, MOST_CHANNELS, THREADS};
use super::mask::Rules;
use super::{Action, Head, Masked, Path};

/// Which numbers of channels are in the space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Grain {
    /// Powers of two, as plans do.
    #[default]
    PowersOfTwo,
    /// Each from 1 to 32, as in the text.
    Every,
}

/// When an action is chosen, which decides what can be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Before a call: the number of threads is fixed.
    #[default]
    Call,
    /// Before a communicator is created: the number of threads can be chosen too, by NCCL's environment variables.
    Communicator,
}

/// Which actions a space is to contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SpaceSpec {
    pub grain: Grain,
    pub scope: Scope,
    /// Chunks of powers of two, where NCCL lets a tuner set them.
    pub chunks: bool,
    /// Whether the network can aggregate, so that bypassing NCCL is an action.
    pub passthrough: bool,
    /// Whether the plan has a program for the task.
    pub program: bool,
}

/// A numbered list of valid actions.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionSpace {
    rules: Rules,
    version: NcclVersion,
    kind: CollectiveKind,
    /// In ascending order; the first is all zeros.
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

    /// The space by what NCCL tells a tuner plugin and the kind of GPU, where no more is known.
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

    /// The action with an index.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Action> {
        Action::from_coordinates(self.actions.get(index)?)
    }

    /// The index of an action; `None` if it is invalid.
    #[must_use]
    pub fn index(&self, action: &Action) -> Option<usize> {
        self.actions.binary_search(&action.coordinates()?).ok()
    }

    /// All actions, in order.
    pub fn actions(&self) -> impl Iterator<Item = Action> {
        self.actions.iter().filter_map(Action::from_coordinates)
    }

    /// Checks whether an action is valid; if not, says why.
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

    /// The index of the valid action nearest to one that may be invalid or off the grid. Heads are compared in their order: the
    /// same path matters more than the same algorithm, that more than the same protocol, then threads, channels and chunk size on a
    /// log scale. An algorithm that is not available is left to NCCL rather than replaced by another.
    #[must_use]
    pub fn nearest(&self, wanted: &Action) -> usize {
        let distances = self.actions().map(|it| distance(wanted, &it));
        distances.enumerate().min_by_key(|it| it.1).map_or(0, |it| it.0)
    }

    /// Identifies the space: a hash of NCCL's version, the collective and every action.
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

/// The distance in thousandths of a doubling; a value left to NCCL is farther than any number.
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
    // Where LL128 is not available, prefer Simple's bandwidth over LL's latency.
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
