//! A small scenario for tests: four hosts on sockets, by fitted terms, which are quick to price.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_units::{Bytes, Duration, Seed};

use super::atlas::{Atlas, Spot};
use super::{Group, Noise, Place, Scenario, Task, Timeline};
use crate::state::{Role, State};

pub(crate) fn sockets() -> Arc<Place> {
    Atlas::default().place(Spot::Sockets(4), false).unwrap()
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
            response: [[1.0; Protocol::COUNT]; Algorithm::COUNT],
            troubles: Vec::new(),
        }],
        tasks: sizes.iter().map(task).collect(),
        step: (0..sizes.len()).collect(),
        calls,
        gap: Duration::from_us(100),
        quirk: 0.0,
        noise: Noise { spread: 0.03, outliers: 0.01, outlier: 2.0 },
        scheduler: State::BLANK.scheduler,
        model: State::BLANK.model,
    }
}
