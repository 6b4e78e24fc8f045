//! The arguments of `motet synth`.

use clap::{Args, ValueEnum};
use motet_collective::CollectiveKind;
use motet_net::node::UnknownName;
use motet_synth::Method;
use motet_units::Bytes;

use super::CLUSTER;
use super::read::ReadArgs;
use super::what_if::WhatIfArgs;

#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    #[arg(value_name = "CLUSTER", required_unless_present = "list", help = CLUSTER)]
    pub(crate) cluster: Option<String>,
    /// allgather, reducescatter, allreduce, broadcast, reduce, gather, scatter, alltoall,
    /// alltoallv (with `--counts`) or sendrecv (every rank to the next)
    #[arg(short, long, required_unless_present = "list")]
    pub(crate) collective: Option<CollectiveKind>,
    /// The size in nccl-tests' sense: "1 GiB"
    #[arg(short, long, required_unless_present = "list")]
    pub(crate) size: Option<Bytes>,
    /// How to make it; `--list` shows them all
    #[arg(short, long, default_value = "auto", value_parser = method)]
    pub(crate) method: Method,
    /// List the methods
    #[arg(long)]
    pub(crate) list: bool,
    /// Write the program, in Motet's own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Only the first so many GPUs take part
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) ranks: Option<u32>,
    /// The root of a broadcast, reduce, gather or scatter
    #[arg(long, default_value_t = 0)]
    pub(crate) root: u32,
    /// What each rank has for each other: a row of numbers per sending rank
    #[arg(long, value_name = "FILE")]
    pub(crate) counts: Option<String>,
    /// Which links may be used: a sketch, Motet's or TACCL's (`motet net sketch` writes both)
    #[arg(long, value_name = "FILE")]
    pub(crate) sketch: Option<String>,
    /// Keep to what this runtime can load, and say what that costs
    #[arg(long = "for", value_name = "RUNTIME")]
    pub(crate) within: Option<RuntimeArg>,
    /// How hard to try: low, normal, high (every method to its end), or how many times as much work as
    /// normal; normal takes a few seconds for up to 64 ranks
    #[arg(long, value_name = "EFFORT", default_value = "normal", value_parser = effort)]
    pub(crate) effort: EffortArg,
    /// Stop after so many seconds with the best so far; the result then depends on the machine
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) budget: Option<f64>,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) what_if: WhatIfArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

/// How much work synthesis may do: so many times the normal amount, or any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct EffortArg(pub(crate) Option<f64>);

fn effort(text: &str) -> Result<EffortArg, String> {
    match text {
        "low" => Ok(EffortArg(Some(0.1))),
        "normal" => Ok(EffortArg(Some(1.0))),
        "high" => Ok(EffortArg(None)),
        _ => match text.parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(EffortArg(Some(times))),
            _ => Err("give low, normal, high, or a number above 0".to_owned()),
        },
    }
}

/// A runtime with limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RuntimeArg {
    Msccl,
    Mscclpp,
}

/// Every way of making a program: those of synthesis, and the exact search.
pub(crate) fn methods() -> impl Iterator<Item = Method> {
    Method::all().chain([Method::Recipe(&motet_exact::METHOD)])
}

pub(super) fn method(text: &str) -> Result<Method, String> {
    let unknown = || UnknownName::new("method", text, methods().map(Method::name)).to_string();
    methods().find(|it| it.name() == text).ok_or_else(unknown)
}

fn seconds(text: &str) -> Result<f64, String> {
    let value = text.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0);
    value.ok_or_else(|| format!("`{text}` is no number of seconds above zero"))
}
