//! From devices, instances and slices to every component and every edge.

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration, brief};
use rustc_hash::FxHashSet;

use super::schema::{Component, Device, DeviceEnd, Infrastructure, InstanceEnd, Link};
use crate::formats::{ReadError, speeds};

/// A file may not describe more components or edges than this.
const MAX_PARTS: usize = 1 << 20;
const MAX_EDGES: usize = 1 << 22;

/// Devices in devices in devices, at most so deep.
const MAX_DEPTH: usize = 8;

/// One component of one instance.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// As InfraGraph names it: `host.0.xpu.1`.
    pub(super) name: String,
    /// Index into [`Expanded::instances`].
    pub(super) instance: usize,
    pub(super) choice: String,
    /// Its name and description, for what the choice does not say.
    pub(super) words: String,
}

#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) a: usize,
    pub(super) b: usize,
    pub(super) link: Link,
    pub(super) rate: Option<Bandwidth>,
    pub(super) latency: Option<Duration>,
}

/// The whole graph.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    pub(super) parts: Vec<Part>,
    pub(super) edges: Vec<Edge>,
    /// `host.0`, `host.1`…
    pub(super) instances: Vec<String>,
    /// Whether an instance has GPUs.
    pub(super) is_server: Vec<bool>,
    index: BTreeMap<String, usize>,
    /// Edges that are there already, as both ends in order: naming an edge twice makes one.
    seen: FxHashSet<(usize, usize)>,
}

pub(super) fn expand(file: &Infrastructure) -> Result<Expanded, ReadError> {
    let mut all = Expanded::default();
    for instance in &file.instances {
        let device = find(file, &instance.device)?;
        for number in 0..instance.count {
            let name = format!("{}.{number}", instance.name);
            all.instances.push(name.clone());
            all.is_server.push(false);
            all.add_device(file, device, &name, 0)?;
        }
    }
    for edge in &file.edges {
        let link = link(&file.links, &edge.link, "the infrastructure")?;
        let ends = |end: &InstanceEnd| -> Result<Vec<String>, ReadError> {
            let base = base_name(&end.instance);
            let instance = file.instances.iter().find(|it| it.name == base);
            let instance = instance.ok_or_else(|| {
                ReadError::new(format!(
                    "an edge names instance `{}`, which is not listed",
                    brief(base)
                ))
            })?;
            let device = find(file, &instance.device)?;
            let inside = slices(file, device, &end.component)?;
            let outside = slice(&end.instance, instance.count)?;
            let outside = outside.into_iter().map(|it| format!("{base}.{it}"));
            Ok(product(outside.collect(), &inside))
        };
        all.connect(&ends(&edge.ep1)?, &ends(&edge.ep2)?, &edge.scheme, link)?;
    }
    Ok(all)
}

fn find<'a>(file: &'a Infrastructure, name: &str) -> Result<&'a Device, ReadError> {
    file.devices.iter().find(|it| it.name == name).ok_or_else(|| {
        ReadError::new(format!("device `{}` is used and not listed in `devices`", brief(name)))
    })
}

fn link<'a>(links: &'a [Link], name: &str, whose: &str) -> Result<&'a Link, ReadError> {
    links.iter().find(|it| it.name == name).ok_or_else(|| {
        let problem = format!("an edge uses link `{}`, which {whose} does not list", brief(name));
        ReadError::new(problem).with_remedy("add it to `links`")
    })
}

impl Expanded {
    fn add_device(
        &mut self,
        file: &Infrastructure,
        device: &Device,
        prefix: &str,
        depth: usize,
    ) -> Result<(), ReadError> {
        if depth > MAX_DEPTH {
            let problem =
                format!("device `{}` contains itself, or devices nest too deep", device.name);
            return Err(ReadError::new(problem));
        }
        for component in &device.components {
            for number in 0..component.count {
                let name = format!("{prefix}.{}.{number}", component.name);
                if component.choice == "device" {
                    self.add_device(file, find(file, &component.name)?, &name, depth + 1)?;
                } else {
                    self.add_part(name, component)?;
                }
            }
        }
        for edge in &device.edges {
            let link = link(&device.links, &edge.link, &format!("device `{}`", device.name))?;
            let ends = |end: &DeviceEnd| -> Result<Vec<String>, ReadError> {
                let text = match &end.device {
                    Some(outer) => format!("{outer}.{}", end.component),
                    None => end.component.clone(),
                };
                Ok(product(vec![prefix.to_owned()], &slices(file, device, &text)?))
            };
            self.connect(&ends(&edge.ep1)?, &ends(&edge.ep2)?, &edge.scheme, link)?;
        }
        Ok(())
    }

    fn add_part(&mut self, name: String, component: &Component) -> Result<(), ReadError> {
        if self.parts.len() >= MAX_PARTS {
            return Err(ReadError::new(format!("there are more than {MAX_PARTS} components")));
        }
        let instance = self.instances.len().saturating_sub(1);
        let custom = component.custom.as_ref().map_or("", |it| it.kind.as_str());
        let words = format!("{} {} {custom}", component.name, component.description);
        if let Some(server) = self.is_server.get_mut(instance) {
            *server |= component.choice == "xpu";
        }
        let part = Part {
            name: name.clone(),
            instance,
            choice: component.choice.clone(),
            words: words.to_lowercase(),
        };
        if self.index.insert(name, self.parts.len()).is_some() {
            return Err(ReadError::new(format!("component {} is listed twice", part.name)));
        }
        self.parts.push(part);
        Ok(())
    }

