//! [`Programs`]: which program serves a call: the one that `motet exec` would run. It is made for the cluster, if there is a cluster
//! file; without one, ranks send to each other directly.

use motet_collective::{Program, Verified};
use motet_net::Network;
use motet_net::formats::{ReadOptions, read_any};
use motet_synth::{Method, for_sockets, unknown_network};
use motet_units::{Rank, Seed};

use crate::call::{Call, Kind};
use crate::error::CommError;
use crate::options::Options;

/// The most bytes that are read of a cluster file.
const MAX_BYTES: u64 = 1 << 30;

#[derive(Debug)]
pub(crate) struct Programs {
    /// The whole cluster, also when ranks of it were lost.
    cluster: Option<Network>,
    /// Which ranks of the cluster the group's ranks are, now.
    members: Vec<u32>,
    /// The network of the group's present ranks.
    network: Network,
    method: Method,
    seed: Seed,
}

impl Programs {
    pub(crate) fn new(options: &Options) -> Result<Self, CommError> {
        let cluster = options.cluster.as_deref().map(read).transpose()?;
        let members = match (&cluster, options.members.is_empty()) {
            (Some(cluster), true) if cluster.ranks().len() != options.ranks as usize => {
                return Err(CommError::cluster(format!(
                    "the cluster has {} ranks and the group has {}; say which of the cluster's these are",
                    cluster.ranks().len(),
                    options.ranks
                )));
            }
            (_, true) => (0..options.ranks).collect(),
            (_, false) if options.members.len() != options.ranks as usize => {
                let (given, ranks) = (options.members.len(), options.ranks);
                return Err(CommError::invalid(format!("{given} members for {ranks} ranks")));
            }
            (_, false) => options.members.clone(),
        };
        let network = network(cluster.as_ref(), &members)?;
        let (method, seed) = (options.method, Seed::new(options.seed));
        Ok(Self { cluster, members, network, method, seed })
    }

    /// The group goes on with these of its ranks.
    pub(crate) fn keep(&mut self, left: &[u32]) -> Result<(), CommError> {
        let of = |it: &u32| self.members.get(*it as usize).copied();
        self.members = left.iter().filter_map(of).collect();
        self.network = network(self.cluster.as_ref(), &self.members)?;
        Ok(())
    }

    /// The program for a call.
    pub(crate) fn choose(&self, call: &Call) -> Result<Verified<Program>, CommError> {
        let ranks = self.members.len() as u32;
        let goal = call.goal(ranks)?;
        let wrong = |it: String| CommError::cluster(format!("no program: {it}"));
        // Between two ranks there is one way to send.
        let known = self.cluster.is_some() && !matches!(call.kind, Kind::Send);
        let method = if known { self.method } else { Method::Auto };
        let made = for_sockets(&self.network, known, &goal, call.size(ranks), method, self.seed);
        Ok(made.map_err(|it| wrong(it.to_string()))?.program)
    }
}

/// The group's network.
fn network(cluster: Option<&Network>, members: &[u32]) -> Result<Network, CommError> {
    let ranks = members.len() as u32;
    match cluster {
        Some(cluster) if ranks > 1 => {
            let members: Vec<Rank> = members.iter().map(|it| Rank(*it)).collect();
            if members.iter().zip(0..).all(|(it, at)| it.0 == at)
                && members.len() == cluster.ranks().len()
            {
                return Ok(cluster.clone());
            }
            cluster.part(&members).map_err(|it| CommError::cluster(it.to_string()))
        }
        _ => unknown_network(ranks).map_err(|it| CommError::fault(it.to_string())),
    }
}

/// Reads a cluster file, in any format.
fn read(name: &str) -> Result<Network, CommError> {
    let wrong = |why: String| CommError::cluster(format!("{name}: {why}"));
    let text = |name: &std::path::Path| {
        use std::io::Read as _;
        let mut text = String::new();
        let file = std::fs::File::open(name);
        file.and_then(|it| it.take(MAX_BYTES).read_to_string(&mut text)).map(|_| text)
    };
    let path = std::path::Path::new(name);
    let content = text(path).map_err(|it| wrong(format!("cannot be read: {it}")))?;
    let folder = path.parent().unwrap_or_else(|| std::path::Path::new(""));
    let fetch = |other: &str| text(&folder.join(other)).map_err(|it| format!("{other}: {it}"));
    let read = read_any(&content, Some(name), &ReadOptions::default(), &fetch);
    Ok(read.map_err(|it| wrong(it.to_string()))?.network)
}

#[cfg(test)]
mod tests {
    use motet_exec::{Element, Reduction};

    use super::*;

    /// Two datacenters with two links side by side between them, as `motet exec` sees them.
    #[test]
    fn between_datacenters_calls_have_the_programs_that_exec_runs() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../benches/wan/two-dcs-unequal.toml");
        let mut options = Options::new("127.0.0.1:1", 0, 8);
        options.cluster = Some(file.to_owned());
        let mut programs = Programs::new(&options).unwrap();
        for kind in [Kind::AllReduce(Reduction::Sum), Kind::AllGather] {
            let call = Call::new(kind, Element::F32, 1 << 20).unwrap();
            assert_eq!(programs.choose(&call).unwrap().name(), "gateways");
        }
        // Those that are left after a loss are two datacenters too, and then one.
        let call = Call::new(Kind::AllGather, Element::F32, 1 << 20).unwrap();
        programs.keep(&[0, 4, 5]).unwrap();
        let left = programs.choose(&call).unwrap();
        assert_eq!((left.name(), left.collective().ranks()), ("gateways", 3));
        programs.keep(&[1, 2]).unwrap();
        assert_ne!(programs.choose(&call).unwrap().name(), "gateways");
    }
}
