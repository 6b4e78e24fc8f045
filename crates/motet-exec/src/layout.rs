//! [`Layout`]: where each chunk of a program lies in a rank's memory, for one size of call.
//!
//! A collective's buffers are made of *parts* (see the table in [`motet_collective::collective`]),
//! and a program cuts each part into k chunks. A part of E elements has chunks of ⌊E/k⌋ elements,
//! one behind the other, and E mod k elements are left over: the *tail*.
//!
//! Chunks are long, and a rank that forwards a chunk only when it is whole leaves the next link idle
//! meanwhile. So the program is run several times at once, each time on one **slice** of every chunk:
//! slice s of all chunks is a run of the whole program that shares no byte with the others, so that one slice
//! goes on while another waits. The tail is one more slice, the first, of one element per chunk, in
//! memory of its own that is copied in before the call and out after it. So all chunks of a slice are equally
//! long, which programs rely on: they may keep any chunk in any place.

use std::ops::Range;

use motet_collective::collective::InPlace;
use motet_collective::{Buffer, Collective, CollectiveKind, Program, Slot};
use motet_units::Rank;

use crate::element::Element;
use crate::error::ExecError;

/// The most slices: beyond this the bookkeeping costs more than finer pieces save.
const MAX_SLICES: usize = 256;

/// Which memory of a rank a byte is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Region {
    /// The caller's input; in place, the larger of input and output, which holds both.
    First = 0,
    /// The caller's output, if it is apart from the input.
    Second = 1,
    /// Scratch, switch registers and tails.
    Work = 2,
}

/// How many regions there are.
pub(crate) const REGIONS: usize = 3;

/// A run of bytes in one region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) region: Region,
    pub(crate) start: usize,
    pub(crate) len: usize,
}

impl Span {
    pub(crate) const fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }
}

/// One of the runs of the program: which bytes of every chunk it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slice {
    /// Where in each chunk it begins.
    offset: usize,
    /// Bytes of each chunk.
    pub(crate) len: usize,
    /// Whether it is the tail, whose chunks lie in [`Region::Work`].
    tail: bool,
}

/// Where one buffer's chunks lie.
#[derive(Clone, Copy, Debug)]
struct Place {
    region: Region,
    base: usize,
    /// Chunks of a part, and bytes from one part to the next.
    per_part: usize,
    stride: usize,
    /// Where the tails of its chunks begin in [`Region::Work`].
    tail: usize,
    chunks: usize,
}

/// Where everything lies in one rank's memory. All ranks compute it alike, so each also knows where
/// the bytes of another rank lie, whose memory it may read.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// By [`Buffer`].
    places: [Place; 4],
    pub(crate) slices: Vec<Slice>,
    /// Bytes of a whole chunk.
    chunk: usize,
    element: usize,
    /// Elements of a part that are left over.
    tail: usize,
    /// How long each region is.
    pub(crate) regions: [usize; REGIONS],
    /// A byte of [`Region::Work`] that is not 0 once a call has failed, for ranks that read this memory.
    pub(crate) failed: usize,
}

/// How many parts a buffer of rank `rank` has, and how many chunks are in each.
fn parts(collective: &Collective, rank: Rank, buffer: Buffer) -> (usize, usize) {
    let chunks = match buffer {
        Buffer::Output => collective.output_chunks(rank),
        _ => collective.input_chunks(rank),
    } as usize;
    // The counts of an AllToAllV say how many chunks each pair has: every chunk is a part.
    let per_part = match collective.kind() {
        CollectiveKind::AllToAllV => 1,
        _ => collective.chunks() as usize,
    };
    (chunks / per_part.max(1), per_part)
}

/// Bytes that rank `rank` has in its input and in its output, with `elements` elements in each part.
pub(crate) fn buffer_bytes(
    collective: &Collective,
    rank: Rank,
    element: Element,
    elements: usize,
) -> [usize; 2] {
    [Buffer::Input, Buffer::Output]
        .map(|it| parts(collective, rank, it).0 * elements * element.bytes())
}

