//! Points that are known, and what must hold of every plan.

mod brute_force;
mod cross_check;
mod programs;

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_net::builders::{Params, find};
use motet_net::formats::cluster_toml;
use motet_units::{Bytes, LinkId};

use super::*;
use motet_synth::Goal;

fn build(words: &str) -> Network {
    let (name, params) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(params.split_whitespace()).unwrap();
    find(name).unwrap().build(&params).unwrap()
}

/// DGX-1, from the networks that tests share.
fn dgx1() -> Network {
    let text = motet_testdata::ours("networks/dgx1.toml");
    cluster_toml::read(&text, &|it| Err(it.to_owned())).unwrap().network
}

fn task(network: &Network, kind: CollectiveKind) -> Task<'_> {
    let ranks = network.ranks().len() as u32;
    let goal = if kind.has_root() {
        Goal::rooted(kind, ranks, motet_units::Rank(0)).unwrap()
    } else {
        Goal::new(kind, ranks).unwrap()
    };
    Task::new(network, goal, Bytes::mib(1))
}

fn all_gather(network: &Network) -> (Exact, Fabric) {
    let task = task(network, CollectiveKind::AllGather);
    let fabric = Fabric::new(&task).unwrap();
    (Exact::new(&task, &fabric).unwrap(), fabric)
}

const GENEROUS: Limits =
    Limits { conflicts: 1_000_000, front_conflicts: 10_000_000, chunks: 6, more_steps: 3 };

/// The front as text, each point with how many points it beats and a mark for proof.
fn front_of(network: &Network, limits: &Limits) -> String {
    let (exact, fabric) = all_gather(network);
    let front = exact.front(limits);
    let mut text = String::new();
    for best in &front.points {
        check(&best.plan, &fabric);
        let proof = if best.is_proved() { "proved" } else { "open" };
        let optimal = if best.bandwidth_optimal { ", as fast as the cut" } else { "" };
        let beaten = best.ruled_out.len();
        text += &format!("{} over {beaten}, {proof}{optimal}\n", best.plan.point);
    }
    text + if front.is_complete() { "complete" } else { "incomplete" }
}

/// That a plan is a program of its point, told without anything that made it: every rank gets
/// every chunk, from a rank that had it a step before, over links that carry no more than they can.
fn check(plan: &ExactPlan, fabric: &Fabric) {
    let Point { chunks, steps, rounds } = plan.point;
    assert_eq!(plan.rounds.len(), steps as usize);
    assert_eq!(plan.rounds.iter().sum::<u32>(), rounds);
    assert!(plan.rounds.iter().all(|it| *it > 0));
    let ranks = fabric.rank_count();
    let unit = fabric.links().iter().map(|it| fabric.bits_per_s(*it)).min().unwrap_or(1);
    let mut loads = vec![0u64; fabric.link_count() * steps as usize];
    let mut roots: Vec<_> = plan.forest.trees.iter().map(|it| it.root).collect();
    roots.dedup();
    let at = |root: usize, chunk: u32, rank: usize| {
        (root * chunks as usize + chunk as usize) * ranks + rank
    };
    // The step after which a rank has a chunk.
    let mut has = vec![None; ranks * chunks as usize * ranks];
    for root in &roots {
        for chunk in 0..chunks {
            has[at(root.index(), chunk, root.index())] = Some(0);
        }
    }
    for send in &plan.sends {
        let (from, to) = (send.edge.from, send.edge.to);
        let had = has[at(send.root.index(), send.chunk, from.index())];
        assert!(had.is_some_and(|it| it <= send.step), "{send:?} {had:?}");
        let gets = &mut has[at(send.root.index(), send.chunk, to.index())];
        assert_eq!(*gets, None, "{send:?}");
        *gets = Some(send.step + 1);
        let path = &plan.forest.paths[send.edge.path as usize];
        assert_eq!(path.first().map(|it| fabric.from(*it)), Some(fabric.node(from)));
        assert_eq!(path.last().map(|it| fabric.to(*it)), Some(fabric.node(to)));
        assert!(path.windows(2).all(|it| fabric.to(it[0]) == fabric.from(it[1])));
        for link in path {
            loads[link.index() * steps as usize + send.step as usize] += 1;
        }
    }
    for root in &roots {
        for chunk in 0..chunks {
            for rank in 0..ranks {
                assert!(has[at(root.index(), chunk, rank)].is_some(), "{root:?} {chunk} {rank}");
            }
        }
    }
    for (number, load) in loads.iter().enumerate() {
        let (link, step) = (number / steps as usize, number % steps as usize);
        let capacity = fabric.bits_per_s(LinkId(link as u32)) / unit;
        let most = capacity * u64::from(plan.rounds[step]);
        assert!(*load <= most, "link {link} carries {load} of {most} in step {step}");
    }
}

