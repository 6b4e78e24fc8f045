//! HammingMesh (Hoefler et al., SC 2022): boards of a×b GPUs in a 2D mesh; the two ends of each
//! row of a board go to a switch for that row across all boards, and columns alike.
//!
//! One switch stands for the small fat tree of a row or column.

use super::assembly::{Assembly, Place};
use super::common::{DC, NAME, SHARP, add_switch};
use super::direct::{BANDWIDTH, CLASS, LATENCY, link};
use super::template::{Args, Family, Param, Template, TemplateError};
use crate::node::NodeKind;

pub(super) const HAMMINGMESH: Template = Template {
    name: "hammingmesh",
    family: Family::Fabric,
    doc: "boards of GPUs in a 2D mesh, whose rows and columns are joined by switches",
    params: &[
        Param::count("board-columns", (1, 1024), "2", "a: columns of GPUs on a board"),
        Param::count("board-rows", (1, 1024), "2", "b: rows of GPUs on a board"),
        Param::count("columns", (1, 1024), "4", "x: columns of boards"),
        Param::count("rows", (1, 1024), "4", "y: rows of boards"),
        BANDWIDTH,
        LATENCY,
        CLASS,
        SHARP,
        NAME,
        DC,
    ],
    build: hammingmesh,
};

fn hammingmesh(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let (a, b) = (args.count("board-columns")?, args.count("board-rows")?);
    let (x, y) = (args.count("columns")?, args.count("rows")?);
    let (width, height) = (a * x, b * y);
    let inside = (x * y) as u128 * ((a - 1) * b + a * (b - 1)) as u128;
    let outside = 2 * (height * x + width * y) as u128;
    let gpus = width as u128 * height as u128;
    assembly.reserve(gpus + (width + height) as u128, 2 * (inside + outside))?;
    let place = Place::of(args)?;
    let mut ids = Vec::with_capacity(width * height);
    for index in 0..width * height {
        let (column, row) = (index % width, index / width);
        let board = format!("{}board{}-{}", place.prefix, row / b, column / a);
        let gpu = place.node(format!("gpu{index}"), NodeKind::Gpu).in_server(board);
        ids.push(assembly.builder.add_node(gpu)?);
    }
    let spec = link(args)?;
    for index in 0..ids.len() {
        let (column, row) = (index % width, index / width);
        if (column + 1) % a != 0 {
            assembly.builder.add_duplex(ids[index], ids[index + 1], spec)?;
        }
        if (row + 1) % b != 0 {
            assembly.builder.add_duplex(ids[index], ids[index + width], spec)?;
        }
    }
    // The west and east (north and south) ends; a board of one column has both on one GPU.
    for row in 0..height {
        let name = (format!("row{row}"), NodeKind::Leaf);
        let switch = add_switch(assembly, args, &place, name, None)?;
        for board in 0..x {
            for column in [board * a, board * a + a - 1] {
                assembly.builder.add_duplex(ids[row * width + column], switch, spec)?;
            }
        }
    }
    for column in 0..width {
        let name = (format!("column{column}"), NodeKind::Leaf);
        let switch = add_switch(assembly, args, &place, name, None)?;
        for board in 0..y {
            for row in [board * b, board * b + b - 1] {
                assembly.builder.add_duplex(ids[row * width + column], switch, spec)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::builders::testing::{build, degrees};
    use crate::node::NodeKind;

    #[test]
    fn every_gpu_has_four_links() {
        for words in [[2, 2, 4, 4], [1, 1, 3, 5], [4, 2, 2, 3]] {
            let [a, b, x, y] = words;
            let net = build(
                "hammingmesh",
                &[
                    &format!("board-columns={a}"),
                    &format!("board-rows={b}"),
                    &format!("columns={x}"),
                    &format!("rows={y}"),
                ],
            );
            assert_eq!(net.count(NodeKind::Gpu), a * b * x * y);
            assert_eq!(net.count(NodeKind::Leaf), a * x + b * y);
            let degrees = degrees(&net);
            assert!(net.ranks().iter().all(|it| degrees[it.index()] == 4));
            let row = net.find("row0").unwrap();
            assert_eq!(degrees[row.index()], 2 * x);
        }
    }
}
