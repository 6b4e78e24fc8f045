//! GPUs on a grid: 2D mesh, 2D and 3D torus, made by one function over any dimensions.

use super::assembly::Assembly;
use super::common::{DC, MANY, NAME};
use super::direct::{BANDWIDTH, CLASS, LATENCY, add_gpus, link};
use super::template::{Args, Family, Param, Template, TemplateError};

const ROWS: Param = Param::count("rows", (1, MANY), "4", "how many rows");
const COLUMNS: Param = Param::count("columns", (1, MANY), "4", "how many columns");

pub(super) const MESH: Template = Template {
    name: "mesh",
    family: Family::Fabric,
    doc: "GPUs on a 2D grid, joined to their neighbours",
    params: &[ROWS, COLUMNS, BANDWIDTH, LATENCY, CLASS, NAME, DC],
    build: |assembly, args| {
        grid(assembly, args, &[args.count("rows")?, args.count("columns")?], false)
    },
};

pub(super) const TORUS_2D: Template = Template {
    name: "torus-2d",
    family: Family::Fabric,
    doc: "a 2D grid whose rows and columns are rings",
    params: &[ROWS, COLUMNS, BANDWIDTH, LATENCY, CLASS, NAME, DC],
    build: |assembly, args| {
        grid(assembly, args, &[args.count("rows")?, args.count("columns")?], true)
    },
};

pub(super) const TORUS_3D: Template = Template {
    name: "torus-3d",
    family: Family::Fabric,
    doc: "a 3D grid whose lines are rings",
    params: &[
        Param::count("x", (1, MANY), "4", "how many GPUs along x"),
        Param::count("y", (1, MANY), "4", "how many GPUs along y"),
        Param::count("z", (1, MANY), "4", "how many GPUs along z"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        NAME,
        DC,
    ],
    build: |assembly, args| {
        // The last dimension runs fastest in the numbering, so x is given last.
        grid(assembly, args, &[args.count("z")?, args.count("y")?, args.count("x")?], true)
    },
};

/// GPUs at every point of `sizes`, numbered with the last dimension fastest. A line of two has
/// one link even where lines wrap around: the same two GPUs are not joined twice.
fn grid(
    assembly: &mut Assembly<'_>,
    args: &Args,
    sizes: &[usize],
    wrap: bool,
) -> Result<(), TemplateError> {
    let total: u128 = sizes.iter().map(|it| *it as u128).product();
    let line_links = |size: u128| if wrap && size > 2 { size } else { size - 1 };
    let links: u128 = sizes.iter().map(|it| total / *it as u128 * line_links(*it as u128)).sum();
    assembly.reserve(total, 2 * links)?;
    let gpus = add_gpus(assembly, args, total as usize)?;
    let spec = link(args)?;
    for index in 0..gpus.len() {
        let mut stride = 1;
        for size in sizes.iter().rev() {
            let along = index / stride % size;
            if along + 1 < *size {
                assembly.builder.add_duplex(gpus[index], gpus[index + stride], spec)?;
            } else if wrap && *size > 2 {
                let first = index - along * stride;
                assembly.builder.add_duplex(gpus[index], gpus[first], spec)?;
            }
            stride *= size;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, crossing, degrees, reference, same_profile};

    #[test]
    fn meshes() {
        let mesh = build("mesh", &["rows=3", "columns=5"]);
        assert_eq!((mesh.nodes().len(), mesh.links().len()), (15, 2 * (3 * 4 + 2 * 5)));
        assert_eq!(degrees(&mesh).iter().filter(|it| **it == 2).count(), 4);
        // Between the second and the third column: one link for each row.
        assert_eq!(crossing(&mesh, |it| it % 5 < 2), 3);
    }

    #[test]
    fn tori() {
        let torus = build("torus-2d", &["rows=4", "columns=6"]);
        assert_eq!((torus.nodes().len(), torus.links().len()), (24, 96));
        assert!(degrees(&torus).iter().all(|it| *it == 4));
        assert_eq!(crossing(&torus, |it| it % 6 < 3), 8);
        let torus = build("torus-3d", &["x=4", "y=3", "z=5"]);
        assert_eq!((torus.nodes().len(), torus.links().len()), (60, 360));
        assert!(degrees(&torus).iter().all(|it| *it == 6));
        assert_eq!(crossing(&torus, |it| it % 4 < 2), 2 * 15);
        let flat = build("torus-2d", &["rows=2", "columns=2"]);
        assert_eq!(flat.links().len(), 8, "lines of two have one link");
    }

    #[test]
    fn as_the_literature_draws_them() {
        for (file, kind) in [("mesh-4x4", "mesh"), ("torus-4x4", "torus-2d")] {
            let reference = reference(file);
            same_profile(&build(kind, &[]), &reference);
        }
    }
}
