//! Wide-area networks from plain graph files: the part that GML, GraphML and node-link JSON
//! share. Their readers make a `GraphFile`; `network` reads a network out of its attributes.
//!
//! Nodes become border routers. Such files rarely say all that a network needs, so the rest
//! comes from [`WanDefaults`], and what was assumed is said in the notes.
//!
//! | wanted | taken from, in this order (case does not matter) |
//! | --- | --- |
//! | name | `label`, `name`, the node's id; `#id` is added to a name that occurs twice |
//! | place | `latitude` or `lat`, `longitude`, `lon`, `long` or `lng` |
//! | bandwidth | `bandwidth`, `capacity`, `cap`; `LinkSpeedRaw` (bit/s); `LinkSpeed` with `LinkSpeedUnits`; a rate, OC-n or STM-n in `LinkLabel` or `LinkType`; the default |
//! | latency | `latency`, `delay`; `distance`, `dist`, `length` (km); the ends' places; the default |

use std::collections::BTreeMap;

use motet_units::{Bandwidth, Duration, NodeId};

use super::{NetworkFormat, ReadError, ReadNetwork, unique_name};
use crate::{LinkClass, LinkSpec, NetworkBuilder, Node, NodeKind};

/// What a wide-area file does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WanDefaults {
    /// Of a link without a capacity.
    pub bandwidth: Bandwidth,
    /// Of a link without delay, distance or places of its ends.
    pub latency: Duration,
    /// What a capacity without a unit counts: 1 Mbit/s unless told otherwise.
    pub capacity_unit: Bandwidth,
    /// What a delay without a unit counts: 1 ms unless told otherwise.
    pub delay_unit: Duration,
}

impl Default for WanDefaults {
    fn default() -> Self {
        Self {
            bandwidth: Bandwidth::gbit_per_s(10),
            latency: Duration::from_ms(5),
            capacity_unit: Bandwidth::from_bits_per_s(1_000_000),
            delay_unit: Duration::from_ms(1),
        }
    }
}

/// A graph as its file has it: everything an attribute.
#[derive(Debug, Default)]
pub(crate) struct GraphFile {
    pub(crate) name: Option<String>,
    pub(crate) nodes: Vec<GraphNode>,
    pub(crate) edges: Vec<GraphEdge>,
}

#[derive(Debug)]
pub(crate) struct GraphNode {
    pub(crate) id: String,
    pub(crate) attributes: Attributes,
}

#[derive(Debug)]
pub(crate) struct GraphEdge {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) directed: bool,
    pub(crate) attributes: Attributes,
}

/// Names in lower case; the first of a name counts.
#[derive(Debug, Default)]
pub(crate) struct Attributes(BTreeMap<String, String>);

impl Attributes {
    pub(crate) fn add(&mut self, name: &str, value: impl Into<String>) {
        self.0.entry(name.to_lowercase()).or_insert_with(|| value.into());
    }

    fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|it| self.0.get(*it)).map(|it| it.trim())
    }

    fn number(&self, names: &[&str]) -> Option<f64> {
        let value = self.first(names)?.parse::<f64>().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    }
}

const LATITUDE: [&str; 2] = ["latitude", "lat"];
const LONGITUDE: [&str; 4] = ["longitude", "lon", "long", "lng"];

/// Light in fibre covers two thirds of what it does in vacuum.
const KM_PER_S: f64 = 299_792.458 * 2.0 / 3.0;
const EARTH_KM: f64 = 6371.0;
/// A kilometre of fibre: two routers in one town are not at distance zero.
const LEAST_US: f64 = 5.0;

