//! Workloads of AICB, as SimAI and the ASTRA-sim before it read them: a text of one line per layer.
//!
//! ```text
//! HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 40 ga: 2 all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0
//! 1
//! mlp_layer  -1  923000  ALLGATHER  20971520  923000  REDUCESCATTER  20971520  923000  NONE  0  100
//! ```
//!
//! The first line has the policy and the layout, the second the number of lines that follow. A line has a name,
//! a number that is always -1, and three times (forward pass, gradients of inputs, gradients of weights) a time
//! in nanoseconds, a collective and its bytes; last a time that is not used here. Collectives of the first two
//! are among tensor-parallel ranks, of the third among data-parallel ones; an ending says otherwise: `_EP` among
//! experts' ranks, `_DP_EP` among data-parallel ranks with the same experts. Layers of all micro-batches are
//! listed. Sizes are whole arrays, as everywhere here. The format is in the sources of aliyun/aicb (23eec3c).

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_net::formats::ReadError;
use motet_units::{Bytes, Duration, Rank, brief};

use crate::demand::Demand;
use crate::layout::{Group, Layout, Parallelism};

/// What one rank computes and calls in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AicbWorkload {
    pub policy: String,
    /// Degrees of parallelism; 1 where the file does not say.
    pub tp: u32,
    pub ep: u32,
    pub pp: u32,
    /// Micro-batches.
    pub micro_batches: u32,
    /// GPUs of the job, where the file says so.
    pub gpus: Option<u32>,
    /// The bytes that a stage sends to the next one for a micro-batch.
    pub hop: Bytes,
    pub layers: Vec<Layer>,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    pub name: String,
    /// Forward, gradients of inputs, gradients of weights.
    pub passes: [Pass; 3],
}

/// One of a line's three parts: compute, and the collective after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub compute: Duration,
    pub call: Option<(Parallelism, CollectiveKind, Bytes)>,
}

impl AicbWorkload {
    /// How ranks are laid out, if the file says how many there are: tensor-parallel neighbours first.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        let others = self.tp.checked_mul(self.pp)?;
        let dp = self.gpus?.checked_div(others).filter(|it| *it > 0)?;
        let ep = Some(self.ep).filter(|it| dp.is_multiple_of(*it))?;
        Some(Layout { tp: self.tp, pp: self.pp, dp, ep, ..Layout::default() })
    }

    /// The calls of rank 0 in a step; `None` if the file does not say how many ranks there are.
    #[must_use]
    pub fn demands(&self) -> Option<Vec<Demand>> {
        let layout = self.layout()?;
        let mut all: BTreeMap<_, u64> = BTreeMap::new();
        for call in self.layers.iter().flat_map(|it| &it.passes).filter_map(|it| it.call) {
            *all.entry(call).or_default() += 1;
        }
        let demand = |((parallelism, kind, bytes), calls)| {
            let group = match parallelism {
                Parallelism::Tp => Group::Tensor,
                Parallelism::Ep => Group::Expert,
                _ => Group::Data,
            };
            let members = layout.members(group, Rank(0));
            Demand { parallelism: Some(parallelism), kind, bytes, members, calls }
        };
        Some(all.into_iter().map(demand).collect())
    }
}

/// Reads a workload.
pub fn read(text: &str) -> Result<AicbWorkload, ReadError> {
    let mut lines = text.lines().enumerate().filter(|(_, it)| !it.trim().is_empty());
    let remedy = "give a workload that AICB wrote for SimAI";
    let (at, head) =
        lines.next().ok_or_else(|| ReadError::new("the file is empty").with_remedy(remedy))?;
    let mut workload = head_line(head).map_err(|it| it.at_line(at + 1).with_remedy(remedy))?;
    let count = lines.next().and_then(|(_, it)| it.trim().parse::<usize>().ok());
    let count = count.ok_or_else(|| {
        ReadError::new("the second line is not the number of layers")
            .at_line(at + 2)
            .with_remedy(remedy)
    })?;
    for (at, line) in lines {
        let layer = layer(line).map_err(|it| it.at_line(at + 1))?;
        workload.layers.push(layer);
    }
    if workload.layers.len() != count {
        let problem =
            format!("{count} layers were announced and {} are there", workload.layers.len());
        return Err(ReadError::new(problem).at_line(at + 2).with_remedy("copy the file again"));
    }
    Ok(workload)
}

/// The policy, and pairs of a key with a colon and a value.
fn head_line(line: &str) -> Result<AicbWorkload, ReadError> {
    let mut words = line.split_whitespace();
    let policy = words.next().unwrap_or_default();
    if policy != "MICRO" && !policy.starts_with("HYBRID_TRANSFORMER") {
        return Err(ReadError::new(format!(
            "`{}` is not a policy of AICB's workloads",
            brief(policy)
        )));
    }
    let mut it = AicbWorkload {
        policy: policy.to_owned(),
        tp: 1,
        ep: 1,
        pp: 1,
        micro_batches: 1,
        gpus: None,
        hop: Bytes::ZERO,
        layers: Vec::new(),
    };
    while let Some(key) = words.next() {
        let value = words.next().unwrap_or_default();
        // Written by Python: a division leaves a `.0`.
        let number = value.strip_suffix(".0").unwrap_or(value).parse::<u64>();
        let problem =
            || ReadError::new(format!("`{}` is not a number of `{}`", brief(value), brief(key)));
        let number = number.map_err(|_| problem())?;
        let small = || u32::try_from(number).map_err(|_| problem());
        match key.trim_end_matches(':') {
            "model_parallel_NPU_group" => it.tp = small()?.max(1),
            "ep" | "expert_parallel_npu_group" => it.ep = small()?.max(1),
            "pp" => it.pp = small()?.max(1),
            "ga" => it.micro_batches = small()?.max(1),
            "all_gpus" => it.gpus = Some(small()?),
            "pp_comm" => it.hop = Bytes::new(number),
            // Virtual stages, checkpoints: nothing that is asked here.
            _ => {}
        }
    }
    Ok(it)
}

