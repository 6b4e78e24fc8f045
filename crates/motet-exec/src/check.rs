//! Random inputs, and the outputs that a collective's postcondition demands for them: for tests and benchmarks
//! that check every element.
//!
//! Results are compared bit by bit, so they may not depend on the order in which a program reduces. Floats get whole numbers so small that
//! every sum of any of them is exact (for products: ones and few twos). Integers get any bits, since their sums and products wrap around and
//! are the same in any order too. The arithmetic here is independent of the executor's own, so that a fault in that shows.

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
    /// One key per rank, from which the rank's elements are generated.
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

    /// Element `index` of a rank's input. For float types it is a whole number.
    fn value(&self, rank: usize, index: usize) -> i128 {
        // Neighbours must differ, and quickly: the finalizer of splitmix64.
        let mut bits =
            self.keys[rank].wrapping_add((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^= bits >> 31;
        let is_product = self.call.reduction == Reduction::Product;
        let Some(exact) = whole_numbers(self.call.element) else {
            // Odd factors, or with many ranks nothing would be left but zeros.
            return within(self.call.element, i128::from(bits | u64::from(is_product)));
        };
        if is_product {
            return [1, -1, 1, if rank < 3 { 2 } else { 1 }][(bits % 4) as usize];
        }
        // All ranks together stay within what is exact, whoever is added to whom.
        let most = (exact / u64::from(self.collective.ranks())).clamp(1, LARGEST);
        if rank as u64 >= exact {
            return 0;
        }
        i128::from(bits % (2 * most + 1)) - i128::from(most)
    }

    /// How many chunks a part is cut into.
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
            write(self.call.element, self.value(rank as usize, index), 1, place);
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
                let (value, divisor) = match from {
                    Some(rank) => (self.value(rank, source), 1),
                    None => self.reduced(source),
                };
                write(self.call.element, value, divisor, &mut expected[..size]);
                let found = output.get(index * size..(index + 1) * size);
                if found != Some(&expected[..size]) {
                    count += 1;
                    first.get_or_insert_with(|| {
                        let expected = &expected[..size];
                        format!(
                            "element {index} of rank {rank} is {found:?} in bytes, not {expected:?}"
                        )
                    });
                }
            }
        }
        (count, first)
    }

    /// The reduction of element `index` over all ranks, and the divisor that makes it an average (1 for other reductions).
    fn reduced(&self, index: usize) -> (i128, u32) {
        let values = (0..self.keys.len()).map(|rank| self.value(rank, index));
        let reduced = match self.call.reduction {
            Reduction::Sum | Reduction::Average => values.sum(),
            // Whatever is beyond an element's bits has no part in those that are left.
            Reduction::Product => values.fold(1_i128, i128::wrapping_mul),
            Reduction::Min => values.min().unwrap_or(0),
            Reduction::Max => values.max().unwrap_or(0),
        };
        let averages = self.call.reduction == Reduction::Average;
        (reduced, if averages { self.collective.ranks() } else { 1 })
    }
}

/// The largest n for which a float type represents all whole numbers up to n exactly; `None` for integer types.
const fn whole_numbers(element: Element) -> Option<u64> {
    match element {
        Element::Bf16 => Some(1 << 8),
        Element::F16 => Some(1 << 11),
        Element::F32 => Some(1 << 24),
        Element::F64 => Some(1 << 53),
        _ => None,
    }
}

/// The largest magnitude of a random float: large enough for neighbours to differ, small enough to read in a message.
const LARGEST: u64 = 100;

/// Wraps an integer around to the range of its type; floats are returned as they are.
const fn within(element: Element, value: i128) -> i128 {
    match element {
        Element::I8 => value as i8 as i128,
        Element::U8 => value as u8 as i128,
        Element::I32 => value as i32 as i128,
        Element::U32 => value as u32 as i128,
        Element::I64 => value as i64 as i128,
        Element::U64 => value as u64 as i128,
        Element::F32 | Element::F64 | Element::Bf16 | Element::F16 => value,
    }
}

