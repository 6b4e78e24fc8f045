//! [`Call`]: a collective as NCCL is called, and where its data lies in a rank's buffers ([`Span`]).
//!
//! Elements are 32-bit floats. `count` is NCCL's argument: what every rank has of an AllGather, a ReduceScatter or an
//! AllToAll, and everything of the others. Root is rank 0.

use std::fmt;

use motet_runtime::Collective;
use serde::{Deserialize, Serialize};

/// Bytes of an element.
pub const ELEMENT: usize = 4;

/// A collective with NCCL's `count` argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub collective: Collective,
    pub count: usize,
    /// Input and output are one buffer, or one is a part of the other, as NCCL defines it.
    pub in_place: bool,
}

/// A call as text, for the connection between driver and ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallText {
    collective: String,
    count: usize,
    in_place: bool,
}

impl fmt::Display for CallText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.in_place { ", in place" } else { "" };
        write!(f, "{} of {} elements{place}", self.collective, self.count)
    }
}

impl From<Call> for CallText {
    fn from(it: Call) -> Self {
        let collective = it.collective.name().to_owned();
        Self { collective, count: it.count, in_place: it.in_place }
    }
}

impl TryFrom<&CallText> for Call {
    type Error = String;

    fn try_from(it: &CallText) -> Result<Self, String> {
        let unknown = |_| format!("`{}` is no collective", it.collective);
        let collective = it.collective.parse().map_err(unknown)?;
        Ok(Self { collective, count: it.count, in_place: it.in_place })
    }
}

/// Where a call's data lies: offsets in bytes into the buffers of input and output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub from: usize,
    pub to: usize,
    pub count: usize,
    /// Elements that are read, and written.
    pub read: usize,
    pub written: usize,
}

impl Span {
    /// The offset behind the last byte that is read.
    #[must_use]
    pub const fn from_end(&self) -> usize {
        self.from.saturating_add(self.read.saturating_mul(ELEMENT))
    }

    /// The offset behind the last byte that is written.
    #[must_use]
    pub const fn to_end(&self) -> usize {
        self.to.saturating_add(self.written.saturating_mul(ELEMENT))
    }
}

impl Call {
    /// How many elements a rank reads, and how many it writes.
    #[must_use]
    pub fn elements(&self, ranks: u32) -> (usize, usize) {
        let all = self.count.saturating_mul(ranks as usize);
        match self.collective {
            Collective::AllGather => (self.count, all),
            Collective::ReduceScatter => (all, self.count),
            Collective::AllToAll => (all, all),
            _ => (self.count, self.count),
        }
    }

    /// The bytes of the larger buffer.
    #[must_use]
    pub fn bytes(&self, ranks: u32) -> usize {
        let (read, written) = self.elements(ranks);
        read.max(written).saturating_mul(ELEMENT)
    }

    /// Where a rank's data lies. Out of place the buffers are two and each is used from its beginning; in place they
    /// are one, and the smaller part stands where the rank's part of the larger one does.
    #[must_use]
    pub fn span(&self, rank: u32, ranks: u32) -> Span {
        let (read, written) = self.elements(ranks);
        let part = (rank as usize).saturating_mul(self.count).saturating_mul(ELEMENT);
        let (from, to) = match (self.in_place, self.collective) {
            (true, Collective::AllGather) => (part, 0),
            (true, Collective::ReduceScatter) => (0, part),
            _ => (0, 0),
        };
        Span { from, to, count: self.count, read, written }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_stand_in_their_place() {
        let call = |collective, in_place| Call { collective, count: 8, in_place };
        let span = call(Collective::AllGather, true).span(2, 4);
        assert_eq!((span.from, span.to, span.from_end(), span.to_end()), (64, 0, 96, 128));
        let span = call(Collective::ReduceScatter, true).span(3, 4);
        assert_eq!((span.from, span.to, span.from_end(), span.to_end()), (0, 96, 128, 128));
        let span = call(Collective::AllReduce, true).span(3, 4);
        assert_eq!((span.from_end(), span.to_end()), (32, 32));
        let span = call(Collective::ReduceScatter, false).span(3, 4);
        assert_eq!((span.from, span.to, span.to_end()), (0, 0, 32));
        assert_eq!(call(Collective::AllToAll, false).bytes(4), 128);
    }
}
