//! Which policy makes the leader's tables (`MOTET_AGENT_POLICY`). To make one ready may take a while, because the plan's
//! network must be read and its calls be counted. So a thread of its own does that, and until it is done tables stay as they are.

use std::sync::mpsc::{Receiver, TryRecvError, channel};

use motet_agent::pilot::book::{Book, PlanTexts};
use motet_agent::pilot::{DEFAULT_POLICY, PolicyPilot, live};
use motet_agent::policy::Registered;
use motet_runtime::{Course, DEFAULT_MARGIN, Fastest, Pilot, Sight, Signature, Table};
use motet_units::Seed;

use crate::log::Log;
use crate::plan::Plan;

/// TuCCL's rule, which needs no model.
const FASTEST: &str = "fastest";

/// What makes tables.
#[derive(Clone, Copy)]
pub(super) enum Who {
    Fastest,
    Policy(&'static Registered),
}

impl Who {
    /// The policy of this name, or without a name the default. A name that is unknown is logged, and the default is used.
    pub(super) fn asked(name: Option<&str>, log: Log) -> Self {
        let name = name.unwrap_or(DEFAULT_POLICY);
        let found = |name: &str| live().find(|it| it.name == name).map(Self::Policy);
        if name == FASTEST {
            return Self::Fastest;
        }
        found(name).or_else(|| {
            let known: Vec<&str> = live().map(|it| it.name).chain([FASTEST]).collect();
            let known = known.join(", ");
            log.warn(&format!("MOTET_AGENT_POLICY={name} is no policy; {DEFAULT_POLICY} is used. Known are {known}"));
            found(DEFAULT_POLICY)
        }).unwrap_or(Self::Fastest)
    }
}

/// A pilot that leaves tables as they are.
struct Nobody;

impl Pilot for Nobody {
    fn steer(&mut self, _: &Sight<'_>) -> Course {
        Course::Stay
    }
}

/// The pilot that a group begins with.
pub(super) fn at_first(who: Who) -> Box<dyn Pilot> {
    match who {
        Who::Fastest => Box::new(Fastest { margin: DEFAULT_MARGIN }),
        Who::Policy(_) => Box::new(Nobody),
    }
}

/// A pilot that is being made, on a thread of its own.
pub(super) struct Making(Receiver<Result<(PolicyPilot, String), String>>);

impl Making {
    /// Begins to make a pilot; `None` where there is nothing to be made.
    pub(super) fn begin(who: Who, table: Table, signature: Signature) -> Option<Self> {
        let Who::Policy(policy) = who else { return None };
        let (sender, receiver) = channel();
        let work = move || {
            let _ = sender.send(make(policy, &table, signature));
        };
        // Without a thread the sender is dropped, which `done` tells as a failure.
        let _ = std::thread::Builder::new().name("motet-pilot".to_owned()).spawn(work);
        Some(Self(receiver))
    }

    /// The pilot, once it is made; the rule that needs no model, if it cannot be.
    pub(super) fn done(&self, log: Log) -> Option<Box<dyn Pilot>> {
        let why = match self.0.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Ok(Ok((pilot, about))) => {
                log.info(&about);
                return Some(Box::new(pilot));
            }
            Ok(Err(why)) => why,
            Err(TryRecvError::Disconnected) => "its thread has ended".to_owned(),
        };
        log.warn(&format!("no policy: {why}; what was fastest is preferred instead"));
        Some(at_first(Who::Fastest))
    }
}

fn make(
    policy: &'static Registered,
    table: &Table,
    signature: Signature,
) -> Result<(PolicyPilot, String), String> {
    let plan = Plan::of_table(table).ok_or("the leader has not the ranks' plan in MOTET_PLAN")?;
    let (network, measured) = plan.texts().map_err(|it| it.to_string())?;
    let texts = PlanTexts { network: &network, measured: measured.as_deref() };
    let book = Book::new(table, signature, texts).map_err(|it| it.to_string())?;
    let (tasks, timed) = book.tasks();
    let about = format!(
        "the policy {} steers {tasks} entries, {timed} of them by what the plan has measured",
        policy.name
    );
    // Nothing of it need be the same on other ranks, nor in other jobs.
    Ok((PolicyPilot::new(policy, Seed::new(1), book), about))
}
