//! `motet agent`: a policy for every collective call, trained (`train`) and judged in scenarios (`eval`), shown (`show`), and
//! made tables of (`export`).

pub(crate) mod eval;
pub(crate) mod export;
mod grid;
mod pictures;
pub(crate) mod show;
pub(crate) mod train;

use motet_agent::lstm::{PolicyError, PolicyFile};

use crate::failure::Failure;
use crate::files;

/// Why a policy or a checkpoint was refused.
fn refused(name: &str, error: &PolicyError) -> Failure {
    let problem = format!("line {}: {}: {}", error.line, error.kind, error.problem);
    Failure::unreadable(problem).in_file(name).with_remedy(error.kind.remedy())
}

/// The policy of a file.
pub(crate) fn read_policy(name: &str) -> Result<PolicyFile, Failure> {
    PolicyFile::read(&files::read(name)?).map_err(|it| refused(name, &it))
}
