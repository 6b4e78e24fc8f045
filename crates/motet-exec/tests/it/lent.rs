//! Calls on the caller's own buffers: right results, nothing touched that is not theirs, copies only where they are needed, and
//! buffers that are the caller's again after any end.

#![allow(unsafe_code, reason = "buffers are pointers")]

use std::ops::Range;
use std::time::Duration as Wall;

use motet_collective::Verified;
use motet_collective::collective::InPlace;
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, ExecError, Group, Input, Operation, Output, Reduction};
use motet_units::{Duration, Rank, Seed};

use crate::programs;
use crate::ranks::on_all;
use crate::right::{Case, cases, types_and_reductions};

/// Bytes around every buffer that nobody may touch.
const GUARD: usize = 64;
const FREE: u8 = 0xA5;

/// A piece of memory with a buffer in it, or two.
struct Room(Vec<u64>);

impl Room {
    fn new(bytes: usize) -> Self {
        Self(vec![u64::from_ne_bytes([FREE; 8]); (bytes + 2 * GUARD).div_ceil(8) + 1])
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: any bytes of numbers are bytes.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * 8) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: and any bytes are numbers.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * 8) }
    }

    fn input(&self, range: &Range<usize>) -> Input {
        // SAFETY: the room lives until the call has ended, and is not touched before.
        unsafe { Input::new(self.bytes()[range.clone()].as_ptr(), range.len()) }
    }

    fn output(&mut self, range: &Range<usize>) -> Output {
        // SAFETY: likewise.
        unsafe { Output::new(self.bytes_mut()[range.clone()].as_mut_ptr(), range.len()) }
    }

    /// Whether nothing has been written but there.
    fn is_free_beside(&self, ranges: &[&Range<usize>]) -> bool {
        let mut all = self.bytes().iter().enumerate();
        all.all(|(at, it)| *it == FREE || ranges.iter().any(|range| range.contains(&at)))
    }
}

/// How the two buffers lie.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lie {
    Apart,
    /// As NCCL has them in place.
    InPlace,
    /// Where no element of more than a byte may begin.
    Odd,
}

/// Where input and output are in one room, of these lengths.
fn lie(case: &Case, rank: u32, lie: Lie, input: usize, output: usize) -> [Range<usize>; 2] {
    let collective = case.program.collective();
    let per_part = collective.chunks().max(1) as usize;
    let part = case.call.elements * case.call.element.bytes();
    let start = GUARD + usize::from(lie == Lie::Odd);
    let apart = [start..start + input, start + input + GUARD..start + input + GUARD + output];
    match collective.in_place(Rank(rank)).filter(|_| lie == Lie::InPlace) {
        Some(InPlace::InputInOutput { offset }) => {
            let at = start + offset as usize / per_part * part;
            [at..at + input, start..start + output]
        }
        Some(InPlace::OutputInInput { offset }) => {
            let at = start + offset as usize / per_part * part;
            [start..start + input, at..at + output]
        }
        _ => apart,
    }
}

/// One call on buffers that lie so; how many bytes it copied.
fn call_on(operation: &mut Operation, rank: u32, case: &Case, how: Lie, seed: u64) -> usize {
    let lengths = [operation.input().unwrap().len(), operation.output().unwrap().len()];
    let [input, output] = lie(case, rank, how, lengths[0], lengths[1]);
    let mut room = Room::new(lengths[0] + lengths[1] + GUARD);
    let data = Data::new(case.program.collective(), case.call, Seed::new(seed));
    data.fill(rank, &mut room.bytes_mut()[input.clone()]);
    let given = room.bytes()[input.clone()].to_vec();
    let (from, to) = (room.input(&input), room.output(&output));
    operation.start_on(from, to).unwrap();
    operation.wait().unwrap_or_else(|it| panic!("{}: {it}", case.program.name()));
    let (wrong, first) = data.wrong(rank, &room.bytes()[output.clone()]);
    let what = format!("{} of {:?}, {how:?}", case.program.name(), case.call);
    assert_eq!((wrong, first), (0, None), "{what}");
    assert!(room.is_free_beside(&[&input, &output]), "{what}: something else was written");
    if input.end <= output.start || output.end <= input.start {
        assert!(room.bytes()[input] == given, "{what}: the input was written");
    }
    operation.copied()
}

