//! `motet rails`: optical rails, whose circuits change between the phases of a training step.
//!
//! `machine` is what GPUs are connected by, as asked; each command has its file.

pub(crate) mod circuits;
pub(crate) mod cost;
mod knobs;
mod machine;
pub(crate) mod scale;
pub(crate) mod sim;
pub(crate) mod windows;

use motet_rails::RailsError;
use motet_rails::scale::Wiring;

use crate::args::rails::WiringArgs;
use crate::failure::Failure;

/// Why a step cannot be run on rails: what is refused, with the nearest choices as a hint.
pub(crate) fn failure(error: RailsError) -> Failure {
    match error {
        RailsError::Refused(it) => {
            let problems: Vec<&str> = it.0.iter().map(|it| it.problem.as_str()).collect();
            let nearest: Vec<&str> = it.0.iter().map(|it| it.nearest.as_str()).collect();
            Failure::wrong(problems.join("; ")).with_remedy(nearest.join("; "))
        }
        other => Failure::wrong(other.to_string()),
    }
}

const fn wiring(args: &WiringArgs) -> Wiring {
    Wiring { ports: args.ports, bidirectional: !args.fibre_pairs, planes: args.planes }
}
