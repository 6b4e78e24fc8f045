//! Nothing that physics forbids: every task gives a program, finished under every discipline and not
//! faster than the bound, or a clear refusal. `benches/torture` has thousands of these.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

#[path = "../examples/torture/cases.rs"]
mod cases;
#[path = "../examples/torture/judge.rs"]
mod judge;

use cases::{Case, TEMPLATES, from_template};
use judge::{Verdict, judge};
use motet_collective::{CollectiveKind, Program};
use motet_net::formats::cluster_toml;
use motet_net::{Network, builders};
use motet_synth::{Draft, Effort, Goal, Method, SynthError, Task, synthesize};
use motet_units::{Bytes, Duration, Rank, Seed};
use rayon::prelude::*;

const ROOTED: [CollectiveKind; 8] = [
    CollectiveKind::AllGather,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
    CollectiveKind::Broadcast,
    CollectiveKind::Gather,
    CollectiveKind::Reduce,
    CollectiveKind::ReduceScatter,
    CollectiveKind::Scatter,
];

fn asked(network: &Network, goal: Goal, size: u64, method: Method, about: String) -> Verdict {
    let case = Case { network: network.clone(), goal, size: Bytes::new(size), method, about };
    judge(&case)
}

fn from_toml(text: &str) -> Network {
    cluster_toml::read(text, &|_| Err("there are no files here".to_owned())).unwrap().network
}

/// All collectives, with the last rank as root and an odd AllToAllV and SendRecv.
fn goals(ranks: u32) -> Vec<Goal> {
    let root = Rank(ranks - 1);
    let mut goals: Vec<Goal> =
        ROOTED.iter().map(|it| Goal::rooted(*it, ranks, root).unwrap()).collect();
    let counts = (0..ranks * ranks).map(|it| it % 4).collect();
    goals.push(Goal::all_to_all_v(ranks, counts).unwrap());
    let peers = (0..ranks).map(|it| Some(Rank((it + 1) % ranks)).filter(|_| it % 3 != 2));
    goals.push(Goal::send_recv(peers.collect()).unwrap());
    goals
}

#[test]
fn every_template_is_among_the_cases() {
    for template in builders::templates().iter().filter(|it| it.name != "direct") {
        let known = |it: &&str| it.split(':').next() == Some(template.name);
        assert!(TEMPLATES.iter().any(known), "{}", template.name);
    }
    assert!(TEMPLATES.iter().any(|it| it.contains("fabric=direct")));
}

/// Every template, every collective, on all ranks or an odd number of them, with an odd root.
#[test]
fn every_template_does_every_collective() {
    TEMPLATES.par_iter().enumerate().for_each(|(number, template)| {
        let network = from_template(template).unwrap();
        let gpus = network.ranks().len() as u32;
        let subset = [gpus, (gpus / 2) | 1][number % 2].min(gpus);
        for goal in goals(subset) {
            let about = format!("{} over {subset} of {template}", goal.kind());
            let verdict = asked(&network, goal, 1_000_003, Method::Auto, about.clone());
            // Without all GPUs some of the others may be out of reach.
            let refused = subset < gpus && matches!(verdict, Verdict::Refused(_));
            assert!(refused || verdict == Verdict::Program, "{about}: {verdict:?}");
        }
    });
}

/// Where NVSwitches copy and reduce, what every method makes comes to its end, and not before the
/// bound: a halt was once taken for the end there.
#[test]
fn every_method_is_right_where_switches_reduce() {
    // Two servers with less data, so that programs have fewer transfers.
    for (template, size) in
        [("dgx-h100:nvls=true", 1 << 26), ("dgx-h100:count=2,nvls=true", 1 << 21)]
    {
        let network = from_template(template).unwrap();
        let ranks = network.ranks().len() as u32;
        for goal in goals(ranks) {
            // Exact search takes minutes for what is not a single box.
            let able = |it: &Method| it.does(goal.kind()) && (ranks == 8 || it.name() != "exact");
            for method in Method::all().filter(able) {
                let about = format!("{} by {} on {template}", goal.kind(), method.name());
                let verdict = asked(&network, goal.clone(), size, method, about.clone());
                let fits = !matches!(verdict, Verdict::Failed(_));
                assert!(fits, "{about}: {verdict:?}");
            }
        }
    }
}

