//! Figures 8 and 9: training throughput of three models, through a simple [`Iteration`].

use std::collections::BTreeSet;

use motet_collective::CollectiveKind;
use motet_tune::clusters::{A100, Cluster, V100};
use motet_tune::plan::{Pick, TunedTask};
use motet_units::Bytes;

use super::super::claims::{Claim, Span};
use super::super::report::Report;
use super::iteration::{Iteration, Model};
use super::setting::{ASSUMED, Planned};
use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::plot::{Line, Plot};
use crate::printer::Printer;
use crate::table::{Table, Values};

/// Tokens of a GPU and step are those of the published training commands of each model.
const MODELS: [Model; 3] = [
    Model { name: "Transformer-LM-247M", parameters: 247_000_000, tokens: 3072, published: 2.17 },
    Model { name: "RoBERTa-125M", parameters: 125_000_000, tokens: 16 * 512, published: 1.23 },
    Model { name: "Fusion-270M", parameters: 270_000_000, tokens: 1500, published: 1.94 },
];

/// Clusters, with the dense fp16 operations per second of a GPU as its maker states them.
const SETS: [(&[Cluster], f64); 2] = [(&V100, 125e12), (&A100, 312e12)];

/// The part of them that training reaches.
const EFFICIENCY: f64 = 0.4;

/// Figure 9.
const PUBLISHED: Span = Span::new(1.22, 2.52);

const KIND: CollectiveKind = CollectiveKind::AllReduce;

/// A model on a cluster.
struct Row {
    model: &'static Model,
    cluster: &'static str,
    gpus: usize,
    plan: Iteration,
    msccl: Iteration,
    nccl: Option<Iteration>,
}

