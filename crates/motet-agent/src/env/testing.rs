//! A small scenario for tests: four hosts on sockets, by fitted terms, which are quick to price.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Loopback, NcclOptions, NcclTerms, NcclVersion, Protocol};
use motet_units::{Bytes, Duration, Seed};

use super::{Group, Noise, Place, Scenario, Task, Timeline};
use crate::state::{Role, State, TopologyClass};

/// What `motet calibrate` found for sockets on one machine (docs/nccl-model.md): call, hops, proxy, rates.
pub(crate) const SOCKETS: [f64; 15] =
    [12.61, 14.0, 25.62, 1.0, 2.5, 5.7, 14.52, 8.5, 23.66, 0.9532, 36.0, 36.7, 36.0, 20.0, 2.429];

pub(crate) fn sockets() -> Arc<Place> {
    let network = Loopback { ranks: 4, ..Loopback::default() }.network().unwrap();
    let options = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
    let terms = Some(NcclTerms::from_values(&SOCKETS));
    Arc::new(Place::new("sockets", network, TopologyClass::Mixed, options, terms).unwrap())
}

/// AllReduces of these sizes, one after the other.
pub(crate) fn scenario(sizes: &[Bytes], calls: u64, timeline: Timeline, seed: Seed) -> Scenario {
    let task = |bytes: &Bytes| Task {
        group: 0,
        kind: CollectiveKind::AllReduce,
        bytes: *bytes,
        role: Role::None,
        workload: State::BLANK.workload,
    };
    Scenario {
        name: "test".to_owned(),
        seed,
        groups: vec![Group {
            place: sockets(),
            timeline,
            error: [[1.0; Protocol::COUNT]; Algorithm::COUNT],
        }],
        tasks: sizes.iter().map(task).collect(),
        step: (0..sizes.len()).collect(),
        calls,
        gap: Duration::from_us(100),
        noise: Noise { spread: 0.03, outliers: 0.01, outlier: 2.0 },
        scheduler: State::BLANK.scheduler,
        model: State::BLANK.model,
    }
}
