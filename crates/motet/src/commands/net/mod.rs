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
    let picture = match (out.to, ending) {
        (Some(picture), _) => picture,
        (None, Some("graphml")) => Picture::Graphml,
        (None, Some("dot" | "gv")) => Picture::Dot,
        (None, Some("svg")) => Picture::Svg,
        // Whoever asks for a picture should not get a cluster file under its name.
        (None, Some(ending @ ("png" | "jpg" | "jpeg" | "gif" | "pdf" | "ps" | "eps"))) => {
            let problem = format!("a network cannot be written as .{ending}");
            return Err(Failure::unreadable(problem).in_file(output).with_remedy(
                "write .svg, which browsers show, or .dot, of which Graphviz makes any picture",
            ));
        }
        (None, _) => Picture::Toml,
    };
    let text = match picture {
        Picture::Toml => cluster_toml::write(network),
        Picture::Graphml => graphml::write(network),
        Picture::Dot => dot::write(network),
        Picture::Svg => svg::write(network),
    };
    files::write(output, &text, printer)
}
