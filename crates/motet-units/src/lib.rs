//! The numbers with units of Motet: [`Bytes`], [`Duration`] and [`Instant`] in integer
//! picoseconds, [`Bandwidth`] in bits per second, typed ids, and the [`Seed`] from which every
//! random choice comes.
//!
//! Why: 64 bytes at 800 Gbit/s take 0.64 ns, so nanoseconds would round the smallest transfers
//! away, and floats would make two machines disagree. Everything here is an integer, every
//! rounding is asked for by name ([`Rounding`]), and every type reads and prints the text people
//! write in cluster files ("400 Gbit/s", "64 MiB", "10 µs").
//!
//! Start at [`bytes`], [`time`] and [`bandwidth`]; [`text`] is the shared reader of
//! "number unit".

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
