//! Traffic matrices as CSV with the columns `matrix,src,dst,demand`: background traffic between the
//! routers of a WAN. Each demand loads the links of a shortest path.
//!
//! `src` and `dst` are the names of border routers, or their numbers in the order of the network
//! file.

use std::collections::BTreeMap;

use motet_net::formats::ReadError;
use motet_net::{Metric, Network, NodeKind, Search};
use motet_units::{Bandwidth, LinkId, NodeId};

use super::lines_csv::{self, Shape};
use crate::variation::LinkLoads;

/// Most matrices of one file.
const MAX_MATRICES: usize = 100_000;

const SHAPE: Shape = Shape { heading: "matrix", remedy: "write matrix,src,dst,demand" };

/// The load of links, one list per matrix; a matrix number that no line names is a matrix without
/// traffic. Only links with a load are kept, so that memory grows with the length of the file (a
/// line adds the links of one path) and not with matrices times links.
pub fn read(text: &str, network: &Network, unit: Bandwidth) -> Result<Vec<LinkLoads>, ReadError> {
    let borders: Vec<NodeId> =
        network.node_ids().filter(|it| network.node(*it).kind == NodeKind::Border).collect();
    let mut loads: Vec<BTreeMap<LinkId, f64>> = Vec::new();
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
            loads.resize_with(matrix + 1, BTreeMap::new);
        }
        if src == dst {
            return Ok(());
        }
        let path = Search::new(network, Metric::Latency).shortest(src, dst);
        let path =
            path.ok_or_else(|| wrong("no path leads from one router to the other".into()))?;
        for link in path.links() {
            *loads[matrix].entry(*link).or_insert(0.0) += demand;
        }
        Ok(())
    })?;
    if loads.is_empty() {
        return Err(ReadError::new("there is no traffic matrix in the file"));
    }
    let unit = unit.bits_per_s() as f64;
    let rate = |it: f64| Bandwidth::from_bits_per_s((it * unit).min(u64::MAX as f64) as u64);
    let of_matrix = |it: BTreeMap<LinkId, f64>| it.into_iter().map(|(link, it)| (link, rate(it)));
    Ok(loads.into_iter().map(|it| of_matrix(it).collect()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};

    #[test]
    fn a_line_costs_its_path_however_high_its_matrix() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let text = "matrix,src,dst,demand\n99999,0,1,2.5\n99999,0,1,0.5\n";
        let loads = read(text, &network, Bandwidth::gbit_per_s(1)).unwrap();
        assert_eq!(loads.len(), 100_000);
        assert!(loads[..99_999].iter().all(|it| it.capacity() == 0));
        assert!(!loads[99_999].is_empty());
        assert!(loads[99_999].iter().all(|it| it.1 == Bandwidth::gbit_per_s(3)));
        assert!(read("100000,0,1,1\n", &network, Bandwidth::gbit_per_s(1)).is_err());
    }
}
