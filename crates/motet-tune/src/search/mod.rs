//! The search for the fastest point (setting) of a [`Space`], by running as few of them as possible.
//!
//! A [`Search`] asks its method which points to run how often, has a [`Profiler`] run them, and
//! enters what came of it into its [`Ledger`], until the method or the budget ends it. After every
//! step its [`State`] can be written down; from it, a search goes on as if it had never stopped,
//! because a method is nothing but its settings and what it has been told.
//!
//! Methods, one file each:
//! - [`mraco`]: a Gaussian process proposes the points of Hyperband's brackets, the search of *TuCCL* put right; the
//!   default, because noise misleads it least. [`literal`]: its Algorithm 1 as printed.
//! - [`surrogate`]: a Gaussian process over all points that weighs what a profile may teach
//!   against what it costs. Best where times have no noise ([`Settings::exact`]); with noise, the
//!   cheapest on smooth surfaces and lost where one point in a thousand is good.
//! - [`hyperband`], [`coordinate`], [`random`], [`grid`]: to compare with.
//!
//! What they share: [`brackets`] and `halving` (Hyperband), `density` (Parzen), `design`, `belief` and
//! `gaussian`, [`ledger`]. benches/search compares all of them with Optuna.

mod belief;
pub mod brackets;
mod coordinate;
mod density;
mod design;
mod gaussian;
mod grid;
mod halving;
mod hyperband;
pub mod ledger;
mod literal;
mod mraco;
mod random;
mod surrogate;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use motet_net::node::UnknownName;
use motet_units::{Duration, Seed};
use serde::{Deserialize, Serialize};

use crate::profile::{ProfileError, Profiler, Request};
use crate::space::Space;

pub use ledger::{Cost, Ledger, Record, Trial};

/// The version of [`State`].
const VERSION: u32 = 1;

/// The method of a search; see the [module](self) for what each does and when it is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    Mraco,
    Surrogate,
    Hyperband,
    Coordinate,
    Random,
    Literal,
    Grid,
}

impl Method {
    pub const ALL: [Self; 7] = [
        Self::Mraco,
        Self::Surrogate,
        Self::Hyperband,
        Self::Coordinate,
        Self::Random,
        Self::Literal,
        Self::Grid,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Surrogate => "surrogate",
            Self::Mraco => "mraco",
            Self::Hyperband => "hyperband",
            Self::Coordinate => "coordinate",
            Self::Random => "random",
            Self::Literal => "literal",
            Self::Grid => "grid",
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Method {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownName::new("search method", text, Self::ALL.map(Self::name)))
    }
}

/// What a search may cost. It ends with the step that reaches one of the two limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    pub trials: u32,
    pub iterations: u64,
}

/// Everything that a search depends on beside its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub method: Method,
    pub seed: u64,
    /// How often a point is run at most (its *full length*); 1 if times have no noise.
    pub most_iterations: u32,
    /// Hyperband's η: each rung keeps one point in η and runs it η times as often.
    pub ratio: u32,
    /// The least number of trials before a method may decide that it has found the best.
    pub least_trials: u32,
    pub budget: Option<Budget>,
    /// How long it takes to make a new communicator.
    pub restart: Duration,
}

impl Settings {
    /// For times without noise, as the simulator has them: every point is run once.
    #[must_use]
    pub fn exact() -> Self {
        Self { method: Method::Surrogate, most_iterations: 1, ..Self::default() }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            method: Method::Mraco,
            seed: 0,
            most_iterations: 81,
            ratio: 3,
            least_trials: 20,
            budget: None,
            restart: Duration::ZERO,
        }
    }
}

/// A method of searching. It sees what has been profiled and says what to profile next.
trait Strategy {
    /// What to profile next, each point once; nothing when the search is over.
    fn ask(&mut self, space: &Space, ledger: &Ledger) -> Vec<Request>;

    /// Called after the results of what `ask` wanted have been entered into the ledger.
    fn tell(&mut self, _: &Space, _: &Ledger) {}

    /// The point to use if the search ended now.
    fn recommend(&self, ledger: &Ledger) -> Option<usize> {
        ledger.incumbent()
    }
}

fn strategy(space: &Space, settings: &Settings) -> Box<dyn Strategy> {
    let (most, ratio) = (settings.most_iterations.max(1), settings.ratio.max(2));
    let seed = Seed::new(settings.seed);
    match settings.method {
        Method::Surrogate => Box::new(surrogate::Surrogate::new(space, settings)),
        Method::Mraco => Box::new(mraco::Mraco::new(space, settings)),
        Method::Hyperband => Box::new(hyperband::Hyperband::new(most, ratio, seed)),
        Method::Coordinate => Box::new(coordinate::Coordinate::new(space, most)),
        Method::Random => Box::new(random::Random::new(space, most, seed)),
        Method::Literal => Box::new(literal::Literal::new(most, ratio, seed)),
        Method::Grid => Box::new(grid::Grid::new(space, most)),
    }
}

/// A search as it can be saved and resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    version: u32,
    /// The [`fingerprint`](Space::fingerprint) of the space that is searched.
    fingerprint: u64,
    settings: Settings,
    batches: Vec<Vec<Trial>>,
}

