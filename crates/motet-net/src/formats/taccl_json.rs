//! TACCL topology files: one server by its costs, or by matrices.
//!
//! Costs are α in microseconds and β in microseconds for one chunk of the size the file was made
//! for, which stands only in its name ("topo-dgx2-1MB"); bandwidth is chunk ÷ β. The shapes
//! `DGX2` and `HubAndSpoke` are GPUs on one switch, `NDv2` the eight-GPU cube mesh; a file with
//! matrices (`custom`, indexed `[to][from]`) says its links itself.

use motet_units::{Bandwidth, Bytes, Duration, NodeId};
use serde_json::{Map, Value};

use super::json::{self, scalar};
use super::{NetworkFormat, ReadError, ReadNetwork};
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};

const MAX_GPUS: usize = 1024;

/// Pairs of the cube mesh with two NVLinks; their β is the first of the list.
const DOUBLE: [(usize, usize); 8] =
    [(0, 1), (0, 4), (1, 3), (2, 3), (2, 6), (4, 5), (5, 7), (6, 7)];
/// Pairs with one; their β is the second.
const SINGLE: [(usize, usize); 8] =
    [(0, 2), (0, 3), (1, 2), (1, 5), (3, 7), (4, 6), (4, 7), (5, 6)];

/// Reads a topology made for chunks of `chunk`, or, where that is `None`, of the size in the
/// file's `name` or in `file_name`.
pub fn read(
    text: &str,
    chunk: Option<Bytes>,
    file_name: Option<&str>,
) -> Result<ReadNetwork, ReadError> {
    let root = json::object(text)?;
    if root.contains_key("intranode_sketch") || root.contains_key("symmetry_offsets") {
        return Err(ReadError::new("the file is a TACCL sketch, not a topology")
            .with_remedy("give the topology file that the sketch is for (topo-….json)"));
    }
    let name = root.get("name").and_then(scalar).unwrap_or_default();
    let in_name = || chunk_in(&name).or_else(|| chunk_in(file_name?));
    let (chunk, said) = match chunk.map(|it| (it, true)).or_else(|| Some((in_name()?, true))) {
        Some(found) => found,
        None => (Bytes::new(1_000_000), false),
    };
    let mut server = Server::new(&root, name.clone(), chunk)?;
    server.add_inside(&root, &name)?;
    server.add_nics(&root, &name)?;
    let mut read = ReadNetwork::new(server.builder.build()?, NetworkFormat::TacclJson);
    read.notes.push(format!("costs are for chunks of {chunk}"));
    if !said {
        read.notes
            .push("neither the file nor its name says the chunk size: 1 MB assumed".to_owned());
    }
    Ok(read)
}

/// The size in a name like "DGX2_1MB" or "topo-ndv2-32KB.json".
fn chunk_in(name: &str) -> Option<Bytes> {
    let name = name.strip_suffix(".json").unwrap_or(name);
    let size = |it: &&str| it.ends_with('B') && it.starts_with(|it: char| it.is_ascii_digit());
    name.split(['_', '-', ' ', '/']).filter(size).find_map(|it| it.parse().ok())
}

struct Server {
    builder: NetworkBuilder,
    gpus: Vec<NodeId>,
    chunk: Bytes,
    alpha: Duration,
}

impl Server {
    fn new(root: &Map<String, Value>, name: String, chunk: Bytes) -> Result<Self, ReadError> {
        let count = count(root, "gpus_per_node")?;
        let mut builder = NetworkBuilder::new(name);
        let mut gpus = Vec::with_capacity(count);
        for index in 0..count {
            let node = Node::new(format!("gpu{index}"), NodeKind::Gpu);
            gpus.push(builder.add_node(node.in_server("s0"))?);
        }
        Ok(Self { builder, gpus, chunk, alpha: time(root, "alpha")? })
    }

    /// The rate at which a chunk takes `beta` microseconds.
    fn rate(&self, beta: f64, what: &str) -> Result<Bandwidth, ReadError> {
        let bits = self.chunk.get() as f64 * 8.0 * 1e6 / beta;
        if beta > 0.0 && (1.0..1e19).contains(&bits) {
            return Ok(Bandwidth::from_bits_per_s(bits.round() as u64));
        }
        Err(ReadError::new(format!("{what} is {beta}, which gives no bandwidth"))
            .with_remedy("costs are in microseconds per chunk, above zero"))
    }

