//! The arguments of `motet exec`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, FromArgMatches as _, Subcommand, ValueEnum};
use motet_collective::CollectiveKind;
use motet_exec::{Element, ExecError, Reduction, Tls, TlsFiles};
use motet_synth::Method;
use motet_units::Bytes;

use super::sizes::SizesArgs;
use super::synth::method;
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum ExecCommand {
    /// One rank: joins the others, runs the program, checks every element and prints its times
    Run(Box<RunArgs>),
    /// All ranks on this machine: starts them and prints a table like nccl-tests'
    Bench(Box<BenchArgs>),
    /// A place for ranks to meet that outlives them; otherwise rank 0 serves it
    Store(StoreArgs),
}

/// What is run, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhatArgs {
    /// A program in any format that `motet verify` reads; without one, `motet synth`'s for the collective
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "collective",
        conflicts_with = "collective"
    )]
    pub(crate) program: Option<String>,
    /// allgather, reducescatter, allreduce, broadcast, reduce, gather, scatter, alltoall or sendrecv
    #[arg(short, long)]
    pub(crate) collective: Option<CollectiveKind>,
    /// The network that the program is made for, and its time predicted on; without one, each rank
    /// joined to every other
    #[arg(long, value_name = "CLUSTER")]
    pub(crate) cluster: Option<String>,
    /// How to make the program; `motet synth --list` shows the methods
    #[arg(short, long, default_value = "auto", value_parser = method)]
    pub(crate) method: Method,
    /// The size in nccl-tests' sense; several, separated by commas
    #[arg(short, long, required_unless_present = "min", value_delimiter = ',')]
    pub(crate) size: Vec<Bytes>,
    #[command(flatten)]
    pub(crate) range: SizesArgs,
    /// The root of a broadcast, reduce, gather or scatter
    #[arg(long, default_value_t = 0)]
    pub(crate) root: u32,
    /// f32, bf16, f16, f64, i8, u8, i32, u32, i64 or u64
    #[arg(short = 't', long = "type", value_name = "TYPE", default_value = "f32")]
    pub(crate) element: Element,
    /// sum, product, min, max or average
    #[arg(long, default_value = "sum")]
    pub(crate) reduction: Reduction,
    /// Calls that are timed
    #[arg(short, long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// Calls before them, which are not
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) warm_up: u32,
    /// Of the random data, and of synthesis
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// TCP connections for data between two ranks; without it one, and six at a time to ranks that take 2 ms or more to reach
    #[arg(long, value_name = "COUNT", help_heading = "Transport", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) streams: Option<u32>,
    /// TCP between ranks of one host too
    #[arg(long, help_heading = "Transport")]
    pub(crate) no_shared_memory: bool,
    /// A checksum for all data
    #[arg(long, help_heading = "Transport")]
    pub(crate) checksums: bool,
    /// How much of a chunk goes at a time
    #[arg(long, value_name = "SIZE", default_value = "512 KiB", help_heading = "Transport")]
    pub(crate) slice: Bytes,
    /// What all ranks and the store must know; needed outside loopback [default: MOTET_EXEC_TOKEN]
    #[arg(long, value_name = "TEXT", help_heading = "Transport")]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// A rank that says nothing for so long is gone
    #[arg(long, value_name = "SECONDS", default_value_t = 10, help_heading = "Limits", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) silence: u64,
    /// The longest that a call may take
    #[arg(long, value_name = "SECONDS", default_value_t = 300, help_heading = "Limits", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) deadline: u64,
    /// How long all ranks may take to come
    #[arg(long, value_name = "SECONDS", default_value_t = 60, help_heading = "Limits", value_parser = clap::value_parser!(u64).range(1..=86400))]
    pub(crate) wait: u64,
}

impl WhatArgs {
    /// As if only these words were given.
    pub(crate) fn of(words: &[String]) -> Result<Self, clap::Error> {
        let command = Self::augment_args(clap::Command::new("exec").no_binary_name(true));
        Self::from_arg_matches(&command.try_get_matches_from(words)?)
    }

    /// All sizes that are asked for.
    pub(crate) fn sizes(&self) -> Result<Vec<Bytes>, Failure> {
        self.range.or(&self.size)
    }

    /// The token that was given, or that the environment has; none is empty.
    pub(crate) fn token(&self) -> String {
        token(self.token.as_deref())
    }
}

fn token(given: Option<&str>) -> String {
    match given {
        Some(given) => given.to_owned(),
        None => std::env::var("MOTET_EXEC_TOKEN").unwrap_or_default(),
    }
}

/// TLS on all connections: three files, on all ranks and the store, or on none.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct TlsArgs {
    /// The certificate to show, in PEM, with those between it and the CA; all connections are then encrypted, and both sides show one [default: MOTET_EXEC_TLS_CERTIFICATE]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// Its key [default: MOTET_EXEC_TLS_KEY]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Who signed the certificates of the group [default: MOTET_EXEC_TLS_CA]
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub(crate) tls_ca: Option<PathBuf>,
    /// The DNS name that all of them are for [default: MOTET_EXEC_TLS_NAME, or motet]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    pub(crate) tls_name: Option<String>,
}

impl TlsArgs {
    /// What was given or what the environment has.
    pub(crate) fn files(&self) -> TlsFiles {
        let files = TlsFiles {
            certificate: self.tls_certificate.clone(),
            key: self.tls_key.clone(),
            ca: self.tls_ca.clone(),
            name: self.tls_name.clone(),
        };
        files.or(|it| std::env::var(it).ok())
    }

    pub(crate) fn load(&self) -> Result<Option<Tls>, ExecError> {
        self.files().load()
    }
}

/// What to do when a rank is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnLoss {
    /// End with an error
    Error,
    /// Go on with the ranks that are left and reach one another, and a new program for them: more than half, or half and rank 0
    Shrink,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) what: WhatArgs,
    /// This rank's number, from 0
    #[arg(long)]
    pub(crate) rank: u32,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: u32,
    /// Where ranks meet: rank 0 serves it, unless `--store-apart`
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) store: String,
    /// The store is a `motet exec store`
    #[arg(long)]
    pub(crate) store_apart: bool,
    /// Groups with different names do not meet
    #[arg(long, default_value = "motet")]
    pub(crate) group: String,
    /// The address to listen on; by default the one from which the store is reached
    #[arg(long, value_name = "ADDRESS", help_heading = "Transport")]
    pub(crate) bind: Option<IpAddr>,
    /// The port to listen on, 0 for any
    #[arg(long, default_value_t = 0, help_heading = "Transport")]
    pub(crate) port: u16,
    /// Where others reach this rank, if that is not where it listens
    #[arg(long, value_name = "HOST:PORT", help_heading = "Transport")]
    pub(crate) advertise: Option<String>,
    #[arg(long, value_name = "WHAT", default_value = "error", help_heading = "Limits")]
    pub(crate) on_loss: OnLoss,
    /// With `--on-loss shrink`: go on with half or fewer, too. If the network is cut in two, both parts may then go on, each with a store; on all ranks
    #[arg(long, help_heading = "Limits")]
    pub(crate) minority: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    pub(crate) what: WhatArgs,
    /// How many ranks; by default as many as the program or the cluster has
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) ranks: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Where to listen: an address of this host and a port, 0 for any
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: SocketAddr,
    /// What all ranks must know; needed outside loopback [default: MOTET_EXEC_TOKEN]
    #[arg(long, value_name = "TEXT")]
    pub(crate) token: Option<String>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
}

impl StoreArgs {
    pub(crate) fn token(&self) -> String {
        token(self.token.as_deref())
    }
}
