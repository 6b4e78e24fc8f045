//! GPUs joined directly to one another: ring, full mesh, hypercube. Meshes and tori are in
//! [`grid`](super::grid).

use motet_units::NodeId;

use super::assembly::{Assembly, Place};
use super::common::{DC, MANY, NAME};
use super::template::{Args, Family, Param, ParamKind, Template, TemplateError};
use crate::link::LinkSpec;
use crate::node::NodeKind;

pub(super) const BANDWIDTH: Param =
    Param::new("bandwidth", ParamKind::Bandwidth, "50 GB/s", "the rate of each link, each way");
pub(super) const LATENCY: Param =
    Param::new("latency", ParamKind::Latency, "500 ns", "the latency of each link");
pub(super) const CLASS: Param =
    Param::new("class", ParamKind::Class, "other", "the class of its links");

pub(super) const RING: Template = Template {
    name: "ring",
    family: Family::Fabric,
    doc: "GPUs in a ring",
    params: &[
        Param::count("gpus", (2, MANY), "8", "how many GPUs"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        NAME,
        DC,
    ],
    build: ring,
};

pub(super) const FULL_MESH: Template = Template {
    name: "full-mesh",
    family: Family::Fabric,
    doc: "every GPU joined to every other",
    params: &[
        Param::count("gpus", (2, 4096), "8", "how many GPUs"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        NAME,
        DC,
    ],
    build: full_mesh,
};

pub(super) const HYPERCUBE: Template = Template {
    name: "hypercube",
    family: Family::Fabric,
    doc: "2^dimensions GPUs, each joined to those whose number differs in one bit",
    params: &[
        Param::count("dimensions", (1, 18), "3", "how many dimensions"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        NAME,
        DC,
    ],
    build: hypercube,
};

/// `count` GPUs called `gpu0`, `gpu1` and so on.
pub(super) fn add_gpus(
    assembly: &mut Assembly<'_>,
    args: &Args,
    count: usize,
) -> Result<Vec<NodeId>, TemplateError> {
    let place = Place::of(args)?;
    let mut gpus = Vec::with_capacity(count);
    for index in 0..count {
        gpus.push(assembly.builder.add_node(place.node(format!("gpu{index}"), NodeKind::Gpu))?);
    }
    Ok(gpus)
}

/// The link that `bandwidth`, `latency` and `class` describe.
pub(super) fn link(args: &Args) -> Result<LinkSpec, TemplateError> {
    Ok(LinkSpec::new(args.class("class")?, args.bandwidth("bandwidth")?, args.latency("latency")?))
}

fn ring(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let count = args.count("gpus")?;
    assembly.reserve(count as u128, 2 * count as u128)?;
    let gpus = add_gpus(assembly, args, count)?;
    let spec = link(args)?;
    // Two GPUs have one link between them, not a ring of two.
    for index in 0..if count == 2 { 1 } else { count } {
        assembly.builder.add_duplex(gpus[index], gpus[(index + 1) % count], spec)?;
    }
    Ok(())
}

fn full_mesh(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let count = args.count("gpus")?;
    assembly.reserve(count as u128, (count * (count - 1)) as u128)?;
    let gpus = add_gpus(assembly, args, count)?;
    let spec = link(args)?;
    for (index, a) in gpus.iter().enumerate() {
        for b in &gpus[index + 1..] {
            assembly.builder.add_duplex(*a, *b, spec)?;
        }
    }
    Ok(())
}

fn hypercube(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let dimensions = args.count("dimensions")?;
    let count = 1usize << dimensions;
    assembly.reserve(count as u128, (count * dimensions) as u128)?;
    let gpus = add_gpus(assembly, args, count)?;
    let spec = link(args)?;
    for index in 0..count {
        for bit in (0..dimensions).map(|it| 1 << it).filter(|it| index & it == 0) {
            assembly.builder.add_duplex(gpus[index], gpus[index | bit], spec)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, crossing, degrees};

    #[test]
    fn rings() {
        let ring = build("ring", &["gpus=6"]);
        assert_eq!((ring.nodes().len(), ring.links().len()), (6, 12));
        assert!(degrees(&ring).iter().all(|it| *it == 2));
        assert_eq!(crossing(&ring, |it| it < 3), 2);
        assert_eq!(build("ring", &["gpus=2"]).links().len(), 2);
    }

    #[test]
    fn full_meshes() {
        let mesh = build("full-mesh", &["gpus=7"]);
        assert_eq!((mesh.nodes().len(), mesh.links().len()), (7, 42));
        assert!(degrees(&mesh).iter().all(|it| *it == 6));
    }

    #[test]
    fn hypercubes() {
        let cube = build("hypercube", &["dimensions=5", "bandwidth=10 GB/s"]);
        assert_eq!((cube.nodes().len(), cube.links().len()), (32, 160));
        assert!(degrees(&cube).iter().all(|it| *it == 5));
        assert_eq!(crossing(&cube, |it| it < 16), 16);
        assert_eq!(cube.links()[0].spec.bandwidth.to_string(), "10 GB/s");
    }
}
