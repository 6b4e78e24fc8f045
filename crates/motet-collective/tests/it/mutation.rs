//! The mutation test: right programs, changed at random, judged by the verifier and by the
//! interpreter that tries every order. They must agree on every one.

use motet_collective::program::Protocol;
use motet_collective::{Action, Buffer, Event, Program, ProgramBuilder, Slot, TransferId, verify};
use motet_units::{Bytes, Rank, Seed, Stream};
use rand::RngExt;

use crate::programs;
use crate::{by_ports, interpreter};

/// A random index below `len`, which must not be 0.
fn pick(stream: &mut Stream, len: usize) -> usize {
    stream.random_range(0..len)
}

/// Takes transfer `gone` out of everything, as if it had never been.
fn drop_transfer(program: &Program, gone: TransferId) -> Program {
    let mut b = ProgramBuilder::new(program.name(), program.collective().clone())
        .forms(program.forms())
        .hints(*program.hints());
    for rank in (0..program.collective().ranks()).map(Rank) {
        b.set_scratch(rank, program.scratch_chunks(rank));
        b.set_switch(rank, program.switch_chunks(rank));
    }
    let renumber = |event: Event| {
        let shift = if event.transfer() > gone { 2 } else { 0 };
        (event.transfer() != gone).then(|| Event::from_index(event.index() - shift))
    };
    for (index, transfer) in program.transfers().iter().enumerate() {
        if TransferId::from_index(index) != gone {
            b.add(*transfer);
        }
    }
    for event in (0..program.transfers().len() * 2).map(Event::from_index) {
        for awaited in program.deps(event) {
            if let (Some(event), Some(awaited)) = (renumber(event), renumber(*awaited)) {
                b.wait(event, awaited);
            }
        }
    }
    for lane in program.lanes() {
        let mut lane = lane.clone();
        lane.events = lane.events.into_iter().filter_map(renumber).collect();
        b.add_lane(lane);
    }
    b.build()
}

fn duplicate(program: &Program, id: TransferId, stream: &mut Stream) -> Program {
    let mut b = program.to_builder();
    let copy = b.add(*program.transfer(id));
    // With the same waits as the original, or with none.
    if stream.random() {
        for (new, old) in [(copy.sent(), id.sent()), (copy.arrived(), id.arrived())] {
            for awaited in program.deps(old) {
                b.wait(new, *awaited);
            }
        }
    }
    if stream.random() {
        b.wait(copy.sent(), id.arrived());
    }
    b.build()
}

fn change_transfer(b: &mut ProgramBuilder, ranks: u32, stream: &mut Stream) {
    let count = b.transfers().len();
    let id = TransferId::from_index(pick(stream, count));
    let choice = stream.random_range(0..6);
    let source = stream.random();
    let other_rank = Rank(stream.random_range(0..ranks));
    let shift: u32 = stream.random_range(1..3);
    let up: bool = stream.random();
    let buffer = Buffer::ALL[pick(stream, Buffer::ALL.len())];
    let transfer = b.transfer_mut(id);
    let slot: &mut Slot = if source { &mut transfer.src } else { &mut transfer.dst };
    match choice {
        0 => slot.rank = other_rank,
        1 if up => slot.offset += shift,
        1 => slot.offset = slot.offset.saturating_sub(shift),
        2 => slot.buffer = buffer,
        3 => {
            transfer.count = if up { transfer.count + 1 } else { transfer.count.saturating_sub(1) }
        }
        4 => {
            transfer.action = match transfer.action {
                Action::Copy => Action::Reduce,
                Action::Reduce => Action::Copy,
            }
        }
        _ => std::mem::swap(&mut transfer.src, &mut transfer.dst),
    }
}

fn change_wait(b: &mut ProgramBuilder, stream: &mut Stream) {
    let events = b.transfers().len() * 2;
    let any = Event::from_index(pick(stream, events));
    let other = Event::from_index(pick(stream, events));
    let waits = b.waits_mut();
    match stream.random_range(0..3) {
        0 if !waits.is_empty() => {
            let gone = pick(stream, waits.len());
            waits.remove(gone);
        }
        1 if !waits.is_empty() => {
            let changed = pick(stream, waits.len());
            waits[changed].1 = any;
        }
        _ => waits.push((any, other)),
    }
}