impl Layout {
    /// The layout of rank `rank` when each part has `elements` elements; `target` is how many bytes
    /// of a chunk should go at a time.
    pub(crate) fn new(
        program: &Program,
        rank: Rank,
        element: Element,
        elements: usize,
        in_place: bool,
        target: usize,
    ) -> Result<Self, ExecError> {
        let collective = program.collective();
        let size = element.bytes();
        let too_large = || ExecError::TooLarge { elements: elements as u64, element };
        let per_part = parts(collective, rank, Buffer::Input).1.max(1);
        let most = (collective.size_chunks() as usize).div_ceil(per_part).max(1);
        elements
            .checked_mul(size)
            .and_then(|it| it.checked_mul(most))
            .filter(|it| *it <= isize::MAX as usize / 4)
            .ok_or_else(too_large)?;
        let (chunk, tail) = (elements / per_part * size, elements % per_part);
        let [input, output] = buffer_bytes(collective, rank, element, elements);
        let chunks = |buffer| {
            let (parts, per_part) = parts(collective, rank, buffer);
            parts * per_part
        };
        let place = |buffer, region, base_chunks: usize, base| Place {
            region,
            base,
            per_part,
            stride: elements * size,
            tail: base_chunks * size,
            chunks: chunks(buffer),
        };
        let alias = if in_place { collective.in_place(rank) } else { None };
        let skip = |offset: u32| offset as usize / per_part * elements * size;
        let (first, second, input_at, output_at, shadow) = match alias {
            Some(InPlace::InputInOutput { offset }) => {
                let (at, input_chunks) = (skip(offset), offset as usize);
                let all = chunks(Buffer::Output).max(input_chunks + chunks(Buffer::Input));
                let input_place = place(Buffer::Input, Region::First, input_chunks, at);
                let output_place = place(Buffer::Output, Region::First, 0, 0);
                (output.max(at + input), 0, input_place, output_place, all)
            }
            Some(InPlace::OutputInInput { offset }) => {
                let (at, output_chunks) = (skip(offset), offset as usize);
                let all = chunks(Buffer::Input).max(output_chunks + chunks(Buffer::Output));
                let input_place = place(Buffer::Input, Region::First, 0, 0);
                let output_place = place(Buffer::Output, Region::First, output_chunks, at);
                (input.max(at + output), 0, input_place, output_place, all)
            }
            Some(InPlace::Apart) | None => {
                let input_chunks = chunks(Buffer::Input);
                let input_place = place(Buffer::Input, Region::First, 0, 0);
                let output_place = place(Buffer::Output, Region::Second, input_chunks, 0);
                (input, output, input_place, output_place, input_chunks + chunks(Buffer::Output))
            }
        };
        let scratch = program.scratch_chunks(rank) as usize;
        let switch = program.switch_chunks(rank) as usize;
        // Tails first, then scratch, at an offset that any element may begin at.
        let tails = (shadow + scratch + switch) * size;
        let base = tails.next_multiple_of(64);
        let work = |chunks: usize, base_chunks: usize, shadow_chunks: usize| Place {
            region: Region::Work,
            base: base + base_chunks * chunk,
            per_part: chunks.max(1),
            stride: chunks * chunk,
            tail: shadow_chunks * size,
            chunks,
        };
        let places = [
            input_at,
            output_at,
            work(scratch, 0, shadow),
            work(switch, scratch, shadow + scratch),
        ];
        let work_bytes = chunk
            .checked_mul(scratch + switch)
            .and_then(|it| it.checked_add(base))
            .ok_or_else(too_large)?;
        Ok(Self {
            places,
            slices: slices(chunk, size, tail, target),
            chunk,
            element: size,
            tail,
            regions: [first, second, work_bytes + 1],
            failed: work_bytes,
        })
    }

