//! [`Segment`]: a small file that the processes of one host map, so that a tuning driver can force settings
//! and everyone can see how long calls took. This is its layout; the embedder maps the file and hands in the words.
//!
//! All words are 64 bits in the machine's own order and are only ever touched atomically:
//!
//! | words | hold |
//! | --- | --- |
//! | 0 | `MOTETSG1` as ASCII, first letter lowest: what it is, and the version of the layout |
//! | 1 | how often a setting was forced or released |
//! | 2 | times that found no free slot |
//! | 3 | of the last communicator that a tuner was made for: ranks below, NCCL's nodes from bit 32 on |
//! | 4 | not 0: nothing is profiled meanwhile; heeded by the next call whose setting is forced |
//! | 5–15 | 0 |
//! | 16–79 | four words for each [`Collective`], in the order of its `index`: the forced setting, how often a tuner applied it, how often it could not, and what NCCL would have done by itself (algorithm and protocol as in a forced setting) |
//! | 80– | [`SLOTS`] slots of eight words: key, number of times, the last six times in ns |
//!
//! A new file is all zeros, which is an empty segment; the first to map it writes word 0. So it does not
//! matter who makes it.
//!
//! **A forced setting** is one word, so that nobody ever reads half of it: bit 0 set if there is one; bits
//! 1–4 the algorithm's index + 1 and 5–7 the protocol's, 0 for NCCL's own; bits 8–18 channels and 19–50
//! the chunk in bytes, 0 for NCCL's own; bits 51–63 count changes, so that the same setting forced twice
//! is two words. With neither algorithm nor protocol it says *let NCCL decide*, in spite of any plan.
//!
//! # What the driver promises
//!
//! Ranks that choose differently for one collective hang, and no rank asks another. So whoever forces
//! settings must do it only while every rank of every communicator that maps the file stands in a
//! barrier *after* its last collective was enqueued and *before* its next, and the barrier must not be a
//! collective of that same NCCL. A communicator that spans hosts has one file on each, and all are
//! changed within the same barrier. Where every process has a file of its own, it is enough that each changes its own between the same two
//! collectives. A rank reads the word once per call. Nobody shortens the file while
//! it is mapped.
//!
//! **A slot of times** is claimed by writing its key, once and for good: [`TimeKey`] packed with bit 63 set.
//! Each rank writes its own slots only; readers may see a time a moment before it is counted.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use motet_units::{Duration, Rank};

use crate::key::{Algorithm, Bucket, Collective, Protocol};
use crate::table::MOST_CHANNELS;

const MAGIC: u64 = u64::from_le_bytes(*b"MOTETSG1");
const CHANGES: usize = 1;
const DROPPED: usize = 2;
const SHAPE: usize = 3;
const PAUSED: usize = 4;
const CONTROL: usize = 16;
const PER_COLLECTIVE: usize = 4;
const APPLIED: usize = 1;
const REFUSED: usize = 2;
const OWN: usize = 3;
const TIMES: usize = 80;
const PER_SLOT: usize = 8;
const KEPT: usize = PER_SLOT - 2;

/// How many slots of times a segment has: one for each rank, collective, size and setting.
pub const SLOTS: usize = 4096;
/// The least number of words of a segment.
pub const WORDS: usize = TIMES + SLOTS * PER_SLOT;
/// How many words come before the times: a process that needs no times need not touch more.
pub const CONTROL_WORDS: usize = TIMES;
/// How many slots are tried for a key before its time is dropped.
const PROBES: usize = 64;

const SET: u64 = 1;
const VALID: u64 = 1 << 63;

/// A setting that the driver forces; fields that are `None` are left to NCCL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forced {
    pub algorithm: Option<Algorithm>,
    pub protocol: Option<Protocol>,
    pub channels: Option<u32>,
    /// In bytes.
    pub chunk: Option<u32>,
}

/// What a time was measured for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeKey {
    pub rank: Rank,
    pub collective: Collective,
    pub bucket: Bucket,
    pub algorithm: Option<Algorithm>,
    pub protocol: Option<Protocol>,
    pub channels: u32,
}

/// The recent times of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentTimes {
    pub key: TimeKey,
    /// How many times there were in all.
    pub count: u64,
    /// The median of the last six.
    pub median: Duration,
}

/// Why words are refused as a segment, or a setting cannot be forced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    #[error("it has {0} words, and a segment has {WORDS}; make it anew")]
    Short(usize),
    #[error("it does not begin as a segment of this Motet does; give another file")]
    Foreign,
    #[error("{0} channels are more than {MOST_CHANNELS}; force fewer")]
    Channels(u32),
}

