//! [`Input`] and [`Output`]: the caller's memory, for as long as a call is under way.
//!
//! Whoever makes one from a pointer promises that the memory is valid, and that nobody else writes it (or, for an output, touches
//! it), until the call has ended. Code outside this file can only copy them or lend them to the engine ([`crate::lending`]), both safe.

#![allow(unsafe_code, reason = "pointers from callers, whose memory the compiler does not know")]

use std::ptr;

use crate::memory::Memory;

/// What a call reads.
#[derive(Debug)]
pub struct Input {
    from: *const u8,
    bytes: usize,
}

/// What a call writes.
#[derive(Debug)]
pub struct Output {
    to: *mut u8,
    bytes: usize,
}

// SAFETY: it is a pointer to memory that, as its maker has promised, nobody writes while this exists.
unsafe impl Send for Input {}
// SAFETY: likewise, nobody else touches it.
unsafe impl Send for Output {}

impl Input {
    /// Nothing, for ranks that give nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { from: ptr::null(), bytes: 0 }
    }

    /// # Safety
    /// `bytes` bytes are readable at `from`, and nobody writes them, until the call that takes this has ended.
    #[must_use]
    pub const unsafe fn new(from: *const u8, bytes: usize) -> Self {
        Self { from, bytes }
    }

    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the pointer is null although the length is not 0.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.bytes > 0 && self.from.is_null()
    }

    pub(crate) fn is_aligned(&self, to: usize) -> bool {
        self.from.addr().is_multiple_of(to)
    }

    /// Whether the two share any byte.
    pub(crate) fn overlaps(&self, output: &Output) -> bool {
        let (from, to) = (self.from.addr(), output.to.addr());
        from < to + output.bytes && to < from + self.bytes
    }

    /// The offset of this input from the start of `output`, in bytes; negative if the input begins first.
    pub(crate) fn behind(&self, output: &Output) -> isize {
        self.from.addr().wrapping_sub(output.to.addr()).cast_signed()
    }

    /// Copies the input to `to`. False, and nothing is copied, if the lengths differ or the pointer is null.
    pub(crate) fn copy_to(&self, to: &mut [u8]) -> bool {
        if to.len() != self.bytes || self.is_missing() {
            return false;
        }
        if self.bytes > 0 {
            // SAFETY: readable by the promise of `new`; `to` is a buffer of ours, so the two do not overlap.
            unsafe { ptr::copy_nonoverlapping(self.from, to.as_mut_ptr(), self.bytes) };
        }
        true
    }

    /// Lends this memory to the engine as a region that it only reads.
    pub(crate) fn lend(self) -> Memory {
        // SAFETY: readable until the call's end, by the promise of `new`; and it is only read.
        unsafe { Memory::lent(self.from.cast_mut(), self.bytes, false) }
    }
}

impl Output {
    /// Nothing, for ranks that get nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { to: ptr::null_mut(), bytes: 0 }
    }

    /// # Safety
    /// `bytes` bytes are writable at `to`, and nobody else touches them, until the call that takes this has ended. The call's input
    /// may be the same memory, or overlap it.
    #[must_use]
    pub const unsafe fn new(to: *mut u8, bytes: usize) -> Self {
        Self { to, bytes }
    }

    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the pointer is null although the length is not 0.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.bytes > 0 && self.to.is_null()
    }

    pub(crate) fn is_aligned(&self, to: usize) -> bool {
        self.to.addr().is_multiple_of(to)
    }

    /// Copies `from` into the output. False, and nothing is copied, if the lengths differ or the pointer is null.
    pub(crate) fn copy_from(&mut self, from: &[u8]) -> bool {
        if from.len() != self.bytes || self.is_missing() {
            return false;
        }
        if self.bytes > 0 {
            // SAFETY: writable by the promise of `new`; `from` is a buffer of ours, so the two do not overlap.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.to, self.bytes) };
        }
        true
    }

    /// For a call in place: copies the input to its place, `at` bytes into this output, unless it already lies there or does not fit.
    /// Returns how many bytes were copied.
    pub(crate) fn bring(&mut self, input: &Input, at: usize) -> usize {
        let fits = at.checked_add(input.bytes).is_some_and(|it| it <= self.bytes);
        if input.bytes == 0 || !fits || input.from.addr() == self.to.addr() + at {
            return 0;
        }
        // SAFETY: within the memory that `new` was promised.
        let place = unsafe { self.to.add(at) };
        // SAFETY: readable and writable by the promises of both; they may overlap.
        unsafe { ptr::copy(input.from, place, input.bytes) };
        input.bytes
    }

    /// Lends this memory to the engine as a region that it reads and writes.
    pub(crate) fn lend(self) -> Memory {
        // SAFETY: writable, and nobody else's, until the call's end, by the promise of `new`.
        unsafe { Memory::lent(self.to, self.bytes, true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both over one array: the input from one byte on, the output from another.
    fn over(
        bytes: &mut [u8],
        input: std::ops::Range<usize>,
        output: std::ops::Range<usize>,
    ) -> (Input, Output) {
        let start = bytes.as_mut_ptr();
        assert!(input.end <= bytes.len() && output.end <= bytes.len());
        // SAFETY: within the array, which outlives both.
        let from = unsafe { start.add(input.start) };
        // SAFETY: likewise.
        let to = unsafe { start.add(output.start) };
        // SAFETY: the test is the only one that touches it.
        let input = unsafe { Input::new(from, input.len()) };
        // SAFETY: likewise.
        (input, unsafe { Output::new(to, output.len()) })
    }

    #[test]
    fn an_input_is_brought_to_its_place_whatever_overlaps() {
        for start in 0..=8 {
            let mut bytes: Vec<u8> = (0..16).collect();
            let (input, mut output) = over(&mut bytes, start..start + 4, 4..12);
            assert_eq!(input.overlaps(&output), (1..=11).contains(&start));
            assert_eq!(output.bring(&input, 2), if start == 6 { 0 } else { 4 });
            let moved: Vec<u8> = (0..4).map(|it| start as u8 + it).collect();
            assert_eq!(bytes[6..10], moved);
            assert_eq!((bytes[5], bytes[10]), (5, 10));
        }
        let mut bytes = vec![1; 16];
        let (input, mut output) = over(&mut bytes, 0..4, 4..6);
        assert_eq!(output.bring(&input, 0), 0);
        assert_eq!(output.bring(&Input::none(), 0), 0);
    }

    #[test]
    fn what_was_only_given_to_be_read_is_not_written() {
        let mut bytes = vec![7_u8; 16];
        let (input, output) = over(&mut bytes, 0..8, 8..16);
        let (mut read, mut written) = (input.lend(), output.lend());
        assert!(read.is_read_only() && !written.is_read_only());
        read.bytes_mut()[3] = 1;
        written.bytes_mut()[3] = 1;
        assert_eq!((read.bytes()[3], read.bytes().len()), (1, 8));
        assert_eq!((bytes[3], bytes[11]), (7, 1));
    }
}