/// The network of a graph file.
pub(crate) fn network(
    graph: &GraphFile,
    defaults: &WanDefaults,
    format: NetworkFormat,
) -> Result<ReadNetwork, ReadError> {
    let mut builder = NetworkBuilder::new(graph.name.as_deref().unwrap_or(format.name()));
    let mut places: Vec<Option<Place>> = Vec::with_capacity(graph.nodes.len());
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &graph.nodes {
        *uses.entry(label(node)).or_default() += 1;
    }
    for node in &graph.nodes {
        let label = label(node);
        let name = if uses[label] > 1 { format!("{label}#{}", node.id) } else { label.to_owned() };
        let place = Place::of(&node.attributes);
        builder.add_node(router(unique_name(&builder, &name), node, place))?;
        places.push(place);
    }
    let mut tally = Tally::default();
    let specs: Vec<LinkSpec> = graph
        .edges
        .iter()
        .map(|it| tally.spec(&it.attributes, places[it.from], places[it.to], defaults))
        .collect();
    add_links(&mut builder, &graph.edges, &specs, &mut tally)?;
    let mut read = ReadNetwork::new(builder.build()?, format);
    read.notes = tally.notes(graph.edges.len(), defaults);
    Ok(read)
}

fn label(node: &GraphNode) -> &str {
    let label = node.attributes.first(&["label", "name"]);
    label.filter(|it| !matches!(*it, "" | "None" | "?")).unwrap_or(&node.id)
}

fn router(name: String, file: &GraphNode, place: Option<Place>) -> Node {
    let mut node = Node::new(name, NodeKind::Border);
    for (key, value) in &file.attributes.0 {
        let known = LATITUDE.contains(&key.as_str()) || LONGITUDE.contains(&key.as_str());
        if !known && !value.is_empty() && key != "label" {
            node.properties.insert(key.clone(), value.clone());
        }
    }
    node.properties.insert("id".to_owned(), file.id.clone());
    if let Some(place) = place {
        node.properties.insert("latitude".to_owned(), place.latitude.to_string());
        node.properties.insert("longitude".to_owned(), place.longitude.to_string());
    }
    node
}

/// A place on Earth, in degrees.
#[derive(Clone, Copy, Debug)]
struct Place {
    latitude: f64,
    longitude: f64,
}

impl Place {
    fn of(attributes: &Attributes) -> Option<Self> {
        let degrees = |names: &[&str], most: f64| {
            let value = attributes.first(names)?.parse::<f64>().ok()?;
            (value.abs() <= most).then_some(value)
        };
        Some(Self { latitude: degrees(&LATITUDE, 90.0)?, longitude: degrees(&LONGITUDE, 180.0)? })
    }

    /// Along the great circle.
    fn km_to(self, other: Self) -> f64 {
        let (a, b) = (self.latitude.to_radians(), other.latitude.to_radians());
        // `libm` rather than the system's, so that every machine gives the same bytes.
        let half = |from: f64, to: f64| {
            let sine = libm::sin((to - from) / 2.0);
            sine * sine
        };
        let across = half(self.longitude.to_radians(), other.longitude.to_radians());
        let chord = half(a, b) + libm::cos(a) * libm::cos(b) * across;
        2.0 * EARTH_KM * libm::asin(chord.sqrt().min(1.0))
    }
}

/// Whole microseconds, so that no platform's last bit of a sine shows.
fn fibre(km: f64) -> Duration {
    let us = (km / KM_PER_S * 1e6).round().max(LEAST_US);
    Duration::from_us(us.min(1e12) as u64)
}

/// Where the links' figures came from.
#[derive(Default)]
struct Tally {
    assumed_bandwidth: usize,
    assumed_latency: usize,
    from_places: usize,
    without_unit: usize,
    loops: usize,
}

impl Tally {
    fn spec(
        &mut self,
        edge: &Attributes,
        from: Option<Place>,
        to: Option<Place>,
        defaults: &WanDefaults,
    ) -> LinkSpec {
        let bandwidth = self.bandwidth(edge, defaults).filter(|it| !it.is_zero());
        let bandwidth = bandwidth.unwrap_or_else(|| {
            self.assumed_bandwidth += 1;
            defaults.bandwidth
        });
        let distance = edge.number(&["distance", "dist", "length"]);
        let latency = if let Some(latency) = delay(edge, defaults) {
            latency
        } else if let Some(km) = distance {
            fibre(km)
        } else if let (Some(from), Some(to)) = (from, to) {
            self.from_places += 1;
            fibre(from.km_to(to))
        } else {
            self.assumed_latency += 1;
            defaults.latency
        };
        LinkSpec::new(LinkClass::Wan, bandwidth, latency)
    }

