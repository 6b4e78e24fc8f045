//! Reading a cluster file.
//!
//! Nodes and templates are taken in file order, because ranks follow it and a fabric joins what
//! stands before it; links come last, so that they may name any node. Every error has the place
//! of the key or table that is wrong.

use motet_units::{Bandwidth, Duration, NodeId, Rank};
use toml::Spanned;
use toml::de::DeValue;

use super::table::{Table, kind, scalar};
use crate::builders::{Assembly, Family, Fetch, Params, Template, TemplateError, find, templates};
use crate::formats::{NetworkFormat, ReadError, ReadNetwork, parse_toml};
use crate::in_network::InNetwork;
use crate::link::{LinkClass, LinkSpec};
use crate::nearest;
use crate::network::BuildError;
use crate::node::Node;
use crate::tier::Tier;

const TOP: [&str; 6] = ["name", "node", "link", "server", "fabric", "wan"];
const NODE: [&str; 10] = [
    "name",
    "kind",
    "server",
    "rack",
    "dc",
    "rank",
    "multicast",
    "reduces",
    "in_network",
    "properties",
];
const LINK: [&str; 8] = ["from", "to", "bandwidth", "latency", "duplex", "class", "lanes", "tier"];

/// The network of a cluster file. `fetch` gives the text of a file that it names, relative to
/// the cluster file.
pub fn read(text: &str, fetch: &Fetch<'_>) -> Result<ReadNetwork, ReadError> {
    let parsed = parse_toml(text)?;
    let top = Table { text, what: "a cluster file", entries: parsed.get_ref(), start: 0 };
    top.check(&TOP)?;
    let mut reader = Reader {
        assembly: Assembly::new(top.text("name")?.unwrap_or_default()).with_fetch(fetch),
        text,
        ranks: Vec::new(),
    };
    let mut parts = Vec::new();
    for (key, what) in [
        ("node", "[[node]]"),
        ("server", "[[server]]"),
        ("fabric", "[[fabric]]"),
        ("wan", "[[wan]]"),
    ] {
        parts.extend(tables(&top, key, what)?);
    }
    parts.sort_by_key(|it| it.start);
    let links = tables(&top, "link", "[[link]]")?;
    if parts.is_empty() && links.is_empty() {
        return Err(ReadError::new("there is nothing in the cluster file").with_remedy(
            "describe servers, such as [[server]] with kind = \"dgx-h100\" and count = 2, or nodes \
             and links; docs/cluster-file.md has all of it",
        ));
    }
    // Whoever draws a fabric or links has said how servers are joined.
    if !links.is_empty() || parts.iter().any(|it| matches!(it.what, "[[fabric]]" | "[[wan]]")) {
        reader.assembly.leave_ports_open();
    }
    for part in &parts {
        match part.what {
            "[[server]]" => reader.template(part, Family::Server)?,
            "[[fabric]]" => reader.template(part, Family::Fabric)?,
            "[[wan]]" => reader.template(part, Family::Wan)?,
            _ => reader.node(part)?,
        }
    }
    for link in &links {
        reader.link(link)?;
    }
    reader.finish()
}

/// The tables of an array of tables.
pub(crate) fn tables<'a>(
    top: &Table<'a>,
    key: &str,
    what: &'static str,
) -> Result<Vec<Table<'a>>, ReadError> {
    let Some(value) = top.get(key) else {
        return Ok(Vec::new());
    };
    let wrong = |it: &Spanned<DeValue<'_>>| {
        let found = kind(it.get_ref());
        ReadError::new(format!("`{key}` must be tables with the header {what}, not {found}"))
            .at(top.text, it.span().start)
    };
    let DeValue::Array(items) = value.get_ref() else {
        return Err(wrong(value));
    };
    let mut tables = Vec::with_capacity(items.len());
    for item in items {
        let DeValue::Table(entries) = item.get_ref() else {
            return Err(wrong(item));
        };
        tables.push(Table { text: top.text, what, entries, start: item.span().start });
    }
    Ok(tables)
}

