//! The arguments of `motet testbed`.

use clap::{Args, Subcommand};

use super::read::ReadArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum TestbedCommand {
    /// Make the testbed and leave it; its links change as the scenario says
    Up(UpArgs),
    /// Run a command on every rank's host, by default the scenario's collectives, and take down what was not up before
    Run(RunArgs),
    /// End all that runs in the testbed and take it down
    Down(DownArgs),
    /// The process that holds a testbed
    #[command(hide = true)]
    Keep(KeepArgs),
    /// The process that ends what runs in a testbed when its keeper is gone
    #[command(hide = true)]
    Guard(GuardArgs),
    /// Another program in a host of a testbed
    #[command(hide = true)]
    Enter(EnterArgs),
    /// One rank of `motet wan --live`
    #[command(hide = true)]
    Rank(RankArgs),
}

#[derive(Debug, Args)]
pub(crate) struct UpArgs {
    /// What to make: a scenario of `motet wan`, see docs/testbed.md
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    /// The seed, instead of what the scenario says
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) up: UpArgs,
    /// Only on the host of this rank
    #[arg(long, value_name = "RANK")]
    pub(crate) only: Option<u32>,
    /// Without a command: how many calls of each collective are timed
    #[arg(short, long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) iterations: u32,
    /// The command; it has MOTET_RANK, MOTET_RANKS, MOTET_STORE and MOTET_EXEC_TOKEN in its environment, and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torch
    /// wants them
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DownArgs {
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
}

#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    #[command(flatten)]
    pub(crate) up: UpArgs,
    #[arg(long)]
    pub(crate) folder: String,
    #[arg(long)]
    pub(crate) with_parent: bool,
    #[arg(long)]
    pub(crate) when_told: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnterArgs {
    #[arg(long)]
    pub(crate) keeper: u32,
    #[arg(long)]
    pub(crate) namespace: u32,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct GuardArgs {
    #[arg(long)]
    pub(crate) keeper: u32,
    #[arg(long)]
    pub(crate) namespace: Vec<i32>,
}

#[derive(Debug, Args)]
pub(crate) struct RankArgs {
    #[arg(long)]
    pub(crate) rank: u32,
    #[arg(long)]
    pub(crate) ranks: u32,
    #[arg(long)]
    pub(crate) store: String,
}
