//! Plans from measurements: which of NCCL's settings is fastest for a call, tried out on the machine.
//!
//! A *point* is a collective and a size. NCCL's own choice and everything that a tuner can ask of it
//! ([`Setting`]: algorithm, protocol, channels) are timed in turns on one communicator, and what is clearly
//! slower is left out round by round ([`race`]). [`walk()`] goes through all points of a plan within a budget.
//! Points where a setting was faster than NCCL's own choice are measured again on a fresh communicator; if it is
//! not faster there too, the point is left to NCCL.
//!
//! [`Bench`] runs the calls: on real GPUs in the binary, with made-up times in tests. [`plan`](mod@plan) makes a
//! plan of the points.

pub mod plan;
pub mod point;
pub mod race;
pub mod walk;

use std::fmt;
use std::str::FromStr;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

pub use point::Point;
pub use race::Race;
pub use walk::{Walk, WalkEvent, walk};

/// A call: a collective, and its size in nccl-tests' sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    pub kind: CollectiveKind,
    pub size: Bytes,
}

/// A setting that NCCL is asked to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Setting {
    /// Nothing is asked: NCCL's own choice.
    Own,
    Asked {
        algorithm: Algorithm,
        protocol: Protocol,
        /// `None` is NCCL's own count.
        channels: Option<u32>,
    },
}

impl Setting {
    /// The same setting with this number of channels.
    #[must_use]
    pub const fn with_channels(self, count: u32) -> Self {
        match self {
            Self::Own => Self::Own,
            Self::Asked { algorithm, protocol, .. } => {
                Self::Asked { algorithm, protocol, channels: Some(count) }
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("own"),
            Self::Asked { algorithm, protocol, channels } => {
                write!(f, "{}/{}", algorithm.name(), protocol.name())?;
                channels.map_or(Ok(()), |it| write!(f, "/{it}"))
            }
        }
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not `own` or `algorithm/protocol[/channels]`");
        if text == "own" {
            return Ok(Self::Own);
        }
        let mut parts = text.split('/');
        let mut next = || parts.next();
        let (algorithm, protocol, channels) = (next(), next(), next());
        let algorithm = Algorithm::ALL.into_iter().find(|it| Some(it.name()) == algorithm);
        let protocol = Protocol::ALL.into_iter().find(|it| Some(it.name()) == protocol);
        let channels = channels.map(|it| it.parse().map_err(|_| wrong())).transpose()?;
        if parts.next().is_some() || channels == Some(0) {
            return Err(wrong());
        }
        let (algorithm, protocol) = algorithm.zip(protocol).ok_or_else(wrong)?;
        Ok(Self::Asked { algorithm, protocol, channels })
    }
}

impl TryFrom<String> for Setting {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Setting> for String {
    fn from(it: Setting) -> Self {
        it.to_string()
    }
}

/// The result of trying a setting once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// It runs, and every element was right. Holds what NCCL would do by itself, where that is known.
    Right(Option<Setting>),
    /// NCCL does not offer it, or it does not run.
    NotOffered,
    /// It runs and gives wrong results.
    Wrong,
}

/// Runs and times calls: real GPUs, or a simulation in tests.
pub trait Bench {
    type Error;

    /// Runs a call once under a setting and compares every element.
    ///
    /// # Errors
    /// When nothing can be run any more.
    fn try_once(&mut self, task: Task, setting: Setting) -> Result<Tried, Self::Error>;

    /// How long one of `calls` calls in a row takes under each setting, one after the other.
    ///
    /// # Errors
    /// When nothing can be run any more.
    fn time(
        &mut self,
        task: Task,
        settings: &[Setting],
        calls: u32,
    ) -> Result<Vec<Duration>, Self::Error>;

    /// Makes new communicators, for the second look.
    ///
    /// # Errors
    /// When there are none.
    fn renew(&mut self) -> Result<(), Self::Error>;

    /// What is left of the budget.
    fn left(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_written() {
        let all = Algorithm::ALL.into_iter().flat_map(|algorithm| {
            Protocol::ALL.map(|protocol| Setting::Asked { algorithm, protocol, channels: None })
        });
        for setting in all.flat_map(|it| [it, it.with_channels(16)]).chain([Setting::Own]) {
            assert_eq!(setting.to_string().parse(), Ok(setting));
        }
        for text in ["", "Ring", "Ring/LL/x", "Ring/LL/0", "ring/LL", "Ring/LL/1/2"] {
            assert!(text.parse::<Setting>().is_err(), "{text}");
        }
    }
}
