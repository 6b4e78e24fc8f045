//! Random data, and what must come of it, by the collective's postcondition alone: for tests and benchmarks
//! that check every element.
//!
//! Values are small whole numbers (for products: ones and few twos), so that floats of any width are exact in
//! whatever order a program reduces them, and results can be compared bit by bit.

use half::{bf16, f16};
use motet_collective::{Collective, CollectiveKind, Expected};
use motet_units::{Rank, Seed};
use rand_core::Rng as _;

use crate::element::{Element, Reduction};
use crate::group::Call;

/// The data of one call on all ranks.
#[derive(Clone, Debug)]
pub struct Data<'a> {
    collective: &'a Collective,
    call: Call,
    /// One number for each rank, from which its elements follow.
    keys: Vec<u64>,
}

impl<'a> Data<'a> {
    /// The data of a call; another seed gives other data.
    #[must_use]
    pub fn new(collective: &'a Collective, call: Call, seed: Seed) -> Self {
        let mut stream = seed.stream("data of ranks");
        let keys = (0..collective.ranks()).map(|_| stream.next_u64()).collect();
        Self { collective, call, keys }
    }

    /// Element `index` of a rank's input.
    fn value(&self, rank: usize, index: usize) -> i64 {
        // Neighbours must differ, and quickly: the finalizer of splitmix64.
        let mut bits =
            self.keys[rank].wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let bits = (bits ^ (bits >> 31)) as u32;
        match self.call.reduction {
            Reduction::Product => [1, 1, 1, if rank < 3 { 2 } else { 1 }][(bits % 4) as usize],
            Reduction::Average => i64::from(bits % 4) * i64::from(self.collective.ranks()),
            _ => i64::from(bits % 7),
        }
    }

    /// Chunks of a part.
    fn per_part(&self) -> usize {
        match self.collective.kind() {
            CollectiveKind::AllToAllV => 1,
            _ => self.collective.chunks() as usize,
        }
    }

    /// The elements of chunk `offset`. Which elements of a part make a chunk is the executor's business; all
    /// that counts here is that they are the same ones in every part.
    fn chunk(&self, offset: u32) -> std::ops::Range<usize> {
        let (k, elements) = (self.per_part(), self.call.elements);
        let (part, index) = (offset as usize / k, offset as usize % k);
        let at = |it: usize| part * elements + it * elements / k;
        at(index)..at(index + 1)
    }

    /// Writes a rank's input.
    pub fn fill(&self, rank: u32, input: &mut [u8]) {
        let size = self.call.element.bytes();
        for (index, place) in input.chunks_exact_mut(size).enumerate() {
            write(self.call.element, self.value(rank as usize, index), place);
        }
    }

    /// How many elements of a rank's output are wrong, and the first of them in words.
    #[must_use]
    pub fn wrong(&self, rank: u32, output: &[u8]) -> (u64, Option<String>) {
        let (mut count, mut first) = (0, None);
        let size = self.call.element.bytes();
        let mut expected = [0; 8];
        for offset in 0..self.collective.output_chunks(Rank(rank)) {
            let (from, source) = match self.collective.expected(Rank(rank), offset) {
                Expected::Anything => continue,
                Expected::Input { rank, offset } => (Some(rank.index()), self.chunk(offset)),
                Expected::Sum { offset } => (None, self.chunk(offset)),
            };
            for (index, source) in self.chunk(offset).zip(source) {
                let value = match from {
                    Some(rank) => self.value(rank, source),
                    None => self.reduced(source),
                };
                write(self.call.element, value, &mut expected[..size]);
                let found = output.get(index * size..(index + 1) * size);
                if found != Some(&expected[..size]) {
                    count += 1;
                    first.get_or_insert_with(|| {
                        format!("element {index} of rank {rank} is {found:?} in bytes, not {value}")
                    });
                }
            }
        }
        (count, first)
    }

    fn reduced(&self, index: usize) -> i64 {
        let values = (0..self.keys.len()).map(|rank| self.value(rank, index));
        match self.call.reduction {
            Reduction::Sum => values.sum(),
            Reduction::Product => values.product(),
            Reduction::Min => values.min().unwrap_or(0),
            Reduction::Max => values.max().unwrap_or(0),
            Reduction::Average => values.sum::<i64>() / i64::from(self.collective.ranks()),
        }
    }
}

/// The bytes of a value.
fn write(element: Element, value: i64, to: &mut [u8]) {
    match element {
        Element::F32 => to.copy_from_slice(&(value as f32).to_ne_bytes()),
        Element::F64 => to.copy_from_slice(&(value as f64).to_ne_bytes()),
        Element::Bf16 => to.copy_from_slice(&bf16::from_f32(value as f32).to_ne_bytes()),
        Element::F16 => to.copy_from_slice(&f16::from_f32(value as f32).to_ne_bytes()),
        Element::I8 | Element::U8 => to.copy_from_slice(&(value as u8).to_ne_bytes()),
        Element::I32 | Element::U32 => to.copy_from_slice(&(value as u32).to_ne_bytes()),
        Element::I64 | Element::U64 => to.copy_from_slice(&value.to_ne_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_wrong_element_is_found() {
        let collective = Collective::new(CollectiveKind::AllGather, 2, 3).unwrap();
        let call = Call {
            element: Element::F16,
            elements: 100,
            reduction: Reduction::Sum,
            in_place: false,
        };
        let data = Data::new(&collective, call, Seed::new(1));
        let mut output = vec![0; 400];
        let (first, second) = output.split_at_mut(200);
        data.fill(0, first);
        data.fill(1, second);
        assert_eq!(data.wrong(0, &output), (0, None));
        output[398] ^= 1;
        assert_eq!(data.wrong(0, &output).0, 1);
        assert!(Data::new(&collective, call, Seed::new(2)).wrong(0, &output).0 > 100);
        assert!(data.wrong(0, &output[..200]).0 >= 100);
    }
}
