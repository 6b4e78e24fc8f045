//! The network and the size that a program is exported for: as the user says, or as the program's
//! file does.

use motet_collective::Program;
use motet_net::Network;
use motet_net::formats::ReadOptions;
use motet_net::signature::Signature;
use motet_units::Bytes;

use crate::args::program::ExportArgs;
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

/// Where a program runs and how much it moves.
pub(super) struct Place {
    pub(super) network: Option<Network>,
    pub(super) size: Option<Bytes>,
    /// The size that the user or the program's maker asked for, which the file must be able to run.
    pub(super) asked: Option<Bytes>,
}

/// Finds both. A cluster that the user names must be readable; one that only the program's file names is used
/// if it can be read and is still the network that the program was made for.
pub(super) fn find(
    program: &Program,
    args: &ExportArgs,
    printer: &Printer,
) -> Result<Place, Failure> {
    let made_for = program.made_for();
    let asked = args.size.or_else(|| made_for.map(|it| it.size));
    let size = asked.or(program.hints().max_size);
    let read = |name: &str| files::network(name, &ReadOptions::default(), printer);
    let network = match (&args.cluster, made_for) {
        (Some(name), _) => Some(read(name)?.network),
        (None, Some(made_for)) if made_for.cluster != "-" => {
            let found = read(&made_for.cluster).ok().map(|it| it.network);
            // A file that has changed since is another network.
            let same =
                |it: &Network| program.network().is_none_or(|sign| sign == Signature::of(it));
            found.filter(same)
        }
        _ => None,
    };
    let ranks = program.collective().ranks() as usize;
    if let Some(network) = network.as_ref().filter(|it| it.ranks().len() < ranks) {
        let gpus = network.ranks().len();
        let problem = format!("has {gpus} GPUs, and the program {ranks} ranks");
        let name = args.cluster.as_deref().unwrap_or(network.name());
        return Err(Failure::wrong(problem)
            .in_file(name)
            .with_remedy("name the network that the program is for"));
    }
    Ok(Place { network, size, asked })
}
