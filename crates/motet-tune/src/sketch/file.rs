//! Sketches as text: TOML, read with the place of what is wrong, and written so that the same sketch
//! is always the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use motet_net::Network;
use motet_net::formats::{ReadError, read_toml, toml_quoted};
use motet_units::{Bytes, NodeId};
use serde::Deserialize;
use toml::Spanned;

use super::connections::{Connections, Group, Misfit, Part};
use super::locality::Servers;
use super::rules::{self, LinkRules};
use super::{Above, Sketch};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    links: Links,
    binding: Option<BTreeMap<String, Spanned<String>>>,
    #[serde(default)]
    group: Vec<Spanned<GroupTable>>,
    #[serde(default)]
    above: Vec<AboveTable>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    allow: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    forbid: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GroupTable {
    nics: Vec<Spanned<String>>,
    send: Option<Vec<Spanned<String>>>,
    receive: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AboveTable {
    size: Spanned<String>,
    forbid: Vec<Spanned<String>>,
}

pub(super) fn read(text: &str, network: &Network) -> Result<Sketch, ReadError> {
    let file: File = read_toml(text)?;
    let reader = Reader { text, network };
    let connections = reader.connections(&file)?;
    let mut allowed = match &connections {
        Some((connections, places)) => {
            let servers = Servers::of(network);
            connections
                .check(network, &servers)
                .and_then(|()| connections.mask(network, &servers))
                .map_err(|misfit| reader.misfit(misfit, places))?
        }
        None => vec![true; network.links().len()],
    };
    let mut listed = vec![file.links.allow.is_none(); allowed.len()];
    for rule in file.links.allow.iter().flatten() {
        reader.mark(rule, &mut listed, true)?;
    }
    for rule in &file.links.forbid {
        reader.mark(rule, &mut listed, false)?;
    }
    for (link, listed) in allowed.iter_mut().zip(listed) {
        *link &= listed;
    }
    Ok(Sketch {
        name: file.name,
        allowed,
        rules: LinkRules {
            allow: file.links.allow.map(strings),
            forbid: strings(file.links.forbid),
        },
        connections: connections.map(|it| it.0),
        above: file.above.into_iter().map(|it| reader.above(it)).collect::<Result<_, _>>()?,
    })
}

fn strings(rules: Vec<Spanned<String>>) -> Vec<String> {
    rules.into_iter().map(Spanned::into_inner).collect()
}

/// Where the parts of the connections stand in the text, for error messages.
#[derive(Default)]
struct Places {
    binding: Vec<Range<usize>>,
    ports: Vec<Vec<Range<usize>>>,
    senders: Vec<Vec<Range<usize>>>,
    receivers: Vec<Vec<Range<usize>>>,
    groups: Vec<Range<usize>>,
}

struct Reader<'a> {
    text: &'a str,
    network: &'a Network,
}