    fn bandwidth(&mut self, edge: &Attributes, defaults: &WanDefaults) -> Option<Bandwidth> {
        let names = ["bandwidth", "capacity", "cap"];
        if let Some(number) = edge.number(&names) {
            self.without_unit += 1;
            return bits(number * defaults.capacity_unit.bits_per_s() as f64);
        }
        if let Some(Ok(found)) = edge.first(&names).map(str::parse::<Bandwidth>) {
            return Some(found);
        }
        if let Some(raw) = edge.number(&["linkspeedraw"]) {
            return bits(raw);
        }
        let unit = match edge.first(&["linkspeedunits"]) {
            Some("K" | "k") => Some(1e3),
            Some("M") => Some(1e6),
            Some("G") => Some(1e9),
            Some("T") => Some(1e12),
            _ => None,
        };
        if let (Some(speed), Some(unit)) = (edge.number(&["linkspeed"]), unit) {
            return bits(speed * unit);
        }
        ["linklabel", "linktype"].iter().find_map(|it| carrier(edge.first(&[it])?))
    }

    fn notes(&self, links: usize, defaults: &WanDefaults) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |count: usize, text: String| {
            if count > 0 {
                notes.push(format!("{count} of {links} links {text}"));
            }
        };
        note(self.assumed_bandwidth, format!("have no capacity: {} assumed", defaults.bandwidth));
        let unit = defaults.capacity_unit;
        note(self.without_unit, format!("have a capacity without unit: {unit} each assumed"));
        note(self.from_places, "have their latency from the distance of their ends".to_owned());
        note(self.assumed_latency, format!("have no latency: {} assumed", defaults.latency));
        note(self.loops, "lead back to their own node and are left out".to_owned());
        notes
    }
}

fn delay(edge: &Attributes, defaults: &WanDefaults) -> Option<Duration> {
    let names = ["latency", "delay"];
    match edge.number(&names) {
        Some(number) => {
            let ps = (number * defaults.delay_unit.as_ps() as f64).round();
            (ps < 1e19).then(|| Duration::from_ps(ps as u64))
        }
        None => edge.first(&names)?.parse().ok(),
    }
}

fn bits(per_s: f64) -> Option<Bandwidth> {
    (per_s < 1e19).then(|| Bandwidth::from_bits_per_s(per_s.round() as u64))
}

/// "2.5 Gbps", or the payload class of a SONET or SDH circuit: "OC-192c", "STM-16".
fn carrier(text: &str) -> Option<Bandwidth> {
    if let Ok(found) = text.parse::<Bandwidth>() {
        return Some(found);
    }
    let upper = text.to_uppercase();
    let (rest, step) = match upper.strip_prefix("OC") {
        Some(rest) => (rest, 51_840_000),
        None => (upper.strip_prefix("STM")?, 155_520_000),
    };
    let rest = rest.trim_start_matches(['-', ' ']);
    let end = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
    let times = rest[..end].parse::<u64>().ok().filter(|it| (1..=4096).contains(it))?;
    Some(Bandwidth::from_bits_per_s(step * times))
}

