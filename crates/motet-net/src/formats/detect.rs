//! Which format a text is in, and reading it whatever it is: [`read_any`].
//!
//! The content decides; a file's name only settles what content leaves open.

use std::fmt;

use motet_units::{Bandwidth, Bytes};

use super::nccl_xml::GraphDump;
use super::wan::WanDefaults;
use super::{
    ReadError, cluster_toml, gml, graphml, infragraph, json, nccl_xml, node_link_json, nvidia_smi,
    taccl_json,
};
use crate::Network;
use crate::builders::Fetch;

/// The formats a network is read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum NetworkFormat {
    /// Our own cluster file.
    ClusterToml,
    NcclTopology,
    NcclGraph,
    Gml,
    GraphMl,
    NodeLinkJson,
    NvidiaSmi,
    TacclJson,
    /// Keysight's InfraGraph.
    InfraGraph,
}

impl NetworkFormat {
    /// Every format, in the order of the enum.
    pub const ALL: [Self; 9] = [
        Self::ClusterToml,
        Self::NcclTopology,
        Self::NcclGraph,
        Self::Gml,
        Self::GraphMl,
        Self::NodeLinkJson,
        Self::NvidiaSmi,
        Self::TacclJson,
        Self::InfraGraph,
    ];

    /// The short name that output and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterToml => "cluster-toml",
            Self::NcclTopology => "nccl-topology",
            Self::NcclGraph => "nccl-graph",
            Self::Gml => "gml",
            Self::GraphMl => "graphml",
            Self::NodeLinkJson => "node-link-json",
            Self::NvidiaSmi => "nvidia-smi",
            Self::TacclJson => "taccl-json",
            Self::InfraGraph => "infragraph",
        }
    }

    /// In a sentence.
    #[must_use]
    pub const fn description(self) -> &'static str {
        match self {
            Self::ClusterToml => "a Motet cluster file",
            Self::NcclTopology => "an NCCL topology file",
            Self::NcclGraph => "an NCCL graph dump",
            Self::Gml => "a GML graph",
            Self::GraphMl => "a GraphML graph",
            Self::NodeLinkJson => "a node-link JSON graph",
            Self::NvidiaSmi => "the output of nvidia-smi topo -m",
            Self::TacclJson => "a TACCL topology file",
            Self::InfraGraph => "an InfraGraph infrastructure (JSON)",
        }
    }

    /// The usual ending of such a file's name.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::ClusterToml => "toml",
            Self::NcclTopology | Self::NcclGraph => "xml",
            Self::Gml => "gml",
            Self::GraphMl => "graphml",
            Self::NodeLinkJson | Self::TacclJson | Self::InfraGraph => "json",
            Self::NvidiaSmi => "txt",
        }
    }

    /// The format of a text, from its content, or from its file name where that says nothing.
    #[must_use]
    pub fn detect(text: &str, name_hint: Option<&str>) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with('<') {
            return detect_xml(text);
        }
        if nvidia_smi::looks_like(text) {
            return Some(Self::NvidiaSmi);
        }
        if text.starts_with('{') {
            return detect_json(text);
        }
        if looks_like_gml(text) {
            return Some(Self::Gml);
        }
        let extension = name_hint.and_then(|it| it.rsplit_once('.')).map(|(_, it)| it);
        let toml = || text.lines().any(|it| it.starts_with('[')) || text.contains(" = ");
        match extension {
            Some(known @ ("gml" | "toml")) => {
                Some(if known == "gml" { Self::Gml } else { Self::ClusterToml })
            }
            _ => toml().then_some(Self::ClusterToml),
        }
    }
}

