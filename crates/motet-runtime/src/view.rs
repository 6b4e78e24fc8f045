//! [`View`]: a table as it is used on one network, ready for lookup.
//!
//! The entries of one (collective, ranks) stand together in the table, in the order of their
//! buckets. A view has one slot for each such group in an open-addressed array: the key, the set
//! of buckets present as a 64-bit mask, and where the group begins. So a lookup is one hash, mostly
//! one probe, and a few bit operations that find the nearest bucket: no search, no allocation.
//! Entries with the same setting share it, and a plan has few: ten thousand entries take some tens
//! of kilobytes on the lookup path, which stay in a core's own cache beside the job's data.
//!
//! **Sizes between buckets** go to the nearest bucket present, and to the smaller of two equally
//! near. Further than [`REACH`] buckets away, a factor of 16, the library's own choice is safer
//! than knobs tuned for another regime.

use std::collections::BTreeMap;

use motet_units::Bytes;

use crate::key::{Bucket, Collective, Signature};
use crate::reason::Reason;
use crate::table::{Setting, Table};
use crate::times::Recent;

/// How many buckets away an entry may be used.
pub const REACH: u8 = 4;

/// A call that is about to be made. Every field must be the same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub collective: Collective,
    /// In nccl-tests' meaning of size, which is also what NCCL tells a tuner.
    pub bytes: Bytes,
    pub ranks: u32,
}

/// A table on one network, with room for recent times.
///
/// Aligned so that the reference count of an `Arc` of it, which control threads change when they put
/// the view in use, is on no cache line that a lookup reads.
#[derive(Debug)]
#[repr(align(128))]
pub struct View {
    table: Table,
    signature: Signature,
    slots: Box<[Slot]>,
    /// By how many bits to shift a hash so that its upper bits are the number of a slot.
    shift: u32,
    /// The first of the table's entries for this network.
    first: usize,
    /// By entry of this network: the index of its setting in `settings`.
    best: Box<[u32]>,
    /// The distinct settings in use.
    settings: Box<[Setting]>,
    /// By entry of this network: where its candidates' times begin in `times`.
    starts: Box<[u32]>,
    times: Box<[Recent]>,
}

/// Two fit a cache line, and none lies across two.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Slot {
    /// 0 in an empty slot.
    key: u64,
    buckets: u64,
    /// The entry of the lowest bucket.
    first: u32,
}

/// No key is 0: collectives count from 1 here.
const fn slot_key(collective: Collective, ranks: u32) -> u64 {
    ((collective.index() as u64 + 1) << 32) | ranks as u64
}

