//! All that can happen to a small cluster, tried exhaustively: every order of calls, messages, answers and timers, with
//! a few mishaps. `world` checks safety at every step. Here it is checked that nothing locks up: from every state that can be
//! reached, some way leads to the end of the job.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may fail, and say so"
)]

#[allow(unreachable_pub, reason = "a module of several tests")]
mod world;

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use motet_control::SwitchId;
use motet_control::controller::Policy;
use world::{Mishaps, Setup, Stage, World, job};

fn key(world: &World) -> u128 {
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        salt.hash(&mut hasher);
        world.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}

/// Explores, and gives how many states there are.
fn explore(setups: Vec<Setup>, switches: &[(u32, u32)], mishaps: Mishaps, most: usize) -> usize {
    let switches = switches.iter().map(|it| (SwitchId(it.0), it.1)).collect();
    let stage = Stage { setups, switches, policy: Policy::default(), foresight: false };
    explore_stage(&stage, mishaps, most).0
}

/// The same, and how many calls took the packet network where most did.
fn explore_stage(stage: &Stage, mishaps: Mishaps, most: usize) -> (usize, usize) {
    let mut refused = 0;
    let first = World::new(stage, mishaps);
    let mut known: BTreeMap<u128, u32> = BTreeMap::from([(key(&first), 0)]);
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut done: Vec<u32> = Vec::new();
    let mut front = vec![(0, first)];
    while let Some((number, world)) = front.pop() {
        refused = refused.max(world.refused());
        if world.is_done(stage) {
            done.push(number);
        }
        let mut acts = world.ordinary(stage);
        if acts.is_empty() {
            acts = world.late();
        }
        acts.extend(world.mishaps(stage));
        for act in acts {
            let mut next = world.clone();
            next.act(stage, &act);
            let fresh = u32::try_from(before.len()).unwrap();
            let at = *known.entry(key(&next)).or_insert(fresh);
            if at == fresh {
                before.push(Vec::new());
                front.push((at, next));
                assert!(before.len() <= most, "more than {most} states");
            }
            before[at as usize].push(number);
        }
    }
    let mut leads = vec![false; before.len()];
    while let Some(it) = done.pop() {
        if !std::mem::replace(&mut leads[it as usize], true) {
            done.extend(&before[it as usize]);
        }
    }
    let stuck = leads.iter().filter(|it| !**it).count();
    assert_eq!(stuck, 0, "of {} states {stuck} lead nowhere", leads.len());
    (leads.len(), refused)
}

/// Two members with a port each, and a third: groups {0, 1} and {1, 2} want the port of member 1.
fn chain(programs: &[&[&[u32]]]) -> Vec<Setup> {
    vec![job(1, 0, &[(0, &[0]), (1, &[1]), (2, &[2])], &[&[0, 1], &[1, 2]], programs)]
}

const TAKING_TURNS: &[&[&[u32]]] = &[&[&[0, 0]], &[&[0, 1, 0]], &[&[1]]];
const SHORT: &[&[&[u32]]] = &[&[&[0]], &[&[0, 1]], &[&[1]]];
/// Member 1 has two streams, and both groups want its port at once.
const AT_ONCE: &[&[&[u32]]] = &[&[&[0]], &[&[0], &[1]], &[&[1]]];

#[test]
fn nothing_locks_up_when_all_goes_well() {
    for programs in [TAKING_TURNS, AT_ONCE] {
        let states = explore(chain(programs), &[(0, 3)], Mishaps::default(), 2_000_000);
        println!("{states} states");
    }
}

/// A member that goes on while another has to turn elsewhere first (a pipeline's first stage) must not take along the circuits that the other
/// needs for that. If both say what they are about to do, no call is turned away in any state that can be reached; if they do not, some
/// are.
#[test]
fn members_that_say_how_long_they_go_on_are_never_turned_away() {
    for (foresight, expected) in [(true, 0), (false, 1)] {
        let (setups, switches) = (chain(TAKING_TURNS), vec![(SwitchId(0), 3)]);
        let stage = Stage { setups, switches, policy: Policy::default(), foresight };
        let (states, refused) = explore_stage(&stage, Mishaps::default(), 2_000_000);
        println!("{states} states");
        assert_eq!(refused, expected);
    }
}

/// Each mishap once, on programs as short as show it.
fn with(mishaps: &[Mishaps]) {
    // Circuits that are let go after each call, and circuits that are held.
    for (programs, foresight) in [(SHORT, true), (AT_ONCE, false)] {
        for it in mishaps {
            let (setups, switches) = (chain(programs), vec![(SwitchId(0), 3)]);
            let stage = Stage { setups, switches, policy: Policy::default(), foresight };
            let (states, _) = explore_stage(&stage, *it, 2_000_000);
            println!("{it:?}: {states} states");
        }
    }
}

#[test]
fn messages_may_be_lost() {
    with(&[Mishaps { lost: 2, ..Mishaps::default() }]);
}

#[test]
fn messages_may_come_twice() {
    with(&[Mishaps { doubled: 1, ..Mishaps::default() }]);
}

#[test]
fn timers_may_ring_early() {
    with(&[Mishaps { early_timers: 1, ..Mishaps::default() }]);
}

#[test]
fn members_may_guess_wrong() {
    with(&[Mishaps { guesses: 1, ..Mishaps::default() }]);
}

#[test]
fn switches_may_be_lost_or_refuse() {
    with(&[
        Mishaps { switch_losses: 1, ..Mishaps::default() },
        Mishaps { rejections: 2, ..Mishaps::default() },
    ]);
}

#[test]
fn the_controller_may_crash() {
    // Everybody must be heard again, in any order: many states, so only the shortest programs.
    let mishaps = Mishaps { controller_crashes: 1, ..Mishaps::default() };
    println!("{} states", explore(chain(SHORT), &[(0, 3)], mishaps, 2_000_000));
}
