//! The input of a call, and the output that it must have.
//!
//! Rank r's element i is `i mod 251 + r`: a prime, so that no chunk looks like the next; and whole numbers, whose sums
//! 32-bit floats hold exactly, whatever the order of additions, for up to 4,096 ranks.

use motet_runtime::Collective;

use crate::call::{Call, ELEMENT};

const PERIOD: usize = 251;

/// Consecutive elements: the one at `at` is `(first + at) mod 251`, times `factor`, plus `more`.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: usize,
    factor: u32,
    more: u32,
}

impl Run {
    /// A rank's input from element `first` on.
    const fn of_rank(rank: u32, first: usize) -> Self {
        Self { first, factor: 1, more: rank }
    }

    /// The sum of all ranks' inputs from element `first` on.
    const fn sum(ranks: u32, first: usize) -> Self {
        Self { first, factor: ranks, more: ranks * ranks.saturating_sub(1) / 2 }
    }

    /// One period as bytes, which the run repeats.
    fn period(self) -> Vec<u8> {
        let element = |at: usize| {
            // Below 2²⁴, so exact.
            let value = self.factor * ((self.first + at) % PERIOD) as u32 + self.more;
            (value as f32).to_le_bytes()
        };
        (0..PERIOD).flat_map(element).collect()
    }

    /// How many elements of `bytes` are something else.
    fn wrong(self, bytes: &[u8]) -> u64 {
        let period = self.period();
        let differ = |(part, whole): (&[u8], &[u8])| {
            if part == &whole[..part.len()] {
                return 0;
            }
            let elements = part.chunks(ELEMENT).zip(whole.chunks(ELEMENT));
            elements.filter(|(a, b)| a != b).count() as u64
        };
        bytes.chunks(period.len()).map(|it| differ((it, &period))).sum()
    }
}

/// A rank's input.
#[must_use]
pub fn input(call: &Call, rank: u32, ranks: u32) -> Vec<u8> {
    let bytes = call.elements(ranks).0 * ELEMENT;
    let period = Run::of_rank(rank, 0).period();
    let mut input = period.repeat(bytes / period.len() + 1);
    input.truncate(bytes);
    input
}

/// How many elements of a rank's output are wrong.
#[must_use]
pub fn wrong(call: &Call, rank: u32, ranks: u32, output: &[u8]) -> u64 {
    let part = call.count * ELEMENT;
    let parts = || (0..ranks).zip(output.chunks(part.max(1)));
    let own = rank as usize * call.count;
    let wrong: u64 = match call.collective {
        Collective::AllReduce => Run::sum(ranks, 0).wrong(output),
        Collective::AllGather => parts().map(|(from, it)| Run::of_rank(from, 0).wrong(it)).sum(),
        Collective::ReduceScatter => Run::sum(ranks, own).wrong(output),
        Collective::Broadcast => Run::of_rank(0, 0).wrong(output),
        Collective::Reduce if rank == 0 => Run::sum(ranks, 0).wrong(output),
        Collective::AllToAll => parts().map(|(from, it)| Run::of_rank(from, own).wrong(it)).sum(),
        // A Reduce leaves the others' output undefined; nothing else is run.
        _ => 0,
    };
    wrong + call.elements(ranks).1.saturating_sub(output.len() / ELEMENT) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a library must do, done by hand.
    fn run(call: &Call, ranks: u32) -> Vec<Vec<f32>> {
        let floats = |bytes: Vec<u8>| -> Vec<f32> {
            bytes.chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap())).collect()
        };
        let inputs: Vec<_> = (0..ranks).map(|it| floats(input(call, it, ranks))).collect();
        let sums = |at: usize| inputs.iter().map(|it| it[at]).sum::<f32>();
        let output = |rank: usize| -> Vec<f32> {
            let count = call.count;
            match call.collective {
                Collective::AllReduce | Collective::Reduce => (0..count).map(sums).collect(),
                Collective::AllGather => inputs.concat(),
                Collective::ReduceScatter => (0..count).map(|it| sums(rank * count + it)).collect(),
                Collective::Broadcast => inputs[0].clone(),
                _ => inputs.iter().flat_map(|it| it[rank * count..][..count].to_vec()).collect(),
            }
        };
        (0..ranks as usize).map(output).collect()
    }

    #[test]
    fn right_results_are_right_and_every_changed_element_is_seen() {
        use Collective::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};
        for collective in [AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter] {
            let call = Call { collective, count: 700, in_place: false };
            for (rank, output) in (0..).zip(run(&call, 3)) {
                let mut bytes: Vec<u8> = output.iter().flat_map(|it| it.to_le_bytes()).collect();
                assert_eq!(wrong(&call, rank, 3, &bytes), 0, "{collective}, rank {rank}");
                let matters = collective != Reduce || rank == 0;
                bytes[4 * 251 + 2] ^= 1;
                assert_eq!(wrong(&call, rank, 3, &bytes), u64::from(matters), "{collective}");
                let cut = bytes.len() - 8;
                bytes[4 * 251 + 2] ^= 1;
                assert_eq!(wrong(&call, rank, 3, &bytes[..cut]), 2, "{collective}");
            }
        }
    }

    #[test]
    fn sums_of_very_many_ranks_are_exact() {
        let whole = 4096u32 * 250 + 4096 * 4095 / 2;
        let last = Run::sum(4096, 250).period();
        assert!(whole < 1 << 24 && last[..4] == (whole as f32).to_le_bytes());
    }
}
