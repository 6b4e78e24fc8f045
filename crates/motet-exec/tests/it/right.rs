//! Right results: every collective, type and reduction, in and out of place, odd sizes, over TCP and
//! shared memory.

use motet_collective::{CollectiveKind, Program, Verified};
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, Group, Operation, Reduction};
use motet_units::{Bytes, Rank, Seed};

use crate::programs;
use crate::ranks::on_all;

// Who makes programs stands above this crate.
#[path = "../../../motet-synth/src/gateways.rs"]
mod gateways;

/// One case: a program with what it is called with.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) program: Verified<Program>,
    pub(crate) call: Call,
    pub(crate) seed: u64,
}

fn register(group: &mut Group, case: &Case) -> Operation {
    let name = case.program.name();
    group.register(&case.program, case.call).unwrap_or_else(|it| panic!("{name}: {it}"))
}

fn fill(operation: &mut Operation, rank: u32, case: &Case, seed: u64) {
    let data = Data::new(case.program.collective(), case.call, Seed::new(seed));
    data.fill(rank, operation.input_mut().unwrap());
}

fn check(operation: &Operation, rank: u32, case: &Case, seed: u64) {
    let data = Data::new(case.program.collective(), case.call, Seed::new(seed));
    let (count, first) = data.wrong(rank, operation.output().unwrap());
    assert_eq!((count, first), (0, None), "{} of {:?}", case.program.name(), case.call);
}

/// Every case twice on the same registration, with other data.
pub(crate) fn run_all(group: &mut Group, cases: &[Case]) {
    let rank = group.rank();
    for case in cases {
        let mut operation = register(group, case);
        for round in 0..2 {
            fill(&mut operation, rank, case, case.seed + round);
            operation.run().unwrap_or_else(|it| panic!("{}: {it}", case.program.name()));
            check(&operation, rank, case, case.seed + round);
        }
    }
}

/// As many as there are types. The only long one has several slices of [`SLICE`] bytes, of any type and in any program here.
const SIZES: [usize; 10] = [1, 7, 1000, 4099, 33, 70_001, 255, 2, 1001, 513];
const SLICE: usize = 4 << 10;

/// All programs for `ranks` ranks, and enough cases of each collective that it meets every type, size and reduction. Which of them
/// come together differs from collective to collective and with the number of ranks.
pub(crate) fn cases(ranks: u32) -> Vec<Case> {
    let all = programs::all(ranks).into_iter().chain(programs::in_switch(ranks));
    let all = all.filter(|it| it.collective().ranks() == ranks);
    let all: Vec<_> = all.map(|it| Verified::new(it, None).unwrap()).collect();
    let (types, shift) = (Element::ALL.len(), 3 * ranks as usize);
    let mut cases = Vec::new();
    for (number, kind) in CollectiveKind::ALL.into_iter().enumerate() {
        let of_kind: Vec<_> = all.iter().filter(|it| it.collective().kind() == kind).collect();
        for index in 0..types.max(of_kind.len()) {
            let program = of_kind[index % of_kind.len()].clone();
            let call = Call {
                element: Element::ALL[(index + shift) % types],
                // 3 and 10 have no divisor in common, so ten cases have ten sizes.
                elements: SIZES[(3 * index + number) % SIZES.len()],
                reduction: Reduction::ALL[(index + index / 5 + shift) % Reduction::ALL.len()],
                in_place: program.forms().in_place,
            };
            cases.push(Case { program, call, seed: cases.len() as u64 });
        }
    }
    cases
}