fn change_lanes(b: &mut ProgramBuilder, stream: &mut Stream) {
    let lanes = b.lanes_mut();
    if lanes.is_empty() {
        return;
    }
    let lane = pick(stream, lanes.len());
    let len = lanes[lane].events.len();
    if len < 2 {
        return;
    }
    match stream.random_range(0..4) {
        0 => lanes[lane].events.swap(pick(stream, len), pick(stream, len)),
        1 => {
            let at = pick(stream, len - 1);
            lanes[lane].events.swap(at, at + 1);
        }
        2 => {
            let gone = pick(stream, len);
            lanes[lane].events.remove(gone);
        }
        // The rest of the lane becomes a lane of its own.
        _ => {
            let at = pick(stream, len);
            let mut rest = lanes[lane].clone();
            rest.channel += 1;
            rest.events = lanes[lane].events.split_off(at);
            lanes.push(rest);
        }
    }
}

fn mutate(program: &Program, stream: &mut Stream) -> Program {
    let id = TransferId::from_index(pick(stream, program.transfers().len()));
    match stream.random_range(0..10) {
        0 if program.transfers().len() > 1 => return drop_transfer(program, id),
        1 => return duplicate(program, id, stream),
        _ => {}
    }
    let mut b = program.to_builder();
    match stream.random_range(0..8) {
        0..=2 => change_transfer(&mut b, program.collective().ranks(), stream),
        3 | 4 => change_wait(&mut b, stream),
        5 | 6 => change_lanes(&mut b, stream),
        _ => {
            let mut forms = program.forms();
            let mut hints = *program.hints();
            if stream.random() {
                hints.protocol = Protocol::ALL[pick(stream, 3)];
                hints.max_size = stream.random::<bool>().then_some(Bytes::mib(2));
            } else {
                forms.in_place = stream.random();
                forms.out_of_place = stream.random();
            }
            b = b.forms(forms).hints(hints);
        }
    }
    b.build()
}

/// How many mutants came out how.
#[derive(Debug, Default)]
struct Tally {
    right: usize,
    wrong: usize,
    undecided: usize,
}

/// Mutates programs at random and holds the verifier against the interpreter on each mutant.
fn compare(programs: &[Program], name: &str, mutants: usize) -> Tally {
    const MOST_STATES: usize = 4000;
    let seed = Seed::new(2026);
    println!("seed {seed}");
    let mut stream = seed.stream(name);
    let small = |it: &&Program| it.transfers().len() <= 24;
    let programs: Vec<&Program> = programs.iter().filter(small).collect();
    let mut tally = Tally::default();
    for number in 0..mutants {
        let original = programs[pick(&mut stream, programs.len())];
        let mut mutant = mutate(original, &mut stream);
        while stream.random_range(0..3) == 0 {
            mutant = mutate(&mutant, &mut stream);
        }
        let Some(truth) = interpreter::is_right(&mutant, MOST_STATES) else {
            tally.undecided += 1;
            continue;
        };
        let report = verify::check(&mutant, None);
        assert_eq!(
            report.is_right(),
            truth,
            "mutant {number} of {}: the interpreter says {truth}, the verifier:\n{report}\n{mutant:#?}",
            original.name()
        );
        if truth { tally.right += 1 } else { tally.wrong += 1 }
    }
    println!("{tally:?}; undecided ones are too large for the interpreter");
    tally
}

#[test]
fn the_verifier_and_the_interpreter_agree() {
    let tally = compare(&programs::all(4), "mutation", 6000);
    assert!(tally.right >= 300 && tally.wrong >= 2000, "the mutants must be of both kinds");
    assert!(tally.undecided < 2000);
}

#[test]
fn they_agree_on_programs_that_use_switches() {
    let tally = compare(&programs::in_switch(3), "switch mutation", 3000);
    assert!(tally.right >= 300 && tally.wrong >= 1000, "the mutants must be of both kinds");
    assert!(tally.undecided < 1000);
}

#[test]
fn they_agree_on_programs_whose_packets_go_over_ports() {
    let tally = compare(&by_ports::programs(3), "port mutation", 3000);
    assert!(tally.right >= 300 && tally.wrong >= 1000, "the mutants must be of both kinds");
    assert!(tally.undecided < 1000);
}

/// Every unchanged program is right by the interpreter too, or the tests above prove little.
#[test]
fn the_interpreter_knows_right_programs() {
    let ports = by_ports::programs(3);
    for program in programs::all(3).iter().chain(&programs::in_switch(3)).chain(&ports) {
        assert_eq!(interpreter::is_right(program, 200_000), Some(true), "{}", program.name());
    }
}
