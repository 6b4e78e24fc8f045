//! The clusters that *TuCCL* was evaluated on (§IV-A), as cluster files.
//!
//! The files themselves are in `examples/` (the folder `clusters` of this crate links to them, so that a
//! published crate carries them): they say what the paper leaves open and what was assumed instead.

use motet_net::Network;
use motet_net::formats::{ReadError, cluster_toml};

/// A cluster file that is part of Motet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cluster {
    pub name: &'static str,
    pub text: &'static str,
}

macro_rules! cluster {
    ($name:literal) => {
        Cluster { name: $name, text: include_str!(concat!("../clusters/", $name, ".toml")) }
    };
}

/// V100 servers of 4 GPUs (Fig. 3 and 6): single, dual and triple.
pub const V100: [Cluster; 3] = [cluster!("v100-x1"), cluster!("v100-x2"), cluster!("v100-x3")];

/// A100 servers (Fig. 4 and 7): Single-4, Single-8, Dual-8 (4 GPUs each) and Dual-16.
pub const A100: [Cluster; 4] =
    [cluster!("a100-4-x1"), cluster!("a100-8-x1"), cluster!("a100-4-x2"), cluster!("a100-8-x2")];

impl Cluster {
    /// The network that the file describes.
    pub fn network(&self) -> Result<Network, ReadError> {
        let none = |_: &str| Err("a built-in cluster names no files".to_owned());
        Ok(cluster_toml::read(self.text, &none)?.network)
    }
}

/// The cluster called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Cluster> {
    V100.iter().chain(&A100).find(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::NodeKind;

    #[test]
    fn they_are_what_the_paper_says() {
        for (index, cluster) in V100.iter().enumerate() {
            let net = cluster.network().unwrap();
            let servers = index + 1;
            assert_eq!((net.name(), net.count(NodeKind::Gpu)), (cluster.name, 4 * servers));
            assert_eq!(net.count(NodeKind::Nic), 2 * servers);
        }
        for (cluster, gpus, servers) in
            [(&A100[0], 4, 1), (&A100[1], 8, 1), (&A100[2], 8, 2), (&A100[3], 16, 2)]
        {
            let net = cluster.network().unwrap();
            assert_eq!((net.name(), net.count(NodeKind::Gpu)), (cluster.name, gpus));
            assert_eq!(net.count(NodeKind::Nic), 4 * servers);
            // 300 GB/s from a GPU; 400 Gbit/s out of a server, and up from its rack.
            let gpu = net.ranks()[0];
            assert_eq!(net.link(net.outgoing(gpu)[0]).spec.bandwidth.to_string(), "300 GB/s");
            for leaf in net.node_ids().filter(|it| net.node(*it).kind == NodeKind::Leaf) {
                let rates = net.outgoing(leaf).iter().map(|it| net.link(*it).spec.bandwidth);
                let mut rates: Vec<u64> = rates.map(|it| it.bits_per_s() / 1_000_000_000).collect();
                rates.sort_unstable();
                assert_eq!(rates, [100, 100, 100, 100, 400]);
            }
        }
        assert!(find("v100-x3").is_some() && find("v100-x4").is_none());
    }
}
