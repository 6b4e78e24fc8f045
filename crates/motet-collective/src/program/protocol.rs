//! [`Protocol`]: how NCCL's kernels, and MSCCL's, hand data over from one GPU to the next.
//!
//! It is the one type for this in the workspace: programs carry it as a hint for their runtime, the
//! model of NCCL indexes its tables by it, plans and the command line name it.

use std::fmt;
use std::str::FromStr;

use motet_net::node::UnknownName;
use motet_units::Bytes;
use serde::{Deserialize, Serialize};

/// How a receiver learns that data has arrived, in the order of NCCL's own numbers.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Protocol {
    /// A flag beside every 4 bytes of data: the least latency, half of the bandwidth.
    #[serde(rename = "LL")]
    Ll,
    /// A flag beside every 120 bytes: little latency, 15/16 of the bandwidth. Only where stores of
    /// 128 bytes arrive whole, as over NVLink.
    #[serde(rename = "LL128")]
    Ll128,
    /// A flag for every slice of a FIFO slot: the full bandwidth, the most latency.
    #[default]
    Simple,
}

impl Protocol {
    pub const COUNT: usize = 3;
    /// In NCCL's order, which decides between equals.
    pub const ALL: [Self; Self::COUNT] = [Self::Ll, Self::Ll128, Self::Simple];

    /// NCCL's number, for tables that are indexed by it.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// As NCCL writes it, and as files and JSON do.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simple => "Simple",
            Self::Ll => "LL",
            Self::Ll128 => "LL128",
        }
    }

    /// How many slots the FIFO of a connection has: of NCCL's 8 buffer steps Simple takes 4 at a
    /// time, LL and LL128 one.
    #[must_use]
    pub const fn fifo_depth(self) -> usize {
        match self {
            Self::Simple => 2,
            Self::Ll | Self::Ll128 => 8,
        }
    }

    /// How much data one FIFO slot holds, with NCCL's default buffers of 4 MiB (half of it), 512 KiB
    /// (an eighth, half of which is flags) and 4,800 KiB (an eighth, 1/16 of which is flags).
    #[must_use]
    pub const fn place_bytes(self) -> Bytes {
        match self {
            Self::Simple => Bytes::mib(2),
            Self::Ll => Bytes::kib(32),
            Self::Ll128 => Bytes::new(576_000),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Protocol {
    type Err = UnknownName;
    /// Case does not count: NCCL_PROTO takes "LL128" and "ll128" alike.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|it| it.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| UnknownName::new("protocol", text, Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_in_text_and_json() {
        for (index, protocol) in Protocol::ALL.into_iter().enumerate() {
            assert_eq!(protocol.index(), index);
            assert_eq!(protocol.name().to_ascii_lowercase().parse(), Ok(protocol));
            let json = serde_json::to_string(&protocol).unwrap();
            assert_eq!(json, format!("\"{protocol}\""));
            assert_eq!(serde_json::from_str::<Protocol>(&json).unwrap(), protocol);
        }
        let error = "ll64".parse::<Protocol>().unwrap_err();
        assert_eq!(error.to_string(), "`ll64` is not a protocol; known: LL, LL128, Simple");
    }
}
