//! [`NcclSamples`]: measured NCCL calls with their hops, messages and bytes counted on the network that they were
//! measured on, in an order that does not depend on that of the files.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_nccl::fitted::counts::Places;
use motet_nccl::fitted::{Counts, Sample};
use motet_nccl::{
    Algorithm, Channels, NcclModel, NcclTerms, NcclVersion, Protocol, TunedCollective,
};
use motet_units::Bytes;

use super::call::{NcclCall, Version};

/// How many calls the fit leaves out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unfit {
    /// No network has their number of ranks and nodes.
    pub no_network: u64,
    /// They do not say what was run because NCCL chose by itself, while other calls do.
    pub own_choice: u64,
    /// They are of a collective without algorithms, or of one that is not counted (NVLS, CollNet).
    pub not_counted: u64,
}

/// One call.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclSample {
    pub kind: CollectiveKind,
    pub ranks: usize,
    pub size: Bytes,
    pub algorithm: Algorithm,
    pub protocol: Protocol,
    /// The channels that were asked for or logged; `None`: NCCL's own count.
    pub channels: Option<u32>,
    /// The time that NCCL's own model expects, in µs, if it allows the call.
    pub believed: Option<f64>,
    pub sample: Sample,
}

/// Calls, ready to be fitted.
#[derive(Clone, Debug)]
pub struct NcclSamples {
    pub list: Vec<NcclSample>,
    /// Calls that do not say what was run, and are taken to have run what the model says NCCL chooses.
    pub assumed: u64,
    pub unfit: Unfit,
    /// NCCL's own constants in these terms, where the fit begins.
    pub start: NcclTerms,
}

/// A model, and its rings and trees, by which calls are counted.
struct Machine<'a> {
    model: &'a NcclModel,
    channels: Channels,
    places: Places,
}

impl NcclSamples {
    /// Counts calls on the models of their number of ranks and nodes and of their version of NCCL, or of `usual` where they do
    /// not say. Calls that NCCL chose for itself count only where no call says what was run: the
    /// model's choice stands in for them then. `None` if there is no model.
    #[must_use]
    pub fn new(calls: &[NcclCall], models: &[NcclModel], usual: NcclVersion) -> Option<Self> {
        let start = NcclTerms::believed(models.first()?);
        let machines: Vec<Machine<'_>> = models
            .iter()
            .map(|model| Machine {
                model,
                channels: model.channels(),
                places: Places::new(&model.nodes()),
            })
            .collect();
        let known = calls.iter().any(|it| it.algorithm.is_some());
        let mut all = Self { list: Vec::new(), assumed: 0, unfit: Unfit::default(), start };
        let mut by_model: BTreeMap<usize, u64> = BTreeMap::new();
        for call in calls {
            let fits = |it: &Machine<'_>| is_of(it.model, call, usual);
            let Some(place) = machines.iter().position(fits) else {
                all.unfit.no_network += 1;
                continue;
            };
            if known && call.algorithm.is_none() {
                all.unfit.own_choice += 1;
            } else if let Some(sample) = machines[place].sample(call) {
                all.assumed += u64::from(call.algorithm.is_none());
                *by_model.entry(place).or_default() += 1;
                all.list.push(sample);
            } else {
                all.unfit.not_counted += 1;
            }
        }
        // The fit begins at NCCL's constants for the communicator that most calls are of.
        let most = by_model.iter().max_by_key(|it| (it.1, std::cmp::Reverse(it.0)));
        if let Some((place, _)) = most {
            all.start = NcclTerms::believed(machines[*place].model);
        }
        all.list.sort_by(|a, b| {
            let key = |it: &NcclSample| {
                (it.ranks, it.kind, it.algorithm, it.protocol, it.channels, it.size)
            };
            key(a).cmp(&key(b)).then(a.sample.micros.total_cmp(&b.sample.micros))
        });
        Some(all)
    }

    /// What the fit takes.
    #[must_use]
    pub fn samples(&self) -> Vec<Sample> {
        self.list.iter().map(|it| it.sample).collect()
    }
}

fn is_of(model: &NcclModel, call: &NcclCall, usual: NcclVersion) -> bool {
    let comm = model.communicator();
    let version = call.nccl.map_or(usual, Version::model);
    let same = |said: Option<u32>, has: usize| said.is_none_or(|it| it as usize == has);
    model.options().version == version
        && same(call.ranks, comm.ranks)
        && same(call.nodes, comm.nodes)
}

impl Machine<'_> {
    fn sample(&self, call: &NcclCall) -> Option<NcclSample> {
        let tuned = TunedCollective::of(call.collective)?;
        if call.size.is_zero() {
            return None;
        }
        let (algorithm, protocol) = match (call.algorithm, call.protocol) {
            (Some(algorithm), Some(protocol)) => (algorithm, protocol),
            (None, None) => {
                let own = self.model.choose(tuned, call.size)?;
                (own.algorithm, own.protocol)
            }
            _ => return None,
        };
        let channels = call.channels.map(|it| it as usize);
        let mut choice = self.model.made_to(tuned, call.size, algorithm, protocol, channels);
        if let Some(chunk) = call.chunk.filter(|it| !it.is_zero()) {
            choice.chunk = chunk;
        }
        let counts = Counts::of(&self.channels, &self.places, tuned, &choice, call.size)?;
        Some(NcclSample {
            kind: call.collective,
            ranks: self.model.communicator().ranks,
            size: call.size,
            algorithm,
            protocol,
            channels: call.channels,
            believed: self.model.time(tuned, call.size, algorithm, protocol),
            sample: Sample { counts, micros: call.micros },
        })
    }
}
