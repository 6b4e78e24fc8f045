//! Traffic matrices as CSV with the columns `matrix,src,dst,demand`: what others send between the
//! routers of a WAN, which is laid on shortest paths and leaves the rest of each link.
//!
//! `src` and `dst` number the border routers in the order of the network file, or name them.

use motet_net::formats::ReadError;
use motet_net::{Metric, Network, NodeKind, Search};
use motet_units::{Bandwidth, NodeId};

use super::lines_csv::{self, Shape};

/// Most matrices of one file.
const MAX_MATRICES: usize = 100_000;

const SHAPE: Shape = Shape { heading: "matrix", remedy: "write matrix,src,dst,demand" };

/// What every link carries of others' traffic, one list per matrix.
pub fn read(
    text: &str,
    network: &Network,
    unit: Bandwidth,
) -> Result<Vec<Vec<Bandwidth>>, ReadError> {
    let borders: Vec<NodeId> =
        network.node_ids().filter(|it| network.node(*it).kind == NodeKind::Border).collect();
    let mut loads: Vec<Vec<f64>> = Vec::new();
    lines_csv::each(text, &SHAPE, |[matrix, src, dst, demand], wrong| {
        let matrix: usize = (matrix.parse().ok().filter(|it| *it < MAX_MATRICES))
            .ok_or_else(|| wrong(format!("`{matrix}` is no number of a matrix")))?;
        let demand: f64 = (demand.parse().ok().filter(|it: &f64| it.is_finite() && *it >= 0.0))
            .ok_or_else(|| wrong(format!("`{demand}` is no demand")))?;
        let node = |name: &str| {
            let numbered = name.parse().ok().and_then(|it: usize| borders.get(it).copied());
            let found = network.find(name).or(numbered);
            found.ok_or_else(|| wrong(format!("there is no border router `{name}`")))
        };
        let (src, dst) = (node(src)?, node(dst)?);
        if matrix >= loads.len() {
            loads.resize(matrix + 1, vec![0.0; network.links().len()]);
        }
        if src == dst {
            return Ok(());
        }
        let path = Search::new(network, Metric::Latency).shortest(src, dst);
        let path =
            path.ok_or_else(|| wrong("no path leads from one router to the other".into()))?;
        for link in path.links() {
            loads[matrix][link.index()] += demand;
        }
        Ok(())
    })?;
    if loads.is_empty() {
        return Err(ReadError::new("there is no traffic matrix in the file"));
    }
    let unit = unit.bits_per_s() as f64;
    let rate = |it: f64| Bandwidth::from_bits_per_s((it * unit).min(u64::MAX as f64) as u64);
    Ok(loads.into_iter().map(|it| it.into_iter().map(rate).collect()).collect())
}