#[test]
fn a_ring_of_four() {
    // The fewest steps are also as fast as the cut: of two chunks each, six come in over two links
    // in three rounds.
    insta::assert_snapshot!(front_of(&build("ring gpus=4"), &GENEROUS), @r"
    (2,2,3) over 0, proved, as fast as the cut
    complete
    ");
}

#[test]
fn a_full_mesh_of_four() {
    insta::assert_snapshot!(front_of(&build("full-mesh gpus=4"), &GENEROUS), @r"
    (1,1,1) over 0, proved, as fast as the cut
    complete
    ");
}

#[test]
fn other_small_networks() {
    insta::assert_snapshot!(front_of(&build("ring gpus=5"), &GENEROUS), @r"
    (1,2,2) over 0, proved, as fast as the cut
    complete
    ");
    insta::assert_snapshot!(front_of(&build("mesh rows=1 columns=4"), &GENEROUS), @r"
    (1,3,3) over 0, proved, as fast as the cut
    complete
    ");
    insta::assert_snapshot!(front_of(&build("hypercube dimensions=3"), &GENEROUS), @r"
    (3,3,7) over 0, proved, as fast as the cut
    complete
    ");
}

#[test]
fn points_of_a_dgx1() {
    let network = dgx1();
    let (exact, fabric) = all_gather(&network);
    for (chunks, steps, rounds) in [(1, 2, 2), (2, 2, 3), (6, 3, 7)] {
        let point = Point { chunks, steps, rounds };
        let Answer::Possible(plan) = exact.solve(point, &GENEROUS) else {
            panic!("{point} was not found");
        };
        assert_eq!(plan.point, point);
        check(&plan, &fabric);
    }
    let impossible = |point: Point| match exact.solve(point, &GENEROUS) {
        Answer::Impossible(proof) => proof,
        answer => panic!("{point}: {answer:?}"),
    };
    assert_eq!(impossible(Point::new(3, 2, 4)), Proof::Search);
    // Nobody is reached in one step; a rank takes in six chunks per round.
    assert_eq!(impossible(Point::new(1, 1, 7)), Proof::Bound);
    assert_eq!(impossible(Point::new(6, 7, 6)), Proof::Bound);
    assert_eq!(impossible(Point::new(1, 3, 2)), Proof::Bound);
}

#[test]
fn the_front_of_a_dgx1() {
    let network = dgx1();
    insta::assert_snapshot!(front_of(&network, &GENEROUS), @r"
    (2,2,3) over 6, proved
    (6,3,7) over 0, proved, as fast as the cut
    complete
    ");
}

#[test]
fn limits_are_kept() {
    let network = dgx1();
    let (exact, _) = all_gather(&network);
    let limits = Limits { conflicts: 0, ..GENEROUS };
    assert!(matches!(exact.solve(Point::new(3, 2, 4), &limits), Answer::Unknown));
    // Too many sends to write down.
    let point = Point::new(1 << 30, 2, 1 << 31);
    assert!(matches!(exact.solve(point, &GENEROUS), Answer::Unknown));
    // Too many ways to share out rounds for a proof, but not to find a program.
    let point = Point::new(1, 2, u32::MAX);
    assert!(matches!(exact.solve(point, &GENEROUS), Answer::Possible(_)));
}
