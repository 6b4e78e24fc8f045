//! [`State`]: everything the agent observes before it decides a call: the five blocks of Fig. 14 of DynamICCL's design-space
//! analysis and the trigger's signals.
//!
//! Each block has a file: [`topology`], [`workload`], [`scheduler`], [`model`], [`call`], [`anomaly`];
//! [`encoding`] makes numbers of them. A block is made by whoever knows it: a network, a job, a scheduler,
//! the caller, the trigger. None of it is the agent's to change: it acts on the call alone
//! ([`action`](crate::action)).
//!
//! Ranks that see different states would choose differently and hang. So a state holds only what all ranks
//! have alike: what is fixed, what the call says, and what the leader has published.

pub mod anomaly;
pub mod call;
pub mod encoding;
pub mod model;
pub mod scheduler;
pub mod topology;
pub mod workload;

use motet_collective::CollectiveKind;
use motet_net::{Tier, TierMix};
use motet_units::Bytes;

pub use anomaly::Anomaly;
pub use call::{CallState, LastKnobs, Rhythm};
pub use model::{FaultTolerance, Spread, TrainedModel};
pub use scheduler::{Role, Scheduler, Sharing};
pub use topology::{ClusterClass, Environment, Inter, Intra, Library, Topology, TopologyClass};
pub use workload::{Packing, Synchrony, Workload};

/// The observation before a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct State {
    pub topology: Topology,
    pub workload: Workload,
    pub scheduler: Scheduler,
    pub model: TrainedModel,
    pub call: CallState,
    pub anomaly: Anomaly,
}

impl State {
    /// An empty AllReduce of one rank of which nothing is known, as a base for filling in what is known.
    pub const BLANK: Self = Self {
        topology: Topology {
            ranks: 1,
            class: TopologyClass::Mixed,
            intra: Intra::PcieOnly,
            inter: Inter::None,
            tiers: TierMix { pairs: [0; Tier::COUNT], unreachable: 0 },
            in_network: false,
            library: Library::Nccl,
            environment: Environment::Datacenter,
            cluster: ClusterClass::Commodity,
        },
        workload: Workload {
            synchrony: Synchrony::Bsp,
            period: 1,
            packing: Packing::None,
            bits: 32,
            rate: 1.0,
            effective: Bytes::ZERO,
        },
        scheduler: Scheduler::NONE,
        model: TrainedModel {
            spread: Spread::Dp,
            parameters: 0,
            fault_tolerance: FaultTolerance::None,
            three_d: false,
        },
        call: CallState::first(CollectiveKind::AllReduce, Bytes::ZERO),
        anomaly: Anomaly { cusum: 0.0, reconstruction: 0.0, congestion: 0.0 },
    };
}
