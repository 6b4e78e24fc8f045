//! A million steps of a larger cluster, at random but from a seed: four jobs with 64 groups on two switches, where messages
//! get lost, doubled and reordered, members guess, switches vanish and refuse, and the controller crashes. `world`
//! checks safety at every step; here it is checked that all jobs come to their end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests may fail, and say so"
)]

#[allow(dead_code, unreachable_pub, reason = "a module of several tests")]
mod world;

use motet_control::Port;
use motet_control::SwitchId;
use motet_control::circuit::ring;
use motet_control::controller::Policy;
use motet_control::protocol::{GroupId, GroupSpec, JobId, Member, Registration, TenantId};
use motet_units::Seed;
use rand::{Rng as _, RngExt as _};
use world::{Mishaps, Setup, Stage, World};

/// Eight members with two ports on one of the switches, and sixteen groups of two to eight of them.
fn random_job(number: u32, random: &mut impl rand::Rng, calls: usize) -> Setup {
    let switch = SwitchId(number % 2);
    let first = number / 2 * 16;
    let ports = |member: u32| [first + 2 * member, first + 2 * member + 1];
    let mut groups = Vec::new();
    for id in 0..16 {
        let mut members: Vec<u32> = (0..8).collect();
        for at in (1..8).rev() {
            members.swap(at, random.random_range(0..=at));
        }
        members.truncate(random.random_range(2..=8));
        let stations: Vec<[u32; 2]> = members.iter().map(|it| ports(*it)).collect();
        let stations: Vec<&[u32]> = stations.iter().map(<[u32; 2]>::as_slice).collect();
        groups.push(GroupSpec {
            id: GroupId(id),
            members: members.iter().copied().map(Member).collect(),
            circuits: ring(switch, &stations).unwrap(),
        });
    }
    // All members make their calls in the order of one list, as jobs do that end without circuits too.
    let order: Vec<usize> = (0..calls).map(|_| random.random_range(0..16)).collect();
    let programs = (0..8).map(Member).map(|member| {
        let mine = order.iter().filter(|it| groups[**it].members.contains(&member));
        (member, vec![mine.map(|it| groups[*it].id).collect()])
    });
    let programs = programs.collect();
    let all = (0..8)
        .flat_map(|member| ports(member).map(|number| (Member(member), Port { switch, number })));
    let registration = Registration {
        job: JobId(u64::from(number)),
        tenant: TenantId(0),
        ports: all.collect(),
        groups,
        mode: None,
    };
    Setup { registration, programs }
}

fn soak(seed: u64, calls: usize, least: u64, foresight: bool) {
    let mut random = Seed::new(seed).stream("soak");
    let setups = (0..4).map(|it| random_job(it, &mut random, calls)).collect();
    let switches = vec![(SwitchId(0), 32), (SwitchId(1), 32)];
    let stage = Stage { setups, switches, policy: Policy::default(), foresight };
    let mishaps = Mishaps {
        lost: 1,
        doubled: 1,
        early_timers: 1,
        controller_crashes: 0,
        switch_losses: 1,
        rejections: 1,
        guesses: 1,
    };
    let mut world = World::new(&stage, mishaps);
    let mut steps: u64 = 0;
    while !world.is_done(&stage) {
        let chance = random.random_range(0..1000);
        let mut acts = world.ordinary(&stage);
        if acts.is_empty() || chance < 10 {
            acts = world.late();
        } else if chance < 40 {
            // Crashes are rare, or nothing would ever be done.
            let controller_crashes = u8::from(random.next_u64().is_multiple_of(64));
            world.left = Mishaps { controller_crashes, ..mishaps };
            acts = world.mishaps(&stage);
        }
        if acts.is_empty() {
            continue;
        }
        let act = acts[random.random_range(0..acts.len())].clone();
        world.act(&stage, &act);
        steps += 1;
        assert!(steps < 20 * least, "jobs do not come to their end");
    }
    println!("seed {seed}: {steps} steps");
    assert!(steps >= least, "only {steps} steps; make the jobs longer");
}

#[test]
fn a_million_steps_with_faults_end_well() {
    soak(1, 5000, 1_000_000, false);
    // Most circuits are let go after each call.
    soak(2, 1500, 150_000, true);
}