fn layer(line: &str) -> Result<Layer, ReadError> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let [name, _, rest @ .., _] = fields.as_slice() else {
        return Err(ReadError::new("a layer has 12 fields"));
    };
    if rest.len() != 9 {
        let problem = format!("a layer has 12 fields, and this has {}", fields.len());
        return Err(ReadError::new(problem).with_remedy("copy the file again"));
    }
    let pass = |place: usize, usual| -> Result<Pass, ReadError> {
        let [time, what, bytes] = [rest[3 * place], rest[3 * place + 1], rest[3 * place + 2]];
        let number = |text: &str| {
            let number = text.parse::<u64>();
            number.map_err(|_| ReadError::new(format!("`{}` is not a number", brief(text))))
        };
        let compute = Duration::from_ps(number(time)?.saturating_mul(1000));
        let bytes = Bytes::new(number(bytes)?);
        let call = call(what, usual)?.map(|(parallelism, kind)| (parallelism, kind, bytes));
        Ok(Pass { compute, call: call.filter(|_| bytes > Bytes::ZERO) })
    };
    let passes = [pass(0, Parallelism::Tp)?, pass(1, Parallelism::Tp)?, pass(2, Parallelism::Dp)?];
    Ok(Layer { name: (*name).to_owned(), passes })
}

/// A collective and whom it is among: `usual`, or what its ending says.
fn call(
    text: &str,
    usual: Parallelism,
) -> Result<Option<(Parallelism, CollectiveKind)>, ReadError> {
    if text == "NONE" {
        return Ok(None);
    }
    let (plain, parallelism) = if let Some(it) = text.strip_suffix("_DP_EP") {
        (it, Parallelism::Dp)
    } else if let Some(it) = text.strip_suffix("_EP") {
        (it, Parallelism::Ep)
    } else {
        (text, usual)
    };
    let kind = plain.parse().map_err(|_| {
        ReadError::new(format!("`{}` is no known collective", brief(text)))
            .with_remedy("use NONE, ALLREDUCE, ALLGATHER, REDUCESCATTER, ALLTOALL or BROADCAST, with _EP or _DP_EP")
    })?;
    Ok(Some((parallelism, kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use CollectiveKind::{AllGather, AllReduce, AllToAll, ReduceScatter};

    const SAMPLE: &str = include_str!("../../../../fuzz/corpus/workload_aicb/two-layers.txt");

    #[test]
    fn reads_layout_and_calls() {
        let it = read(SAMPLE).unwrap();
        assert_eq!((it.tp, it.ep, it.pp, it.micro_batches, it.gpus), (8, 2, 2, 4, Some(64)));
        assert_eq!(it.hop, Bytes::new(5_242_880));
        let calls = it.layers.iter().flat_map(|it| &it.passes).filter_map(|it| it.call);
        let expected = [
            (Parallelism::Dp, ReduceScatter, Bytes::new(6_497_239_040)),
            (Parallelism::Tp, AllGather, Bytes::new(20_971_520)),
            (Parallelism::Tp, AllReduce, Bytes::new(20_971_520)),
            (Parallelism::Ep, AllToAll, Bytes::new(4096)),
            (Parallelism::Dp, AllGather, Bytes::new(512)),
        ];
        assert_eq!(calls.collect::<Vec<_>>(), expected);
        assert_eq!(it.layers[1].passes[0].compute, Duration::from_us(375));
        // Four replicas of two stages of eight: rank 0 sums gradients with every eighth rank of its stage.
        let demands = it.demands().unwrap();
        let data = demands.iter().find(|it| it.kind == ReduceScatter).unwrap();
        assert_eq!(data.members, [0, 8, 16, 24].map(Rank));
        assert_eq!(read(&SAMPLE.replace("all_gpus: 64", "")).unwrap().demands(), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let error = |from: &str, to: &str| {
            let it = read(&SAMPLE.replacen(from, to, 1)).unwrap_err();
            (it.at.map(|it| it.line), it.problem)
        };
        let line = |it: usize, text: &str| (Some(it), text.to_owned());
        assert_eq!(error("\n3\n", "\n4\n"), line(2, "4 layers were announced and 3 are there"));
        assert_eq!(error("ALLTOALL_EP", "SHUFFLE"), line(5, "`SHUFFLE` is no known collective"));
        assert_eq!(error("375000", "soon"), line(4, "`soon` is not a number"));
        assert_eq!(error("\t100\n", "\n"), line(3, "a layer has 12 fields, and this has 11"));
        assert_eq!(error("HYBRID", "PURE").0, Some(1));
        assert!(read("").is_err());
    }
}
