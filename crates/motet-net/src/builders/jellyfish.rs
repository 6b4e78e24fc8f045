//! Jellyfish (Singla et al., NSDI 2012): switches joined by a random regular graph.
//!
//! The graph starts as a regular ring lattice and is shuffled by exchanging the ends of random
//! pairs of links, which keeps every degree and never joins two switches twice. That takes time
//! in proportion to the links whatever the parameters, where drawing free ports at random may
//! get stuck. A shuffle that leaves the graph in pieces is drawn again.

use std::collections::BTreeSet;

use motet_units::{NodeId, Seed, Stream};
use rand::RngExt;

use super::assembly::{Assembly, Place};
use super::common::{
    BANDWIDTH, CLASS, FABRIC_DC, HOP_LATENCY, LATENCY, MANY, NAME, SHARP, add_switch, hop,
    settle_rack,
};
use super::template::{Args, Family, Param, ParamKind, Template, TemplateError};
use crate::node::NodeKind;

/// Exchanges tried for each link: enough that nothing of the lattice is left.
const SHUFFLES: usize = 10;
/// How often a graph in pieces is drawn again. Random regular graphs of degree 3 and more are
/// whole almost always.
const TRIES: u64 = 32;

pub(super) const JELLYFISH: Template = Template {
    name: "jellyfish",
    family: Family::Fabric,
    doc: "switches joined by a random regular graph",
    params: &[
        Param::count("switches", (2, 65_536), "10", "how many switches"),
        Param::count("degree", (1, 1024), "4", "links of a switch to other switches"),
        Param::count(
            "gpus-per-switch",
            (1, MANY),
            "2",
            "how many GPUs of its own each switch has, if there is no open port",
        ),
        Param::count("seed", (0, u32::MAX), "0", "the seed of the random graph"),
        Param::new("uplink", ParamKind::Bandwidth, "50 GB/s", "the rate from switch to switch"),
        BANDWIDTH,
        LATENCY,
        HOP_LATENCY,
        CLASS,
        SHARP,
        NAME,
        FABRIC_DC,
    ],
    build: jellyfish,
};

fn jellyfish(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let (switches, degree) = (args.count("switches")?, args.count("degree")?);
    if degree >= switches {
        let problem = format!("{switches} switches have at most {} links each", switches - 1);
        return Err(TemplateError::of("degree", problem));
    }
    let own = switches.saturating_mul(args.count("gpus-per-switch")?);
    let size = (switches as u128, switches as u128 * degree as u128);
    let ports = assembly.fabric_ports(args, ("gpus-per-switch", own), size)?;
    let seed = Seed::new(args.count("seed")? as u64).named("jellyfish");
    let edges = (0..TRIES)
        .map(|it| random_regular(switches, degree, &mut seed.numbered(it).stream("edges")))
        .find(|it| is_whole(switches, it));
    let Some(edges) = edges else {
        let problem = format!("{switches} switches of {degree} links each stay in pieces");
        return Err(TemplateError::of("degree", problem).with_remedy("raise `degree`"));
    };
    let place = Place::of(args)?;
    let share = ports.len().div_ceil(switches).max(1);
    let mut ids: Vec<NodeId> = Vec::with_capacity(switches);
    for index in 0..switches {
        let rack = format!("rack{index}");
        let name = (format!("switch{index}"), NodeKind::Leaf);
        let switch = add_switch(assembly, args, &place, name, Some(&rack))?;
        for port in ports.iter().skip(index * share).take(share) {
            assembly.attach(port, switch, args.class("class")?)?;
            settle_rack(assembly, port, &format!("{}{rack}", place.prefix));
        }
        assembly.add_top(switch);
        ids.push(switch);
    }
    let spec = hop(args, args.bandwidth("uplink")?)?;
    for (a, b) in edges {
        assembly.builder.add_duplex(ids[a], ids[b], spec)?;
    }
    Ok(())
}

/// A random simple graph in which every node has `degree` links; one node has one less where
/// both numbers are odd. Pairs are (smaller, larger), sorted.
fn random_regular(nodes: usize, degree: usize, stream: &mut Stream) -> Vec<(usize, usize)> {
    let pair = |a: usize, b: usize| (a.min(b), a.max(b));
    let mut edges = Vec::with_capacity(nodes * degree / 2);
    for node in 0..nodes {
        edges.extend((1..=degree / 2).map(|it| pair(node, (node + it) % nodes)));
    }
    if degree % 2 == 1 {
        edges.extend((0..nodes / 2).map(|it| pair(it, it + nodes / 2)));
    }
    let mut present: BTreeSet<(usize, usize)> = edges.iter().copied().collect();
    for _ in 0..edges.len() * SHUFFLES {
        let (i, j) = (stream.random_range(0..edges.len()), stream.random_range(0..edges.len()));
        let ((a, b), (mut c, mut d)) = (edges[i], edges[j]);
        if stream.random_bool(0.5) {
            (c, d) = (d, c);
        }
        let (first, second) = (pair(a, c), pair(b, d));
        let apart = a != c && b != d && a != d && b != c;
        if apart && !present.contains(&first) && !present.contains(&second) {
            for (index, new) in [(i, first), (j, second)] {
                present.remove(&edges[index]);
                present.insert(new);
                edges[index] = new;
            }
        }
    }
    present.into_iter().collect()
}

/// Whether every node can be reached.
fn is_whole(nodes: usize, edges: &[(usize, usize)]) -> bool {
    let mut neighbours = vec![Vec::new(); nodes];
    for (a, b) in edges {
        neighbours[*a].push(*b);
        neighbours[*b].push(*a);
    }
    let mut seen = vec![false; nodes];
    let (mut waiting, mut reached) = (vec![0], 1);
    seen[0] = true;
    while let Some(node) = waiting.pop() {
        for next in &neighbours[node] {
            if !std::mem::replace(&mut seen[*next], true) {
                reached += 1;
                waiting.push(*next);
            }
        }
    }
    reached == nodes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::testing::{build, fails};
    use proptest::prelude::*;

    #[test]
    fn same_seed_same_graph() {
        let net = build("jellyfish", &["seed=7"]);
        assert_eq!(net, build("jellyfish", &["seed=7"]));
        assert_ne!(net.links(), build("jellyfish", &["seed=8"]).links());
        assert_eq!(net.nodes().len(), 30);
        assert_eq!(net.links().len(), 2 * (20 + 20));
        assert_eq!(fails("jellyfish", &["switches=4", "degree=4"]).key.as_deref(), Some("degree"));
        assert!(fails("jellyfish", &["degree=1"]).problem.contains("pieces"));
    }

    proptest! {
        #[test]
        fn graphs_are_simple_and_regular(nodes in 2usize..40, degree in 1usize..12, seed: u64) {
            prop_assume!(degree < nodes);
            let edges = random_regular(nodes, degree, &mut Seed::new(seed).stream("test"));
            let mut degrees = vec![0; nodes];
            for (a, b) in &edges {
                prop_assert!(a < b);
                degrees[*a] += 1;
                degrees[*b] += 1;
            }
            prop_assert!(edges.windows(2).all(|it| it[0] < it[1]));
            let short: usize = degrees.iter().map(|it| degree - it).sum();
            prop_assert_eq!(short, nodes * degree % 2);
        }
    }
}
