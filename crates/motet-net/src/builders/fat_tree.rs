//! The k-ary fat tree (Al-Fares et al., SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation
//! switches, (k/2)² core switches, k³/4 ports, and as much rate at every level.

use super::assembly::{Assembly, Place};
use super::common::{
    BANDWIDTH, CLASS, FABRIC_DC, HOP_LATENCY, LATENCY, MANY, NAME, OVERSUBSCRIPTION, SHARP, UPLINK,
    add_switch, hop, settle_rack, uplink_rate,
};
use super::template::{AUTO, Args, Family, Param, Template, TemplateError};
use crate::node::NodeKind;

pub(super) const FAT_TREE: Template = Template {
    name: "fat-tree",
    family: Family::Fabric,
    doc: "the k-ary fat tree: k pods, k^3/4 ports, full bisection",
    params: &[
        Param::count("k", (2, 160), "4", "ports of each switch; even"),
        Param::count(
            "gpus",
            (1, MANY),
            AUTO,
            "GPUs of its own if there is no open port; auto: k^3/4",
        ),
        UPLINK,
        OVERSUBSCRIPTION,
        BANDWIDTH,
        LATENCY,
        HOP_LATENCY,
        CLASS,
        SHARP,
        NAME,
        FABRIC_DC,
    ],
    build: fat_tree,
};

fn fat_tree(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let k = args.count("k")?;
    if !k.is_multiple_of(2) {
        return Err(TemplateError::of("k", format!("`k` is {k}, but must be even")));
    }
    let half = k / 2;
    let capacity = k * half * half;
    let (switches, hops) = (k * k + half * half, 2 * k * half * half);
    let fits = |ports: usize| {
        if ports <= capacity {
            return Ok(());
        }
        let problem = format!("a fat tree of k = {k} has {capacity} ports, not {ports}");
        Err(TemplateError::of("k", problem).with_remedy("raise `k`"))
    };
    let own = args.count_or("gpus", capacity)?;
    fits(own)?;
    let size = (switches as u128, 2 * hops as u128);
    let ports = assembly.fabric_ports(args, ("gpus", own), size)?;
    fits(ports.len())?;
    let place = Place::of(args)?;
    let rate = uplink_rate(args, &ports[..half.min(ports.len())], half)?;
    let mut cores = Vec::with_capacity(half * half);
    for index in 0..half * half {
        let name = (format!("core{index}"), NodeKind::Spine);
        cores.push(add_switch(assembly, args, &place, name, None)?);
    }
    for pod in 0..k {
        let mut aggregations = Vec::with_capacity(half);
        for index in 0..half {
            let name = (format!("pod{pod}-agg{index}"), NodeKind::Spine);
            let aggregation = add_switch(assembly, args, &place, name, None)?;
            for core in &cores[index * half..(index + 1) * half] {
                assembly.builder.add_duplex(aggregation, *core, hop(args, rate)?)?;
            }
            aggregations.push(aggregation);
        }
        for index in 0..half {
            let rack = format!("pod{pod}-rack{index}");
            let name = (format!("pod{pod}-edge{index}"), NodeKind::Leaf);
            let edge = add_switch(assembly, args, &place, name, Some(&rack))?;
            let first = (pod * half + index) * half;
            for port in ports.iter().skip(first).take(half) {
                assembly.attach(port, edge, args.class("class")?)?;
                settle_rack(assembly, port, &format!("{}{rack}", place.prefix));
            }
            for aggregation in &aggregations {
                assembly.builder.add_duplex(edge, *aggregation, hop(args, rate)?)?;
            }
        }
    }
    for core in cores {
        assembly.add_top(core);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, degrees, fails};
    use crate::node::NodeKind;

    #[test]
    fn counts_follow_k() {
        for k in [2usize, 4, 6, 8] {
            let net = build("fat-tree", &[&format!("k={k}")]);
            let half = k / 2;
            assert_eq!(net.count(NodeKind::Gpu), k * half * half);
            assert_eq!(net.count(NodeKind::Leaf), k * half);
            assert_eq!(net.count(NodeKind::Spine), k * half + half * half);
            assert_eq!(net.links().len(), 2 * 3 * k * half * half);
            let switches = net.node_ids().filter(|it| net.node(*it).kind != NodeKind::Gpu);
            let degrees = degrees(&net);
            assert!(switches.into_iter().all(|it| degrees[it.index()] == k));
        }
    }

    /// Full bisection: the core links of half the pods carry what half the GPUs send.
    #[test]
    fn bisection_is_full() {
        let net = build("fat-tree", &["k=4"]);
        let in_half = |it: motet_units::NodeId| {
            let name = &net.node(it).name;
            name.starts_with("pod0") || name.starts_with("pod1")
        };
        let cut: f64 = net
            .links()
            .iter()
            .filter(|it| in_half(it.from) && net.node(it.to).name.starts_with("core"))
            .map(|it| it.spec.bandwidth.as_gb_per_s_f64())
            .sum();
        assert!((cut - 8.0 * 50.0).abs() < 1e-9, "{cut}");
    }

    #[test]
    fn refuses_odd_and_overfull() {
        assert_eq!(fails("fat-tree", &["k=5"]).key.as_deref(), Some("k"));
        let error = fails("fat-tree", &["k=4", "gpus=17"]);
        assert!(error.problem.contains("16 ports, not 17"), "{error}");
    }
}
