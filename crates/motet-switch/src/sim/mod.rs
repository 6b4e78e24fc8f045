//! A simulated switch: it keeps circuits, has switching delays, and fails on request or at random from a seed.
//!
//! - [`Switch`] is the device itself. It lives on when drivers connect and vanish, and with a state file (`store`) also when
//!   the whole process is killed.
//! - [`Simulated`] connects to it, as other devices are connected to.
//! - `config`: its delays; `faults`: its random faults.

mod config;
mod faults;
mod store;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use motet_rails::optical::Delay;
use motet_units::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

pub use config::{Retention, SimConfig};
pub use faults::{FaultRates, Mishap};

use crate::device::{Device, Fault, Readout, Seen, Session, Steps};
use crate::driver::{Pending, PortState};
use crate::error::Problem;
use crate::layout::Cross;
use crate::managed::std_time;
use faults::Chance;

/// A simulated switch.
#[derive(Debug)]
pub struct Switch {
    delay: Delay,
    retention: Retention,
    file: Option<PathBuf>,
    inside: Mutex<Inside>,
    /// Signals changes that were not made by a session.
    stir: Notify,
}

#[derive(Debug, Default)]
struct Inside {
    /// The output of each input.
    crosses: BTreeMap<u32, u32>,
    /// Ports that are not up.
    ports: BTreeMap<u32, PortState>,
    on: bool,
    /// How often the power was lost; sessions from before a power cycle are dead.
    power_cycles: u64,
    /// Faults that tests have ordered for the next changes; they come before random ones.
    mishaps: VecDeque<Mishap>,
    chance: Chance,
    /// How many changes it has carried out whole.
    changes: u64,
}

