//! [`Simulated`]: an optical switch that is not there. Its circuits may be in a file, so that they outlive the process as those of a
//! real switch do; without that file, or when it cannot be read, the switch cannot be reached.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use motet_control::controller::{Answer, Order};
use motet_control::{Circuit, SwitchId};
use tokio::sync::Mutex;

use super::{Pending, Switch};

/// How a simulated switch behaves.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// From the order to the moment when something moves.
    pub command: Duration,
    /// Until the light goes through.
    pub optics: Duration,
    /// Where its circuits are kept.
    pub state: Option<PathBuf>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Simulated {
    id: SwitchId,
    name: String,
    ports: u32,
    manner: Manner,
    /// The port at the other end of each that is in a circuit, if no file has them.
    circuits: Mutex<BTreeMap<u32, u32>>,
}

impl Simulated {
    #[must_use]
    pub fn new(id: SwitchId, name: &str, ports: u32, manner: Manner) -> Self {
        Self { id, name: name.to_owned(), ports, manner, circuits: Mutex::default() }
    }

    async fn obey(&self, order: Order) -> Result<Option<Answer>, String> {
        let mut circuits = self.circuits.lock().await;
        if let Some(file) = &self.manner.state {
            *circuits = load(file)?;
        }
        match order {
            Order::Read => {
                let lower = circuits.iter().filter(|it| it.0 < it.1);
                Ok(Some(Answer::Circuits(lower.map(|it| [*it.0, *it.1]).collect())))
            }
            Order::Prepare { change, create, .. } => {
                let has = |it: &Circuit| it.numbers().into_iter().all(|it| it < self.ports);
                let fits = create.iter().all(has);
                Ok(Some(if fits { Answer::Prepared(change) } else { Answer::Rejected(change) }))
            }
            Order::Abort { .. } => Ok(None),
            Order::Apply { change, delete, create } => {
                sleep(self.manner.command).await;
                for [a, b] in delete.iter().map(Circuit::numbers) {
                    if circuits.get(&a) == Some(&b) {
                        circuits.remove(&a);
                        circuits.remove(&b);
                    }
                }
                // Old circuits go when something begins to move, and new ones come when it has arrived.
                self.save(&circuits)?;
                sleep(self.manner.optics).await;
                for [a, b] in create.iter().map(Circuit::numbers) {
                    let taken =
                        |at: u32, other: u32| circuits.get(&at).is_some_and(|it| *it != other);
                    if taken(a, b) || taken(b, a) {
                        return Ok(Some(Answer::Rejected(change)));
                    }
                    circuits.insert(a, b);
                    circuits.insert(b, a);
                }
                self.save(&circuits)?;
                Ok(Some(Answer::Applied(change)))
            }
        }
    }

    fn save(&self, circuits: &BTreeMap<u32, u32>) -> Result<(), String> {
        let Some(file) = &self.manner.state else { return Ok(()) };
        let lower: Vec<[u32; 2]> =
            circuits.iter().filter(|it| it.0 < it.1).map(|it| [*it.0, *it.1]).collect();
        let text = serde_json::to_string(&lower).map_err(|it| it.to_string())?;
        let beside = file.with_extension("new");
        let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, file));
        written.map_err(|it| format!("{}: {it}", file.display()))
    }
}

async fn sleep(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

/// The circuits of a file, from both ends.
fn load(file: &Path) -> Result<BTreeMap<u32, u32>, String> {
    let wrong = |it: &dyn std::fmt::Display| format!("{}: {it}", file.display());
    let text = std::fs::read_to_string(file).map_err(|it| wrong(&it))?;
    let pairs: Vec<[u32; 2]> = serde_json::from_str(&text).map_err(|it| wrong(&it))?;
    let mut circuits = BTreeMap::new();
    for [a, b] in pairs {
        if a == b || circuits.insert(a, b).is_some() || circuits.insert(b, a).is_some() {
            return Err(wrong(&format!("port {a} or {b} is in two circuits")));
        }
    }
    Ok(circuits)
}

impl Switch for Simulated {
    fn id(&self) -> SwitchId {
        self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn ports(&self) -> u32 {
        self.ports
    }

    fn carry_out(&self, order: Order) -> Pending<'_, (Option<Answer>, Option<String>)> {
        Box::pin(async move {
            match self.obey(order).await {
                Ok(answer) => (answer, None),
                Err(problem) => (Some(Answer::Lost), Some(problem)),
            }
        })
    }

    fn watch(&self) -> Pending<'_, Answer> {
        Box::pin(std::future::pending())
    }
}