#[test]
fn every_collective_meets_every_type_size_and_reduction() {
    for ranks in [2, 3, 4, 5] {
        let cases = cases(ranks);
        let mut together = std::collections::BTreeSet::new();
        for kind in CollectiveKind::ALL {
            let of_kind = || cases.iter().filter(move |it| it.program.collective().kind() == kind);
            let calls: Vec<Call> = of_kind().map(|it| it.call).collect();
            for element in Element::ALL {
                assert!(calls.iter().any(|it| it.element == element), "{kind} of {element}");
            }
            for size in SIZES {
                assert!(calls.iter().any(|it| it.elements == size), "{kind} of {size}");
            }
            for reduction in Reduction::ALL {
                assert!(calls.iter().any(|it| it.reduction == reduction), "{kind}: {reduction}");
            }
            let chunk = |it: &Case| {
                let chunks = it.program.collective().chunks().max(1) as usize;
                it.call.elements / chunks * it.call.element.bytes()
            };
            assert!(of_kind().any(|it| chunk(it) > SLICE), "{kind} in several slices");
            together.extend(calls.iter().map(|it| (it.element.to_string(), it.elements)));
        }
        // Were they bound to each other, it would be ten.
        assert!(together.len() >= 50, "{ranks}: {}", together.len());
        let mut names: Vec<_> = cases.iter().map(|it| it.program.name().to_owned()).collect();
        names.sort();
        names.dedup();
        let all = programs::all(ranks).into_iter().chain(programs::in_switch(ranks));
        let all = all.filter(|it| it.collective().ranks() == ranks);
        assert!(all.into_iter().all(|it| names.contains(&it.name().to_owned())));
    }
}

/// Programs between two datacenters, out of place, where copies are left to the reductions behind them, and in place.
fn between_datacenters() -> Vec<Case> {
    let sites = [[0, 1, 2].map(Rank).to_vec(), [3, 4].map(Rank).to_vec()];
    let mut cases = Vec::new();
    for kind in [CollectiveKind::AllGather, CollectiveKind::AllReduce] {
        for (index, element) in Element::ALL.into_iter().enumerate() {
            let elements = [1, 7, 4099, 70_001, 300_001][index % 5];
            let size = Bytes::new((elements * element.bytes()) as u64);
            let program = gateways::program(kind, &sites, size).unwrap();
            for in_place in [false, true] {
                let reduction = Reduction::ALL[index / 2];
                let call = Call { element, elements, reduction, in_place };
                cases.push(Case { program: program.clone(), call, seed: index as u64 });
            }
        }
    }
    cases
}

/// Long enough for each connection in reserve to be tried beside those at work, and for the last frames of all of them at the end.
#[test]
fn connections_in_reserve_are_tried_and_say_goodbye() {
    let sites = [vec![Rank(0)], vec![Rank(1)]];
    let elements = 1 << 20;
    let size = Bytes::new(4 * elements as u64);
    let program = gateways::program(CollectiveKind::AllReduce, &sites, size).unwrap();
    let (element, reduction) = (Element::F32, Reduction::Sum);
    let case =
        Case { program, call: Call { element, elements, reduction, in_place: false }, seed: 1 };
    let change = |it| Config { streams: 2, reserve: 2, shared_memory: false, ..it };
    on_all(2, change, |group| {
        let mut group = group.unwrap();
        let rank = group.rank();
        let mut operation = register(&mut group, &case);
        for round in 0..80 {
            fill(&mut operation, rank, &case, round);
            operation.run().unwrap_or_else(|it| panic!("round {round}: {it}"));
            check(&operation, rank, &case, round);
        }
    });
}

#[test]
fn between_datacenters_over_shared_memory_and_over_several_streams() {
    let cases = between_datacenters();
    for shared in [true, false] {
        let change = |mut it: Config| {
            it.shared_memory = shared;
            it.streams = 3;
            it
        };
        on_all(5, change, |group| run_all(&mut group.unwrap(), &cases));
    }
}

#[test]
fn every_collective_over_shared_memory() {
    for ranks in [2, 3, 5] {
        let cases = cases(ranks);
        let change = |it| Config { slice: SLICE, ..it };
        on_all(ranks, change, |group| run_all(&mut group.unwrap(), &cases));
    }
}