/// The words of `in_network`, each in quotes.
fn in_network(table: &Table<'_>) -> Result<InNetwork, ReadError> {
    let Some(value) = table.get("in_network") else { return Ok(InNetwork::NONE) };
    let wrong = || {
        let words = InNetwork::WORDS.map(|it| format!("\"{it}\"")).join(", ");
        let problem = "`in_network` must be an array of words";
        table.wrong("in_network", problem).with_remedy(format!("some of [{words}]"))
    };
    let DeValue::Array(words) = value.get_ref() else { return Err(wrong()) };
    words.iter().try_fold(InNetwork::NONE, |services, word| match word.get_ref() {
        DeValue::String(text) => services.with(text).map_err(|error| {
            ReadError::new(format!("`in_network`: {error}")).at(table.text, word.span().start)
        }),
        _ => Err(wrong()),
    })
}

struct Reader<'a> {
    assembly: Assembly<'a>,
    text: &'a str,
    /// Nodes with a rank, and where it is written: ranks are only wrong all together.
    ranks: Vec<(&'a str, usize)>,
}

impl<'a> Reader<'a> {
    fn node(&mut self, table: &Table<'a>) -> Result<(), ReadError> {
        table.check(&NODE)?;
        let name = table.need("name", "g0")?;
        let mut node = Node::new(name, table.parse("kind", "gpu")?);
        node.location.server = table.text("server")?.map(str::to_owned);
        node.location.rack = table.text("rack")?.map(str::to_owned);
        node.location.dc = table.text("dc")?.map(str::to_owned);
        node.multicast = table.flag("multicast")?.unwrap_or(false);
        node.reduces = table.flag("reduces")?.unwrap_or(false);
        node.in_network = in_network(table)?;
        node.rank = table.number("rank", 0..u32::MAX)?.map(Rank);
        if let Some(rank) = table.get("rank") {
            self.ranks.push((name, rank.span().start));
        }
        if let Some(value) = table.get("properties") {
            let DeValue::Table(properties) = value.get_ref() else {
                let found = kind(value.get_ref());
                let problem = format!("`properties` must be a table, not {found}");
                return Err(table.wrong("properties", problem));
            };
            for (key, value) in properties {
                let Some(text) = scalar(value.get_ref()) else {
                    let problem = format!("the property `{}` must be one value", key.get_ref());
                    return Err(ReadError::new(problem).at(self.text, value.span().start));
                };
                node.properties.insert(key.get_ref().to_string(), text);
            }
        }
        let added = self.assembly.builder_mut().add_node(node);
        added.map(|_| ()).map_err(|error| table.wrong("name", error.to_string()))
    }

    fn link(&mut self, table: &Table<'a>) -> Result<(), ReadError> {
        table.check(&LINK)?;
        let (from, to) = (self.end(table, "from")?, self.end(table, "to")?);
        let bandwidth: Bandwidth = table.parse("bandwidth", "50 GB/s")?;
        let latency: Duration = table.parse("latency", "500 ns")?;
        let class = match table.text("class")? {
            Some(_) => table.parse("class", "nvlink")?,
            None => LinkClass::Other,
        };
        let lanes = table.number("lanes", 1..u32::MAX)?.unwrap_or(1);
        let tier = table.number("tier", 0..Tier::COUNT as u32)?;
        let mut spec = LinkSpec::new(class, bandwidth, latency).with_lanes(lanes);
        spec.tier = tier.and_then(|it| Tier::new(u8::try_from(it).ok()?));
        let builder = self.assembly.builder_mut();
        let added = if table.flag("duplex")?.unwrap_or(true) {
            builder.add_duplex(from, to, spec).map(|_| ())
        } else {
            builder.add_link(from, to, spec).map(|_| ())
        };
        added.map_err(|error| {
            let key = match error {
                BuildError::NoBandwidth { .. } => "bandwidth",
                _ => "to",
            };
            table.wrong(key, error.to_string())
        })
    }

