//! [`Point`]: everything that was measured of one call.

use motet_collective::CollectiveKind;
use motet_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

use super::{Setting, Task};

/// All times of one setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub setting: Setting,
    /// The time of a call on its slowest rank, one for each round; the rounds of the second look behind those of the
    /// first.
    pub ps: Vec<u64>,
}

/// All measurements of one call, and the setting that won.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Point {
    pub collective: CollectiveKind,
    pub size_bytes: u64,
    /// NCCL's own choice: algorithm and protocol, as far as its cost table shows them.
    pub own_is: Option<Setting>,
    /// The times of NCCL's own choice first, then of all settings that were timed.
    pub times: Vec<Times>,
    /// The setting that is faster than NCCL's own choice, if any is.
    pub winner: Option<Setting>,
    /// Whether the winner was faster on a second communicator too.
    pub confirmed: bool,
    /// Settings that gave wrong results.
    pub wrong: Vec<Setting>,
}

impl Point {
    #[must_use]
    pub const fn task(&self) -> Task {
        Task { kind: self.collective, size: Bytes::new(self.size_bytes) }
    }

    /// Adds times of a setting.
    pub(super) fn add(&mut self, setting: Setting, times: &[Duration]) {
        let ps = times.iter().map(|it| it.as_ps());
        match self.times.iter_mut().find(|it| it.setting == setting) {
            Some(known) => known.ps.extend(ps),
            None => self.times.push(Times { setting, ps: ps.collect() }),
        }
    }

    #[must_use]
    pub fn of(&self, setting: Setting) -> Option<&Times> {
        self.times.iter().find(|it| it.setting == setting)
    }

    /// The setting that the plan should use: the winner if it is confirmed, otherwise NCCL's own choice.
    #[must_use]
    pub fn choice(&self) -> Setting {
        self.winner.filter(|_| self.confirmed).unwrap_or(Setting::Own)
    }
}

impl Times {
    /// The median time.
    #[must_use]
    pub fn median(&self) -> Duration {
        let mut sorted = self.ps.clone();
        sorted.sort_unstable();
        let middle = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
        let before = sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default();
        Duration::from_ps(before.midpoint(middle))
    }

    /// The least and the greatest time.
    #[must_use]
    pub fn spread(&self) -> (Duration, Duration) {
        let end = |it: Option<&u64>| Duration::from_ps(it.copied().unwrap_or_default());
        (end(self.ps.iter().min()), end(self.ps.iter().max()))
    }
}