const fn hash(key: u64) -> u64 {
    // Multiplication spreads over the upper bits; 2⁶⁴ over the golden ratio, made odd.
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl View {
    #[must_use]
    pub fn new(table: Table, signature: Signature) -> Self {
        let first = table.entries().partition_point(|it| it.key.signature < signature);
        let own = table.entries()[first..].iter();
        let own: Vec<_> = own.take_while(|it| it.key.signature == signature).collect();
        let group = |index: usize| slot_key(own[index].key.collective, own[index].key.ranks);
        let groups = (0..own.len()).filter(|it| *it == 0 || group(*it) != group(*it - 1)).count();
        // At most half full, so probing always ends and mostly at once.
        let capacity = (groups * 2).next_power_of_two().max(2);
        let mut slots = vec![Slot::default(); capacity].into_boxed_slice();
        let shift = 64 - capacity.ilog2();
        let mut starts = Vec::with_capacity(own.len());
        let mut times = 0u32;
        for (index, entry) in own.iter().enumerate() {
            starts.push(times);
            // Sixteen candidates in each of a million entries at most.
            times += entry.candidates.len() as u32;
            let slot = &mut slots[probe(&slots, shift, group(index))];
            if slot.key == 0 {
                *slot = Slot { key: group(index), buckets: 0, first: (first + index) as u32 };
            }
            slot.buckets |= 1 << entry.key.bucket.log2();
        }
        let times = (0..times).map(|_| Recent::default()).collect();
        // A table's entries have candidates, the one in use first.
        let used = own.iter().map(|it| &it.candidates[0].setting);
        let mut numbers: BTreeMap<&Setting, u32> = used.clone().map(|it| (it, 0)).collect();
        (0..).zip(numbers.values_mut()).for_each(|(number, it)| *it = number);
        let best = used.map(|it| numbers[it]).collect();
        let settings = numbers.into_keys().cloned().collect();
        let starts = starts.into();
        Self { table, signature, slots, shift, first, best, settings, starts, times }
    }

    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// The signature of the network that the table is used on.
    #[must_use]
    pub const fn signature(&self) -> Signature {
        self.signature
    }

    /// The table's entry for a call.
    pub(crate) fn find(&self, call: &Call) -> Result<u32, Reason> {
        let key = slot_key(call.collective, call.ranks);
        let slot = self.slots[probe(&self.slots, self.shift, key)];
        if slot.key == 0 {
            let other = self.starts.is_empty();
            return Err(if other { Reason::OtherNetwork } else { Reason::NoEntry });
        }
        let wanted = Bucket::of(call.bytes).log2();
        let bucket = nearest(slot.buckets, wanted);
        if bucket.abs_diff(wanted) > REACH {
            return Err(Reason::NoSizeNear);
        }
        let before = slot.buckets & ((1 << bucket) - 1);
        Ok(slot.first + before.count_ones())
    }

    /// What to do for an entry that was [found](Self::find).
    pub(crate) fn best(&self, entry: u32) -> &Setting {
        &self.settings[self.best[entry as usize - self.first] as usize]
    }

    /// The recent times of a candidate of the table.
    pub(crate) fn recent(&self, entry: u32, candidate: u32) -> Option<&Recent> {
        let entry = entry as usize;
        let candidates = self.table.entries().get(entry)?.candidates.len();
        let start = self.starts.get(entry.checked_sub(self.first)?)?;
        if candidate as usize >= candidates {
            return None;
        }
        self.times.get((start + candidate) as usize)
    }

    /// This network's entries.
    pub(crate) fn own_entries(&self) -> impl Iterator<Item = u32> {
        (self.first..self.first + self.starts.len()).map(|it| it as u32)
    }
}

/// The slot that holds `key`, or the empty one where it would be.
fn probe(slots: &[Slot], shift: u32, key: u64) -> usize {
    let mut at = (hash(key) >> shift) as usize;
    while slots[at].key != key && slots[at].key != 0 {
        at = (at + 1) & (slots.len() - 1);
    }
    at
}

/// The bucket nearest to `wanted` in a set that is not empty, the smaller of two that are equally near.
const fn nearest(buckets: u64, wanted: u8) -> u8 {
    let below = buckets & (u64::MAX >> (63 - wanted));
    let above = buckets & !(u64::MAX >> (63 - wanted));
    // Below 64, so the casts keep them.
    let (high, low) = (63 - below.leading_zeros() as i32, above.trailing_zeros() as i32);
    let wanted = wanted as i32;
    let take_low = below == 0 || (above != 0 && low - wanted < wanted - high);
    (if take_low { low } else { high }) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::entry;
    use proptest::prelude::*;

    fn call(collective: Collective, bytes: u64, ranks: u32) -> Call {
        Call { collective, bytes: Bytes::new(bytes), ranks }
    }

    #[test]
    fn sizes_between_buckets_go_to_the_nearest() {
        let table = Table::new([10, 13, 14].map(|it| entry(7, 8, it, 1)).into()).unwrap();
        let view = View::new(table, Signature(7));
        let bucket = |bytes| {
            let found = view.find(&call(Collective::AllReduce, bytes, 8));
            found.map(|it| view.table().entries()[it as usize].key.bucket.log2())
        };
        for (log2, expected) in [(6, 10), (10, 10), (11, 10), (12, 13), (14, 14), (18, 14)] {
            assert_eq!(bucket(1 << log2), Ok(expected), "{log2}");
        }
        assert_eq!(bucket(1 << 5), Err(Reason::NoSizeNear));
        assert_eq!(bucket(1 << 19), Err(Reason::NoSizeNear));
    }

    #[test]
    fn what_is_not_there_is_the_librarys() {
        let entries = vec![entry(7, 8, 10, 1), entry(9, 8, 10, 1), entry(9, 16, 10, 1)];
        let table = Table::new(entries).unwrap();
        let seven = View::new(table.clone(), Signature(7));
        assert_eq!(seven.find(&call(Collective::AllReduce, 1024, 8)), Ok(0));
        assert_eq!(seven.find(&call(Collective::AllReduce, 1024, 16)), Err(Reason::NoEntry));
        assert_eq!(seven.find(&call(Collective::AllGather, 1024, 8)), Err(Reason::NoEntry));
        let eight = View::new(table, Signature(8));
        assert_eq!(eight.find(&call(Collective::AllReduce, 1024, 8)), Err(Reason::OtherNetwork));
        assert!(seven.recent(0, 0).is_some() && seven.recent(0, 1).is_none());
        assert!(seven.recent(1, 0).is_none(), "another network's entry");
    }

    proptest! {
        #[test]
        fn nearest_is_the_least_distance(buckets in 1u64.., wanted in 0u8..64) {
            let present = (0u8..64).filter(|it| buckets >> it & 1 == 1);
            let expected = present.min_by_key(|it| (it.abs_diff(wanted), *it));
            prop_assert_eq!(Some(nearest(buckets, wanted)), expected);
        }

        #[test]
        fn every_entry_is_found(keys in prop::collection::btree_set((1u32..40, 0u8..64), 1..200)) {
            let entries = keys.iter().map(|(ranks, bucket)| entry(7, *ranks, *bucket, 1));
            let entries = entries.zip(1..).map(|(mut entry, number)| {
                entry.candidates[0].setting.knobs.channels = Some(number % 50 + 1);
                entry
            });
            let view = View::new(Table::new(entries.collect()).unwrap(), Signature(7));
            for (index, (ranks, bucket)) in keys.iter().enumerate() {
                let found = view.find(&call(Collective::AllReduce, 1 << bucket, *ranks));
                prop_assert_eq!(found, Ok(index as u32));
                let entry = &view.table().entries()[index];
                prop_assert_eq!(view.best(index as u32), &entry.candidates[0].setting);
            }
        }
    }
}
