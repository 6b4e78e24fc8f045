//! Servers from the topology file of one of them: `[[server]] file = "topo.xml", count = 8`.
//!
//! NCCL writes such a file on a machine when `NCCL_TOPO_DUMP_FILE` is set; the output of
//! `nvidia-smi topo -m` does as well. The file describes one server (or several that share an
//! NVLink domain); the template copies it `count` times under names of their own and leaves every
//! NIC of the file as an open port, so that any fabric can join them.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, NodeId};

use super::{COUNT, FABRIC, NAME, NIC_LATENCY, RACK, join};
use crate::builders::assembly::{Assembly, Place, Port, PortUse};
use crate::builders::common::{DC, copy_links};
use crate::builders::template::{
    AUTO, Args, Family, Param, ParamKind, REQUIRED, Template, TemplateError,
};
use crate::formats::{NetworkFormat, ReadError, ReadNetwork, nccl_xml, nvidia_smi};
use crate::network::Network;
use crate::node::NodeKind;

pub(in super::super) const SERVER_FILE: Template = Template {
    name: "server-file",
    family: Family::Server,
    doc: "servers from the topology file of one of them: NCCL's XML, or `nvidia-smi topo -m`",
    params: &[
        COUNT,
        Param::new(
            "file",
            ParamKind::Text,
            REQUIRED,
            "the topology file; NCCL writes one where NCCL_TOPO_DUMP_FILE names it",
        ),
        FABRIC,
        Param::new(
            "nic",
            ParamKind::Bandwidth,
            AUTO,
            "the rate of each NIC; auto: as the file says, or that of its PCIe link",
        ),
        NIC_LATENCY,
        RACK,
        NAME,
        DC,
    ],
    build,
};

fn build(assembly: &mut Assembly<'_>, args: &Args) -> Result<(), TemplateError> {
    let file = args.text("file")?;
    let text = assembly.fetch(&file)?;
    let read = read(&file, &text).map_err(|error| TemplateError {
        key: Some("file".to_owned()),
        problem: format!("`{file}`: {error}"),
        remedy: error.remedy,
    })?;
    let server = &read.network;
    let count = args.count("count")?;
    let (nodes, links) = (server.nodes().len() as u128, server.links().len() as u128);
    assembly.reserve(count as u128 * nodes, count as u128 * links)?;
    let ports = Ports::of(server, args)?;
    let mut notes = read.notes;
    if ports.guessed > 0 {
        let guessed = ports.guessed;
        notes.push(format!(
            "no rate is given for {guessed} NICs: each is taken to be as fast as its PCIe link; \
             say otherwise with `nic`"
        ));
    }
    if ports.rates.is_empty() && count > 1 {
        notes.push("there is no NIC in the file, so no fabric can join these servers".to_owned());
    }
    assembly.notes.extend(notes.into_iter().map(|it| format!("{file}: {it}")));
    let place = Place::of(args)?;
    for _ in 0..count {
        copy(assembly, args, &place, server, &ports)?;
    }
    join(assembly, args)
}

/// The network of a file that describes one server.
fn read(file: &str, text: &str) -> Result<ReadNetwork, ReadError> {
    let read = match NetworkFormat::detect(text, Some(file)) {
        Some(NetworkFormat::NvidiaSmi) => nvidia_smi::read(text, None, None)?,
        Some(NetworkFormat::NcclTopology) | None => nccl_xml::read(text)?,
        Some(other) => {
            let problem = format!("it is {}, which describes no server", other.description());
            return Err(ReadError::new(problem).with_remedy(
                "name a topology file of NCCL or the output of `nvidia-smi topo -m`",
            ));
        }
    };
    if read.network.ranks().is_empty() {
        return Err(ReadError::new("it has no GPU"));
    }
    Ok(read)
}

/// The rate of each NIC, by node, and for how many it had to be guessed.
struct Ports {
    rates: BTreeMap<NodeId, Bandwidth>,
    guessed: usize,
}

impl Ports {
    fn of(server: &Network, args: &Args) -> Result<Self, TemplateError> {
        let mut ports = Self { rates: BTreeMap::new(), guessed: 0 };
        let nics = server.node_ids().filter(|it| server.node(*it).kind == NodeKind::Nic);
        for nic in nics {
            let said = server.node(nic).properties.get("bandwidth");
            let said: Option<Bandwidth> = said.and_then(|it| it.parse().ok());
            let rate = match said {
                _ if !args.is_auto("nic") => args.bandwidth("nic")?,
                Some(rate) => rate,
                None => {
                    let links = server.outgoing(nic).iter();
                    let Some(rate) = links.map(|it| server.link(*it).spec.bandwidth).max() else {
                        continue;
                    };
                    ports.guessed += 1;
                    rate
                }
            };
            ports.rates.insert(nic, rate);
        }
        Ok(ports)
    }
}