/// All cases in every form that their programs have.
fn all_forms(ranks: u32) -> Vec<Case> {
    let with = |it: &Case, in_place| Case { call: Call { in_place, ..it.call }, ..it.clone() };
    let each = cases(ranks).into_iter().flat_map(move |case| {
        let forms = case.program.forms();
        let in_place = forms.in_place.then(|| with(&case, true));
        let apart = forms.out_of_place.then(|| with(&case, false));
        in_place.into_iter().chain(apart)
    });
    each.collect()
}

/// On each rank: how each case, in each way that buffers can lie, came out.
fn run_all(group: &mut Group, cases: &[Case]) -> Vec<(Lie, usize)> {
    let rank = group.rank();
    let mut copied = Vec::new();
    for case in cases {
        let mut operation = group.register(&case.program, case.call).unwrap();
        for (seed, how) in (case.seed..).zip([Lie::Apart, Lie::InPlace, Lie::Odd, Lie::Apart]) {
            copied.push((how, call_on(&mut operation, rank, case, how, seed)));
        }
        // Its own memory serves as before.
        let data = Data::new(case.program.collective(), case.call, Seed::new(case.seed + 9));
        data.fill(rank, operation.input_mut().unwrap());
        operation.run().unwrap();
        assert_eq!(data.wrong(rank, operation.output().unwrap()), (0, None));
    }
    copied
}

fn shared(shared_memory: bool) -> impl Fn(Config) -> Config {
    move |it| Config { shared_memory, slice: 16 << 10, ..it }
}

#[test]
fn every_collective_on_buffers_of_the_callers() {
    for ranks in [2, 3] {
        for memory in [true, false] {
            let cases = all_forms(ranks);
            on_all(ranks, shared(memory), |group| run_all(&mut group.unwrap(), &cases));
        }
    }
}

/// Two ranks of one host and one of another: what the neighbour reads is shared, and the rest goes over TCP.
#[test]
fn some_ranks_share_memory() {
    let cases = all_forms(3);
    let change = |it: Config| shared(it.rank < 2)(it);
    on_all(3, change, |group| run_all(&mut group.unwrap(), &cases));
}

#[test]
fn every_type_and_reduction_on_buffers_of_the_callers() {
    let cases = types_and_reductions();
    let copied = on_all(3, shared(false), |group| run_all(&mut group.unwrap(), &cases));
    for (case, (how, copied)) in copied.iter().flat_map(|it| (0..).zip(it)) {
        let Call { element, .. } = cases[case / 4].call;
        let bytes = 1003 * element.bytes();
        let expected = match how {
            Lie::InPlace => 0,
            Lie::Odd if element.bytes() > 1 => 2 * bytes,
            // The input to its place.
            Lie::Apart | Lie::Odd => bytes,
        };
        assert_eq!(*copied, expected, "{element} {how:?}");
    }
}

/// What is copied where ranks share memory and where they do not, by programs that write no input.
#[test]
fn only_what_must_be_is_copied() {
    let part = 4 * 1000;
    let call =
        Call { element: Element::F32, elements: 1000, reduction: Reduction::Sum, in_place: false };
    let exchange = Verified::new(programs::direct_all_to_all(2, 1), None).unwrap();
    let exchange = Case { program: exchange, call, seed: 1 };
    let gather = Verified::new(programs::ring_all_gather(2, 1), None).unwrap();
    let gather = Case { program: gather, call, seed: 2 };
    for (memory, expected) in [
        // Overlapping buffers are both lent only if nothing but the input is written to its place; of two alike, the input is
        // copied.
        (false, [[0, 2 * part], [0, 0]]),
        // Others read inputs; outputs are the caller's own.
        (true, [[2 * part, 2 * part], [part, part]]),
    ] {
        on_all(2, shared(memory), |group| {
            let mut group = group.unwrap();
            let rank = group.rank();
            for (case, expected) in [&exchange, &gather].into_iter().zip(expected) {
                let mut operation = group.register(&case.program, case.call).unwrap();
                for (how, expected) in [Lie::Apart, Lie::InPlace].into_iter().zip(expected) {
                    let copied = call_on(&mut operation, rank, case, how, 3);
                    assert_eq!(copied, expected, "{} {how:?} {memory}", case.program.name());
                }
            }
        });
    }
}

#[test]
fn buffers_of_another_length_are_refused() {
    let program = Verified::new(programs::ring_all_reduce(1, 1), None).unwrap();
    let call =
        Call { element: Element::F32, elements: 10, reduction: Reduction::Sum, in_place: true };
    on_all(1, shared(true), |group| {
        let mut operation = group.unwrap().register(&program, call).unwrap();
        let mut room = Room::new(44);
        let (input, output) = (room.input(&(0..44)), room.output(&(0..44)));
        let wrong = operation.start_on(input, output);
        assert_eq!(wrong, Err(ExecError::Size { what: "the input", wanted: 40, given: 44 }));
        assert!(!operation.is_running() && operation.input().is_some());
    });
}

