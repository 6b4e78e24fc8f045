//! [`rate`]: how fast every root can spread its part at best, exactly.
//!
//! The bound knows it ([`motet_collective::bound`]); it is asked about the network with the links
//! that the task may use, at what they carry now. Where there is no rate, because some rank is
//! out of reach, the bound's error has the cut that proves it.

use motet_collective::bound::{self, Ratio};
use motet_net::{BuildError, Network, NetworkBuilder, NodeKind};
use motet_units::Bandwidth;

use crate::fabric::Fabric;
use crate::task::{SynthError, Task};

/// Bits per second of each root's part that can reach everyone; `None` if nothing has to move.
/// The fabric may be turned round or not: the task says which way data flows.
pub(super) fn rate(task: &Task<'_>, fabric: &Fabric) -> Result<Option<Ratio>, SynthError> {
    let collective = task.goal.collective(1)?;
    let usable = usable_network(task.network, fabric)
        .map_err(|it| SynthError::not_for("forest", it.to_string()))?;
    let group: Vec<_> = fabric.ranks().map(|it| fabric.node(it)).collect();
    let bound = bound::bound_of_group(&usable, &group, &collective)?;
    let parts = if task.goal.root().is_some() { 1 } else { u128::from(task.goal.ranks()) };
    let per_part = bound.time_per_byte.times(parts).and_then(Ratio::inverse);
    Ok(per_part.and_then(|it| it.times(8)))
}

/// The network with only the links that may be used, at what they carry now. Nodes keep their
/// numbers.
fn usable_network(network: &Network, fabric: &Fabric) -> Result<Network, BuildError> {
    let mut builder = NetworkBuilder::new(network.name());
    for id in network.node_ids() {
        let mut node = network.node(id).clone();
        if node.kind == NodeKind::Gpu {
            // The group is given by its nodes; ranks would only have to be consistent.
            node.rank = None;
        }
        builder.add_node(node)?;
    }
    for id in fabric.links() {
        let link = network.link(*id);
        let mut spec = link.spec;
        spec.bandwidth = Bandwidth::from_bits_per_s(fabric.bits_per_s(*id));
        builder.add_link(link.from, link.to, spec)?;
    }
    builder.build()
}