/// Why a search cannot go on from a state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    #[error("the search was written by a version of Motet that does it otherwise; begin it anew")]
    Version,
    #[error("the search was made in another space of knobs; begin it anew")]
    Space,
    #[error("step {step} of the search is not what these settings lead to; begin it anew")]
    Differs { step: usize },
}

/// What ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// The method has nothing left to ask.
    Converged,
    Budget,
}

/// What a search knew after one of its steps, for charts of how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    pub cost: Cost,
    /// The point to use if the search had ended then.
    pub recommended: Option<usize>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub settings: Settings,
    /// The point to use; `None` if none that was tried can run.
    pub best: Option<usize>,
    /// The mean time of the iterations of `best`.
    pub mean: Option<Duration>,
    pub cost: Cost,
    pub stop: Option<Stop>,
    /// After every step.
    pub history: Vec<Progress>,
}

/// A search that is going on: ask it for one [`step`](Self::step) after the other, or to
/// [`run`](Self::run) to its end.
pub struct Search<'a> {
    space: &'a Space,
    settings: Settings,
    strategy: Box<dyn Strategy>,
    ledger: Ledger,
    history: Vec<Progress>,
    /// Requests without results yet. After the profiler has failed, the next step runs them again.
    pending: Vec<Request>,
    stop: Option<Stop>,
}

impl fmt::Debug for Search<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, stop, .. } = self;
        f.debug_struct("Search")
            .field("settings", settings)
            .field("stop", stop)
            .finish_non_exhaustive()
    }
}

impl<'a> Search<'a> {
    #[must_use]
    pub fn new(space: &'a Space, settings: Settings) -> Self {
        let strategy = strategy(space, &settings);
        let (ledger, history, pending) = (Ledger::new(space.len()), Vec::new(), Vec::new());
        Self { space, settings, strategy, ledger, history, pending, stop: None }
    }

    /// Goes on where the search that wrote `state` was.
    pub fn resume(space: &'a Space, state: &State) -> Result<Self, ResumeError> {
        if state.version != VERSION {
            return Err(ResumeError::Version);
        }
        if state.fingerprint != space.fingerprint() {
            return Err(ResumeError::Space);
        }
        let mut search = Self::new(space, state.settings);
        for (step, batch) in state.batches.iter().enumerate() {
            search.prepare();
            if !search.pending.iter().eq(batch.iter().map(|it| &it.request)) || batch.is_empty() {
                return Err(ResumeError::Differs { step });
            }
            search.enter(batch.clone());
        }
        Ok(search)
    }

    /// The state of the search after the steps so far, for [`resume`](Self::resume).
    #[must_use]
    pub fn state(&self) -> State {
        State {
            version: VERSION,
            fingerprint: self.space.fingerprint(),
            settings: self.settings,
            batches: self.ledger.batches().to_vec(),
        }
    }

    /// One step: a batch of profiles. `false` once the search is over.
    ///
    /// If the profiler fails, nothing is entered, and the next step asks for the same again.
    pub fn step(&mut self, profiler: &mut dyn Profiler) -> Result<bool, ProfileError> {
        self.prepare();
        if self.stop.is_some() {
            return Ok(false);
        }
        let profiles = profiler.profile_batch(&self.pending);
        if profiles.len() != self.pending.len() {
            let (asked, given) = (self.pending.len(), profiles.len());
            return Err(ProfileError::Failed(format!("{given} results came for {asked} requests")));
        }
        let mut batch = Vec::with_capacity(profiles.len());
        for (request, profile) in self.pending.iter().zip(profiles) {
            let total_ps = match profile {
                Ok(it) => Some(it.total.as_ps()),
                Err(ProfileError::Impossible(_)) => None,
                Err(error) => return Err(error),
            };
            batch.push(Trial { request: *request, total_ps });
        }
        self.enter(batch);
        Ok(true)
    }

    /// All steps that are left.
    pub fn run(&mut self, profiler: &mut dyn Profiler) -> Result<Outcome, ProfileError> {
        while self.step(profiler)? {}
        Ok(self.outcome())
    }

    /// Asks the method what to profile next, unless requests are pending; or finds that the search is over.
    fn prepare(&mut self) {
        if self.stop.is_some() || !self.pending.is_empty() {
            return;
        }
        let cost = self.ledger.cost();
        let spent = |it: &Budget| cost.trials >= it.trials || cost.iterations >= it.iterations;
        if self.settings.budget.as_ref().is_some_and(spent) {
            self.stop = Some(Stop::Budget);
            return;
        }
        self.pending = self.strategy.ask(self.space, &self.ledger);
        self.ledger.arrange(self.space, &mut self.pending);
        if self.pending.is_empty() {
            self.stop = Some(Stop::Converged);
        }
    }

    fn enter(&mut self, batch: Vec<Trial>) {
        self.pending.clear();
        self.ledger.enter(self.space, batch);
        self.strategy.tell(self.space, &self.ledger);
        let recommended = self.strategy.recommend(&self.ledger);
        self.history.push(Progress { cost: self.ledger.cost(), recommended });
    }

    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is known so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let best = self.strategy.recommend(&self.ledger);
        let mean = best.and_then(|it| self.ledger.record(it).mean());
        Outcome {
            settings: self.settings,
            best,
            mean: mean.map(|it| Duration::from_ps(it.round() as u64)),
            cost: self.ledger.cost(),
            stop: self.stop,
            history: self.history.clone(),
        }
    }
}
