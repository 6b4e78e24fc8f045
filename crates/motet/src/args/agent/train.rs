//! The arguments of `motet agent train`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    /// Write the policy here; its checkpoint, its curve and the curve's plot get the same name with
    /// `.training`, `.csv` and `.svg`
    #[arg(short, long, value_name = "POLICY")]
    pub(crate) out: String,
    /// How many updates to make
    #[arg(long, value_name = "UPDATES", default_value_t = 300)]
    pub(crate) budget: u64,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Go on from the checkpoint, which a run of the same options has left
    #[arg(long)]
    pub(crate) resume: bool,
    /// Write a checkpoint after so many updates
    #[arg(long, value_name = "UPDATES", default_value_t = 20)]
    pub(crate) every: u64,
    /// Leave a part of the policy or of its training out, to see what it is worth; several after commas
    #[arg(long, value_name = "PART", value_enum, value_delimiter = ',')]
    pub(crate) without: Vec<Part>,
    /// Imitate what the simulator knows to be best in so many of the first updates
    #[arg(long, value_name = "UPDATES", default_value_t = 0)]
    pub(crate) imitate: u64,
    /// Scenarios that an update learns from
    #[arg(long, default_value_t = 32)]
    pub(crate) lives: u64,
    /// Calls of each scenario
    #[arg(long, default_value_t = 400)]
    pub(crate) calls: u64,
    /// Scenarios of each stage that the policy is judged on every 20 updates, and of each held-out family at the
    /// end; 0 judges nothing and keeps the last policy
    #[arg(long, value_name = "SCENARIOS", default_value_t = 8)]
    pub(crate) judges: u64,
    /// How wide the encoder and the hidden state are
    #[arg(long, value_name = "WIDTH", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) hidden: u16,
}

/// What can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// The LSTM's state is reset before every call
    Recurrence,
    /// Nothing at all is carried from call to call
    Memory,
    /// No accounts of what kernels and actions took
    Ledger,
    /// One head for all roles
    Experts,
    /// The policy does not see the trigger's signals
    Trigger,
    /// The policy does not see nominal times
    Nominal,
    /// All stages from the beginning
    Curriculum,
    /// The actor learns from drawn actions alone, not from all actions' costs
    Costs,
}
