//! `motet net`: networks in and out.

pub(crate) mod convert;
pub(crate) mod diff;
pub(crate) mod discover;
pub(crate) mod generate;
pub(crate) mod show;
pub(crate) mod sketch;

use std::path::Path;

use motet_net::Network;
use motet_net::formats::wan::WanDefaults;
use motet_net::formats::{ReadOptions, cluster_toml, dot, graphml, svg};

use crate::args::net::{OutArgs, Picture};
use crate::args::read::ReadArgs;
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
    let picture = match out.to {
        Some(picture) => picture,
        None => by_ending(output)?,
    };
    let text = match picture {
        Picture::Toml => cluster_toml::write(network),
        Picture::Graphml => graphml::write(network),
        Picture::Dot => dot::write(network),
        Picture::Svg => svg::write(network),
    };
    files::write(output, &text, printer)
}

/// The format that a file's ending asks for. A name without an ending gets a cluster file.
fn by_ending(output: &str) -> Result<Picture, Failure> {
    let ending = Path::new(output).extension().map(|it| it.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        None | Some("toml") => Ok(Picture::Toml),
        Some("graphml") => Ok(Picture::Graphml),
        Some("dot" | "gv") => Ok(Picture::Dot),
        Some("svg") => Ok(Picture::Svg),
        Some(other) => Err(Failure::unreadable(format!("Motet writes no networks as .{other}"))
            .in_file(output)
            .with_remedy(
                "end the name in .toml, .graphml, .dot, .gv or .svg, or say which with `--to`; \
                 `rsvg-convert` and browsers make other pictures of an .svg",
            )),
    }
}