    fn add_inside(&mut self, root: &Map<String, Value>, name: &str) -> Result<(), ReadError> {
        if root.contains_key("links") {
            return self.add_matrices(root);
        }
        let betas = numbers(root.get("node_betas_list"), "node_betas_list")?;
        let ndv2 = name.to_lowercase().starts_with("ndv2");
        match betas.as_slice() {
            [double, single] if self.gpus.len() == 8 => {
                for (pairs, beta, lanes) in [(DOUBLE, *double, 2), (SINGLE, *single, 1)] {
                    let rate = self.rate(beta, "node_betas_list")?;
                    let spec = LinkSpec::new(LinkClass::NvLink, rate, self.alpha);
                    for (a, b) in pairs {
                        let (a, b) = (self.gpus[a], self.gpus[b]);
                        self.builder.add_duplex(a, b, spec.with_lanes(lanes))?;
                    }
                }
                Ok(())
            }
            [beta] if !ndv2 => self.add_switch(*beta),
            _ => Err(ReadError::new(format!(
                "node_betas_list has {} costs for {} GPUs",
                betas.len(),
                self.gpus.len()
            ))
            .with_remedy("one cost is a switch; two are an NDv2, which has 8 GPUs")),
        }
    }

    /// A path through the switch costs α in all, half on each side.
    fn add_switch(&mut self, beta: f64) -> Result<(), ReadError> {
        let rate = self.rate(beta, "node_betas_list")?;
        let half = Duration::from_ps(self.alpha.as_ps() / 2);
        let node = Node::new("nvswitch", NodeKind::NvSwitch).in_server("s0");
        let switch = self.builder.add_node(node)?;
        for gpu in self.gpus.clone() {
            self.builder.add_duplex(gpu, switch, LinkSpec::new(LinkClass::NvLink, rate, half))?;
        }
        Ok(())
    }

    /// `links[to][from]` parallel links, each of which takes `betas[to][from]` for a chunk.
    fn add_matrices(&mut self, root: &Map<String, Value>) -> Result<(), ReadError> {
        let links = self.matrix(root, "links")?;
        let betas = self.matrix(root, "betas")?;
        let count = self.gpus.len();
        let mut specs: Vec<Option<LinkSpec>> = vec![None; count * count];
        for to in 0..count {
            for from in (0..count).filter(|it| *it != to && links[to][*it] > 0.0) {
                let lanes = links[to][from];
                if lanes.fract() != 0.0 || lanes > 1024.0 {
                    let problem = format!("links[{to}][{from}] is {lanes}, not a number of links");
                    return Err(ReadError::new(problem));
                }
                let rate = self.rate(betas[to][from], &format!("betas[{to}][{from}]"))?;
                let rate = rate.saturating_mul(lanes as u64);
                let spec = LinkSpec::new(LinkClass::Other, rate, self.alpha);
                specs[from * count + to] = Some(spec.with_lanes(lanes as u32));
            }
        }
        for from in 0..count {
            for to in 0..count {
                let back = specs[to * count + from];
                let Some(spec) = specs[from * count + to] else { continue };
                if back != Some(spec) {
                    self.builder.add_link(self.gpus[from], self.gpus[to], spec)?;
                } else if from < to {
                    self.builder.add_duplex(self.gpus[from], self.gpus[to], spec)?;
                }
            }
        }
        Ok(())
    }

    fn matrix(&self, root: &Map<String, Value>, key: &str) -> Result<Vec<Vec<f64>>, ReadError> {
        let count = self.gpus.len();
        let rows = root.get(key).and_then(Value::as_array);
        let rows = rows.filter(|it| it.len() == count).ok_or_else(|| {
            ReadError::new(format!("`{key}` is not a list of {count} rows, one for each GPU"))
        })?;
        let row = |(index, row): (usize, &Value)| {
            let row = numbers(Some(row), &format!("{key}[{index}]"))?;
            if row.len() == count {
                return Ok(row);
            }
            let problem = format!("{key}[{index}] has {} entries, not {count}", row.len());
            Err(ReadError::new(problem))
        };
        rows.iter().enumerate().map(row).collect()
    }

    /// NICs, each shared by neighbouring GPUs. A path out and in again costs remote α in all.
    fn add_nics(&mut self, root: &Map<String, Value>, name: &str) -> Result<(), ReadError> {
        if !root.contains_key("nics_per_node") || !root.contains_key("remote_beta") {
            return Ok(());
        }
        // TACCL fixes the number for the two machines it knows, whatever the file says.
        let lower = name.to_lowercase();
        let count = match (lower.starts_with("dgx2"), lower.starts_with("ndv2")) {
            (true, _) => 8,
            (_, true) => 1,
            _ => count(root, "nics_per_node")?,
        };
        let beta = root.get("remote_beta").and_then(Value::as_f64).unwrap_or(0.0);
        let rate = self.rate(beta, "remote_beta")?;
        let half = Duration::from_ps(time(root, "remote_alpha")?.as_ps() / 2);
        let spec = LinkSpec::new(LinkClass::Pcie, rate, half);
        for index in 0..count {
            let node = Node::new(format!("nic{index}"), NodeKind::Nic).in_server("s0");
            let node = node.with_property("bandwidth", rate.to_string());
            let nic = self.builder.add_node(node)?;
            let gpus = self.gpus.len();
            // With more NICs than GPUs, a GPU has several.
            let (first, last) = (index * gpus / count, ((index + 1) * gpus).div_ceil(count));
            for gpu in first..last.max(first + 1).min(gpus) {
                self.builder.add_duplex(self.gpus[gpu], nic, spec)?;
            }
        }
        Ok(())
    }
}

