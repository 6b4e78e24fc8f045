//! The arithmetic: received data is reduced with what its destination holds ([`accumulate`]) or with data that lies
//! elsewhere ([`combine`]), and sums become averages ([`average`]).
//!
//! The loops are plain ones over slices, which the compiler vectorizes. [`pulp`] compiles each of
//! them once for every set of vector instructions and picks at run time, so that a program built for
//! any x86-64 still uses AVX2 or AVX-512 where there is one. bf16 and f16 are widened to f32, reduced
//! and rounded to nearest even with every transfer, as NCCL does. `benches/reduce.rs` measures it.

use bytemuck::{AnyBitPattern, NoUninit};
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};
use pulp::Arch;

use crate::element::{Element, Reduction};

/// How many elements are widened to f32 at a time: both operands of so many fit the first-level cache.
const WIDENED: usize = 1024;

/// Bytes that are no whole number of elements, or lie where no element may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a buffer of {element} elements does not begin or end where one does")]
pub struct Misaligned {
    pub element: Element,
}

/// Reduces `from` into `into`, element by element. Both have the same length.
pub fn accumulate(
    element: Element,
    reduction: Reduction,
    into: &mut [u8],
    from: &[u8],
) -> Result<(), Misaligned> {
    reduce(element, reduction, Operands { into, first: None, from })
}

/// Writes what `first` and `from` reduce to into `into`, element by element. All have the same length.
///
/// The result is that of copying `first` to `into` and then [`accumulate`], bit for bit, except that of two NaNs it may be the other.
pub(crate) fn combine(
    element: Element,
    reduction: Reduction,
    into: &mut [u8],
    first: &[u8],
    from: &[u8],
) -> Result<(), Misaligned> {
    reduce(element, reduction, Operands { into, first: Some(first), from })
}

/// The operands of a reduction, and where its result goes. Without `first`, `into` holds the first operand.
struct Operands<'a, T> {
    into: &'a mut [T],
    first: Option<&'a [T]>,
    from: &'a [T],
}

impl<'a> Operands<'a, u8> {
    /// The bytes as elements, if all are of the same length and lie right.
    fn typed<T: NoUninit + AnyBitPattern>(self) -> Option<Operands<'a, T>> {
        let into: &mut [T] = bytemuck::try_cast_slice_mut(self.into).ok()?;
        let first = self.first.map(bytemuck::try_cast_slice).transpose().ok()?;
        let from: &[T] = bytemuck::try_cast_slice(self.from).ok()?;
        let alike = into.len() == from.len() && first.is_none_or(|it: &[T]| it.len() == from.len());
        alike.then_some(Operands { into, first, from })
    }
}

fn reduce(
    element: Element,
    reduction: Reduction,
    operands: Operands<'_, u8>,
) -> Result<(), Misaligned> {
    let done = match element {
        Element::F32 => floats::<f32>(reduction, operands),
        Element::F64 => floats::<f64>(reduction, operands),
        Element::Bf16 => narrow::<bf16>(reduction, operands),
        Element::F16 => narrow::<f16>(reduction, operands),
        Element::I8 => integers::<i8>(reduction, operands),
        Element::U8 => integers::<u8>(reduction, operands),
        Element::I32 => integers::<i32>(reduction, operands),
        Element::U32 => integers::<u32>(reduction, operands),
        Element::I64 => integers::<i64>(reduction, operands),
        Element::U64 => integers::<u64>(reduction, operands),
    };
    done.ok_or(Misaligned { element })
}

/// Divides each element, which is a sum and may have wrapped around, by the number of ranks.
pub fn average(element: Element, ranks: u32, values: &mut [u8]) -> Result<(), Misaligned> {
    let divided = match element {
        Element::F32 => each::<f32>(values, |it| it / ranks as f32),
        Element::F64 => each::<f64>(values, |it| it / f64::from(ranks)),
        Element::Bf16 => each::<bf16>(values, |it| bf16::from_f32(it.to_f32() / ranks as f32)),
        Element::F16 => each::<f16>(values, |it| f16::from_f32(it.to_f32() / ranks as f32)),
        // Narrow integers are divided as wide ones: the number of ranks may not fit theirs.
        Element::I8 => each::<i8>(values, |it| (i64::from(it) / i64::from(ranks)) as i8),
        Element::U8 => each::<u8>(values, |it| (u32::from(it) / ranks) as u8),
        Element::I32 => each::<i32>(values, |it| (i64::from(it) / i64::from(ranks)) as i32),
        Element::U32 => each::<u32>(values, |it| it / ranks),
        Element::I64 => each::<i64>(values, |it| it / i64::from(ranks)),
        Element::U64 => each::<u64>(values, |it| it / u64::from(ranks)),
    };
    divided.ok_or(Misaligned { element })
}

