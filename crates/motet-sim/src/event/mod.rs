//! The event engine: runs any verified program on any network with time-varying state.
//!
//! [`Prepared`] is made once from a [`Routed`](crate::Routed) program; each [`Simulation`] of it is one run, with
//! a size, a state of the network, changes to come, and [`SimOptions`].
//!
//! Events happen in the order (time, priority, source, sequence): `queue` says what the priorities
//! are; source is a transfer's place in program order and sequence its hop. Equal inputs give
//! equal results, to the last event.
//!
//! - `prepared`: the program as crossings of links ([`crate::group`] for those that share some);
//! - `exclusive`: the engine for links that carry one transfer at a time; `fair`, `segments`, `shares`: the
//!   engine for links that carry all transfers at once;
//! - `dry`: a run without time, which says what can happen at all and why a run got stuck;
//! - `progress`: which events have happened and which transfers may be sent as a result; `timeline`: changes
//!   of the network's state; `queue`: the event queue;
//! - [`observer`]: is told of every step; [`outcome`]: the result of a run; [`error`]: why a run has none.

mod dry;
pub mod error;
mod exclusive;
mod fair;
pub mod observer;
pub mod outcome;
mod prepared;
mod progress;
mod queue;
mod segments;
mod setting;
mod shares;
mod timeline;

use motet_net::{NetworkState, StateEvent};
use motet_units::{Bandwidth, Bytes, Instant, LinkId};

pub(crate) use dry::Dry;
pub use error::SimError;
pub use observer::{Crossing, Observer, Silent};
pub use outcome::{LinkUse, Outcome};
pub use prepared::Prepared;

use crate::model::{Discipline, SimOptions};
use error::Names;
use exclusive::Exclusive;
use fair::Fair;
use setting::Setting;
use timeline::{Feed, Source, Timeline};

/// One run, to be configured and started. Unless told otherwise, the network is in its nominal
/// state and does not change.
pub struct Simulation<'a> {
    prepared: &'a Prepared<'a>,
    size: Bytes,
    state: Option<&'a NetworkState>,
    changes: Option<Source<'a>>,
    start: Instant,
    options: SimOptions,
}

impl std::fmt::Debug for Simulation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("program", &self.prepared.routed().program().name())
            .field("size", &self.size)
            .field("changes", &self.changes.is_some())
            .field("start", &self.start)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a> Simulation<'a> {
    /// A run of a collective of `size` bytes in nccl-tests' sense.
    #[must_use]
    pub fn new(prepared: &'a Prepared<'a>, size: Bytes) -> Self {
        let (start, options) = (Instant::START, SimOptions::default());
        Self { prepared, size, state: None, changes: None, start, options }
    }

    /// The order on links, local copies and launch; [`SimOptions::default`] unless told otherwise.
    #[must_use]
    pub const fn options(mut self, options: SimOptions) -> Self {
        self.options = options;
        self
    }

    /// The state of the network at the start.
    #[must_use]
    pub const fn state(mut self, state: &'a NetworkState) -> Self {
        self.state = Some(state);
        self
    }

    /// How the state changes during the run, in time order; only as many changes are taken as the
    /// run needs. See [`crate::changes`] for sources.
    #[must_use]
    pub fn changes(
        mut self,
        changes: impl IntoIterator<Item = StateEvent, IntoIter: Send + 'a>,
    ) -> Self {
        self.changes = Some(Box::new(changes.into_iter()));
        self
    }

    /// The start of the run on the clock of the changes; time 0 by default. Changes up to then have
    /// already happened.
    #[must_use]
    pub const fn starting_at(mut self, start: Instant) -> Self {
        self.start = start;
        self
    }

    /// Runs to the last arrival.
    pub fn run(self) -> Result<Outcome, SimError> {
        self.run_with(&mut Silent)
    }

    /// Runs, and reports every step to `observer`.
    pub fn run_with<O: Observer>(self, observer: &mut O) -> Result<Outcome, SimError> {
        let routed = self.prepared.routed();
        let (program, network) = (routed.program(), routed.network());
        let nominal;
        let state = match self.state {
            Some(state) => state,
            None => {
                nominal = NetworkState::nominal(network);
                &nominal
            }
        };
        let (links, known) = (network.links().len(), state.link_count());
        if links != known {
            return Err(SimError::WrongState { links: known, network: links });
        }
        let collective = program.collective();
        let chunk = collective.chunk_bytes(self.size);
        let largest = program.transfers().iter().map(|it| it.count).max().unwrap_or(0);
        if chunk.checked_mul(u64::from(largest)).is_none() {
            return Err(SimError::TooLarge { size: self.size });
        }
        let whole = chunk.checked_mul(u64::from(collective.size_chunks()));
        let setting = Setting {
            prepared: self.prepared,
            chunk: chunk.get(),
            fifo: self.options.discipline == Discipline::Fifo,
            local_rate: self.options.local_bandwidth.map(Bandwidth::bits_per_s),
        };
        let rates: Vec<u64> =
            (0..links).map(|it| state.bandwidth(LinkId::from_index(it)).bits_per_s()).collect();
        let feed = self.changes.map(|it| Feed::new(state.clone(), it)).transpose()?;
        let start = self.start + self.options.launch;
        let (end, events, links) = match self.options.discipline {
            Discipline::FairShare => {
                Fair::new(setting, &rates, feed, start.as_ps(), observer).run()?
            }
            Discipline::ProgramOrder | Discipline::Fifo => {
                let timeline = feed.map(|it| Timeline::new(it, O::ACTIVE));
                Exclusive::new(setting, &rates, timeline, start.as_ps(), observer).run()?
            }
        };
        let passed = Instant::from_ps(end).since(start);
        if let Some(over) = links.iter().position(|it| it.busy > passed) {
            let (link, busy) = (LinkId::from_index(over), links[over].busy);
            return Err(Names { program, network }.over_capacity(link, busy, passed));
        }
        Ok(Outcome {
            time: Instant::from_ps(end).since(self.start),
            chunk,
            rounded_up: whole != Some(self.size),
            transfers: program.transfers().len(),
            events,
            links,
        })
    }
}
