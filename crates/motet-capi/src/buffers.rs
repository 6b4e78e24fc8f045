//! [`Input`] and [`Output`]: the caller's memory, for as long as a call is under way.
//!
//! Whoever makes one from a pointer promises that the memory is there, and that nobody else writes it (or, of an output, touches it), until
//! the call has ended. Beyond this file they are safe: they can only be copied.

#![allow(unsafe_code, reason = "pointers from C, whose memory the compiler does not know")]

use std::ptr;

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

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.bytes > 0 && self.from.is_null()
    }

    /// Copies it; both are equally long, or nothing happens.
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
}

impl Output {
    /// Nothing, for ranks that get nothing.
    #[must_use]
    pub const fn none() -> Self {
        Self { to: ptr::null_mut(), bytes: 0 }
    }

    /// # Safety
    /// `bytes` bytes are writable at `to`, and nobody else touches them, until the call that takes this has ended. The call's input
    /// may be the same memory, or overlap it: it is read to its end before this is written.
    #[must_use]
    pub const unsafe fn new(to: *mut u8, bytes: usize) -> Self {
        Self { to, bytes }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_missing(&self) -> bool {
        self.bytes > 0 && self.to.is_null()
    }

    /// Copies into it; both are equally long, or nothing happens.
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
}
