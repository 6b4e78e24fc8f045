//! MSCCL XML: the programs that Microsoft's MSCCL runtimes and RCCL execute.
//!
//! - [`read()`] takes a file and reports everything that is wrong with it.
//! - [`lower()`] gives a program the lanes and channels such a runtime can run.
//! - [`write()`] writes a program, lowering it where needed, within the limits of a [`Runtime`].
//! - [`check_counts()`] says at once that a program has too much for any file.
//!
//! Reading what was written gives the lowered program again, down to the numbers of its
//! transfers. The format's meaning is in `read` (steps), `connect` (what is one transfer) and
//! `waits` (dependencies); `steps` is their inverse.
//!
//! What the format cannot say: waits between ranks other than for data, paths, and the root of a
//! collective (written as an attribute that runtimes pass over; the scheduler that picks the
//! file must know that it serves one root only).

mod check;
mod connect;
mod counts;
mod forward;
mod header;
mod joint;
mod limits;
mod lower;
mod parse;
mod read;
mod steps;
mod waits;
mod write;

pub use counts::check_counts;
pub use limits::Runtime;
pub use lower::lower;
pub use read::read;
pub use write::write;

/// How to write a program as MSCCL XML.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Whose limits the file must keep.
    pub runtime: Runtime,
    /// At least this many parallel channels between two ranks where lowering chooses; more are
    /// taken if threadblocks would be too long. 0 counts as 1.
    pub channels: u32,
    /// Parallel copies of the program, each on channels of its own (see
    /// [`in_instances`](crate::program::in_instances)). 0 counts as 1.
    pub instances: u32,
    /// Use as few threadblocks as the number of peers allows, each of which sends to one peer and
    /// receives from another. That is slower, but leaves more of the GPU to compute.
    pub packed: bool,
}