    /// How many bytes `count` chunks have in a slice.
    pub(crate) fn message_bytes(&self, slice: usize, count: u32) -> usize {
        self.slices[slice].len * count as usize
    }

    /// The bytes from `offset` on of a message that begins at `slot`, as far as they lie in one
    /// piece and are no more than `most`.
    pub(crate) fn span(&self, slice: usize, slot: Slot, offset: usize, most: usize) -> Span {
        let slice = self.slices[slice];
        let place = self.places[slot.buffer as usize];
        let (chunk, within) = (slot.offset as usize + offset / slice.len, offset % slice.len);
        if slice.tail {
            let start = place.tail + chunk * self.element + within;
            let left = (place.chunks - chunk) * self.element - within;
            return Span { region: Region::Work, start, len: left.min(most) };
        }
        let (part, index) = (chunk / place.per_part, chunk % place.per_part);
        let start = place.base + part * place.stride + index * self.chunk + slice.offset + within;
        // Whole chunks of one part lie one behind the other.
        let chunks = if slice.len == self.chunk { place.per_part - index } else { 1 };
        Span { region: place.region, start, len: (chunks * slice.len - within).min(most) }
    }

    /// For each piece of the caller's memory that is a tail: where it is, and where it is worked on.
    /// Output as well as input, because what a program does not write must come back as it was.
    pub(crate) fn tails(&self) -> Vec<(Span, usize)> {
        let mut all = Vec::new();
        if self.tail == 0 {
            return all;
        }
        for buffer in [Buffer::Output, Buffer::Input] {
            let place = self.places[buffer as usize];
            for part in 0..place.chunks / place.per_part {
                let start = place.base + part * place.stride + place.per_part * self.chunk;
                let span = Span { region: place.region, start, len: self.tail * self.element };
                all.push((span, place.tail + part * place.per_part * self.element));
            }
        }
        all
    }

    /// Whether two slots of this rank are the same memory, in place.
    pub(crate) fn is_same_place(&self, a: Slot, b: Slot) -> bool {
        a.rank == b.rank
            && (0..self.slices.len()).all(|it| self.span(it, a, 0, 1) == self.span(it, b, 0, 1))
    }

    /// Where the caller's input (0) or output (1) is: the whole of it.
    pub(crate) fn whole(&self, buffer: Buffer) -> Span {
        let place = self.places[buffer as usize];
        let len = place.chunks / place.per_part * place.stride;
        Span { region: place.region, start: place.base, len }
    }
}