impl fmt::Display for NetworkFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// By the root element: the first tag that is neither declaration, comment nor doctype.
fn detect_xml(text: &str) -> Option<NetworkFormat> {
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let end = if rest.starts_with("<?") {
            rest.find("?>")? + 2
        } else if rest.starts_with("<!--") {
            rest.find("-->")? + 3
        } else if rest.starts_with("<!") {
            rest.find('>')? + 1
        } else {
            break;
        };
        rest = &rest[end..];
    }
    let root = rest.strip_prefix('<')?;
    let root = root.split([' ', '\t', '\r', '\n', '>', '/']).next().unwrap_or_default();
    match root.rsplit(':').next().unwrap_or(root) {
        "system" => Some(NetworkFormat::NcclTopology),
        "graphs" => Some(NetworkFormat::NcclGraph),
        "graphml" => Some(NetworkFormat::GraphMl),
        _ => None,
    }
}

fn detect_json(text: &str) -> Option<NetworkFormat> {
    let root = json::object(text).ok()?;
    let has = |key: &str| root.contains_key(key);
    if has("nodes") && (has("links") || has("edges")) {
        Some(NetworkFormat::NodeLinkJson)
    } else if has("gpus_per_node") || has("intranode_sketch") {
        Some(NetworkFormat::TacclJson)
    } else if has("devices") && has("instances") {
        Some(NetworkFormat::InfraGraph)
    } else {
        None
    }
}

/// `graph` and then `[`, as the first words or after `key value` lines such as `Creator "…"`.
fn looks_like_gml(text: &str) -> bool {
    text.lines().take(64).any(|it| {
        let rest = it.trim_start().strip_prefix("graph");
        rest.is_some_and(|it| it.trim().is_empty() || it.trim_start().starts_with('['))
    })
}

/// What a reader made of a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadNetwork {
    /// The network that the file describes.
    pub network: Network,
    /// What kind of file it was.
    pub format: NetworkFormat,
    /// What was assumed, merged or left out, each a sentence to show the user.
    pub notes: Vec<String>,
    /// The graphs of an NCCL graph dump.
    pub graphs: Option<GraphDump>,
}

impl ReadNetwork {
    pub(crate) fn new(network: Network, format: NetworkFormat) -> Self {
        Self { network, format, notes: Vec::new(), graphs: None }
    }
}

/// What a file may leave open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// For wide-area files: GML, GraphML and node-link JSON.
    pub wan: WanDefaults,
    /// For TACCL files: the chunk size their costs are for.
    pub chunk: Option<Bytes>,
    /// For `nvidia-smi topo -m`: the bandwidth of one NVLink and of a PCIe link.
    pub nvlink: Option<Bandwidth>,
    /// For `nvidia-smi topo -m`: the bandwidth of a PCIe link.
    pub pcie: Option<Bandwidth>,
}

/// Reads a network from a text in any of the formats. `name_hint` is the file's name; `fetch`
/// gives the text of another file that a cluster file names.
pub fn read_any(
    text: &str,
    name_hint: Option<&str>,
    options: &ReadOptions,
    fetch: &Fetch<'_>,
) -> Result<ReadNetwork, ReadError> {
    let Some(format) = NetworkFormat::detect(text, name_hint) else { return Err(unknown(text)) };
    let is_blank = || text.trim_start_matches('\u{feff}').trim_start().is_empty();
    if format != NetworkFormat::ClusterToml && is_blank() {
        return Err(empty("the file is empty"));
    }
    let read = match format {
        NetworkFormat::ClusterToml => cluster_toml::read(text, fetch),
        NetworkFormat::NcclTopology | NetworkFormat::NcclGraph => nccl_xml::read(text),
        NetworkFormat::Gml => gml::read(text, &options.wan),
        NetworkFormat::GraphMl => graphml::read(text, &options.wan),
        NetworkFormat::NodeLinkJson => node_link_json::read(text, &options.wan),
        NetworkFormat::NvidiaSmi => nvidia_smi::read(text, options.nvlink, options.pcie),
        NetworkFormat::TacclJson => taccl_json::read(text, options.chunk, name_hint),
        NetworkFormat::InfraGraph => infragraph::read(text),
    }?;
    match read.network.nodes().is_empty() {
        true => Err(empty("there is nothing in the network: no GPUs, no switches, no routers")),
        false => Ok(read),
    }
}

