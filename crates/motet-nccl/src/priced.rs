//! [`Priced`]: NCCL on a network with every choice priced: what it would choose itself, and what the
//! best is that a tuner plugin can make it choose, call by call.
//!
//! NCCL chooses by its own model, which knows the servers and not the fabric between them. How long a
//! choice takes is another question, answered as for every other program: rings and trees are laid out
//! as NCCL lays them out ([`own`]) and simulated by [`kernel`](crate::kernel); NVLS and PAT, which
//! have no such program, take what NCCL's model says, and never less than their traffic takes on the
//! links ([`Basis`] says which). So an oversubscribed fabric or a WAN slows NCCL as it slows our programs. A
//! model with fitted terms ([`NcclModel::with_terms`]) prices by those instead.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use motet_collective::{CollectiveKind, Verified};
use motet_net::Network;
use motet_sim::{Routed, SwitchForwarding};
use motet_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::connect::Channels;
use crate::fitted::Counts;
use crate::fitted::counts::Places;
use crate::fluid;
use crate::kernel::{FifoShape, Kernels, Laid};
use crate::kinds::{Algorithm, Protocol, TunedCollective};
use crate::model::NcclModel;
use crate::nvls::Switched;
use crate::own;

/// The most steps of a ring or tree that are simulated; beyond that, the load of its links is counted instead.
const MOST_STEPS: u64 = 1 << 18;

/// How a time was determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The program was laid out on thread blocks and simulated ([`kernel`](crate::kernel)).
    Kernels,
    /// What NCCL's own cost model says, and never less than the busiest link takes: for algorithms
    /// that have no program here (NVLS, PAT), and for rings of very many steps.
    Belief,
    /// Launch, steps and the busiest link, added up: for grouped sends and receives, which NCCL has
    /// no model of ([`p2p`](crate::p2p)).
    Links,
    /// Terms that are fitted to measured calls: of NCCL on this machine ([`fitted`](crate::fitted)), or of
    /// MSCCL++'s executor ([`mscclpp`](crate::mscclpp)).
    Fitted,
    /// The call was timed on the machine itself.
    Measured,
}

/// A choice of NCCL's and how long it takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timed {
    pub choice: Choice,
    pub time: Duration,
    pub basis: Basis,
}

/// NCCL on a network, priced.
#[derive(Debug)]
pub struct Priced<'a> {
    network: &'a Network,
    model: &'a NcclModel,
    kernels: Arc<Kernels>,
    channels: Channels,
    places: Places,
    laid: Mutex<BTreeMap<Key, Option<Arc<Laid>>>>,
    switched: Mutex<BTreeMap<TunedCollective, Option<Arc<Switched>>>>,
}

type Key = (TunedCollective, Algorithm, Protocol, u32);

impl<'a> Priced<'a> {
    #[must_use]
    pub fn new(network: &'a Network, model: &'a NcclModel, kernels: Arc<Kernels>) -> Self {
        let (laid, switched) = (Mutex::default(), Mutex::default());
        let (channels, places) = (model.channels(), Places::new(&model.nodes()));
        Self { network, model, kernels, channels, places, laid, switched }
    }

    #[must_use]
    pub const fn model(&self) -> &NcclModel {
        self.model
    }

    #[must_use]
    pub const fn kernels(&self) -> &Arc<Kernels> {
        &self.kernels
    }

    /// What NCCL would do by itself; `None` if it chooses nothing for this collective.
    #[must_use]
    pub fn default(&self, kind: CollectiveKind, size: Bytes) -> Option<Timed> {
        let tuned = TunedCollective::of(kind)?;
        self.time(kind, self.model.choose(tuned, size)?, size)
    }

    /// The best that a tuner can make it do: over algorithms, protocols and channels. Of equals,
    /// NCCL's own choice.
    #[must_use]
    pub fn best(&self, kind: CollectiveKind, size: Bytes) -> Option<Timed> {
        let tuned = TunedCollective::of(kind)?;
        let mut best = self.default(kind, size)?;
        let costs = self.model.costs(tuned, size, 1);
        for algorithm in Algorithm::ALL {
            for protocol in Protocol::ALL {
                if costs.get(algorithm, protocol).is_none() {
                    continue;
                }
                for choice in self.model.choices(tuned, size, algorithm, protocol) {
                    // Not worth running what cannot be faster.
                    if self.least(tuned, &choice, size) >= best.time {
                        continue;
                    }
                    if let Some(timed) = self.time(kind, choice, size)
                        && timed.time < best.time
                    {
                        best = timed;
                    }
                }
            }
        }
        Some(best)
    }

