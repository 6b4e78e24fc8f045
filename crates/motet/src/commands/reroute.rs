//! Programs that were made for another network than the one they are given.
//!
//! A program may say over which links each transfer goes, and in which order links carry transfers. Both name
//! links of one network. On another network such a program is refused; without its routes it can run anywhere
//! that has enough GPUs.

use motet_collective::{Program, TransferId};
use motet_net::Network;
use motet_net::signature::Signature;

/// The program without routes and without an order on links, as runtimes' files are.
pub(super) fn without_routes(program: &Program) -> Program {
    let mut builder = program.to_builder();
    for index in 0..program.transfers().len() {
        builder.transfer_mut(TransferId::from_index(index)).path = None;
    }
    builder.set_turns(Vec::new());
    // Only paths and turns name links of one network: without them the program is for any, and the verifier would
    // refuse it elsewhere for as long as it says whose they were.
    builder.set_network(None);
    builder.build()
}

/// What to do with a program that is for another network; `None` if it may be for this one.
pub(super) fn remedy(program: &Program, network: &Network) -> Option<String> {
    let collective = program.collective();
    let (ranks, gpus) = (collective.ranks() as usize, network.ranks().len());
    let made_on = match program.made_for() {
        Some(made_for) => format!("for `{}`", made_for.cluster),
        None => "for another network".to_owned(),
    };
    if ranks > gpus {
        return Some(format!(
            "the program was made {made_on}: it has {ranks} ranks, and this network {gpus} GPUs; name the \
             network that it is for, or make one: `motet synth CLUSTER --collective {}`",
            collective.kind()
        ));
    }
    // An order on links names links as routes do, and then the program says whose they are.
    let has_routes =
        program.network().is_some() || program.transfers().iter().any(|it| it.path.is_some());
    let is_other = program.network().is_none_or(|it| it != Signature::of(network));
    (has_routes && is_other).then(|| {
        format!(
            "the program's routes were made {made_on}; `motet sim --reroute` leaves them out and runs it over \
             this network's own paths, `motet synth CLUSTER --collective {}` makes a program for this network",
            collective.kind()
        )
    })
}