/// Two ranks call on a buffer; the third never does, and goes. Whatever ended the call, the buffer is the caller's.
fn after_a_loss(end: impl Fn(Operation) -> bool + Sync) {
    let program = Verified::new(programs::ring_all_reduce(3, 1), None).unwrap();
    // Of bytes every sum shows, whatever was there.
    let elements = 4 << 20;
    let call = Call { element: Element::U8, elements, reduction: Reduction::Sum, in_place: true };
    let change = |it: Config| Config { deadline: Duration::from_ms(3_000), ..shared(false)(it) };
    on_all(3, change, |group| {
        let mut group = group.unwrap();
        let mut operation = group.register(&program, call).unwrap();
        if group.rank() == 2 {
            std::thread::sleep(Wall::from_millis(400));
            return;
        }
        // What comes from here to rank 1 comes while that call is under way, and after whatever ended it wrongly.
        if group.rank() == 0 {
            std::thread::sleep(Wall::from_millis(150));
        }
        let buffer = GUARD..GUARD + elements;
        let mut room = Room::new(elements);
        room.bytes_mut()[buffer.clone()].fill(1);
        let (input, output) = (room.input(&buffer), room.output(&buffer));
        operation.start_on(input, output).unwrap();
        assert_eq!(operation.copied(), 0);
        assert!(end(operation), "the call cannot have gone well");
        // Nobody writes there any more.
        room.bytes_mut().fill(FREE);
        std::thread::sleep(Wall::from_millis(300));
        assert!(room.is_free_beside(&[]));
    });
}

#[test]
fn after_a_failed_call_the_buffer_is_the_callers() {
    after_a_loss(|mut it| it.wait().is_err() && it.output_mut().is_some());
    after_a_loss(|mut it| {
        loop {
            match it.try_wait() {
                Some(ended) => return ended.is_err(),
                None => std::thread::sleep(Wall::from_millis(1)),
            }
        }
    });
}

#[test]
fn an_operation_that_is_dropped_gives_the_buffer_back_first() {
    after_a_loss(|it| {
        drop(it);
        true
    });
}

#[test]
fn a_group_that_is_left_gives_the_buffer_back_first() {
    let program = Verified::new(programs::ring_all_reduce(2, 1), None).unwrap();
    let call =
        Call { element: Element::U8, elements: 1 << 22, reduction: Reduction::Sum, in_place: true };
    on_all(2, shared(false), |group| {
        let mut group = group.unwrap();
        let mut operation = group.register(&program, call).unwrap();
        if group.rank() == 1 {
            return;
        }
        let mut room = Room::new(1 << 22);
        let buffer = GUARD..GUARD + (1 << 22);
        let (input, output) = (room.input(&buffer), room.output(&buffer));
        operation.start_on(input, output).unwrap();
        drop(group);
        assert!(operation.wait().is_err());
        let (input, output) = (room.input(&buffer), room.output(&buffer));
        assert_eq!(operation.start_on(input, output), Err(ExecError::Left));
        assert!(operation.input().is_some_and(|it| it.len() == 1 << 22));
    });
}

#[test]
fn a_root_without_an_output_lends_its_input() {
    let program = Verified::new(programs::tree_broadcast(2, 1), None).unwrap();
    let call =
        Call { element: Element::U8, elements: 999, reduction: Reduction::Sum, in_place: false };
    on_all(2, shared(false), |group| {
        let mut group = group.unwrap();
        let rank = group.rank();
        let mut operation = group.register(&program, call).unwrap();
        let data = Data::new(program.collective(), call, Seed::new(3));
        let mut room = Room::new(999);
        let buffer = GUARD..GUARD + 999;
        if rank == 0 {
            data.fill(0, &mut room.bytes_mut()[buffer.clone()]);
            operation.start_on(room.input(&buffer), Output::none()).unwrap();
        } else {
            operation.start_on(Input::none(), room.output(&buffer)).unwrap();
        }
        operation.wait().unwrap();
        assert_eq!(operation.copied(), 0);
        assert_eq!(data.wrong(rank, &room.bytes()[buffer.clone()]), (0, None));
        assert!(room.is_free_beside(&[&buffer]));
    });
}