/// How a step is put together.
type StepModel = (&'static str, fn(&Iteration) -> f64);

const WAYS: [StepModel; 2] = [("overlapped", Iteration::overlapped), ("apart", Iteration::apart)];

impl Row {
    /// How many times the throughput with MSCCL.
    fn gain(&self, way: StepModel) -> f64 {
        way.1(&self.msccl) / way.1(&self.plan)
    }

    fn over_nccl(&self, way: StepModel) -> f64 {
        self.nccl.as_ref().map_or(f64::NAN, |it| way.1(it) / way.1(&self.plan))
    }
}

pub(in crate::commands::reproduce) fn training(
    args: &ReproduceArgs,
    printer: &mut Printer,
) -> Result<Status, Failure> {
    let sizes: BTreeSet<Bytes> = MODELS.iter().flat_map(Model::buckets).collect();
    let sizes: Vec<Bytes> = sizes.into_iter().collect();
    let mut rows = Vec::new();
    for (clusters, flops) in SETS {
        for cluster in clusters {
            let planned = Planned::new(cluster, &[KIND], &sizes, args, printer)?;
            rows.extend(MODELS.iter().filter_map(|it| row(&planned, it, flops * EFFICIENCY)));
        }
    }
    Report {
        name: "tuccl-fig8",
        title: "figures 8 and 9: training throughput over MSCCL's, by a simple model of a step",
        table: table(&rows),
        claims: claims(&rows),
        usual: &ASSUMED,
        assumed: assumed(),
        plots: WAYS.map(|way| (way.0.to_owned(), plot(&rows, way))).to_vec(),
    }
    .finish(args, printer)
}

fn assumed() -> Vec<String> {
    let tokens: Vec<String> =
        MODELS.iter().map(|it| format!("{} {}", it.name, it.tokens)).collect();
    vec![
        format!(
            "a step computes 6 x parameters x tokens operations, a third of them forward, at {:.0} % of \
             125 TFLOP/s (V100) or 312 TFLOP/s (A100); tokens of a GPU and step, by the training \
             commands published with each model in fairseq: {}; gradients are reduced in every step",
            EFFICIENCY * 100.0,
            tokens.join(", ")
        ),
        "gradients are fp16, all parameters have one, and they are reduced in DDP's buckets of 25 MiB; \
         its smaller first bucket is left out"
            .to_owned(),
        "overlapped: gradients get ready evenly over the backward pass, and buckets are reduced one \
         after the other as they fill; apart: all of them after the backward pass"
            .to_owned(),
        "the paper explains its gains by less contention for SMs between communication and compute; \
         that is not modelled: compute takes as long with any setting. Input, optimizer and launch \
         times are left out"
            .to_owned(),
        "the paper does not say on which clusters, with which batch or in which precision it trained; \
         nothing was chosen to match"
            .to_owned(),
    ]
}

fn row(planned: &Planned, model: &'static Model, flops: f64) -> Option<Row> {
    let step = |of: fn(&TunedTask) -> Option<&Pick>| {
        let seconds = |size: Bytes| {
            let pick = of(planned.task(KIND, size)?)?;
            Some((size, pick.time().as_us_f64() / 1e6))
        };
        let buckets: Option<Vec<_>> = model.buckets().into_iter().map(seconds).collect();
        Some(Iteration { compute: model.compute(flops), buckets: buckets? })
    };
    Some(Row {
        model,
        cluster: planned.name,
        gpus: planned.network.ranks().len(),
        plan: step(|it| it.program.as_ref())?,
        msccl: step(|it| it.msccl.as_ref())?,
        nccl: step(|it| it.nccl.as_ref()),
    })
}

fn claims(rows: &[Row]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for way in WAYS {
        for model in &MODELS {
            let ours: Vec<&Row> = rows.iter().filter(|it| it.model.name == model.name).collect();
            let statement = format!("{}, {}, over clusters", model.name, way.0);
            let span = Span::of(ours.iter().map(|it| it.gain(way)));
            claims.push(
                Claim::among(&statement, span, model.published, "x").detail(|| parts(&ours, way)),
            );
        }
    }
    for way in WAYS {
        let all: Vec<&Row> = rows.iter().collect();
        let statement = format!("figure 9, all models, {}", way.0);
        let span = Span::of(all.iter().map(|it| it.gain(way)));
        claims.push(Claim::within(&statement, span, PUBLISHED, "x").detail(|| parts(&all, way)));
    }
    claims
}

/// What decides how much a step gains: how much of it communication adds to compute, and how much
/// faster the communication by itself is.
fn parts(rows: &[&Row], way: StepModel) -> Option<String> {
    let seen = |it: &Row| (1.0 - it.msccl.compute / way.1(&it.msccl)) * 100.0;
    let seen = Span::of(rows.iter().map(|it| seen(it)))?;
    let gain = |it: &Row| it.msccl.communication() / it.plan.communication();
    let gain = Span::of(rows.iter().map(|it| gain(it)))?;
    Some(format!(
        "with MSCCL {:.0} to {:.0} % of a step is communication that compute does not hide, and \
         communication by itself is {:.2} to {:.2} times as fast under the plan",
        seen.low, seen.high, gain.low, gain.high
    ))
}

fn table(rows: &[Row]) -> Table {
    let words = |of: &dyn Fn(&Row) -> &str| {
        Values::Words(rows.iter().map(|it| of(it).to_owned()).collect())
    };
    let number =
        |of: &dyn Fn(&Row) -> f64, digits| Values::Number(rows.iter().map(of).collect(), digits);
    let ms = 1e3;
    let [overlapped, apart] = WAYS;
    let tokens = |it: &Row| it.gpus as f64 * it.model.tokens as f64 / overlapped.1(&it.plan) / 1e3;
    Table::new()
        .with("model", words(&|it| it.model.name))
        .with("cluster", words(&|it| it.cluster))
        .with("compute_ms", number(&|it| it.plan.compute * ms, 1))
        .with("plan_comm_ms", number(&|it| it.plan.communication() * ms, 1))
        .with("msccl_comm_ms", number(&|it| it.msccl.communication() * ms, 1))
        .with("plan_ktokens_per_s", number(&tokens, 1))
        .with("overlapped_over_msccl", number(&|it| it.gain(overlapped), 2))
        .with("apart_over_msccl", number(&|it| it.gain(apart), 2))
        .with("overlapped_over_nccl", number(&|it| it.over_nccl(overlapped), 2))
        .with("apart_over_nccl", number(&|it| it.over_nccl(apart), 2))
}

fn plot(rows: &[Row], way: StepModel) -> Plot {
    let line = |model: &Model| Line {
        name: model.name.to_owned(),
        points: rows
            .iter()
            .filter(|it| it.model.name == model.name)
            .enumerate()
            .map(|(number, it)| (number as f64 + 1.0, it.gain(way)))
            .collect(),
    };
    Plot {
        title: format!("training throughput over MSCCL's, {}", way.0),
        x: "cluster: 1 to 3 V100, 4 to 7 A100".to_owned(),
        y: "times as fast".to_owned(),
        log_x: false,
        lines: MODELS.iter().map(line).collect(),
    }
}
