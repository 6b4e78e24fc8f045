//! [`prune()`]: the three stages one after the other, and what is left after each.
//!
//! [`sketches`](super::sketches) makes all candidates; this makes the one sketch that is asked for, says
//! what each stage left of the network, and gives the reason where there is no such sketch.

use crate::sketch::Sketch;
use crate::sketch::connections::Misfit;
use crate::sketch::{Connections, Group, Servers};
use motet_net::Network;
use motet_units::NodeId;

use super::candidates::{connect, reaches_all, used_ports};
use super::{Guidance, bind, group};

/// How far to prune.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connecting {
    /// Binding only: every NIC with every one of another server.
    Ungrouped,
    /// All three stages; every GPU connects.
    All,
    /// All three; so many GPUs of each server connect, spread over its NICs.
    Most(usize),
}

/// What is left of a network after a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// `network` for the whole network, then `bind`, `group`, `transform`.
    pub name: &'static str,
    /// Paths from a GPU to a NIC of its server, in the server that has the most.
    pub nic_ways: usize,
    /// Connections from a NIC of a server to a NIC of another, out of the server that has the most.
    pub nic_connections: usize,
    /// Connections from a GPU of a server to a GPU of another, likewise.
    pub gpu_connections: usize,
    /// Links of the network that may be used.
    pub links: usize,
}

/// A sketch and how it came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub sketch: Sketch,
    /// The whole network, and what is left of it after each stage.
    pub stages: Vec<Stage>,
}

/// Why the stages make no sketch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotPruned {
    #[error("has fewer than two servers with GPUs, and the stages prune what joins servers")]
    FewServers,
    #[error(
        "server `{server}` is drawn with GPUs that only send and others that only receive: there is nothing left to choose"
    )]
    OneWay { server: String },
    #[error("no GPU has a way to a NIC of its server")]
    NoWayOut,
    #[error("{gpus} GPUs of each server do not join all ranks; let more connect")]
    Parted { gpus: usize },
    #[error("the stages contradict the network: {0}")]
    Misfit(#[from] Misfit),
}

/// The sketch of the stages that are asked for.
pub fn prune(network: &Network, connecting: Connecting) -> Result<Pruned, NotPruned> {
    let servers = Servers::of(network);
    if servers.list().len() < 2 {
        return Err(NotPruned::FewServers);
    }
    if let Some(server) = servers.list().iter().find(|it| it.one_way) {
        return Err(NotPruned::OneWay { server: server.name.clone() });
    }
    let binding = bind(network, &servers);
    if binding.is_empty() {
        return Err(NotPruned::NoWayOut);
    }
    let full = Sketch::full("full", network);
    let mut stages = vec![stage("network", network, &servers, &full)];
    let bound = Connections { binding: binding.clone(), groups: Vec::new() };
    let mut sketch = Sketch::connecting("bound", bound, network, &servers)?;
    stages.push(stage("bind", network, &servers, &sketch));
    let most = servers.list().iter().map(|it| it.gpus.len()).max().unwrap_or(0);
    let gpus = match connecting {
        Connecting::Most(gpus) => gpus.min(most),
        Connecting::Ungrouped | Connecting::All => most,
    };
    if connecting != Connecting::Ungrouped {
        let groups = group(network, &servers, &used_ports(&binding));
        let grouped = |name: String, gpus: usize| {
            let connections = connect(&servers, &binding, &groups, gpus);
            // No group at all would mean that every NIC talks to every one.
            if connections.groups.is_empty() {
                return Err(NotPruned::Parted { gpus });
            }
            Ok(Sketch::connecting(name, connections, network, &servers)?)
        };
        sketch = grouped("grouped".to_owned(), most)?;
        stages.push(stage("group", network, &servers, &sketch));
        if gpus < most {
            sketch = grouped(format!("grouped-{gpus}"), gpus)?;
        }
        stages.push(stage("transform", network, &servers, &sketch));
    }
    if !reaches_all(network, &sketch.allowed) {
        return Err(NotPruned::Parted { gpus });
    }
    Ok(Pruned { sketch, stages })
}

fn stage(name: &'static str, network: &Network, servers: &Servers, sketch: &Sketch) -> Stage {
    let guidance = Guidance::of(network, servers, sketch);
    let ways = |gpu: &NodeId| match &sketch.connections {
        None => servers.ways(network, *gpu).len(),
        Some(it) => usize::from(connects(it, *gpu)),
    };
    let of_server = |gpus: &[NodeId]| gpus.iter().map(ways).sum();
    Stage {
        name,
        nic_ways: servers.list().iter().map(|it| of_server(&it.gpus)).max().unwrap_or(0),
        nic_connections: guidance.nic_connections.left,
        gpu_connections: guidance.gpu_connections.left,
        links: guidance.links.left,
    }
}

/// Whether a GPU exchanges data with other servers.
fn connects(connections: &Connections, gpu: NodeId) -> bool {
    let Connections { binding, groups } = connections;
    let takes_part = |it: &Group| it.senders.contains(&gpu) || it.receivers.contains(&gpu);
    binding.iter().any(|it| it.0 == gpu) && (groups.is_empty() || groups.iter().any(takes_part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters;
    use crate::sketch::sketches;
    use motet_net::builders::{self, Params};

    fn build(kind: &str, words: &[&str]) -> Network {
        let params = Params::from_words(words.iter().copied()).unwrap();
        builders::find(kind).unwrap().build(&params).unwrap()
    }

    fn counts(pruned: &Pruned) -> Vec<(&'static str, usize, usize, usize)> {
        let one = |it: &Stage| (it.name, it.nic_ways, it.nic_connections, it.gpu_connections);
        pruned.stages.iter().map(one).collect()
    }

    #[test]
    fn every_stage_leaves_less() {
        let network = clusters::find("v100-x3").unwrap().network().unwrap();
        let pruned = prune(&network, Connecting::Most(1)).unwrap();
        assert_eq!(
            counts(&pruned),
            [
                ("network", 8, 8, 32),
                ("bind", 4, 8, 32),
                ("group", 4, 4, 16),
                ("transform", 1, 2, 2)
            ]
        );
        for pair in pruned.stages.windows(2) {
            assert!(pair[1].links <= pair[0].links, "{pair:?}");
        }
    }

    #[test]
    fn sketches_are_those_of_the_candidates() {
        let network = clusters::find("a100-8-x2").unwrap().network().unwrap();
        for candidate in sketches(&network) {
            let connecting = match candidate.name.as_str() {
                "bound" => Connecting::Ungrouped,
                "grouped" => Connecting::All,
                name => match name.strip_prefix("grouped-") {
                    Some(gpus) => Connecting::Most(gpus.parse().unwrap()),
                    None => continue,
                },
            };
            assert_eq!(prune(&network, connecting).unwrap().sketch, candidate.sketch);
        }
        let all = prune(&network, Connecting::All).unwrap();
        assert_eq!(prune(&network, Connecting::Most(99)).unwrap(), all);
    }

    #[test]
    fn says_why_there_is_none() {
        let why = |network: &Network, it| prune(network, it).unwrap_err();
        assert_eq!(why(&build("dgx-a100", &[]), Connecting::All), NotPruned::FewServers);
        assert_eq!(why(&build("ring", &[]), Connecting::All), NotPruned::FewServers);
        let two = clusters::find("v100-x2").unwrap().network().unwrap();
        assert_eq!(why(&two, Connecting::Most(0)), NotPruned::Parted { gpus: 0 });
    }
}