/// A view of the words of a mapped control file.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Segment<'a> {
    /// The segment in `words`; new words, which are all zero, are made one.
    ///
    /// # Errors
    /// When they are too few, or something else is in them.
    pub fn new(words: &'a [AtomicU64]) -> Result<Self, SegmentError> {
        if words.len() < WORDS {
            return Err(SegmentError::Short(words.len()));
        }
        match words[0].compare_exchange(0, MAGIC, Relaxed, Relaxed) {
            Ok(_) | Err(MAGIC) => Ok(Self { words }),
            Err(_) => Err(SegmentError::Foreign),
        }
    }

    fn of(&self, collective: Collective) -> &'a [AtomicU64] {
        &self.words[CONTROL + PER_COLLECTIVE * collective.index()..][..PER_COLLECTIVE]
    }

    /// The setting that is forced for a collective, if one is. One atomic load, as this is on the call path.
    #[must_use]
    pub fn forced(&self, collective: Collective) -> Option<Forced> {
        unpack(self.of(collective)[0].load(Acquire))
    }

    /// Forces a setting, or with `None` leaves the collective to the plan again, and forgets how
    /// often the last was applied. See the [module](self) for when this may be done.
    ///
    /// # Errors
    /// When it has more channels than any communicator.
    pub fn force(
        &self,
        collective: Collective,
        forced: Option<Forced>,
    ) -> Result<(), SegmentError> {
        if let Some(channels) = forced.and_then(|it| it.channels).filter(|it| *it > MOST_CHANNELS) {
            return Err(SegmentError::Channels(channels));
        }
        let words = self.of(collective);
        words[APPLIED].store(0, Relaxed);
        words[REFUSED].store(0, Relaxed);
        words[OWN].store(0, Relaxed);
        let change = self.words[CHANGES].fetch_add(1, Relaxed) + 1;
        words[0].store(forced.map_or(0, pack) | (change << 51), Release);
        Ok(())
    }

    /// Counts a call that a forced setting was applied to, or one for which NCCL does not offer it.
    pub fn note(&self, collective: Collective, applied: bool) {
        self.of(collective)[if applied { APPLIED } else { REFUSED }].fetch_add(1, Relaxed);
    }

    /// To how many calls the setting in force was applied, and for how many NCCL did not offer it.
    #[must_use]
    pub fn noted(&self, collective: Collective) -> (u64, u64) {
        let words = self.of(collective);
        (words[APPLIED].load(Relaxed), words[REFUSED].load(Relaxed))
    }

    /// Notes what NCCL would do by itself for a call whose setting is forced.
    pub fn note_own(&self, collective: Collective, algorithm: Algorithm, protocol: Protocol) {
        let own =
            Forced { algorithm: Some(algorithm), protocol: Some(protocol), ..Forced::default() };
        self.of(collective)[OWN].store(pack(own), Relaxed);
    }

    /// What NCCL would have done by itself for the last call whose setting was forced.
    #[must_use]
    pub fn own(&self, collective: Collective) -> Option<(Algorithm, Protocol)> {
        let own = unpack(self.of(collective)[OWN].load(Relaxed))?;
        own.algorithm.zip(own.protocol)
    }

    /// Notes the ranks and nodes of a communicator, as NCCL has told a tuner.
    pub fn note_shape(&self, ranks: u32, nodes: u32) {
        self.words[SHAPE].store(u64::from(ranks) | u64::from(nodes) << 32, Relaxed);
    }

    /// Ranks and nodes of the last communicator; none if no tuner was made.
    #[must_use]
    pub fn shape(&self) -> Option<(u32, u32)> {
        let word = self.words[SHAPE].load(Relaxed);
        // Each half has 32 bits.
        (word != 0).then_some((word as u32, (word >> 32) as u32))
    }

    /// Pauses or resumes profiling from the next forced call on, so that the cost of profiling can be measured on one
    /// communicator.
    pub fn pause_profiling(&self, paused: bool) {
        self.words[PAUSED].store(u64::from(paused), Relaxed);
    }

    /// Whether nothing should be profiled.
    #[must_use]
    pub fn is_profiling_paused(&self) -> bool {
        self.words[PAUSED].load(Relaxed) != 0
    }

    /// Adds a time. Says whether there was room for it.
    pub fn record(&self, key: &TimeKey, time: Duration) -> bool {
        let Some(slot) = self.claim(key.pack()) else {
            self.words[DROPPED].fetch_add(1, Relaxed);
            return false;
        };
        let count = slot[1].load(Relaxed);
        // Six, so the remainder fits. Only this rank writes the slot.
        slot[2 + (count % KEPT as u64) as usize].store((time.as_ps() / 1000).max(1), Relaxed);
        slot[1].store(count + 1, Release);
        true
    }

    /// Finds the slot of a key, or claims a free one for it.
    fn claim(&self, key: u64) -> Option<&'a [AtomicU64]> {
        // Multiplication spreads over the upper bits.
        let first = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
        (first..first + PROBES).map(|it| self.slot(it % SLOTS)).find(|slot| {
            match slot[0].compare_exchange(0, key, Relaxed, Relaxed) {
                Ok(_) => true,
                Err(there) => there == key,
            }
        })
    }

    fn slot(&self, index: usize) -> &'a [AtomicU64] {
        &self.words[TIMES + PER_SLOT * index..][..PER_SLOT]
    }

    /// The recent times of all ranks, in the order of keys.
    #[must_use]
    pub fn times(&self) -> Vec<RecentTimes> {
        let mut all: Vec<_> = (0..SLOTS).filter_map(|it| recent(self.slot(it))).collect();
        all.sort_by_key(|it| it.key);
        all
    }

    /// Times that found no room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.words[DROPPED].load(Relaxed)
    }

    /// Forgets all times; within a barrier only, as [`force`](Self::force).
    pub fn clear_times(&self) {
        self.words[TIMES..WORDS].iter().for_each(|it| it.store(0, Relaxed));
        self.words[DROPPED].store(0, Relaxed);
    }
}

