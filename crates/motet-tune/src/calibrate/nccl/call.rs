//! [`NcclCall`]: a timed NCCL call, and what is known of how it was run.

use std::fmt;
use std::str::FromStr;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, NcclVersion, Protocol};
use motet_units::Bytes;

/// A release of NCCL, such as 2.28.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u16,
    pub minor: u16,
    pub patch: u16,
}

impl Version {
    /// The nearest version that is modelled.
    #[must_use]
    pub const fn model(self) -> NcclVersion {
        match (self.major, self.minor) {
            (..=1, _) | (2, ..=28) => NcclVersion::V2_28,
            (2, 29..=30) => NcclVersion::V2_30,
            _ => NcclVersion::V2_32,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A text that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a version is three numbers, as in 2.28.9")]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    /// Anything may follow the third number, as in `2.28.9+cuda12.9`.
    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let mut parts = text.splitn(3, '.');
        let mut number = || {
            let part = parts.next().ok_or(NoVersion)?;
            let end = part.find(|it: char| !it.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse::<u16>().map_err(|_| NoVersion)
        };
        Ok(Self { major: number()?, minor: number()?, patch: number()? })
    }
}

/// A timed call. Fields are `None` where the source does not say, or where it was left to NCCL.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclCall {
    pub nccl: Option<Version>,
    pub ranks: Option<u32>,
    /// As NCCL counts them.
    pub nodes: Option<u32>,
    pub collective: CollectiveKind,
    /// In nccl-tests' sense.
    pub size: Bytes,
    pub algorithm: Option<Algorithm>,
    pub protocol: Option<Protocol>,
    /// As a tuner asks for them, or as the log says.
    pub channels: Option<u32>,
    /// The chunk size, where a tuner asked for one.
    pub chunk: Option<Bytes>,
    /// How often it was timed.
    pub rounds: Option<u32>,
    /// The median over the rounds of the time on the slowest rank, in µs.
    pub micros: f64,
    /// The least and the greatest time of all rounds, in µs.
    pub least: Option<f64>,
    pub most: Option<f64>,
}

/// An algorithm by the name that plans have for it, or NCCL's log.
pub(super) fn algorithm(name: &str) -> Option<Algorithm> {
    let found: motet_runtime::Algorithm = name.parse().ok()?;
    Algorithm::ALL.get(found.index()).copied()
}

/// A protocol likewise.
pub(super) fn protocol(name: &str) -> Option<Protocol> {
    let found: motet_runtime::Protocol = name.parse().ok()?;
    Protocol::ALL.get(found.index()).copied()
}

/// What plans call an algorithm: both lists are in NCCL's order.
pub(super) fn algorithm_name(of: Algorithm) -> &'static str {
    motet_runtime::Algorithm::ALL.get(of.index()).map_or("", |it| it.name())
}

/// What plans call a protocol.
pub(super) fn protocol_name(of: Protocol) -> &'static str {
    motet_runtime::Protocol::ALL.get(of.index()).map_or("", |it| it.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version = |text: &str| text.parse::<Version>().map(|it| it.to_string());
        assert_eq!(version("2.28.9").as_deref(), Ok("2.28.9"));
        assert_eq!(version("2.28.9+cuda12.9").as_deref(), Ok("2.28.9"));
        for wrong in ["", "2.28", "2..9", "x.1.2", "2.99999.1"] {
            assert_eq!(version(wrong), Err(NoVersion), "{wrong}");
        }
        let model = |text: &str| text.parse::<Version>().unwrap().model();
        assert_eq!(model("2.21.5"), NcclVersion::V2_28);
        assert_eq!(model("2.29.7"), NcclVersion::V2_30);
        assert_eq!(model("2.32.3"), NcclVersion::V2_32);
    }

    #[test]
    fn names_are_those_of_plans_and_of_logs() {
        for it in Algorithm::ALL {
            assert_eq!(algorithm(algorithm_name(it)), Some(it));
            assert_eq!(algorithm(it.name()), Some(it));
        }
        for it in Protocol::ALL {
            assert_eq!(protocol(protocol_name(it)), Some(it));
        }
        assert_eq!(algorithm("NVLS_TREE"), Some(Algorithm::NvlsTree));
        assert_eq!(protocol("SIMPLE"), Some(Protocol::Simple));
    }
}