    /// Edges between two lists of components.
    fn connect(
        &mut self,
        one: &[String],
        two: &[String],
        scheme: &str,
        link: &Link,
    ) -> Result<(), ReadError> {
        match scheme {
            "many2many" => {
                if one.len().saturating_mul(two.len()) > MAX_EDGES {
                    return Err(too_many());
                }
                one.iter().try_for_each(|a| two.iter().try_for_each(|b| self.add_edge(a, b, link)))
            }
            "one2one" => one.iter().zip(two).try_for_each(|(a, b)| self.add_edge(a, b, link)),
            other => Err(ReadError::new(format!(
                "edges of link `{}` have the scheme `{}`",
                link.name,
                brief(other)
            ))
            .with_remedy("one2one and many2many are known")),
        }
    }

    fn add_edge(&mut self, a: &str, b: &str, link: &Link) -> Result<(), ReadError> {
        let find = |name: &str| {
            self.index.get(name).copied().ok_or_else(|| {
                ReadError::new(format!("an edge names {name}, which is not a component"))
            })
        };
        let (a, b) = (find(a)?, find(b)?);
        if a == b || !self.seen.insert((a.min(b), a.max(b))) {
            return Ok(());
        }
        if self.edges.len() >= MAX_EDGES {
            return Err(too_many());
        }
        let (rate, latency) = (rate(link)?, latency(link)?);
        self.edges.push(Edge { a, b, link: link.clone(), rate, latency });
        Ok(())
    }
}

fn too_many() -> ReadError {
    ReadError::new(format!("there are more than {MAX_EDGES} edges"))
}

fn rate(link: &Link) -> Result<Option<Bandwidth>, ReadError> {
    let it = &link.physical.bandwidth;
    if let Some(transfers) = it.gigatransfers_per_second {
        // Of a lane of PCI Express; InfraGraph does not say how many there are.
        return Ok(Some(speeds::pcie(Some(&transfers.to_string()), None)));
    }
    let bits = it.gigabits_per_second.or_else(|| it.gigabytes_per_second.map(|it| it * 8.0));
    let Some(gigabits) = bits else { return Ok(None) };
    let bits = gigabits * 1e9;
    if !(1.0..1e19).contains(&bits) {
        return Err(ReadError::new(format!(
            "link `{}` has a bandwidth of {gigabits} Gbit/s",
            link.name
        ))
        .with_remedy("give one above zero"));
    }
    Ok(Some(Bandwidth::from_bits_per_s(bits.round() as u64)))
}

fn latency(link: &Link) -> Result<Option<Duration>, ReadError> {
    let it = &link.physical.latency;
    let ns = it.ns.or_else(|| it.us.map(|it| it * 1e3)).or_else(|| it.ms.map(|it| it * 1e6));
    let Some(ns) = ns else { return Ok(None) };
    if !(0.0..1e15).contains(&ns) {
        return Err(ReadError::new(format!("link `{}` has a latency of {ns} ns", link.name)));
    }
    Ok(Some(Duration::from_ps((ns * 1e3).round() as u64)))
}

fn base_name(text: &str) -> &str {
    text.split('[').next().unwrap_or(text)
}

/// The indices of a Python slice such as `nic`, `nic[3]`, `nic[0:4]` or `nic[::2]`, of `count` things.
fn slice(text: &str, count: u32) -> Result<Vec<u32>, ReadError> {
    let wrong = || {
        ReadError::new(format!("`{}` is not a name with a slice of 0 to {count}", brief(text)))
            .with_remedy("write name, name[3], name[0:4] or name[0:8:2]")
    };
    let Some((_, rest)) = text.split_once('[') else { return Ok((0..count).collect()) };
    let inside = rest.strip_suffix(']').ok_or_else(wrong)?;
    let number = |it: &str| it.trim().parse::<u32>().map_err(|_| wrong());
    if !inside.contains(':') {
        let one = number(inside)?;
        return if one < count { Ok(vec![one]) } else { Err(wrong()) };
    }
    let mut bounds = [0, count, 1];
    for (at, piece) in inside.split(':').enumerate() {
        let bound = bounds.get_mut(at).ok_or_else(wrong)?;
        if !piece.trim().is_empty() {
            *bound = number(piece)?;
        }
    }
    let [start, stop, step] = bounds;
    if step == 0 || stop > count {
        return Err(wrong());
    }
    Ok((start..stop).step_by(step as usize).collect())
}

/// The components of a device that an endpoint such as `cx7[0:2].port` names.
fn slices(file: &Infrastructure, device: &Device, text: &str) -> Result<Vec<String>, ReadError> {
    let mut found = vec![String::new()];
    let mut inside = Some(device);
    for word in text.split('.') {
        let base = base_name(word);
        let component = inside
            .and_then(|it| it.components.iter().find(|it| it.name == base))
            .ok_or_else(|| {
                ReadError::new(format!(
                    "an edge names `{}`, and device `{}` has no component `{}`",
                    brief(text),
                    inside.unwrap_or(device).name,
                    brief(base)
                ))
            })?;
        let numbers = slice(word, component.count)?;
        if found.len().saturating_mul(numbers.len()) > MAX_PARTS {
            return Err(too_many());
        }
        found = found
            .iter()
            .flat_map(|outer| numbers.iter().map(move |it| (outer, it)))
            .map(|(outer, it)| {
                let dot = if outer.is_empty() { "" } else { "." };
                format!("{outer}{dot}{base}.{it}")
            })
            .collect();
        let is_device = component.choice == "device";
        inside = if is_device { Some(find(file, &component.name)?) } else { None };
    }
    Ok(found)
}

fn product(outer: Vec<String>, inner: &[String]) -> Vec<String> {
    outer.iter().flat_map(|a| inner.iter().map(move |b| format!("{a}.{b}"))).collect()
}