fn count(root: &Map<String, Value>, key: &str) -> Result<usize, ReadError> {
    let found = root.get(key).and_then(Value::as_u64).and_then(|it| usize::try_from(it).ok());
    found.filter(|it| (1..=MAX_GPUS).contains(it)).ok_or_else(|| {
        ReadError::new(format!("`{key}` is not a number from 1 to {MAX_GPUS}"))
            .with_remedy("a TACCL topology has name, gpus_per_node, alpha and node_betas_list")
    })
}

/// Microseconds.
fn time(root: &Map<String, Value>, key: &str) -> Result<Duration, ReadError> {
    let us = root.get(key).and_then(Value::as_f64).filter(|it| (0.0..1e12).contains(it));
    let us = us.ok_or_else(|| ReadError::new(format!("`{key}` is not a time in microseconds")))?;
    Ok(Duration::from_ps((us * 1e6).round() as u64))
}

fn numbers(value: Option<&Value>, what: &str) -> Result<Vec<f64>, ReadError> {
    let list = value.and_then(Value::as_array);
    let list = list.and_then(|it| it.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>());
    list.ok_or_else(|| ReadError::new(format!("`{what}` is not a list of numbers")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUSTOM: &str = r#"{"name": "ring_64KB", "gpus_per_node": 3, "alpha": 0.5,
        "links": [[0, 1, 0], [0, 0, 1], [2, 0, 0]],
        "betas": [[0, 4, 0], [0, 0, 4], [4, 0, 0]],
        "invbws": [[0, 5, 0], [0, 0, 5], [5, 0, 0]]}"#;

    #[test]
    fn matrices_are_to_from() {
        let read = read(CUSTOM, None, None).unwrap();
        let links = read.network.links();
        let ends: Vec<(u32, u32, u32)> =
            links.iter().map(|it| (it.from.0, it.to.0, it.spec.lanes)).collect();
        assert_eq!(ends, [(0, 2, 2), (1, 0, 1), (2, 1, 1)]);
        assert_eq!(links[1].spec.bandwidth.to_string(), "16 GB/s");
        assert_eq!(links[1].spec.latency.to_string(), "500 ns");
        assert_eq!(read.notes, ["costs are for chunks of 64 kB"]);
    }

    #[test]
    fn the_chunk_is_told_or_named() {
        let text = CUSTOM.replace("ring_64KB", "ring");
        let rate = |chunk, file| {
            let read = read(&text, chunk, file).unwrap();
            (read.network.links()[1].spec.bandwidth.to_string(), read.notes.len())
        };
        assert_eq!(rate(Some(Bytes::new(4_000)), Some("topo-1MB.json")), ("1 GB/s".to_owned(), 1));
        assert_eq!(rate(None, Some("topo-32KB.json")), ("8 GB/s".to_owned(), 1));
        assert_eq!(rate(None, None), ("250 GB/s".to_owned(), 2));
    }

    #[test]
    fn says_what_is_wrong() {
        for (from, to, part) in [
            ("\"alpha\": 0.5", "\"intranode_sketch\": {}", "is a TACCL sketch"),
            ("\"gpus_per_node\": 3", "\"gpus_per_node\": 1e9", "gpus_per_node"),
            ("\"gpus_per_node\": 3", "\"gpus_per_node\": 4", "not a list of 4 rows"),
            ("[0, 0, 4]", "[0, 0]", "betas[1] has 2 entries"),
            ("[0, 0, 4]", "[0, 0, 0]", "betas[1][2] is 0"),
            ("[0, 1, 0]", "[0, 0.5, 0]", "links[0][1] is 0.5"),
            ("\"alpha\": 0.5", "\"alpha\": -1", "`alpha` is not a time"),
            ("\"links\"", "\"wires\"", "node_betas_list"),
        ] {
            let error = read(&CUSTOM.replace(from, to), None, None).unwrap_err();
            assert!(error.problem.contains(part), "{to}: {error}");
        }
    }
}