    /// How long a choice takes.
    #[must_use]
    pub fn time(&self, kind: CollectiveKind, choice: Choice, size: Bytes) -> Option<Timed> {
        let tuned = TunedCollective::of(kind)?;
        if self.model.communicator().ranks < 2 {
            // Nothing moves.
            return Some(Timed { choice, time: choice.duration(), basis: Basis::Belief });
        }
        if let Some(time) = self.fitted(tuned, &choice, size) {
            return Some(Timed { choice, time, basis: Basis::Fitted });
        }
        if let Some(laid) = self.laid(tuned, kind, &choice) {
            let price = laid.price_with(size, FifoShape::nccl(&choice)).ok()?;
            return Some(Timed { choice, time: price.time, basis: Basis::Kernels });
        }
        let believed = choice.duration();
        let links = match choice.algorithm {
            Algorithm::Nvls | Algorithm::NvlsTree => {
                // The switches' own latency is in what NCCL believes.
                self.switched(tuned, kind)?.time(size)?
            }
            _ => fluid::time(self.network, self.model, &self.channels, tuned, &choice, size)?,
        };
        Some(Timed { choice, time: believed.max(links), basis: Basis::Belief })
    }

    /// By the model's fitted terms, if it has any and the algorithm is one that they are for.
    fn fitted(&self, tuned: TunedCollective, choice: &Choice, size: Bytes) -> Option<Duration> {
        let terms = self.model.terms()?;
        let counts = Counts::of(&self.channels, &self.places, tuned, choice, size)?;
        Some(Duration::from_ps((terms.micros(&counts) * 1e6).round() as u64))
    }

    /// A ring or a tree, laid out; `None` for everything else, and where it has too many steps.
    fn laid(
        &self,
        tuned: TunedCollective,
        kind: CollectiveKind,
        choice: &Choice,
    ) -> Option<Arc<Laid>> {
        let count = u32::try_from(choice.used_channels.max(1)).ok()?;
        let ranks = self.model.communicator().ranks as u64;
        if u64::from(count) * ranks * tuned.ring_steps(ranks) > MOST_STEPS {
            return None;
        }
        let key = (tuned, choice.algorithm, choice.protocol, count);
        // A lock that a panic poisoned holds a whole map all the same.
        let known =
            self.laid.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(&key).cloned();
        known.unwrap_or_else(|| {
            let made = self.lay(kind, choice, count).map(Arc::new);
            let mut all = self.laid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.insert(key, made.clone());
            made
        })
    }

    fn lay(&self, kind: CollectiveKind, choice: &Choice, count: u32) -> Option<Laid> {
        let Choice { algorithm, protocol, .. } = *choice;
        let program = own::program(&self.channels, kind, algorithm, protocol, count).ok()??;
        let program = Verified::new(program, None).ok()?;
        let routed = Routed::new(&program, self.network, SwitchForwarding::CutThrough).ok()?;
        Laid::new(&routed, Arc::clone(&self.kernels)).ok()
    }

    fn switched(&self, tuned: TunedCollective, kind: CollectiveKind) -> Option<Arc<Switched>> {
        let known = self
            .switched
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .get(&tuned)
            .cloned();
        known.unwrap_or_else(|| {
            let made = Switched::new(self.network, &self.model.nodes(), kind).map(Arc::new);
            let mut all = self.switched.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            all.insert(tuned, made.clone());
            made
        })
    }

    /// A time that a choice cannot beat, without simulating it: the time that NCCL's own model gives the data,
    /// less a fifth.
    fn least(&self, tuned: TunedCollective, choice: &Choice, size: Bytes) -> Duration {
        if self.model.terms().is_some() {
            // A measured network may be faster than NCCL believes, and its terms are quick to apply.
            return Duration::ZERO;
        }
        let tuning = self.model.tuning();
        let bandwidth = tuning.bandwidth(tuned, choice.algorithm, choice.protocol);
        if bandwidth <= 0.0 {
            return Duration::ZERO;
        }
        // Our rings and trees are at most a fifth faster than NCCL believes (docs/nccl-model.md).
        let data = size.get() as f64 / (1000.0 * bandwidth) * 0.8;
        Duration::from_ps((data * 1e6) as u64)
    }
}