impl Reader<'_> {
    fn mark(
        &self,
        rule: &Spanned<String>,
        marks: &mut [bool],
        value: bool,
    ) -> Result<(), ReadError> {
        rules::mark(rule.get_ref(), self.network, marks, value)
            .map_err(|it| it.at(self.text, rule.span().start))
    }

    fn node(&self, name: &str, place: &Range<usize>) -> Result<NodeId, ReadError> {
        self.network.find(name).ok_or_else(|| {
            let problem = format!("`{}` has no node called `{name}`", self.network.name());
            ReadError::new(problem)
                .at(self.text, place.start)
                .with_remedy("node names are in the cluster file, or `motet net show --json`")
        })
    }

    fn nodes(
        &self,
        names: &[Spanned<String>],
    ) -> Result<(Vec<NodeId>, Vec<Range<usize>>), ReadError> {
        let node = |it: &Spanned<String>| Ok((self.node(it.get_ref(), &it.span())?, it.span()));
        Ok(names.iter().map(node).collect::<Result<Vec<_>, ReadError>>()?.into_iter().unzip())
    }

    /// The connections that the file says, and where; `None` if it says nothing of them.
    fn connections(&self, file: &File) -> Result<Option<(Connections, Places)>, ReadError> {
        let Some(binding) = &file.binding else {
            return match file.group.first() {
                None => Ok(None),
                Some(group) => Err(ReadError::new("a [[group]] without a [binding]")
                    .at(self.text, group.span().start)
                    .with_remedy("say in [binding] which GPU uses which NIC: \"gpu0\" = \"nic0\"")),
            };
        };
        let mut places = Places::default();
        let mut bound = Vec::with_capacity(binding.len());
        for (gpu, port) in binding {
            let place = port.span();
            bound.push((self.node(gpu, &place)?, self.node(port.get_ref(), &place)?, place));
        }
        let mut rank_of = vec![usize::MAX; self.network.nodes().len()];
        for (rank, gpu) in self.network.ranks().iter().enumerate() {
            rank_of[gpu.index()] = rank;
        }
        bound.sort_by_key(|it| (rank_of[it.0.index()], it.0));
        let binding: Vec<(NodeId, NodeId)> = bound.iter().map(|it| (it.0, it.1)).collect();
        places.binding = bound.into_iter().map(|it| it.2).collect();
        let mut connections = Connections { binding, groups: Vec::new() };
        for group in &file.group {
            let (ports, at) = self.nodes(&group.get_ref().nics)?;
            places.ports.push(at);
            places.groups.push(group.span());
            connections.groups.push(Group { ports, ..Group::default() });
        }
        let bound = connections.bound(self.network);
        let parts = connections.groups.iter_mut().zip(&file.group).zip(bound);
        for ((group, table), all) in parts {
            let members = |names: &Option<Vec<Spanned<String>>>| match names {
                Some(names) => {
                    let (gpus, at) = self.nodes(names)?;
                    Ok::<_, ReadError>(sorted(gpus, at, &rank_of))
                }
                None => Ok((all.clone(), Vec::new())),
            };
            let (senders, senders_at) = members(&table.get_ref().send)?;
            let (receivers, receivers_at) = members(&table.get_ref().receive)?;
            (group.senders, group.receivers) = (senders, receivers);
            places.senders.push(senders_at);
            places.receivers.push(receivers_at);
        }
        Ok(Some((connections, places)))
    }

    fn misfit(&self, misfit: Misfit, places: &Places) -> ReadError {
        let of = |list: &[Vec<Range<usize>>], group: usize, index: usize| {
            list.get(group).and_then(|it| it.get(index)).or(places.groups.get(group)).cloned()
        };
        let place = match misfit.part {
            Part::Binding(index) => places.binding.get(index).cloned(),
            Part::Port(group, index) => of(&places.ports, group, index),
            Part::Sender(group, index) => of(&places.senders, group, index),
            Part::Receiver(group, index) => of(&places.receivers, group, index),
        };
        let error = ReadError::new(misfit.problem).with_remedy(misfit.remedy);
        match place {
            Some(place) => error.at(self.text, place.start),
            None => error,
        }
    }

    fn above(&self, table: AboveTable) -> Result<Above, ReadError> {
        let size: Bytes = table.size.get_ref().parse().map_err(|error| {
            ReadError::new(format!("{error}"))
                .at(self.text, table.size.span().start)
                .with_remedy("write a size such as \"10 MB\"")
        })?;
        let mut forbidden = vec![false; self.network.links().len()];
        for rule in &table.forbid {
            self.mark(rule, &mut forbidden, true)?;
        }
        let forbidden = self.network.link_ids().filter(|it| forbidden[it.index()]).collect();
        Ok(Above { size, forbid: strings(table.forbid), forbidden })
    }
}

/// GPUs by rank, and their places with them.
fn sorted(
    gpus: Vec<NodeId>,
    places: Vec<Range<usize>>,
    rank_of: &[usize],
) -> (Vec<NodeId>, Vec<Range<usize>>) {
    let mut both: Vec<(NodeId, Range<usize>)> = gpus.into_iter().zip(places).collect();
    both.sort_by_key(|it| (rank_of[it.0.index()], it.0));
    both.dedup_by_key(|it| it.0);
    both.into_iter().unzip()
}

pub(super) fn write(sketch: &Sketch, network: &Network) -> String {
    let mut out = format!("name = {}\n", toml_quoted(&sketch.name));
    let rules = &sketch.rules;
    if rules.allow.is_some() || !rules.forbid.is_empty() {
        out.push_str("\n[links]\n");
        if let Some(allow) = &rules.allow {
            list(&mut out, "allow", allow.iter().map(String::as_str));
        }
        if !rules.forbid.is_empty() {
            list(&mut out, "forbid", rules.forbid.iter().map(String::as_str));
        }
    }
    if let Some(connections) = &sketch.connections {
        write_connections(&mut out, connections, network);
    }
    for above in &sketch.above {
        // Writing to a string cannot fail.
        let _ = write!(out, "\n[[above]]\nsize = {}\n", toml_quoted(&above.size.to_string()));
        list(&mut out, "forbid", above.forbid.iter().map(String::as_str));
    }
    out
}

fn write_connections(out: &mut String, connections: &Connections, network: &Network) {
    let name = |it: &NodeId| network.node(*it).name.as_str();
    out.push_str("\n[binding]\n");
    for (gpu, port) in &connections.binding {
        let _ = writeln!(out, "{} = {}", toml_quoted(name(gpu)), toml_quoted(name(port)));
    }
    for (group, all) in connections.groups.iter().zip(connections.bound(network)) {
        out.push_str("\n[[group]]\n");
        list(out, "nics", group.ports.iter().map(name));
        for (key, gpus) in [("send", &group.senders), ("receive", &group.receivers)] {
            if *gpus != all {
                list(out, key, gpus.iter().map(name));
            }
        }
    }
}

/// A list, on one line where that is short.
fn list<'a>(out: &mut String, key: &str, items: impl Iterator<Item = &'a str>) {
    const WIDTH: usize = 100;
    let items: Vec<String> = items.map(toml_quoted).collect();
    let line = format!("{key} = [{}]", items.join(", "));
    if line.chars().count() <= WIDTH {
        out.push_str(&line);
        out.push('\n');
        return;
    }
    let _ = writeln!(out, "{key} = [");
    for item in items {
        let _ = writeln!(out, "    {item},");
    }
    out.push_str("]\n");
}