/// The error for what has nothing in it.
fn empty(problem: &str) -> ReadError {
    ReadError::new(problem).with_remedy(
        "is it the right file, and is it whole? `motet net gen dgx-h100` writes a network to begin with",
    )
}

/// The most telling error for a text in no known format.
fn unknown(text: &str) -> ReadError {
    let start = text.trim_start_matches('\u{feff}').trim_start();
    if start.is_empty() {
        return empty("the file is empty");
    }
    // A broken file of a known kind deserves its reader's error with the place.
    if start.starts_with('<') {
        return match nccl_xml::read(text) {
            Err(error) => error,
            Ok(_) => ReadError::new("the XML is of no known kind"),
        };
    }
    if start.starts_with('{')
        && let Err(error) = json::object(text)
    {
        return error;
    }
    if start.starts_with("matrix,src,dst,demand") {
        return ReadError::new("the file is a table of traffic matrices, not a network")
            .with_remedy("give the file of the network that the traffic is on");
    }
    let known: Vec<&str> = NetworkFormat::ALL.iter().map(|it| it.description()).collect();
    ReadError::new("the file is in no format that Motet knows")
        .with_remedy(format!("it reads {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_decides() {
        for (text, name, format) in [
            (
                "<!-- <graphml> -->\n<system version=\"1\"/>",
                "x.graphml",
                NetworkFormat::NcclTopology,
            ),
            ("\u{feff}<?xml version=\"1.0\"?><graphml/>", "x.xml", NetworkFormat::GraphMl),
            ("<graphs version=\"1\"></graphs>", "x.xml", NetworkFormat::NcclGraph),
            ("Creator \"x\"\ngraph\n[\n]", "x.txt", NetworkFormat::Gml),
            ("{\"nodes\": [], \"edges\": []}", "x.json", NetworkFormat::NodeLinkJson),
            ("{\"gpus_per_node\": 8}", "x.json", NetworkFormat::TacclJson),
            ("{\"devices\": [], \"instances\": []}", "x.json", NetworkFormat::InfraGraph),
            ("\tGPU0\tCPU Affinity\nGPU0\t X \t0-3\n", "x.json", NetworkFormat::NvidiaSmi),
            ("# c\n[[node]]\nname = \"g0\"\n", "x", NetworkFormat::ClusterToml),
            ("", "cluster.toml", NetworkFormat::ClusterToml),
        ] {
            assert_eq!(NetworkFormat::detect(text, Some(name)), Some(format), "{text}");
        }
        assert_eq!(NetworkFormat::detect("hello world", None), None);
    }

    fn no_files(_: &str) -> Result<String, String> {
        Err("no files here".to_owned())
    }

    #[test]
    fn cluster_files_are_read_too() {
        let text = "[[node]]\nname = \"g0\"\nkind = \"gpu\"\n";
        let read = read_any(text, Some("x"), &ReadOptions::default(), &no_files).unwrap();
        assert_eq!((read.format, read.network.ranks().len()), (NetworkFormat::ClusterToml, 1));
    }

    #[test]
    fn unknown_files_are_refused_with_a_reason() {
        let options = ReadOptions::default();
        for (text, part) in [
            ("", "empty"),
            ("<system version=\"1\"/>", "nothing in the network"),
            ("graph [ ]", "nothing in the network"),
            ("{\"nodes\": [], \"links\": []}", "nothing in the network"),
            ("hello", "no format"),
            ("matrix,src,dst,demand\n0,0,1,9.7\n", "traffic matrices"),
            ("<algo name=\"x\"/>", "MSCCL program"),
            ("<html>", "never closed"),
            ("{\"nodes\": ", "broken"),
            ("{}", "no format"),
        ] {
            let error = read_any(text, None, &options, &no_files).unwrap_err();
            assert!(error.problem.contains(part), "{text}: {error}");
        }
    }
}