#[test]
fn every_collective_over_tcp_with_checksums() {
    for (ranks, streams) in [(2, 1), (4, 3)] {
        let cases = cases(ranks);
        let change = |mut it: Config| {
            it.shared_memory = false;
            it.checksums = true;
            it.streams = streams;
            it.slice = SLICE;
            it.piece = 1 << 10;
            it
        };
        on_all(ranks, change, |group| run_all(&mut group.unwrap(), &cases));
    }
}

/// A sum round a ring of three, of every type and by every reduction.
pub(crate) fn types_and_reductions() -> Vec<Case> {
    let program = Verified::new(programs::ring_all_reduce(3, 2), None).unwrap();
    let mut cases = Vec::new();
    for element in Element::ALL {
        for reduction in Reduction::ALL {
            let call = Call { element, elements: 1003, reduction, in_place: true };
            cases.push(Case { program: program.clone(), call, seed: 5 });
        }
    }
    cases
}

#[test]
fn every_type_and_reduction() {
    let cases = types_and_reductions();
    for shared in [true, false] {
        let change = |mut it: Config| {
            it.shared_memory = shared;
            it
        };
        on_all(3, change, |group| run_all(&mut group.unwrap(), &cases));
    }
}

#[test]
fn sixteen_ranks() {
    let programs = [
        programs::tree_all_reduce(16, 4),
        programs::ring_all_gather(16, 1),
        programs::direct_all_to_all(16, 1),
    ];
    let cases: Vec<Case> = programs
        .into_iter()
        .map(|it| {
            let in_place = it.forms().in_place;
            let call =
                Call { element: Element::F32, elements: 1003, reduction: Reduction::Sum, in_place };
            Case { program: Verified::new(it, None).unwrap(), call, seed: 9 }
        })
        .collect();
    let change = |mut it: Config| {
        it.streams = 1;
        // Half of them share memory, as two hosts of eight would.
        it.shared_memory = it.rank < 8;
        it
    };
    on_all(16, change, |group| run_all(&mut group.unwrap(), &cases));
}

#[test]
fn several_calls_at_once_and_a_rank_that_is_late() {
    let case = |seed| Case {
        program: Verified::new(programs::ring_all_gather(3, 2), None).unwrap(),
        // More than may be sent to a rank that has not made the call.
        call: Call {
            element: Element::F32,
            elements: 1 << 20,
            reduction: Reduction::Sum,
            in_place: false,
        },
        seed,
    };
    let cases: Vec<Case> = (0..4).map(case).collect();
    for shared in [false, true] {
        let change = |mut it: Config| {
            it.shared_memory = shared;
            it
        };
        on_all(3, change, |group| {
            let mut group = group.unwrap();
            let rank = group.rank();
            let mut operations: Vec<Operation> =
                cases.iter().map(|it| register(&mut group, it)).collect();
            for (operation, case) in operations.iter_mut().zip(&cases) {
                fill(operation, rank, case, case.seed);
            }
            if rank == 1 {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            for operation in &mut operations {
                operation.start().unwrap();
                assert!(operation.input().is_none() && operation.start().is_err());
            }
            for (operation, case) in operations.iter_mut().zip(&cases).rev() {
                operation.wait().unwrap();
                check(operation, rank, case, case.seed);
            }
        });
    }
}

#[test]
fn nothing_to_do_is_done() {
    let program = Verified::new(programs::ring_all_reduce(2, 1), None).unwrap();
    let call =
        Call { element: Element::F32, elements: 0, reduction: Reduction::Sum, in_place: true };
    on_all(2, |it| it, |group| group.unwrap().register(&program, call).unwrap().run().unwrap());
    // A group of one: only copies within the rank.
    let alone = Verified::new(programs::ring_all_gather(1, 3), None).unwrap();
    assert_eq!(alone.collective().kind(), CollectiveKind::AllGather);
    let call = Call { elements: 100, in_place: false, ..call };
    let case = Case { program: alone, call, seed: 1 };
    on_all(1, |it| it, |group| run_all(&mut group.unwrap(), std::slice::from_ref(&case)));
}