/// Writes `value / divisor`, rounded as the executor rounds averages: floats are divided in their own type, bf16 and f16 in f32, and
/// integers after they have wrapped around to their type, towards zero.
fn write(element: Element, value: i128, divisor: u32, to: &mut [u8]) {
    let single = || value as f32 / divisor as f32;
    match element {
        Element::F32 => to.copy_from_slice(&single().to_ne_bytes()),
        Element::F64 => to.copy_from_slice(&(value as f64 / f64::from(divisor)).to_ne_bytes()),
        Element::Bf16 => to.copy_from_slice(&bf16::from_f32(single()).to_ne_bytes()),
        Element::F16 => to.copy_from_slice(&f16::from_f32(single()).to_ne_bytes()),
        _ => {
            let bytes = (within(element, value) / i128::from(divisor)).to_le_bytes();
            to.copy_from_slice(&bytes[..to.len()]);
            if cfg!(target_endian = "big") {
                to.reverse();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reduce::{accumulate, average};

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

    /// What ranks have, added up by the executor's arithmetic in three different orders, is what is expected: every type, by every
    /// reduction, however many ranks there are.
    #[test]
    fn results_are_exact_in_any_order() {
        const ELEMENTS: usize = 257;
        for ranks in (2..=64).chain([257, 300]) {
            let collective = Collective::new(CollectiveKind::AllReduce, ranks, 1).unwrap();
            for (element, reduction) in
                Element::ALL.into_iter().flat_map(|it| Reduction::ALL.map(|how| (it, how)))
            {
                let call = Call { element, elements: ELEMENTS, reduction, in_place: false };
                let data = Data::new(&collective, call, Seed::new(u64::from(ranks)));
                // As words, so that any type may begin there.
                let length = ELEMENTS * element.bytes();
                let inputs = (0..ranks).map(|rank| {
                    let mut words = vec![0_u64; ELEMENTS];
                    data.fill(rank, &mut bytemuck::cast_slice_mut(&mut words)[..length]);
                    words
                });
                let inputs: Vec<Vec<u64>> = inputs.collect();
                let add = |into: &mut Vec<u64>, from: &Vec<u64>| {
                    let into = &mut bytemuck::cast_slice_mut(into)[..length];
                    let from = &bytemuck::cast_slice(from)[..length];
                    accumulate(element, reduction, into, from).unwrap();
                };
                // One after the other, the other way round, and by pairs.
                let ahead = |all: &[Vec<u64>]| {
                    let (first, others) = all.split_first().unwrap();
                    others.iter().fold(first.clone(), |mut sum, it| {
                        add(&mut sum, it);
                        sum
                    })
                };
                let back: Vec<Vec<u64>> = inputs.iter().rev().cloned().collect();
                let mut pairs = inputs.clone();
                while pairs.len() > 1 {
                    pairs = pairs.chunks(2).map(ahead).collect();
                }
                for mut sum in [ahead(&inputs), ahead(&back), pairs.remove(0)] {
                    let sum = &mut bytemuck::cast_slice_mut(&mut sum)[..length];
                    if reduction == Reduction::Average {
                        average(element, ranks, sum).unwrap();
                    }
                    let wrong = data.wrong(0, sum);
                    assert_eq!(wrong, (0, None), "{ranks} ranks, {reduction} of {element}");
                }
            }
        }
    }

    /// Data that hides nothing: it differs from rank to rank and from element to element, and integers do wrap around.
    #[test]
    fn data_is_worth_checking() {
        let collective = Collective::new(CollectiveKind::AllReduce, 64, 1).unwrap();
        for (element, reduction) in
            Element::ALL.into_iter().flat_map(|it| Reduction::ALL.map(|how| (it, how)))
        {
            let call = Call { element, elements: 1000, reduction, in_place: false };
            let data = Data::new(&collective, call, Seed::new(1));
            let differ = (1..1000).filter(|it| data.value(5, *it) != data.value(5, it - 1)).count();
            let others = (0..1000).filter(|it| data.value(5, *it) != data.value(6, *it)).count();
            assert!(differ > 300 && others > 300, "{reduction} of {element}: {differ}, {others}");
            let reduced: Vec<i128> = (0..1000).map(|it| data.reduced(it).0).collect();
            let wraps = reduced.iter().any(|it| within(element, *it) != *it);
            let may = whole_numbers(element).is_none()
                && !matches!(reduction, Reduction::Min | Reduction::Max);
            assert_eq!(wraps, may, "{reduction} of {element}");
        }
    }
}
