//! BCube (Guo et al., SIGCOMM 2009): n^(k+1) GPUs with k+1 ports each; at each of the k+1 levels,
//! the GPUs whose addresses differ only in that digit share a switch.

use super::assembly::{Assembly, Place};
use super::common::{DC, NAME, SHARP, add_switch};
use super::direct::{BANDWIDTH, CLASS, LATENCY, add_gpus, link};
use super::template::{Args, Family, Param, Template, TemplateError};
use crate::node::NodeKind;

pub(super) const BCUBE: Template = Template {
    name: "bcube",
    family: Family::Fabric,
    doc: "n^(k+1) GPUs of k+1 ports; switches join those whose address differs in one digit",
    params: &[
        Param::count("n", (2, 1024), "4", "ports of each switch"),
        Param::count("k", (0, 18), "1", "levels, counted from 0"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        SHARP,
        NAME,
        DC,
    ],
    build: bcube,
};

fn bcube(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let (n, k) = (args.count("n")?, args.count("k")?);
    let levels = k as u32 + 1;
    let count = (n as u128).saturating_pow(levels);
    let per_level = count / n as u128;
    let all = |each: u128| each.saturating_mul(u128::from(levels));
    assembly.reserve(count.saturating_add(all(per_level)), all(count).saturating_mul(2))?;
    let gpus = add_gpus(assembly, args, count as usize)?;
    let place = Place::of(args)?;
    let spec = link(args)?;
    let mut stride = 1;
    for level in 0..levels {
        // Level 0 is the switch of a rack; higher levels join racks.
        let kind = if level == 0 { NodeKind::Leaf } else { NodeKind::Spine };
        for index in 0..per_level as usize {
            let name = (format!("level{level}-switch{index}"), kind);
            let switch = add_switch(assembly, args, &place, name, None)?;
            // The address without the digit of this level, put back together around it.
            let first = index / stride * stride * n + index % stride;
            for digit in 0..n {
                assembly.builder.add_duplex(gpus[first + digit * stride], switch, spec)?;
            }
        }
        stride *= n;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, degrees, fails};

    #[test]
    fn counts_follow_n_and_k() {
        for (n, k) in [(4usize, 1u32), (3, 2), (2, 4), (8, 0)] {
            let net = build("bcube", &[&format!("n={n}"), &format!("k={k}")]);
            let (gpus, levels) = (n.pow(k + 1), k as usize + 1);
            assert_eq!(net.ranks().len(), gpus);
            assert_eq!(net.nodes().len(), gpus + levels * n.pow(k));
            assert_eq!(net.links().len(), 2 * levels * gpus);
            let degrees = degrees(&net);
            for id in net.node_ids() {
                let wanted = if id.index() < gpus { levels } else { n };
                assert_eq!(degrees[id.index()], wanted);
            }
        }
    }

    #[test]
    fn hostile_powers_are_refused() {
        assert!(fails("bcube", &["n=1024", "k=18"]).problem.contains("at most"));
    }
}
