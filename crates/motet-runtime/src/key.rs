//! The keys of a table ([`Collective`], [`Bucket`], [`Signature`], [`Key`]), and NCCL's names in it
//! ([`Algorithm`], [`Protocol`]).
//!
//! The crates above have richer types of the same names. This one is linked into training jobs
//! and uses nothing but `motet-units`, so it has its own; texts convert between the two.

use std::fmt;
use std::str::FromStr;

use motet_units::Bytes;

use crate::checksum::hex;

/// A name that is none of the known ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; known are {known}")]
pub struct UnknownName {
    pub what: &'static str,
    pub name: String,
    pub known: String,
}

macro_rules! named {
    ($(#[$doc:meta])* $type:ident, $what:literal, { $($variant:ident = $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $type { $($variant),+ }

        impl $type {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name in a table.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The one of exactly this name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.name() == name)
            }

            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $type {
            type Err = UnknownName;
            /// Case and the separators `-` and `_` do not count.
            fn from_str(text: &str) -> Result<Self, UnknownName> {
                let found = Self::ALL.iter().copied().find(|it| plain(it.name()).eq(plain(text)));
                found.ok_or_else(|| UnknownName {
                    what: $what,
                    name: text.to_owned(),
                    known: Self::ALL.iter().map(|it| it.name()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

/// A name without separators, in lower case. It goes by bytes, without allocating, as all names are ASCII: the NCCL
/// plugin reads NCCL's names this way while a job runs.
fn plain(name: &str) -> impl Iterator<Item = u8> {
    let letters = name.bytes().filter(|it| !matches!(it, b'-' | b'_'));
    letters.map(|it| it.to_ascii_lowercase())
}

named!(
    /// The collectives Motet knows.
    Collective, "collective", {
        AllGather = "allgather",
        ReduceScatter = "reducescatter",
        AllReduce = "allreduce",
        Broadcast = "broadcast",
        Reduce = "reduce",
        Gather = "gather",
        Scatter = "scatter",
        AllToAll = "alltoall",
        AllToAllV = "alltoallv",
        SendRecv = "sendrecv",
    }
);

named!(
    /// How NCCL moves the data of a collective, in the order of NCCL's own numbers, with the
    /// names of NCCL's tuner files.
    Algorithm, "algorithm", {
        Tree = "tree",
        Ring = "ring",
        CollNetDirect = "collnet_direct",
        CollNetChain = "collnet_chain",
        Nvls = "nvls",
        NvlsTree = "nvls_tree",
        Pat = "pat",
    }
);

named!(
    /// How NCCL's kernels synchronize, in the order of NCCL's own numbers.
    Protocol, "protocol", { Ll = "ll", Ll128 = "ll128", Simple = "simple" }
);

/// The identity of a network, as `motet-net` computes it. Prints and reads as 32 hexadecimal
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(pub u128);

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A text that is not a signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a network signature; expected 32 lower-case hexadecimal digits")]
pub struct ParseSignatureError(String);

impl FromStr for Signature {
    type Err = ParseSignatureError;
    fn from_str(text: &str) -> Result<Self, ParseSignatureError> {
        hex(text, 32).map(Self).ok_or_else(|| ParseSignatureError(text.to_owned()))
    }
}

/// The sizes from 2ᵇ up to, not including, 2ᵇ⁺¹ bytes; zero bytes are in bucket 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u8);

impl Bucket {
    pub const MOST: u8 = 63;

    #[must_use]
    pub const fn new(log2: u8) -> Option<Self> {
        if log2 <= Self::MOST { Some(Self(log2)) } else { None }
    }

    /// The bucket of a size, in nccl-tests' meaning of size.
    #[must_use]
    pub const fn of(bytes: Bytes) -> Self {
        // At most 63, so the cast keeps it.
        Self((bytes.get() | 1).ilog2() as u8)
    }

    #[must_use]
    pub const fn log2(self) -> u8 {
        self.0
    }
}

/// The calls that an entry of a table is for. Keys are ordered so that the entries of one network, and
/// within it of one collective and one number of ranks, are next to each other, by size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub signature: Signature,
    pub collective: Collective,
    pub ranks: u32,
    pub bucket: Bucket,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { signature, collective, ranks, bucket } = self;
        write!(f, "{signature} {collective} {ranks} {}", bucket.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_buckets() {
        for (bytes, log2) in [(0, 0), (1, 0), (2, 1), (3, 1), (1023, 9), (1024, 10), (u64::MAX, 63)]
        {
            assert_eq!(Bucket::of(Bytes::new(bytes)).log2(), log2, "{bytes}");
        }
        assert_eq!(Bucket::new(64), None);
    }

    #[test]
    fn names_convert_whatever_their_spelling() {
        assert_eq!("CollNetDirect".parse(), Ok(Algorithm::CollNetDirect));
        assert_eq!("LL128".parse(), Ok(Protocol::Ll128));
        assert_eq!("all-gather".parse(), Ok(Collective::AllGather));
        let error = "gossip".parse::<Protocol>().unwrap_err();
        assert_eq!(error.to_string(), "unknown protocol `gossip`; known are ll, ll128, simple");
        assert!(Algorithm::ALL.iter().enumerate().all(|(index, it)| it.index() == index));
    }

    #[test]
    fn signatures_have_one_text() {
        let signature = Signature(0xfeed);
        assert_eq!(signature.to_string().parse(), Ok(signature));
        assert!("feed".parse::<Signature>().is_err());
        assert!(signature.to_string().to_uppercase().parse::<Signature>().is_err());
    }
}
