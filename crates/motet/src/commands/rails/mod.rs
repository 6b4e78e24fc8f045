//! `motet rails`: optical rails, one file per command.

pub(super) mod cost;
pub(super) mod scale;

use motet_rails::scale::Wiring;

use crate::args::rails::WiringArgs;

const fn wiring(args: &WiringArgs) -> Wiring {
    Wiring { ports: args.ports, bidirectional: !args.fibre_pairs, planes: args.planes }
}
