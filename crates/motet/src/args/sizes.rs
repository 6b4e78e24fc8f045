//! Many sizes in few words, as nccl-tests takes them: from `-b` to `-e`, each `-f` times the one before.

use clap::Args;
use motet_units::Bytes;

use crate::failure::Failure;

/// For commands that take one or more sizes with `--size`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Many at once")]
pub(crate) struct SizesArgs {
    /// The least of many sizes, in place of `--size`
    #[arg(short = 'b', long, value_name = "SIZE", requires = "max", conflicts_with = "size")]
    min: Option<Bytes>,
    /// The greatest of them
    #[arg(short = 'e', long, value_name = "SIZE", requires = "min")]
    max: Option<Bytes>,
    /// From one of them to the next
    #[arg(short = 'f', long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    factor: u64,
}

impl SizesArgs {
    /// All sizes that are asked for: from `-b` to `-e`, or else those of `--size`.
    pub(crate) fn or(&self, given: &[Bytes]) -> Result<Vec<Bytes>, Failure> {
        match (self.min, self.max) {
            (Some(min), Some(max)) => sizes(min, max, self.factor),
            _ => Ok(given.to_vec()),
        }
    }
}

/// All sizes from `min` to `max`, each `factor` times the one before.
pub(crate) fn sizes(min: Bytes, max: Bytes, factor: u64) -> Result<Vec<Bytes>, Failure> {
    if max < min {
        return Err(Failure::unreadable(format!("{min} to {max} are no sizes"))
            .with_remedy("give `--max` at least what `--min` is"));
    }
    // Zero times anything is zero: nccl-tests would go on for ever.
    let next = |it: &Bytes| it.checked_mul(factor).filter(|next| *next <= max && next > it);
    Ok(std::iter::successors(Some(min), next).collect())
}