/// The tail, and slices of about `target` bytes each, all but the last equally long.
///
/// The tail comes first, because messages of earlier slices are sent first. Its messages are one element each: they need almost no
/// bandwidth, but the latency of every transfer in the program's longest chain of waits. In front, these latencies pass while the
/// other slices are sent; at the end, the call would wait for them.
fn slices(chunk: usize, element: usize, tail: usize, target: usize) -> Vec<Slice> {
    let mut slices = Vec::new();
    if tail > 0 {
        slices.push(Slice { offset: 0, len: element, tail: true });
    }
    if chunk > 0 {
        let count = chunk.div_ceil(target.max(1)).clamp(1, MAX_SLICES);
        let len = (chunk / element).div_ceil(count) * element;
        // Vectors and cache lines are not cut.
        let len = if count > 1 { len.next_multiple_of(64) } else { len };
        slices.extend((0..chunk).step_by(len).map(|offset| Slice {
            offset,
            len: len.min(chunk - offset),
            tail: false,
        }));
    }
    slices
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_collective::ProgramBuilder;

    fn layout(kind: CollectiveKind, elements: usize, in_place: bool, target: usize) -> Layout {
        let collective = Collective::new(kind, 3, 4).unwrap();
        let mut builder = ProgramBuilder::new("p", collective);
        builder.set_scratch(Rank(1), 2);
        let program = builder.build();
        Layout::new(&program, Rank(1), Element::F32, elements, in_place, target).unwrap()
    }

    /// Every byte of every chunk of a buffer, by way of all slices.
    fn covered(layout: &Layout, buffer: Buffer) -> Vec<(Region, usize)> {
        let mut bytes = Vec::new();
        for slice in 0..layout.slices.len() {
            for chunk in 0..layout.places[buffer as usize].chunks as u32 {
                let slot = Slot::new(Rank(1), buffer, chunk);
                let len = layout.message_bytes(slice, 1);
                let mut at = 0;
                while at < len {
                    let span = layout.span(slice, slot, at, len - at);
                    bytes.extend(span.range().map(|it| (span.region, it)));
                    at += span.len;
                }
            }
        }
        bytes.sort_unstable();
        bytes
    }

    #[test]
    fn slices_and_tail_cover_every_byte_once() {
        for elements in [0usize, 1, 3, 4, 17, 1000] {
            for target in [16, 256, 1 << 20] {
                let it = layout(CollectiveKind::AllGather, elements, false, target);
                let output = covered(&it, Buffer::Output);
                let mut unique = output.clone();
                unique.dedup();
                assert_eq!(unique.len(), output.len());
                let own = output.iter().filter(|it| it.0 == Region::Second).count();
                let tails: usize = it
                    .tails()
                    .iter()
                    .filter(|it| it.0.region == Region::Second)
                    .map(|it| it.0.len)
                    .sum();
                assert_eq!(own + tails, 3 * elements * 4);
                let input = covered(&it, Buffer::Input);
                let scratch = covered(&it, Buffer::Scratch);
                assert!(input.iter().all(|it| !output.contains(it) && !scratch.contains(it)));
                assert!(scratch.iter().all(|byte| byte.1 < it.regions[2]));
            }
        }
    }

    #[test]
    fn the_tail_is_sent_before_all_else() {
        let tail_of = |elements: usize| -> Vec<bool> {
            let it = layout(CollectiveKind::AllGather, elements, false, 1 << 10);
            it.slices.iter().map(|it| it.tail).collect()
        };
        // Four chunks to a part: of 2047 elements three are left over.
        assert_eq!(tail_of(2048), [false, false]);
        assert_eq!(tail_of(2047), [true, false, false]);
        assert_eq!(tail_of(3), [true]);
    }

    #[test]
    fn in_place_the_input_is_part_of_the_output() {
        let it = layout(CollectiveKind::AllGather, 17, true, 1 << 20);
        let (input, output) = (covered(&it, Buffer::Input), covered(&it, Buffer::Output));
        assert!(input.iter().all(|it| output.contains(it)));
        assert_eq!(it.whole(Buffer::Input), Span { region: Region::First, start: 68, len: 68 });
        assert_eq!(it.regions[..2], [3 * 68, 0]);
        let it = layout(CollectiveKind::ReduceScatter, 17, true, 1 << 20);
        let (input, output) = (covered(&it, Buffer::Input), covered(&it, Buffer::Output));
        assert!(output.iter().all(|it| input.contains(it)));
    }

    #[test]
    fn whole_chunks_of_a_part_are_one_piece() {
        let it = layout(CollectiveKind::AllGather, 16, false, 1 << 20);
        let span = it.span(0, Slot::output(Rank(1), 4), 0, usize::MAX);
        assert_eq!(span, Span { region: Region::Second, start: 64, len: 64 });
        let cut = layout(CollectiveKind::AllGather, 1 << 12, false, 1 << 10);
        assert_eq!(cut.slices.len(), 4);
        assert_eq!(cut.span(1, Slot::input(Rank(1), 2), 24, usize::MAX).len, 1000);
    }

    #[test]
    fn sizes_beyond_memory_are_refused() {
        let collective = Collective::new(CollectiveKind::AllReduce, 2, 1).unwrap();
        let program = ProgramBuilder::new("p", collective).build();
        let refused = Layout::new(&program, Rank(0), Element::F64, usize::MAX / 4, false, 1 << 20);
        assert!(refused.is_err());
    }
}