fn recent(slot: &[AtomicU64]) -> Option<RecentTimes> {
    let key = TimeKey::unpack(slot[0].load(Relaxed))?;
    let count = slot[1].load(Acquire);
    let mut last: Vec<u64> =
        slot[2..].iter().map(|it| it.load(Relaxed)).filter(|it| *it != 0).collect();
    last.sort_unstable();
    let median = *last.get(last.len() / 2)?;
    Some(RecentTimes { key, count, median: Duration::from_ps(median.saturating_mul(1000)) })
}

/// An index + 1; 0 for none.
fn number(index: Option<usize>) -> u64 {
    index.map_or(0, |it| it as u64 + 1)
}

fn named<T: Copy>(all: &[T], number: u64) -> Option<T> {
    all.get((number as usize).checked_sub(1)?).copied()
}

fn pack(it: Forced) -> u64 {
    SET | number(it.algorithm.map(Algorithm::index)) << 1
        | number(it.protocol.map(Protocol::index)) << 5
        | u64::from(it.channels.unwrap_or(0)) << 8
        | u64::from(it.chunk.unwrap_or(0)) << 19
}

fn unpack(word: u64) -> Option<Forced> {
    if word & SET == 0 {
        return None;
    }
    // Masked to fewer bits than the types have.
    let some = |it: u64| Some(it as u32).filter(|it| *it != 0);
    Some(Forced {
        algorithm: named(Algorithm::ALL, word >> 1 & 0xf),
        protocol: named(Protocol::ALL, word >> 5 & 0x7),
        channels: some(word >> 8 & 0x7ff),
        chunk: some(word >> 19 & 0xffff_ffff),
    })
}

impl TimeKey {
    fn pack(&self) -> u64 {
        VALID
            | u64::from(self.rank.0 & 0x1_ffff)
            | (self.collective.index() as u64) << 17
            | u64::from(self.bucket.log2()) << 21
            | number(self.algorithm.map(Algorithm::index)) << 27
            | number(self.protocol.map(Protocol::index)) << 31
            | u64::from(self.channels.min(0x7ff)) << 34
    }