    fn end(&mut self, table: &Table<'a>, key: &str) -> Result<NodeId, ReadError> {
        let name = table.need(key, "g0")?;
        let builder = self.assembly.builder_mut();
        if let Some(node) = builder.find(name) {
            return Ok(node);
        }
        let error = table.wrong(key, format!("`{key}`: there is no node `{name}`"));
        let near = nearest::remedy(name, builder.nodes().iter().map(|it| it.name.as_str()));
        Err(match near {
            Some(near) => error.with_remedy(near),
            None => error.with_remedy("add it as a [[node]]"),
        })
    }

    fn template(&mut self, table: &Table<'a>, family: Family) -> Result<(), ReadError> {
        let template = self.kind_of(table, family)?;
        let mut known = vec!["kind"];
        known.extend(template.params.iter().map(|it| it.name));
        table.check(&known)?;
        let mut params = Params::new();
        for (key, value) in table.entries.iter().filter(|it| it.0.get_ref() != "kind") {
            let key = key.get_ref().as_ref();
            if let Some(text) = scalar(value.get_ref()) {
                params.set(key, text);
                continue;
            }
            let list = match value.get_ref() {
                DeValue::Array(items) => {
                    items.iter().map(|it| scalar(it.get_ref())).collect::<Option<Vec<_>>>()
                }
                _ => None,
            };
            let Some(list) = list else {
                return Err(table.wrong(key, format!("`{key}` must be a value or a list of them")));
            };
            params.set_list(key, list);
        }
        self.assembly.add(template, &params).map_err(|error| place(table, error))
    }

    /// The template that a table names; a WAN is a `wan` unless it says otherwise.
    fn kind_of(&self, table: &Table<'a>, family: Family) -> Result<&'static Template, ReadError> {
        let name = match (table.text("kind")?, family) {
            (None, Family::Wan) => "wan",
            (Some(name), _) => name,
            // A server with a file needs no kind: the file says what it is.
            (None, Family::Server) if table.get("file").is_some() => "server-file",
            (None, Family::Server) => table.need("kind", "dgx-a100")?,
            (None, Family::Fabric) => table.need("kind", "leaf-spine")?,
        };
        let alike = templates().iter().filter(|it| it.family == family).map(|it| it.name);
        match find(name) {
            Ok(template) if template.family == family => Ok(template),
            Ok(template) => {
                let problem = format!("`{name}` is no kind of {}", family.table());
                let remedy = format!("write it under [[{}]]", template.family.table());
                Err(table.wrong("kind", problem).with_remedy(remedy))
            }
            Err(_) => {
                let problem = format!("there is no {} of kind `{name}`", family.table());
                let error = table.wrong("kind", problem);
                Err(match nearest::remedy(name, alike) {
                    Some(remedy) => error.with_remedy(remedy),
                    None => error,
                })
            }
        }
    }

    fn finish(self) -> Result<ReadNetwork, ReadError> {
        let notes = self.assembly.notes().to_vec();
        let builder = self.assembly.into_builder().map_err(|it| ReadError::new(it.problem))?;
        let network = builder.build().map_err(|error| {
            let at = match &error {
                BuildError::RankOfNonGpu { name, .. }
                | BuildError::RankOutOfRange { name, .. }
                | BuildError::DuplicateRank { second: name, .. } => {
                    self.ranks.iter().find(|it| it.0 == name).map(|it| it.1)
                }
                _ => None,
            };
            let read = ReadError::from(error);
            match at {
                Some(place) => read.at(self.text, place),
                None => read,
            }
        })?;
        let mut read = ReadNetwork::new(network, NetworkFormat::ClusterToml);
        read.notes = notes;
        Ok(read)
    }
}

/// A template's error, at the place of the parameter or table that caused it.
fn place(table: &Table<'_>, error: TemplateError) -> ReadError {
    let placed = table.wrong(error.key.as_deref().unwrap_or_default(), error.problem);
    match error.remedy {
        Some(remedy) => placed.with_remedy(remedy),
        None => placed,
    }
}
