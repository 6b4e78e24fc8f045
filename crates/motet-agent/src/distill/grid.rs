//! [`distill`]: tables for one communicator, from a policy that decides a grid of tasks at each level of congestion.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_runtime::{Signature, Table, TableError};
use motet_units::{Bytes, Duration, Seed};

use super::{Agreement, Level, Votes};
use crate::env::{
    Environment, Episode, Group, Load, Noise, Pattern, Place, PlaceError, Scenario, Task, Timeline,
    Where,
};
use crate::policy::Policy;
use crate::state::{Role, Scheduler, State};

/// How often each task is called at each level. Only the last quarter is counted, when exploration is over.
const ROUNDS: u64 = 240;

/// Why tables could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistillError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the run-time half refuses the table: {0}")]
    Table(#[from] TableError),
}

/// The table of a policy's decisions at one level of congestion.
#[derive(Clone, Debug, PartialEq)]
pub struct Distilled {
    pub level: Level,
    pub table: Table,
    /// How well the table agrees with the policy, on the same tasks with other noise.
    pub agreement: Agreement,
}

/// The tasks of one communicator for which tables are made.
#[derive(Clone, Debug)]
pub struct Grid {
    pub place: Arc<Place>,
    pub signature: Signature,
    pub kinds: Vec<CollectiveKind>,
    pub sizes: Vec<Bytes>,
    pub seed: Seed,
}

impl Grid {
    /// The load that represents a level: none; half the bandwidth and twice the latency per hop; a fifth and five times.
    fn load(&self, level: Level) -> Load {
        let several = self.place.model().communicator().nodes > 1;
        let at = if several { Where::Between } else { Where::Inside };
        let (share, delay) = match level {
            Level::Calm => (1.0, 1.0),
            Level::Slow => (0.5, 2.0),
            Level::Congested => (0.2, 5.0),
        };
        Load { at, share, delay, ..Load::NONE }
    }

    fn environment(&self, level: Level, seed: Seed) -> Result<Environment, PlaceError> {
        let task = |kind: CollectiveKind, bytes: Bytes| Task {
            group: 0,
            kind,
            bytes,
            role: Role::None,
            workload: State::BLANK.workload,
        };
        let tasks: Vec<Task> = self
            .kinds
            .iter()
            .flat_map(|kind| self.sizes.iter().map(move |bytes| task(*kind, *bytes)))
            .collect();
        let calls = ROUNDS * tasks.len() as u64;
        let episode =
            Episode { calls: (0, calls), pattern: Pattern::Abrupt, load: self.load(level) };
        let as_the_model_says = [[1.0; Protocol::COUNT]; Algorithm::COUNT];
        Environment::new(Scenario {
            name: format!("{} {level}", self.place.name),
            seed,
            groups: vec![Group {
                place: Arc::clone(&self.place),
                timeline: Timeline { episodes: vec![episode] },
                error: as_the_model_says,
                response: as_the_model_says,
                troubles: Vec::new(),
            }],
            step: (0..tasks.len()).collect(),
            tasks,
            calls,
            gap: Duration::from_us(100),
            noise: Noise { spread: 0.03, outliers: 0.01, outlier: 2.0 },
            quirk: 0.0,
            scheduler: Scheduler::NONE,
            model: State::BLANK.model,
        })
    }
}

/// Tables of all levels. The policy is reset before each.
///
/// # Errors
/// When a task cannot be priced, or a table is refused.
pub fn distill(policy: &mut dyn Policy, grid: &Grid) -> Result<Vec<Distilled>, DistillError> {
    let mut votes = Votes::default();
    for level in Level::ALL {
        let mut environment = grid.environment(*level, grid.seed.named("votes"))?;
        let from = environment.scenario().calls / 4 * 3;
        policy.reset();
        votes.watch(policy, &mut environment, *level, from);
    }
    let one = |level: &Level| {
        let mut environment = grid.environment(*level, grid.seed.named("agreement"))?;
        policy.reset();
        let from = environment.scenario().calls / 4 * 3;
        let agreement = votes.agreement(policy, &mut environment, *level, from);
        let table = votes.table(*level, grid.signature)?;
        Ok(Distilled { level: *level, table, agreement })
    };
    Level::ALL.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::atlas::spots;
    use crate::env::testing::sockets;
    use crate::env::{Atlas, Split};
    use crate::policy::fixed::{NcclDefault, Oracle, PlanTable};

    fn grid() -> Grid {
        Grid {
            place: sockets(),
            signature: Signature(3),
            kinds: vec![CollectiveKind::AllReduce, CollectiveKind::AllGather],
            sizes: vec![Bytes::kib(64), Bytes::mib(1)],
            seed: Seed::new(1),
        }
    }

    #[test]
    fn policies_without_memory_are_kept_whole() {
        for policy in [&mut PlanTable as &mut dyn Policy, &mut NcclDefault] {
            for level in distill(policy, &grid()).unwrap() {
                assert_eq!(level.table.entries().len(), 4);
                let Agreement { calls, same, slower } = level.agreement;
                assert_eq!((calls, same, slower), (240, 240, 0.0));
            }
        }
        let own = distill(&mut NcclDefault, &grid()).unwrap();
        assert!(own[0].table.entries().iter().all(|it| it.candidates.len() == 1));
    }

    /// Congestion changes what is best, so that tables of levels differ.
    #[test]
    fn levels_have_tables_of_their_own() {
        let racks = Atlas::default().place(spots(Split::Training, 3)[0], false).unwrap();
        let grid = Grid { place: racks, ..grid() };
        let tables = distill(&mut Oracle::default(), &grid).unwrap();
        assert_ne!(tables[0].table.checksum(), tables[2].table.checksum());
        assert!(tables.iter().all(|it| it.agreement.same == it.agreement.calls));
    }
}
