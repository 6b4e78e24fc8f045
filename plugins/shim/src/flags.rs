//! Words that the host and the GPU share: for each call under way three, which say that its stream has come to it, that it may go, and
//! that it has ended.
//!
//! The stream itself sets the first and the last and waits for the second (CUDA's stream memory operations), so neither the job's
//! threads nor the GPU's multiprocessors do anything for it, and times are those of the GPU's work, not of the
//! host, which is usually far ahead.

#![allow(unsafe_code, reason = "memory that a GPU writes to is no Rust value")]

use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::Stream;
use crate::cuda::{Address, Cuda};

/// The most calls that may be under way at once; more pass unseen.
const SLOTS: u32 = 8192;
const WORDS: u32 = 3;

/// One of the three.
#[derive(Clone, Copy)]
#[repr(u32)]
enum Word {
    Arrived,
    Granted,
    Ended,
}

/// The words of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u32);

/// See the [module](self).
pub(crate) struct Flags {
    cuda: Cuda,
    host: NonNull<AtomicU32>,
    device: Address,
    free: Mutex<Vec<Slot>>,
}

// SAFETY: the memory is never freed, and is only read and written as atomic words.
unsafe impl Send for Flags {}
// SAFETY: as above.
unsafe impl Sync for Flags {}

impl Flags {
    pub(crate) fn new(cuda: Cuda) -> Option<Self> {
        let bytes = (SLOTS * WORDS) as usize * size_of::<AtomicU32>();
        let (host, device) = cuda.shared(bytes)?;
        let free = Mutex::new((0..SLOTS).rev().map(Slot).collect());
        Some(Self { cuda, host: NonNull::new(host.cast())?, device, free })
    }

    pub(crate) const fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    fn word(&self, slot: Slot, word: Word) -> &AtomicU32 {
        let index = (slot.0 * WORDS + word as u32) as usize;
        // SAFETY: slots are less than SLOTS, so the word lies within the memory.
        let word = unsafe { self.host.add(index) };
        // SAFETY: the memory lives as long as the process, and is only used as atomic words.
        unsafe { word.as_ref() }
    }

    const fn address(&self, slot: Slot, word: Word) -> Address {
        self.device + ((slot.0 * WORDS + word as u32) as usize * size_of::<AtomicU32>()) as Address
    }

    pub(crate) fn take(&self) -> Option<Slot> {
        self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop()
    }

    /// Frees the slot of a call that has ended.
    pub(crate) fn give_back(&self, slot: Slot) {
        for word in [Word::Arrived, Word::Granted, Word::Ended] {
            self.word(slot, word).store(0, Ordering::Relaxed);
        }
        self.free.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(slot);
    }

    /// Has the stream, when it comes to this point, set the first word and, if `gated`, wait for the second. False if the driver refuses.
    pub(crate) fn begin(&self, slot: Slot, stream: Stream, gated: bool) -> bool {
        self.cuda.write(stream, self.address(slot, Word::Arrived))
            && (!gated || self.cuda.wait(stream, self.address(slot, Word::Granted)))
    }

    /// Has the stream set the third word when it comes to this point. False if the driver refuses.
    pub(crate) fn end(&self, slot: Slot, stream: Stream) -> bool {
        self.cuda.write(stream, self.address(slot, Word::Ended))
    }

    pub(crate) fn grant(&self, slot: Slot) {
        self.word(slot, Word::Granted).store(1, Ordering::Release);
    }

    pub(crate) fn has_arrived(&self, slot: Slot) -> bool {
        self.word(slot, Word::Arrived).load(Ordering::Acquire) != 0
    }

    pub(crate) fn has_ended(&self, slot: Slot) -> bool {
        self.word(slot, Word::Ended).load(Ordering::Acquire) != 0
    }
}