fn each<T: NoUninit + AnyBitPattern>(values: &mut [u8], make: impl Fn(T) -> T) -> Option<()> {
    let values: &mut [T] = bytemuck::try_cast_slice_mut(values).ok()?;
    values.iter_mut().for_each(|it| *it = make(*it));
    Some(())
}

/// The loop. It is inlined into callers that run it through [`Arch`], which compiles it for each set of vector instructions.
#[inline(always)]
fn zip<T: Copy>(into: &mut [T], first: Option<&[T]>, from: &[T], one: impl Fn(T, T) -> T) {
    match first {
        None => into.iter_mut().zip(from).for_each(|(into, from)| *into = one(*into, *from)),
        Some(first) => {
            for ((into, first), from) in into.iter_mut().zip(first).zip(from) {
                *into = one(*first, *from);
            }
        }
    }
}

/// A float that the machine computes with.
trait Float: NoUninit + AnyBitPattern + PartialOrd {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn is_nan(self) -> bool;
}

macro_rules! float {
    ($type:ty) => {
        impl Float for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                <$type>::is_nan(self)
            }
        }
    };
}
float!(f32);
float!(f64);

/// Not `f32::min`: a rank's NaN must show in the result, as in torch, and not be passed over.
#[inline(always)]
fn least<T: Float>(a: T, b: T) -> T {
    if a.is_nan() || a < b { a } else { b }
}

#[inline(always)]
fn greatest<T: Float>(a: T, b: T) -> T {
    if a.is_nan() || a > b { a } else { b }
}

#[inline(always)]
fn reduce_floats<T: Float>(arch: Arch, reduction: Reduction, operands: Operands<'_, T>) {
    let Operands { into, first, from } = operands;
    match reduction {
        Reduction::Sum | Reduction::Average => arch.dispatch(|| zip(into, first, from, T::sum)),
        Reduction::Product => arch.dispatch(|| zip(into, first, from, T::product)),
        Reduction::Min => arch.dispatch(|| zip(into, first, from, least)),
        Reduction::Max => arch.dispatch(|| zip(into, first, from, greatest)),
    }
}

fn floats<T: Float>(reduction: Reduction, operands: Operands<'_, u8>) -> Option<()> {
    reduce_floats(Arch::new(), reduction, operands.typed::<T>()?);
    Some(())
}

/// A float that is widened to f32 for arithmetic.
trait Narrow: NoUninit + AnyBitPattern {
    fn widen(from: &[Self], into: &mut [f32]);
    fn narrow(from: &[f32], into: &mut [Self]);
}

impl Narrow for bf16 {
    fn widen(from: &[Self], into: &mut [f32]) {
        from.convert_to_f32_slice(into);
    }
    fn narrow(from: &[f32], into: &mut [Self]) {
        into.convert_from_f32_slice(from);
    }
}

impl Narrow for f16 {
    fn widen(from: &[Self], into: &mut [f32]) {
        from.convert_to_f32_slice(into);
    }
    fn narrow(from: &[f32], into: &mut [Self]) {
        into.convert_from_f32_slice(from);
    }
}

fn narrow<T: Narrow>(reduction: Reduction, operands: Operands<'_, u8>) -> Option<()> {
    let Operands { into, first, from } = operands.typed::<T>()?;
    let (mut wide, mut other) = ([0f32; WIDENED], [0f32; WIDENED]);
    let arch = Arch::new();
    let mut firsts = first.map(|it| it.chunks(WIDENED));
    for (into, from) in into.chunks_mut(WIDENED).zip(from.chunks(WIDENED)) {
        let (wide, other) = (&mut wide[..into.len()], &mut other[..from.len()]);
        let first = firsts.as_mut().and_then(Iterator::next);
        T::widen(first.unwrap_or(into), wide);
        T::widen(from, other);
        reduce_floats(arch, reduction, Operands { into: wide, first: None, from: other });
        T::narrow(wide, into);
    }
    Some(())
}

/// An integer; sums and products wrap around.
trait Integer: NoUninit + AnyBitPattern + Ord {
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}
integer!(i8 u8 i32 u32 i64 u64);

