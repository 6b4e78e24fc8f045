//! [`Place`]: a communicator on a network, with every action of every task priced.
//!
//! Without load an action takes the time that plans predict (`motet_nccl::Priced`: kernels on the network's links, or terms
//! fitted to a measured machine). The effect of load follows from the counts of what the call does
//! (`motet_nccl::fitted::Counts`): hops and bytes inside servers and between them. Pricing takes milliseconds and evaluating
//! counts nanoseconds, so each task is priced once and then evaluated at any load.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use motet_collective::CollectiveKind;
use motet_nccl::fitted::Counts;
use motet_nccl::fitted::counts::Places;
use motet_nccl::kernel::Kernels;
use motet_nccl::{
    Algorithm, Choice, NcclModel, NcclOptions, NcclTerms, Priced, Protocol, TunedCollective,
};
use motet_net::{BuildError, LinkClass, Network};
use motet_units::{Bytes, Rank};

use super::load::Load;
use super::scenario::PerKernel;
use crate::action::{Action, ActionSpace, Path, SpaceSpec};
use crate::state::{Topology, TopologyClass};

/// Why a place could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlaceError {
    #[error("the network cannot be built: {0}")]
    Build(#[from] BuildError),
    #[error("there is no model of NCCL on the network: {0}")]
    Nccl(#[from] motet_nccl::NcclError),
    #[error("the template `{name}` gives no network: {problem}")]
    Template { name: &'static str, problem: String },
    #[error("the network has fewer than two GPUs; a communicator needs two")]
    Alone,
    #[error("{kind} of {bytes}: NCCL's default cannot be priced on this network")]
    NoPrice { kind: CollectiveKind, bytes: Bytes },
}

/// What is known of a task before anything is measured: its action space and the nominal time of each action.
#[derive(Clone, Debug)]
pub struct Brief {
    pub space: ActionSpace,
    /// The time of each action without load in µs, by the cost model of plans.
    pub nominal: Vec<f64>,
    /// The action that spells out what NCCL would choose by itself, so that it does the same as action 0.
    pub own: usize,
    /// The algorithm and protocol that each action results in.
    pub kernels: Vec<(Algorithm, Protocol)>,
    /// Channels that each action uses.
    pub channels: Vec<u32>,
    counts: Vec<Counts>,
}

/// A communicator on a network, with a price list.
#[derive(Debug)]
pub struct Place {
    pub name: String,
    pub topology: Topology,
    network: Network,
    model: NcclModel,
    terms: NcclTerms,
    briefs: Mutex<BTreeMap<(CollectiveKind, u64), Arc<Brief>>>,
}

impl Place {
    /// The communicator of all GPUs of a network. With `terms`, calls are priced by them.
    pub fn new(
        name: impl Into<String>,
        network: Network,
        class: TopologyClass,
        options: NcclOptions,
        terms: Option<NcclTerms>,
    ) -> Result<Self, PlaceError> {
        let ranks: Vec<Rank> =
            (0..network.ranks().len()).filter_map(|it| u32::try_from(it).ok()).map(Rank).collect();
        if ranks.len() < 2 {
            return Err(PlaceError::Alone);
        }
        let topology = Topology::of(&network, &ranks, class).ok_or(PlaceError::Alone)?;
        let mut model = NcclModel::new(&network, options)?;
        if let Some(terms) = terms {
            model = model.with_terms(terms);
        }
        let terms = terms.unwrap_or_else(|| effective(&network, &model));
        Ok(Self { name: name.into(), topology, network, model, terms, briefs: Mutex::default() })
    }

    /// The cost terms that load acts on.
    #[must_use]
    pub const fn terms(&self) -> &NcclTerms {
        &self.terms
    }

    #[must_use]
    pub const fn model(&self) -> &NcclModel {
        &self.model
    }

    /// What is known of a task. It is priced once and then kept.
    pub fn brief(&self, kind: CollectiveKind, bytes: Bytes) -> Result<Arc<Brief>, PlaceError> {
        // The map is consistent even if a thread panicked while holding the lock.
        let known = |it: &Mutex<BTreeMap<_, _>>| {
            let map = it.lock().unwrap_or_else(PoisonError::into_inner);
            map.get(&(kind, bytes.get())).map(Arc::clone)
        };
        if let Some(brief) = known(&self.briefs) {
            return Ok(brief);
        }
        let brief = Arc::new(self.price(kind, bytes)?);
        let mut map = self.briefs.lock().unwrap_or_else(PoisonError::into_inner);
        map.insert((kind, bytes.get()), Arc::clone(&brief));
        Ok(brief)
    }

    fn price(&self, kind: CollectiveKind, bytes: Bytes) -> Result<Brief, PlaceError> {
        let none = || PlaceError::NoPrice { kind, bytes };
        let kernels = Kernels::new(&self.network, self.model.communicator(), self.model.options());
        let priced = Priced::new(&self.network, &self.model, Arc::new(kernels));
        // Laying out programs is expensive, so actions that result in the same choice are priced once.
        let mut known: Vec<(Choice, f64)> = Vec::new();
        self.lay(kind, bytes, |action, choice| {
            let same = |it: &&(Choice, f64)| {
                let (a, b) = (&it.0, choice);
                (a.algorithm, a.protocol, a.used_channels)
                    == (b.algorithm, b.protocol, b.used_channels)
            };
            match known.iter().find(same) {
                _ if action.path == Path::Passthrough => Ok(self.passed_through(bytes)),
                Some(known) => Ok(known.1),
                None => {
                    let time = priced.time(kind, *choice, bytes).ok_or_else(none)?.time;
                    known.push((*choice, time.as_us_f64()));
                    Ok(time.as_us_f64())
                }
            }
        })
    }

    /// What is known of a task whose actions were measured, in µs, rather than modelled: hops and bytes are counted as usual, and an
    /// action without a time gets an infinite one, so that no policy takes it.
    pub fn timed(
        &self,
        kind: CollectiveKind,
        bytes: Bytes,
        time: impl Fn(&Action) -> Option<f64>,
    ) -> Result<Brief, PlaceError> {
        self.lay(kind, bytes, |action, _| Ok(time(action).unwrap_or(f64::INFINITY)))
    }

    /// Lists every action of a task, with its counts and its time by `price`.
    fn lay(
        &self,
        kind: CollectiveKind,
        bytes: Bytes,
        mut price: impl FnMut(&Action, &Choice) -> Result<f64, PlaceError>,
    ) -> Result<Brief, PlaceError> {
        let none = || PlaceError::NoPrice { kind, bytes };
        let tuned = TunedCollective::of(kind).ok_or_else(none)?;
        let (channels, places) = (self.model.channels(), Places::new(&self.model.nodes()));
        let own = self.model.choose(tuned, bytes).ok_or_else(none)?;
        let spec = SpaceSpec { passthrough: self.topology.in_network, ..SpaceSpec::default() };
        let space = ActionSpace::new(self.model.offer(), kind, spec);
        let mut brief = Brief {
            own: 0,
            nominal: Vec::with_capacity(space.len()),
            kernels: Vec::with_capacity(space.len()),
            channels: Vec::with_capacity(space.len()),
            counts: Vec::with_capacity(space.len()),
            space: space.clone(),
        };
        for action in space.actions() {
            let choice = self.choice(&action, tuned, bytes, &own);
            let counts = Counts::of(&channels, &places, tuned, &choice, bytes)
                .unwrap_or_else(|| self.switched(&choice, bytes));
            brief.nominal.push(price(&action, &choice)?);
            brief.kernels.push((choice.algorithm, choice.protocol));
            brief.channels.push(u32::try_from(choice.used_channels).unwrap_or(u32::MAX));
            brief.counts.push(counts);
        }
        brief.own = space.index(&Action::nccl(own.algorithm, own.protocol)).unwrap_or(0);
        Ok(brief)
    }

    fn choice(
        &self,
        action: &Action,
        tuned: TunedCollective,
        bytes: Bytes,
        own: &Choice,
    ) -> Choice {
        match (action.algorithm, action.protocol) {
            (Some(algorithm), Some(protocol)) => {
                let channels = action.channels.map(|it| it as usize);
                self.model.made_to(tuned, bytes, algorithm, protocol, channels)
            }
            _ => *own,
        }
    }

    /// The counts of calls whose copies and reductions switches do (NVLS), which `Counts` does not cover: each GPU sends its data to the
    /// switch once and gets it back; between servers the data goes up and down a tree.
    fn switched(&self, choice: &Choice, bytes: Bytes) -> Counts {
        let nodes = self.model.communicator().nodes.max(1);
        let depth = f64::from(nodes.next_power_of_two().ilog2());
        let size = bytes.get() as f64;
        let between = if nodes > 1 { 2.0 * size } else { 0.0 };
        let channels = choice.used_channels.max(1) as f64;
        Counts {
            protocol: choice.protocol,
            channels,
            hops_inside: 2.0,
            hops_between: 2.0 * depth,
            messages: 4.0 * depth * channels,
            bytes_inside: size,
            bytes_between: between,
            bytes_rank: size.max(between),
        }
    }

    /// The time of a call that the network's switches reduce: one call, two hops, and the data once.
    fn passed_through(&self, bytes: Bytes) -> f64 {
        let simple = Protocol::Simple.index();
        let data = bytes.get() as f64 / self.terms.between / 1e3;
        self.terms.call[simple] + 2.0 * self.terms.hop_between[simple] + data
    }
}

impl Brief {
    /// Writes the time of each action under a load, in µs, into `times`. `response` is the exponent of the slowdown, by algorithm and
    /// protocol.
    pub fn times(
        &self,
        nominal: &NcclTerms,
        load: &Load,
        response: &PerKernel,
        times: &mut Vec<f64>,
    ) {
        times.clear();
        if *load == Load::NONE {
            times.extend_from_slice(&self.nominal);
            return;
        }
        let loaded = load.terms(nominal);
        let all = self.nominal.iter().zip(&self.counts).zip(&self.kernels);
        times.extend(all.map(|((time, counts), (algorithm, protocol))| {
            let slower = load.slowdown(nominal, &loaded, counts);
            time * libm::pow(slower, response[algorithm.index()][protocol.index()])
        }));
    }

    /// The hops, bytes and messages of a call with an action.
    #[must_use]
    pub fn counts(&self, action: usize) -> &Counts {
        &self.counts[action]
    }
}

/// NCCL's own cost terms for a communicator, limited to what the network's links can do.
fn effective(network: &Network, model: &NcclModel) -> NcclTerms {
    let mut terms = NcclTerms::believed(model);
    let is_fabric = |class: LinkClass| {
        use LinkClass::{Ethernet, InfiniBand, Optical, Roce, Wan};
        matches!(class, InfiniBand | Roce | Ethernet | Optical | Wan)
    };
    let location = |id| &network.node(id).location;
    // What leaves each server, rack and datacenter over the fabric.
    let mut leaving: BTreeMap<(u8, &str), f64> = BTreeMap::new();
    let mut latency: BTreeMap<motet_net::Tier, f64> = BTreeMap::new();
    for (id, link) in network.link_ids().zip(network.links()) {
        if !is_fabric(link.spec.class) {
            continue;
        }
        let (from, to) = (location(link.from), location(link.to));
        let gbytes = link.spec.bandwidth.bits_per_s() as f64 / 8e9;
        let levels =
            [(0, &from.server, &to.server), (1, &from.rack, &to.rack), (2, &from.dc, &to.dc)];
        for (level, from, to) in levels {
            if let Some(name) = from
                && to.as_ref() != Some(name)
            {
                *leaving.entry((level, name.as_str())).or_default() += gbytes;
            }
        }
        let slot = latency.entry(network.tier(id)).or_default();
        *slot = slot.max(link.spec.latency.as_us_f64());
    }
    let least = leaving.values().copied().fold(f64::INFINITY, f64::min);
    if least.is_finite() && least > 0.0 {
        terms.between = terms.between.min(least);
    }
    // Up and down through each tier of the fabric; a WAN is crossed once.
    let route: f64 =
        latency.iter().map(|(tier, us)| if tier.get() == 4 { *us } else { 2.0 * us }).sum();
    terms.hop_between = terms.hop_between.map(|it| it.max(route));
    terms
}
