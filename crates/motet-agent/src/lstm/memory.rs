//! [`Memory`]: the state that the policy keeps between calls of a communicator: the LSTM's state, the result of the last call, and a
//! [`Ledger`] of recent times by kernel.
//!
//! All of it is computed from data that all ranks share: calls, actions, and times that the leader has published. A rank's own
//! timings must not enter: ranks would then choose differently, and hang.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration};

use super::features::{KERNELS, bounded};
use super::net::Shape;
use crate::action::Action;

/// The result of a call, in the form that the network reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub kind: CollectiveKind,
    pub bytes: Bytes,
    pub action: Action,
    /// The kernel that it ran, and the first action that does the same ([`Catalogue`](super::Catalogue)).
    pub kernel: usize,
    pub same: u16,
    /// The logarithm of its time over the action's nominal time.
    pub surprise: f32,
    /// The logarithm of its time over the least nominal time of the call.
    pub lost: f32,
}

impl Seen {
    /// From the call's time, the nominal time of its action, and the least nominal time of any action.
    #[must_use]
    pub fn new(
        (kind, bytes): (CollectiveKind, Bytes),
        (action, (kernel, same)): (Action, (usize, u16)),
        time: Duration,
        nominal: Duration,
        least: Duration,
    ) -> Self {
        let log = |a: Duration, b: Duration| {
            bounded(libm::log(a.as_ps().max(1) as f64 / b.as_ps().max(1) as f64))
        };
        Self {
            kind,
            bytes,
            action,
            kernel,
            same,
            surprise: log(time, nominal),
            lost: log(time, least),
        }
    }
}

/// Classes of sizes: up to 64 KiB, up to 4 MiB, and larger. They are told apart because congestion that slows
/// one may leave another alone.
const CLASSES: usize = 3;

fn class(bytes: Bytes) -> usize {
    match bytes.get() {
        0..=65_536 => 0,
        65_537..=4_194_304 => 1,
        _ => 2,
    }
}

/// The recent times of a kernel or action relative to their nominal time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Account {
    surprise: f32,
    /// How many calls it is based on, old ones discounted.
    weight: f32,
    /// The ledger's call at which it was last updated.
    at: u32,
}

impl Account {
    /// The factor by which the weight of old calls decays per call.
    const KEEP: f32 = 0.99;
    /// The share of the newest call, once there are many: measurements are noisy.
    const NEWEST: f32 = 0.05;

    fn weight_at(&self, now: u32) -> f32 {
        self.weight * libm::powf(Self::KEEP, now.saturating_sub(self.at) as f32)
    }

    fn learn(&mut self, surprise: f32, now: u32) {
        self.weight = self.weight_at(now) + 1.0;
        self.at = now;
        let share = (1.0 / self.weight).max(Self::NEWEST);
        self.surprise += share * (surprise - self.surprise);
    }

    /// The surprise, and its uncertainty from 0 to 1 (nothing known).
    pub(super) fn read(&self, now: u32) -> [f32; 2] {
        [self.surprise, 1.0 / (1.0 + self.weight_at(now))]
    }
}

/// Recent times of kernels, for three classes of sizes, and of actions, for each task.
#[derive(Clone, Debug, PartialEq)]
pub struct Ledger {
    kernels: [[Account; KERNELS]; CLASSES],
    tasks: BTreeMap<(CollectiveKind, Bytes), Vec<Account>>,
    calls: u32,
}

/// The ledger has accounts for at most this many tasks, to bound memory; jobs have fewer.
const MOST_TASKS: usize = 1 << 10;

impl Ledger {
    #[must_use]
    pub fn new() -> Self {
        let none = Account { surprise: 0.0, weight: 0.0, at: 0 };
        Self { kernels: [[none; KERNELS]; CLASSES], tasks: BTreeMap::new(), calls: 0 }
    }

    fn learn(&mut self, seen: &Seen) {
        self.calls = self.calls.saturating_add(1);
        let kernel = seen.kernel.min(KERNELS - 1);
        self.kernels[class(seen.bytes)][kernel].learn(seen.surprise, self.calls);
        let task = (seen.kind, seen.bytes);
        if self.tasks.len() >= MOST_TASKS && !self.tasks.contains_key(&task) {
            return;
        }
        let accounts = self.tasks.entry(task).or_default();
        let at = usize::from(seen.same);
        if accounts.len() <= at {
            accounts.resize(at + 1, Account::default());
        }
        accounts[at].learn(seen.surprise, self.calls);
    }

    /// Returns a function from an action's kernel and [`Seen::same`] to what is known of the action: the
    /// surprise of its kernel and the uncertainty of that; the action's own surprise beyond its kernel's, and
    /// the uncertainty of that.
    pub(super) fn of(&self, kind: CollectiveKind, bytes: Bytes) -> impl Fn(usize, u16) -> [f32; 4] {
        let kernels = self.kernels[class(bytes)];
        let task = self.tasks.get(&(kind, bytes)).map_or(&[][..], Vec::as_slice);
        move |kernel: usize, same: u16| {
            let [slower, unseen] = kernels[kernel.min(KERNELS - 1)].read(self.calls);
            let own = task.get(usize::from(same)).copied().unwrap_or_default();
            let [own, own_unseen] = own.read(self.calls);
            [slower, unseen, (1.0 - own_unseen) * (own - slower), own_unseen]
        }
    }

