//! Ranks that make calls before others do: what they send must not stand in the way of what the others wait for, and however far
//! ahead they are, nothing fails.

use std::sync::Barrier;
use std::time::Duration as Wall;

use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, Verified,
};
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, Operation, Reduction};
use motet_units::{Duration, Rank, Seed};

use crate::ranks::on_all;

const CALL: Call =
    Call { element: Element::U8, elements: 1000, reduction: Reduction::Sum, in_place: false };

/// A broadcast to all ranks along `hops`, each of which goes from the last one's end or from the root.
fn broadcast(ranks: u32, root: u32, hops: &[(u32, u32)]) -> Verified<Program> {
    let collective = Collective::rooted(CollectiveKind::Broadcast, ranks, 1, Rank(root)).unwrap();
    let mut b = ProgramBuilder::new("p", collective);
    let input = Slot::input(Rank(root), 0);
    b.add(Transfer::copy(input, Slot::output(Rank(root), 0), 1));
    let mut came = vec![None; ranks as usize];
    for (from, to) in hops {
        let target = Slot::output(Rank(*to), 0);
        let transfer = match came[*from as usize] {
            Some(before) => {
                b.add_after(Transfer::copy(Slot::output(Rank(*from), 0), target, 1), &[before])
            }
            None => b.add(Transfer::copy(input, target, 1)),
        };
        came[*to as usize] = Some(transfer);
    }
    Verified::new(b.build(), None).unwrap()
}

fn fill(operation: &mut Operation, program: &Program, call: Call, rank: u32) {
    Data::new(program.collective(), call, Seed::new(5)).fill(rank, operation.input_mut().unwrap());
}

fn wrong(operation: &mut Operation, program: &Program, call: Call, rank: u32) -> u64 {
    let data = Data::new(program.collective(), call, Seed::new(5));
    data.wrong(rank, operation.output().unwrap()).0
}

/// Over sockets only, and no longer than a fault may take to show.
fn change(mut config: Config) -> Config {
    config.shared_memory = false;
    config.streams = 1;
    config.deadline = Duration::from_ms(20_000);
    config
}

/// Rank 0 makes two calls, and rank 2 the second one only after the first has ended. The second begins to send rank 2 more than may
/// go ahead of its call; then comes what rank 2 needs for the first.
#[test]
fn what_an_earlier_call_sends_passes_a_later_one_that_must_stop() {
    let small = broadcast(3, 1, &[(1, 0), (0, 2)]);
    let large = broadcast(3, 0, &[(0, 1), (0, 2)]);
    let long = Call { elements: 4 << 20, ..CALL };
    let both_made = Barrier::new(2);
    on_all(3, change, |group| {
        let mut group = group.unwrap();
        let rank = group.rank();
        let mut first = group.register(&small, CALL).unwrap();
        let mut second = group.register(&large, long).unwrap();
        fill(&mut first, &small, CALL, rank);
        fill(&mut second, &large, long, rank);
        group.barrier().unwrap();
        if rank == 0 {
            first.start().unwrap();
            second.start().unwrap();
        }
        if rank < 2 {
            both_made.wait();
        }
        if rank == 1 {
            // Until rank 0 has sent all that it may.
            std::thread::sleep(Wall::from_millis(300));
        }
        if rank == 0 {
            first.wait().unwrap();
            second.wait().unwrap();
        } else {
            first.run().unwrap();
            second.run().unwrap();
        }
        assert_eq!(wrong(&mut first, &small, CALL, rank), 0);
        assert_eq!(wrong(&mut second, &large, long, rank), 0);
    });
}

#[test]
fn a_rank_may_make_any_number_of_calls_before_another() {
    let program = broadcast(2, 0, &[(0, 1)]);
    let call = Call { elements: 8, ..CALL };
    let calls = 2100;
    let first_are_made = Barrier::new(2);
    on_all(2, change, |group| {
        let mut group = group.unwrap();
        let rank = group.rank();
        let mut operation = group.register(&program, call).unwrap();
        fill(&mut operation, &program, call, rank);
        if rank == 1 {
            first_are_made.wait();
            // Until the root can go no further.
            std::thread::sleep(Wall::from_millis(300));
        }
        for number in 0..calls {
            // The root's calls end without the other rank, as long as it may be ahead of it.
            if rank == 0 && number == 1000 {
                first_are_made.wait();
            }
            operation.run().unwrap();
        }
        assert_eq!(wrong(&mut operation, &program, call, rank), 0);
    });
}

#[test]
fn pieces_are_whole_elements() {
    let collective = Collective::rooted(CollectiveKind::Reduce, 2, 1, Rank(0)).unwrap();
    let mut b = ProgramBuilder::new("p", collective);
    let output = Slot::output(Rank(0), 0);
    let own = b.add(Transfer::copy(Slot::input(Rank(0), 0), output, 1));
    let sum = b.add(Transfer::reduce(Slot::input(Rank(1), 0), output, 1));
    b.wait(sum.arrived(), own.arrived());
    let program = Verified::new(b.build(), None).unwrap();
    let call = Call { element: Element::F64, ..CALL };
    let change = |config| Config { piece: 1500, ..change(config) };
    on_all(2, change, |group| {
        let mut group = group.unwrap();
        let rank = group.rank();
        let mut operation = group.register(&program, call).unwrap();
        fill(&mut operation, &program, call, rank);
        operation.run().unwrap();
        assert_eq!(wrong(&mut operation, &program, call, rank), 0);
    });
}