/// Adds one copy of what the file describes. GPUs come first, in the file's rank order, because
/// ranks follow the order of nodes.
fn copy(
    assembly: &mut Assembly<'_>,
    args: &Args,
    place: &Place,
    server: &Network,
    ports: &Ports,
) -> Result<(), TemplateError> {
    let latency = args.latency("nic-latency")?;
    let rack = Some(args.text("rack")?).filter(|it| !it.is_empty());
    // The file's name of a server, then ours, its number over the assembly, and its NICs so far.
    let mut servers: BTreeMap<Option<&str>, (String, usize, usize)> = BTreeMap::new();
    let mut ids = vec![NodeId(0); server.nodes().len()];
    let gpus = server.ranks().iter().copied();
    let others = server.node_ids().filter(|it| server.node(*it).kind != NodeKind::Gpu);
    for id in gpus.chain(others) {
        let node = server.node(id);
        let host = node.location.server.as_deref();
        let (name, number, nics) = servers.entry(host).or_insert_with(|| {
            let (own, number) = assembly.next_server(&place.prefix);
            (format!("{}{own}", place.prefix), number, 0)
        });
        let mut copied = node.clone();
        // Where a file has several hosts, its own names begin with the host.
        let short = host.and_then(|it| node.name.strip_prefix(it)?.strip_prefix('-'));
        copied.name = format!("{name}-{}", short.unwrap_or(&node.name));
        copied.rank = None;
        copied.location.server = host.map(|_| name.clone());
        copied.location.rack.clone_from(&rack);
        copied.location.dc.clone_from(&place.dc);
        let added = assembly.builder.add_node(copied)?;
        ids[id.index()] = added;
        if let Some(rate) = ports.rates.get(&id) {
            let (server, rail) = (*number, *nics);
            *nics += 1;
            let (node, bandwidth, carries) = (added, *rate, PortUse::Both);
            assembly.open(Port { node, bandwidth, latency, server, rail, carries });
        }
    }
    copy_links(assembly, server, &ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::testing::is_connected;
    use crate::builders::{Params, find};

    /// Two GPUs on an NVSwitch, each with a NIC behind its PCIe switch.
    const XML: &str = include_str!("two-gpus.xml");

    fn fetch(file: &str) -> Result<String, String> {
        match file {
            "topo.xml" => Ok(XML.to_owned()),
            "pcie.xml" => Ok(XML.replace("<nvlink", "<other").replace("</nvlink", "</other")),
            "slow.xml" => Ok(XML.replace("speed=\"400000\"", "")),
            "wan.gml" => Ok("graph [\n]".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }

    fn built(words: &[&str], fabric: &str) -> Result<(Network, Vec<String>), TemplateError> {
        let mut assembly = Assembly::new("test").with_fetch(&fetch);
        assembly.add(find("server-file").unwrap(), &Params::from_words(words)?)?;
        if !fabric.is_empty() {
            assembly.add(find(fabric).unwrap(), &Params::new())?;
        }
        let notes = assembly.notes().to_vec();
        Ok((assembly.finish()?, notes))
    }

    #[test]
    fn copies_are_joined_by_any_fabric() {
        for fabric in ["", "switch", "leaf-spine", "rail", "rail-optical", "fat-tree"] {
            let (net, _) = built(&["file=topo.xml", "count=3"], fabric).unwrap();
            assert!(is_connected(&net), "{fabric}");
            assert_eq!((net.ranks().len(), net.count(NodeKind::Nic)), (6, 6), "{fabric}");
            let names: Vec<&str> =
                net.ranks().iter().map(|it| net.node(*it).name.as_str()).collect();
            assert_eq!(names[..3], ["s0-gpu0", "s0-gpu1", "s1-gpu0"], "{fabric}");
            let nic = net.find("s2-mlx5_1").unwrap();
            let port = net.outgoing(nic).last().map(|it| net.link(*it).spec.bandwidth);
            assert_eq!(port, Some(Bandwidth::gbit_per_s(400)), "{fabric}");
            assert_eq!(net.node(nic).location.server.as_deref(), Some("s2"));
        }
    }

    #[test]
    fn what_the_file_does_not_say_is_noted() {
        let (_, notes) = built(&["file=pcie.xml", "count=2"], "").unwrap();
        assert!(notes.iter().any(|it| it.contains("no NVLinks")), "{notes:?}");
        let (net, notes) = built(&["file=slow.xml", "count=2"], "").unwrap();
        assert!(notes.iter().any(|it| it.contains("no rate is given for 2 NICs")), "{notes:?}");
        let (fast, notes) = built(&["file=slow.xml", "count=2", "nic=100 Gbit/s"], "").unwrap();
        assert!(!notes.iter().any(|it| it.contains("no rate")), "{notes:?}");
        assert_eq!(net.links().len(), fast.links().len());
    }

    #[test]
    fn refuses_what_describes_no_server() {
        let error = built(&["file=wan.gml"], "").unwrap_err();
        assert!(error.problem.contains("describes no server"), "{error}");
        assert!(built(&["file=gone.xml"], "").is_err());
        assert!(built(&[], "").unwrap_err().problem.contains("needs `file`"));
    }
}