/// Where a switch has links in one direction only, or loses them while others are taken out.
#[test]
fn one_way_switches_have_forests() {
    let text = "
        [[node]]\nname = 'g1'\nkind = 'gpu'\n[[node]]\nname = 'g2'\nkind = 'gpu'
        [[node]]\nname = 'g3'\nkind = 'gpu'\n[[node]]\nname = 'x'\nkind = 'cpu'
        [[link]]\nfrom = 'g2'\nto = 'g1'\nbandwidth = '1 GB/s'\nlatency = '0 s'\nduplex = true
        [[link]]\nfrom = 'g1'\nto = 'g3'\nbandwidth = '1 GB/s'\nlatency = '0 s'\nduplex = true
        [[link]]\nfrom = 'FROM'\nto = 'TO'\nbandwidth = '1 GB/s'\nlatency = '0 s'\nduplex = false";
    let one_way = |from: &str, to: &str| {
        let text = text.replace("FROM", from).replace("TO", to);
        from_toml(&text)
    };
    let networks = [
        one_way("x", "g3"),
        one_way("g3", "x"),
        from_template("dgx-h100:count=2,fabric=rail").unwrap(),
    ];
    for network in &networks {
        let ranks = network.ranks().len() as u32;
        for kind in [CollectiveKind::Broadcast, CollectiveKind::Reduce, CollectiveKind::AllGather] {
            for root in 0..ranks {
                let goal = Goal::rooted(kind, ranks, Rank(root)).unwrap();
                let about = format!("{kind} root {root} on {}", network.name());
                let verdict = asked(network, goal, 1 << 26, Method::Forest, about.clone());
                assert_eq!(verdict, Verdict::Program, "{about}");
            }
        }
    }
}

/// What takes beyond 213 days is refused at once, by every method.
#[test]
fn endless_tasks_are_refused() {
    let text = "
        [[node]]\nname = 'g0'\nkind = 'gpu'\n[[node]]\nname = 'g1'\nkind = 'gpu'
        [[link]]\nfrom = 'g0'\nto = 'g1'\nbandwidth = '1 bit/s'\nlatency = '10 ms'\nduplex = true";
    let network = from_toml(text);
    for goal in goals(2) {
        for method in Method::all().filter(|it| it.does(goal.kind())) {
            let about = format!("{} by {}", goal.kind(), method.name());
            let verdict = asked(&network, goal.clone(), 1 << 26, method, about.clone());
            assert!(matches!(verdict, Verdict::Refused(_)), "{about}: {verdict:?}");
        }
    }
}

#[test]
fn random_tasks_give_programs_or_refusals() {
    let mut programs = 0;
    for number in 0..300 {
        let case = cases::case(Seed::new(11), number).unwrap();
        let verdict = judge(&case);
        assert!(!verdict.is_failure(), "task {number}, {}: {verdict:?}", case.about);
        programs += u32::from(verdict == Verdict::Program);
    }
    assert!(programs > 200, "only {programs} of 300 gave a program");
}

fn draft(task: &Task<'_>, method: Method) -> Draft {
    synthesize(task, method, &Effort::unlimited(Seed::new(1))).unwrap()
}

/// A time below the bound is an error that names the program, and never a result.
#[test]
fn nothing_is_faster_than_the_bound() {
    let network = from_template("ring:gpus=5").unwrap();
    let goal = Goal::new(CollectiveKind::AllGather, 5).unwrap();
    let task = Task::new(&network, goal, Bytes::mib(1));
    let ring: Method = "ring".parse().unwrap();
    let time = draft(&task, ring).prove(&task).unwrap().time;
    assert!(draft(&task, ring).at_least(time).prove(&task).is_ok());
    let error = draft(&task, ring).at_least(time + Duration::from_ps(1)).prove(&task).unwrap_err();
    let SynthError::BelowBound { method, program, .. } = &error else { panic!("{error}") };
    assert_eq!((*method, program.as_str()), ("ring", "allgather-5"));
}

/// If the program that `auto` chose is not right after all, the next best is taken and the fault is
/// noted.
#[test]
fn auto_goes_on_without_what_is_not_right() {
    let network = from_template("ring:gpus=5").unwrap();
    let goal = Goal::new(CollectiveKind::AllGather, 5).unwrap();
    let task = Task::new(&network, goal, Bytes::mib(1));
    let mut draft = draft(&task, Method::Auto);
    let chosen = draft.method.name();
    draft.program = without_last(&draft.program);
    let made = draft.prove(&task).unwrap();
    assert_ne!(made.method.name(), chosen);
    let noted = made.tried.iter().find(|it| it.method.name() == chosen).unwrap();
    assert!(noted.time.is_none() && noted.why_not.as_ref().unwrap().contains("not right"));
}

/// The program without its last transfer.
fn without_last(program: &Program) -> Program {
    let mut short = motet_collective::ProgramBuilder::new("short", program.collective().clone());
    for path in program.paths() {
        short.add_path(path.clone());
    }
    let transfers = program.transfers();
    for transfer in &transfers[..transfers.len() - 1] {
        short.add(*transfer);
    }
    short.build()
}
