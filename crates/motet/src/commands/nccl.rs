//! NCCL on a network of the command line, for the commands that model it.

use motet_nccl::{NcclModel, NcclOptions, NcclVersion};
use motet_net::Network;
use motet_net::formats::nccl_xml::GraphDump;

use crate::args::bench::Nccl;
use crate::args::read::ReadArgs;
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

/// NCCL on a network of the command line.
pub(super) fn model(
    cluster: &str,
    read: &ReadArgs,
    version: Nccl,
    printer: &Printer,
) -> Result<(Network, NcclModel), Failure> {
    model_of(cluster, read, self::version(version), printer)
}

/// The version of the command line.
pub(super) const fn version(version: Nccl) -> NcclVersion {
    match version {
        Nccl::V2_28 => NcclVersion::V2_28,
        Nccl::V2_30 => NcclVersion::V2_30,
        Nccl::V2_32 => NcclVersion::V2_32,
    }
}

/// NCCL of this version.
pub(super) fn model_of(
    cluster: &str,
    read: &ReadArgs,
    version: NcclVersion,
    printer: &Printer,
) -> Result<(Network, NcclModel), Failure> {
    let found = files::network(cluster, &read.options(), printer)?;
    files::gpus(&found.network, cluster)?;
    let model = model_on(cluster, &found.network, found.graphs.as_ref(), version)?;
    Ok((found.network, model))
}

/// NCCL on a network, with graphs of its own or as the search finds them.
pub(super) fn model_on(
    cluster: &str,
    network: &Network,
    graphs: Option<&GraphDump>,
    version: NcclVersion,
) -> Result<NcclModel, Failure> {
    let options = NcclOptions { version, ..NcclOptions::default() };
    let model = match graphs {
        Some(graphs) => NcclModel::with_graphs(network, graphs, options),
        None => NcclModel::new(network, options),
    };
    model.map_err(|it| {
        Failure::wrong(format!("NCCL cannot be modelled on this network: {it}")).in_file(cluster)
    })
}