/// Undirected edges become a link each way, and so do two directed edges that are each other's
/// reverse and alike; other directed edges stay one link.
fn add_links(
    builder: &mut NetworkBuilder,
    edges: &[GraphEdge],
    specs: &[LinkSpec],
    tally: &mut Tally,
) -> Result<(), ReadError> {
    let key = |from: usize, to: usize, spec: &LinkSpec| (from, to, spec.bandwidth, spec.latency);
    let mut waiting: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    // For a directed edge: its reverse, if that comes later; itself marks one already used.
    let mut partner: Vec<Option<usize>> = vec![None; edges.len()];
    for (index, (edge, spec)) in edges.iter().zip(specs).enumerate().filter(|(_, it)| it.0.directed)
    {
        match waiting.get_mut(&key(edge.to, edge.from, spec)).and_then(Vec::pop) {
            Some(first) => {
                partner[first] = Some(index);
                partner[index] = Some(index);
            }
            None => waiting.entry(key(edge.from, edge.to, spec)).or_default().push(index),
        }
    }
    for (index, (edge, spec)) in edges.iter().zip(specs).enumerate() {
        let (from, to) = (NodeId::from_index(edge.from), NodeId::from_index(edge.to));
        if from == to {
            tally.loops += 1;
        } else if !edge.directed || partner[index].is_some_and(|it| it > index) {
            builder.add_duplex(from, to, *spec)?;
        } else if partner[index].is_none() {
            builder.add_link(from, to, *spec)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Attributes {
        let mut attributes = Attributes::default();
        for (name, value) in pairs {
            attributes.add(name, *value);
        }
        attributes
    }

    fn spec(pairs: &[(&str, &str)]) -> (String, String) {
        let defaults = WanDefaults::default();
        let spec = Tally::default().spec(&attributes(pairs), None, None, &defaults);
        (spec.bandwidth.to_string(), spec.latency.to_string())
    }

    #[test]
    fn figures_come_from_the_first_that_is_said() {
        for (pairs, bandwidth, latency) in [
            (&[][..], "1.25 GB/s", "5 ms"),
            (&[("capacity", "5000.0"), ("delay", "2.5")], "625 MB/s", "2.5 ms"),
            (&[("Bandwidth", "400 Gbit/s"), ("latency", "30 us")], "50 GB/s", "30 µs"),
            (&[("LinkSpeedRaw", "1e9"), ("dist", "1000")], "125 MB/s", "5.003 ms"),
            (&[("LinkSpeed", "2.5"), ("LinkSpeedUnits", "G")], "312.5 MB/s", "5 ms"),
            (&[("LinkSpeed", "<10"), ("LinkLabel", "OC-192c")], "1.244 GB/s", "5 ms"),
            (&[("LinkLabel", "10 Gbps")], "1.25 GB/s", "5 ms"),
            (&[("capacity", "-3"), ("delay", "inf")], "1.25 GB/s", "5 ms"),
            (&[("capacity", "1e300"), ("delay", "1e300")], "1.25 GB/s", "5 ms"),
        ] {
            let (b, l) = spec(pairs);
            let b: Bandwidth = b.parse().unwrap();
            let expected: Bandwidth = bandwidth.parse().unwrap();
            // OC-192 is 9953.28 Mbit/s, which prints in MB/s.
            let close = b.bits_per_s().abs_diff(expected.bits_per_s()) < 2_000_000;
            assert!(close, "{pairs:?}: {b}");
            assert_eq!(l, latency, "{pairs:?}");
        }
        assert_eq!(carrier("STM-16"), Some(Bandwidth::from_bits_per_s(2_488_320_000)));
        assert_eq!(carrier("OC-"), None);
    }

    #[test]
    fn distance_along_the_great_circle() {
        let new_york = Place { latitude: 40.71427, longitude: -74.00597 };
        let chicago = Place { latitude: 41.85003, longitude: -87.65005 };
        let km = new_york.km_to(chicago);
        assert!((1_140.0..1_150.0).contains(&km), "{km}");
        assert_eq!(fibre(km).as_ps() / 1_000_000_000, 5);
        assert_eq!(fibre(0.0), Duration::from_us(5));
    }

    fn edge(from: usize, to: usize, capacity: &str) -> GraphEdge {
        let attributes = attributes(&[("capacity", capacity)]);
        GraphEdge { from, to, directed: true, attributes }
    }

    #[test]
    fn directed_edges_pair_with_their_reverse() {
        let node = |id: &str| GraphNode { id: id.to_owned(), attributes: Attributes::default() };
        let graph = GraphFile {
            name: None,
            nodes: vec![node("a"), node("b"), node("c")],
            edges: vec![
                edge(0, 1, "1"),
                edge(1, 2, "1"),
                edge(1, 0, "1"),
                edge(2, 1, "7"),
                edge(2, 2, "1"),
                edge(0, 1, "1"),
            ],
        };
        let read = network(&graph, &WanDefaults::default(), NetworkFormat::NodeLinkJson).unwrap();
        let links = read.network.links();
        let duplex = links.iter().filter(|it| it.reverse.is_some()).count();
        assert_eq!((links.len(), duplex), (5, 2));
        assert!(read.notes.iter().any(|it| it.contains("their own node")), "{:?}", read.notes);
    }
}
