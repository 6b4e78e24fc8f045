//! `motet net`: networks in and out.

pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod discover;
pub(crate) mod generate;
pub(crate) mod show;
pub(crate) mod sketch;

use motet_net::Network;
use motet_net::formats::wan::WanDefaults;
use motet_net::formats::{ReadOptions, cluster_toml, dot, graphml, svg};

use crate::args::{OutArgs, Picture, ReadArgs};
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

impl ReadArgs {
    pub(crate) fn options(&self) -> ReadOptions {
        let mut wan = WanDefaults::default();
        if let Some(bandwidth) = self.wan_bandwidth {
            wan.bandwidth = bandwidth;
        }
        ReadOptions { wan, chunk: self.taccl_chunk, nvlink: self.nvlink, pcie: self.pcie }
    }
}

/// Writes a network where and as asked.
fn write(network: &Network, out: &OutArgs, printer: &mut Printer) -> Result<(), Failure> {
    let output = out.output.as_deref().unwrap_or("-");
    let ending = output.rsplit_once('.').map(|(_, it)| it);
    let picture = out.to.unwrap_or(match ending {
        Some("graphml") => Picture::Graphml,
        Some("dot" | "gv") => Picture::Dot,
        Some("svg") => Picture::Svg,
        _ => Picture::Toml,
    });
    let text = match picture {
        Picture::Toml => cluster_toml::write(network),
        Picture::Graphml => graphml::write(network),
        Picture::Dot => dot::write(network),
        Picture::Svg => svg::write(network),
    };
    files::write(output, &text, printer)
}