fn integers<T: Integer>(reduction: Reduction, operands: Operands<'_, u8>) -> Option<()> {
    let Operands { into, first, from } = operands.typed::<T>()?;
    let arch = Arch::new();
    match reduction {
        Reduction::Sum | Reduction::Average => arch.dispatch(|| zip(into, first, from, T::sum)),
        Reduction::Product => arch.dispatch(|| zip(into, first, from, T::product)),
        Reduction::Min => arch.dispatch(|| zip(into, first, from, T::min)),
        Reduction::Max => arch.dispatch(|| zip(into, first, from, T::max)),
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced<T: NoUninit + AnyBitPattern>(
        element: Element,
        reduction: Reduction,
        mut into: Vec<T>,
        from: &[T],
    ) -> Vec<T> {
        let bytes = bytemuck::cast_slice_mut(&mut into);
        // What lies elsewhere reduces to the same, whatever was in the place of the result.
        let mut apart = vec![0x55u64; bytes.len().div_ceil(8)];
        let apart = &mut bytemuck::cast_slice_mut(&mut apart)[..bytes.len()];
        combine(element, reduction, apart, bytes, bytemuck::cast_slice(from)).unwrap();
        accumulate(element, reduction, bytes, bytemuck::cast_slice(from)).unwrap();
        assert_eq!(apart, bytes);
        into
    }

    #[test]
    fn all_types_reduce_alike_in_place_and_apart() {
        // More than is widened at a time, and no multiple of any vector; numbers in every float type.
        let bytes = |seed: u64| -> Vec<u64> {
            let mixed = |it: u64| it.wrapping_mul(0x1e37_79b9_7f4a_7c15 * seed);
            (1..3002).map(|it| mixed(it) & 0x3f3f_3f3f_3f3f_3f3f).collect()
        };
        for element in Element::ALL {
            for reduction in Reduction::ALL {
                reduced(element, reduction, bytes(1), &bytes(3));
            }
        }
    }

    #[test]
    fn each_reduction_is_what_it_is_called() {
        let (a, b) = (vec![1.5f32, -2.0, 8.0], [2.0f32, -3.0, 0.5]);
        let all = Reduction::ALL.map(|it| reduced(Element::F32, it, a.clone(), &b));
        let expected = [
            vec![3.5, -5.0, 8.5],
            vec![3.0, 6.0, 4.0],
            vec![1.5, -3.0, 0.5],
            vec![2.0, -2.0, 8.0],
            vec![3.5, -5.0, 8.5],
        ];
        assert_eq!(all, expected);
        let max = reduced(Element::I8, Reduction::Sum, vec![127i8], &[1]);
        assert_eq!(max, vec![-128]);
    }

    #[test]
    fn a_nan_of_any_rank_shows() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            for reduction in Reduction::ALL {
                assert!(reduced(Element::F32, reduction, vec![a], &[b])[0].is_nan());
            }
        }
    }

    #[test]
    fn narrow_floats_are_rounded_to_nearest_after_each_addition() {
        // 256 + 1 is a tie in bf16's eight bits and goes to the even neighbour, 256 + 3 to 260.
        let into = vec![bf16::from_f32(256.0); 2500];
        let from: Vec<bf16> =
            (0..2500).map(|it| bf16::from_f32(if it % 2 == 0 { 1.0 } else { 3.0 })).collect();
        let sums = reduced(Element::Bf16, Reduction::Sum, into, &from);
        for (index, sum) in sums.iter().enumerate() {
            assert_eq!(sum.to_f32(), if index % 2 == 0 { 256.0 } else { 260.0 });
        }
        let sum = reduced(
            Element::F16,
            Reduction::Sum,
            vec![f16::from_f32(2048.0)],
            &[f16::from_f32(1.0)],
        );
        assert_eq!(sum[0].to_f32(), 2048.0);
    }

    #[test]
    fn averages_divide_by_the_ranks() {
        let mut floats = [6.0f32, -3.0];
        average(Element::F32, 3, bytemuck::cast_slice_mut(&mut floats)).unwrap();
        assert_eq!(floats, [2.0, -1.0]);
        let mut bytes = [-100i8, 7];
        average(Element::I8, 3, bytemuck::cast_slice_mut(&mut bytes)).unwrap();
        assert_eq!(bytes, [-33, 2]);
        let mut many = [200u8];
        average(Element::U8, 1000, &mut many).unwrap();
        assert_eq!(many, [0]);
    }

    #[test]
    fn bytes_that_are_no_elements_are_refused() {
        let mut into = [0u8; 6];
        assert!(accumulate(Element::F32, Reduction::Sum, &mut into, &[0; 6]).is_err());
        let mut words = [0u64; 2];
        let into = bytemuck::cast_slice_mut(&mut words);
        assert!(combine(Element::U8, Reduction::Sum, into, &[0; 8], &[0; 16]).is_err());
        assert!(
            accumulate(Element::F32, Reduction::Sum, &mut [0u32; 2].map(|it| it as u8), &[0; 2])
                .is_err()
        );
    }
}