    fn unpack(word: u64) -> Option<Self> {
        if word & VALID == 0 {
            return None;
        }
        Some(Self {
            rank: Rank((word & 0x1_ffff) as u32),
            collective: *Collective::ALL.get((word >> 17 & 0xf) as usize)?,
            bucket: Bucket::new((word >> 21 & 0x3f) as u8)?,
            algorithm: named(Algorithm::ALL, word >> 27 & 0xf),
            protocol: named(Protocol::ALL, word >> 31 & 0x7),
            channels: (word >> 34 & 0x7ff) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zeros() -> Vec<AtomicU64> {
        (0..WORDS).map(|_| AtomicU64::new(0)).collect()
    }

    fn key(rank: u32, channels: u32) -> TimeKey {
        TimeKey {
            rank: Rank(rank),
            collective: Collective::SendRecv,
            bucket: Bucket::new(63).unwrap(),
            algorithm: Some(Algorithm::Pat),
            protocol: None,
            channels,
        }
    }

    #[test]
    fn a_new_file_is_an_empty_segment_and_a_foreign_one_is_none() {
        let words = zeros();
        let segment = Segment::new(&words).unwrap();
        assert!(Collective::ALL.iter().all(|it| segment.forced(*it).is_none()));
        assert_eq!(segment.times(), []);
        assert!(Segment::new(&words).is_ok(), "a second process");
        assert_eq!(Segment::new(&words[1..]).unwrap_err(), SegmentError::Short(WORDS - 1));
        words[0].store(7, Relaxed);
        assert_eq!(Segment::new(&words).unwrap_err(), SegmentError::Foreign);
    }

    #[test]
    fn what_is_forced_holds_for_one_collective_until_it_is_released() {
        let words = zeros();
        let segment = Segment::new(&words).unwrap();
        let forced = Forced { algorithm: Some(Algorithm::Tree), ..Forced::default() };
        segment.force(Collective::AllReduce, Some(forced)).unwrap();
        let word = words[CONTROL + PER_COLLECTIVE * Collective::AllReduce.index()].load(Relaxed);
        assert_eq!(segment.forced(Collective::AllReduce), Some(forced));
        assert_eq!(segment.forced(Collective::AllGather), None);
        segment.note(Collective::AllReduce, true);
        segment.note(Collective::AllReduce, false);
        assert_eq!(segment.noted(Collective::AllReduce), (1, 1));
        segment.force(Collective::AllReduce, Some(forced)).unwrap();
        assert_eq!(segment.noted(Collective::AllReduce), (0, 0));
        assert_eq!(segment.own(Collective::AllReduce), None);
        segment.note_own(Collective::AllReduce, Algorithm::Ring, Protocol::Ll);
        let own = Some((Algorithm::Ring, Protocol::Ll));
        assert_eq!(segment.own(Collective::AllReduce), own);
        assert_eq!(segment.shape(), None);
        segment.note_shape(8, 2);
        assert_eq!(segment.shape(), Some((8, 2)));
        assert!(!segment.is_profiling_paused());
        segment.pause_profiling(true);
        assert!(segment.is_profiling_paused());
        let again = words[CONTROL + PER_COLLECTIVE * Collective::AllReduce.index()].load(Relaxed);
        assert_ne!(word, again, "forced twice is two versions");
        segment.force(Collective::AllReduce, Some(Forced::default())).unwrap();
        assert_eq!(segment.forced(Collective::AllReduce), Some(Forced::default()));
        segment.force(Collective::AllReduce, None).unwrap();
        assert_eq!(segment.forced(Collective::AllReduce), None);
        let many = Forced { channels: Some(1025), ..Forced::default() };
        let error = segment.force(Collective::AllReduce, Some(many)).unwrap_err();
        assert_eq!(error, SegmentError::Channels(1025));
    }

    #[test]
    fn times_of_a_key_are_kept_and_a_full_segment_says_so() {
        let words = zeros();
        let segment = Segment::new(&words).unwrap();
        for us in [9, 1, 2, 3, 4, 5, 6] {
            assert!(segment.record(&key(3, 7), Duration::from_us(us)));
        }
        segment.record(&key(2, 7), Duration::from_us(1));
        let times = segment.times();
        assert_eq!((times[0].key, times[1].key), (key(2, 7), key(3, 7)));
        assert_eq!((times[1].count, times[1].median), (7, Duration::from_us(4)));
        let room = (0..2 * SLOTS as u32).filter(|it| segment.record(&key(*it, 1), Duration::ZERO));
        let room = room.count();
        assert!(room > SLOTS * 3 / 4 && room < SLOTS, "{room}");
        assert_eq!(segment.dropped(), 2 * SLOTS as u64 - room as u64);
        segment.clear_times();
        assert_eq!((segment.times().len(), segment.dropped()), (0, 0));
    }

    proptest! {
        #[test]
        fn settings_and_keys_are_read_as_written(
            algorithm in prop::option::of(prop::sample::select(Algorithm::ALL)),
            protocol in prop::option::of(prop::sample::select(Protocol::ALL)),
            channels in prop::option::of(1u32..=MOST_CHANNELS),
            chunk in prop::option::of(1u32..),
            rank in 0u32..1 << 17, bucket in 0u8..64, change in 0u64..1 << 13,
        ) {
            let forced = Forced { algorithm, protocol, channels, chunk };
            prop_assert_eq!(unpack(pack(forced) | change << 51), Some(forced));
            let key = TimeKey {
                rank: Rank(rank), collective: Collective::Reduce, bucket: Bucket::new(bucket).unwrap(),
                algorithm, protocol, channels: channels.unwrap_or(0),
            };
            prop_assert_eq!(TimeKey::unpack(key.pack()), Some(key));
        }

        #[test]
        fn any_words_can_be_read(words in prop::collection::vec(any::<u64>(), 256)) {
            let all = zeros();
            all.iter().zip(words.iter().cycle()).for_each(|(to, from)| to.store(*from, Relaxed));
            all[0].store(MAGIC, Relaxed);
            let segment = Segment::new(&all).unwrap();
            let _ = (segment.times(), segment.forced(Collective::AllReduce));
            segment.record(&key(1, 1), Duration::from_us(1));
        }
    }
}