impl Switch {
    /// A switch as configured.
    ///
    /// # Errors
    ///
    /// If there is no such technology.
    pub fn new(config: &SimConfig) -> Result<Arc<Self>, String> {
        let chance = Chance::new(&config.faults);
        let inside = Inside { on: true, chance, ..Inside::default() };
        Ok(Arc::new(Self {
            delay: config.delay()?,
            retention: config.retention,
            file: config.state.clone(),
            inside: Mutex::new(inside),
            stir: Notify::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Orders a fault for the next change that has none ordered yet.
    pub fn expect(&self, mishap: Mishap) {
        self.lock().mishaps.push_back(mishap);
    }

    /// A port of the device fails, is disabled, or works again.
    pub fn set_port(&self, device: u32, state: PortState) {
        let mut inside = self.lock();
        match state {
            PortState::Up => inside.ports.remove(&device),
            _ => inside.ports.insert(device, state),
        };
        drop(inside);
        self.stir.notify_waiters();
    }

    /// Connects an input to an output as if someone else did it, or (with no output) disconnects it.
    pub fn meddle(&self, input: u32, output: Option<u32>) {
        let mut inside = self.lock();
        let _ = self.refresh(&mut inside);
        match output {
            Some(output) => inside.crosses.insert(input, output),
            None => inside.crosses.remove(&input),
        };
        let _ = self.keep(&inside);
        drop(inside);
        self.stir.notify_waiters();
    }

    /// Switches the power off or on. Without power circuits are kept or lost, as [`Retention`] says.
    pub fn power(&self, on: bool) {
        let mut inside = self.lock();
        if inside.on && !on {
            inside.power_cycles += 1;
            if self.retention == Retention::Loses {
                inside.crosses.clear();
                let _ = self.keep(&inside);
            }
        }
        inside.on = on;
        drop(inside);
        self.stir.notify_waiters();
    }

    /// The cross-connections that it really has, without a session.
    #[must_use]
    pub fn crosses(&self) -> Vec<Cross> {
        let mut inside = self.lock();
        let _ = self.refresh(&mut inside);
        inside
            .crosses
            .iter()
            .map(|(input, output)| Cross { input: *input, output: *output })
            .collect()
    }

    /// How many changes it has carried out whole.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// The state that it reports to a session.
    ///
    /// # Errors
    ///
    /// If it has no power, or its state file is not there or makes no sense.
    pub fn readout(&self) -> Result<Readout, Fault> {
        let mut inside = self.lock();
        if !inside.on {
            return Err(off("reading circuits"));
        }
        self.refresh(&mut inside)?;
        let crosses = inside.crosses.iter().map(|(input, output)| Seen::made(*input, *output));
        let ports = inside.ports.iter().map(|(port, state)| (*port, *state));
        Ok(Readout { crosses: crosses.collect(), ports: ports.collect() })
    }

    /// How often the power was lost; sessions from before that are dead.
    #[must_use]
    pub fn power_cycles(&self) -> u64 {
        self.lock().power_cycles
    }

    /// Whether it has power.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.lock().on
    }

    /// Removes, then adds cross-connections, with its delays. If a fault keeps it from answering, this never
    /// ends.
    ///
    /// # Errors
    ///
    /// If something goes wrong.
    pub async fn change(&self, remove: &[Cross], add: &[Cross]) -> Result<(), Fault> {
        const ASKED: &str = "changing circuits";
        let rejected = |words: String| Err(Fault::new(ASKED, Problem::Rejected(words)));
        let mishap = self.lock().mishap(!add.is_empty());
        let Delay { command, optics, link_up } = self.delay;
        pass(command).await;
        match mishap {
            Some(Mishap::Refuses) => {
                return rejected("not now, says the simulated switch".to_owned());
            }
            Some(Mishap::Ignores) => return std::future::pending().await,
            Some(Mishap::LosesPower) => {
                self.power(false);
                self.power(true);
                return Err(off(ASKED));
            }
            Some(Mishap::PortFails) => {
                let port = add.first().map_or(0, |it| it.input);
                self.set_port(port, PortState::Failed);
                return rejected(format!("port {port} has failed"));
            }
            Some(Mishap::DoesHalf | Mishap::DoesInSilence) | None => {}
        }
        // When the optics begin to move, the old cross-connections are lost first.
        self.step(remove, &[])?;
        pass(optics).await;
        let count = if mishap == Some(Mishap::DoesHalf) { add.len() / 2 } else { add.len() };
        self.step(&[], add.get(..count).unwrap_or_default())?;
        if mishap == Some(Mishap::DoesInSilence) {
            return std::future::pending().await;
        }
        pass(link_up).await;
        if count < add.len() {
            return rejected(format!("connected {count} of {}, then gave up", add.len()));
        }
        self.lock().changes += 1;
        Ok(())
    }

    fn step(&self, remove: &[Cross], add: &[Cross]) -> Result<(), Fault> {
        let mut inside = self.lock();
        if !inside.on {
            return Err(off("changing circuits"));
        }
        self.refresh(&mut inside)?;
        for cross in remove {
            inside.crosses.remove(&cross.input);
        }
        inside.crosses.extend(add.iter().map(|it| (it.input, it.output)));
        self.keep(&inside)
    }

    /// With a state file, the file decides: its contents may have been changed by somebody else, and while it
    /// does not exist the switch cannot be reached.
    fn refresh(&self, inside: &mut Inside) -> Result<(), Fault> {
        let Some(file) = &self.file else { return Ok(()) };
        let lost =
            |it| Fault::new("reading the simulated switch's state", Problem::Unreachable(it));
        inside.crosses = store::load(file).map_err(lost)?;
        Ok(())
    }

    fn keep(&self, inside: &Inside) -> Result<(), Fault> {
        let Some(file) = &self.file else { return Ok(()) };
        let kept = store::save(file, &inside.crosses);
        kept.map_err(|it| Fault::new("keeping the simulated switch's state", Problem::Rejected(it)))
    }
}

impl Inside {
    /// The fault of a change. Some faults are possible only if the change creates circuits.
    fn mishap(&mut self, creates: bool) -> Option<Mishap> {
        let fits = |it: &Mishap| creates || !matches!(it, Mishap::DoesHalf | Mishap::PortFails);
        if self.mishaps.front().is_some_and(fits) {
            return self.mishaps.pop_front();
        }
        self.chance.next().filter(fits)
    }
}

/// Connects to a [`Switch`].
#[derive(Clone, Debug)]
pub struct Simulated(pub Arc<Switch>);

struct Wire {
    switch: Arc<Switch>,
    power_cycles: u64,
}

fn off(asked: &str) -> Fault {
    Fault::new(asked, Problem::Unreachable("the simulated switch has no power".to_owned()))
}

impl Device for Simulated {
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>> {
        let inside = self.0.lock();
        let session = if inside.on {
            let wire = Wire { switch: self.0.clone(), power_cycles: inside.power_cycles };
            Ok(Box::new(wire) as Box<dyn Session>)
        } else {
            Err(off("connecting"))
        };
        Box::pin(std::future::ready(session))
    }

    fn listen(&self, nudge: Arc<Notify>) -> Option<Pending<'static, Fault>> {
        let switch = self.0.clone();
        Some(Box::pin(async move {
            loop {
                switch.stir.notified().await;
                nudge.notify_one();
            }
        }))
    }
}

impl Wire {
    fn alive(&self, asked: &str) -> Result<(), Fault> {
        let alive = self.switch.is_on() && self.switch.power_cycles() == self.power_cycles;
        if alive { Ok(()) } else { Err(off(asked)) }
    }

    async fn change_in(&self, steps: &Steps) -> Result<(), Fault> {
        self.alive("changing circuits")?;
        let remove: Vec<Cross> = steps.remove.iter().map(|it| it.cross).collect();
        self.switch.change(&remove, &steps.add).await
    }
}

impl Session for Wire {
    fn read(&mut self) -> Pending<'_, Result<Readout, Fault>> {
        let alive = self.alive("reading circuits");
        let readout = alive.and_then(|()| self.switch.readout());
        Box::pin(std::future::ready(readout))
    }

    fn change<'a>(&'a mut self, steps: &'a Steps) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.change_in(steps))
    }
}

/// Waits for a time. The runtime's timer counts in milliseconds, so shorter times are waited for by yielding
/// to other tasks.
async fn pass(time: Duration) {
    let time = std_time(time);
    if time.as_millis() > 0 {
        sleep(time).await;
        return;
    }
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::task::yield_now().await;
    }
}