    fn numbers(&self) -> impl Iterator<Item = f32> {
        let accounts = self.kernels.iter().flatten().chain(self.tasks.values().flatten());
        accounts.flat_map(|it| [it.surprise, it.weight, it.at as f32])
    }
}

impl Default for Ledger {
    fn default() -> Self {
        Self::new()
    }
}

/// The policy's state for one communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    pub(super) hidden: Vec<f32>,
    pub(super) cell: Vec<f32>,
    pub(super) last: Option<Seen>,
    pub(super) ledger: Ledger,
}

impl Memory {
    /// Before the first call.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        let zeros = vec![0.0; shape.hidden];
        Self { hidden: zeros.clone(), cell: zeros, last: None, ledger: Ledger::new() }
    }

    /// Records the result of the last call.
    pub fn learn(&mut self, seen: Seen) {
        self.ledger.learn(&seen);
        self.last = Some(seen);
    }

    #[must_use]
    pub const fn last(&self) -> Option<&Seen> {
        self.last.as_ref()
    }

    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// All state that further choices depend on, as numbers.
    pub(super) fn numbers(&self) -> impl Iterator<Item = f32> {
        let last = self.last.map(|it| [it.surprise, it.lost, it.kernel as f32]);
        let all = self.hidden.iter().chain(&self.cell).copied().chain(self.ledger.numbers());
        all.chain(last.into_iter().flatten())
    }

    /// Forgets the LSTM's state but not the ledger: for the ablation without recurrence.
    pub fn forget_state(&mut self) {
        self.hidden.fill(0.0);
        self.cell.fill(0.0);
    }

    /// Forgets everything: for the ablation without any memory.
    pub fn forget(&mut self) {
        self.forget_state();
        self.last = None;
        self.ledger = Ledger::new();
    }
}

#[cfg(test)]
mod tests {
    use motet_nccl::{Algorithm, Protocol};

    use super::*;

    fn seen(bytes: Bytes, protocol: Protocol, us: u64) -> Seen {
        let action = Action::nccl(Algorithm::Ring, protocol);
        let call = (CollectiveKind::AllReduce, bytes);
        let did = (action, (protocol.index(), 7));
        Seen::new(call, did, Duration::from_us(us), Duration::from_us(10), Duration::from_us(5))
    }

    #[test]
    fn the_ledger_follows_what_kernels_and_actions_take() {
        let mut memory = Memory::new(Shape::default());
        let small = Bytes::kib(4);
        let read = |memory: &Memory, bytes, protocol: Protocol, same| {
            memory.ledger.of(CollectiveKind::AllReduce, bytes)(protocol.index(), same)
        };
        assert_eq!(read(&memory, small, Protocol::Ll, 7), [0.0, 1.0, 0.0, 1.0]);
        memory.learn(seen(small, Protocol::Ll, 20));
        let ln2 = std::f32::consts::LN_2;
        let [slower, unseen, own, own_unseen] = read(&memory, small, Protocol::Ll, 7);
        assert!((slower - ln2).abs() < 1e-6 && own.abs() < 1e-6);
        assert_eq!((unseen, own_unseen), (0.5, 0.5));
        // Another action with the same kernel is expected to be as slow.
        let other = read(&memory, small, Protocol::Ll, 8);
        assert_eq!((other[0], other[2], other[3]), (slower, 0.0, 1.0));
        assert_eq!(read(&memory, small, Protocol::Simple, 9), [0.0, 1.0, 0.0, 1.0]);
        // Sizes of another class have accounts of their own; those of the same share the kernel's only.
        assert_eq!(read(&memory, Bytes::mib(64), Protocol::Ll, 7)[..2], [0.0, 1.0]);
        assert_eq!(read(&memory, Bytes::kib(8), Protocol::Ll, 7)[3], 1.0);
        // As fast as it should be again, it soon counts as such.
        (0..100).for_each(|_| memory.learn(seen(small, Protocol::Ll, 10)));
        assert!(read(&memory, small, Protocol::Ll, 7)[0] < 0.02);
        // Actions that are not used become more and more uncertain.
        let before = read(&memory, small, Protocol::Ll, 7)[1];
        (0..600).for_each(|_| memory.learn(seen(small, Protocol::Simple, 10)));
        assert!(read(&memory, small, Protocol::Ll, 7)[1] > 3.0 * before);
        memory.forget();
        assert_eq!(memory, Memory::new(Shape::default()));
    }

    #[test]
    fn surprises_are_bounded() {
        let it = seen(Bytes::kib(1), Protocol::Ll, u64::MAX / 1_000_000);
        assert_eq!((it.surprise, it.lost), (3.0, 3.0));
        let it = seen(Bytes::kib(1), Protocol::Ll, 0);
        assert_eq!((it.surprise, it.lost), (-3.0, -3.0));
    }
}
