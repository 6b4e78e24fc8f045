//! Numbers with units: [`Bytes`], [`Duration`] and [`Instant`], [`Bandwidth`], the ids of ranks,
//! nodes and links, and the [`Seed`] from which every random choice in Motet comes. Every other crate
//! uses them, so that a time is never taken for a size, nor a bit for a byte.
//!
//! Start reading at [`bytes`], [`time`] and [`bandwidth`]; [`text`] reads and prints "number unit" for
//! all three, exactly the text that people write in cluster files and on command lines ("64 MiB",
//! "10 µs", "400 Gbit/s").
//!
//! Everything here is an integer. Time counts picoseconds, because 64 bytes at 800 Gbit/s take
//! 0.64 ns and would round away in nanoseconds; floats would make two machines disagree. Where a
//! division does not come out whole, the caller says which way to round ([`Rounding`]). Time ends at
//! 2⁶⁴ picoseconds, 213 days, where sums stay instead of wrapping round: a network on which something
//! takes longer is too slow for this clock, and commands say so.

pub mod bandwidth;
pub mod brief;
pub mod bytes;
pub mod ids;
pub mod rounding;
pub mod seed;
pub mod text;
pub mod time;

pub use bandwidth::Bandwidth;
pub use brief::{brief, brief_to};
pub use bytes::Bytes;
pub use ids::{LinkId, NodeId, Rank};
pub use rounding::Rounding;
pub use seed::{Seed, Stream};
pub use text::ParseError;
pub use time::{Duration, Instant};
