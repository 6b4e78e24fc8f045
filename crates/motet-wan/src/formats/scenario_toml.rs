//! [`ScenarioFile`]: a scenario as written, in TOML. [`ScenarioFile::read`] checks what can be
//! checked without the network; [`ScenarioFile::resolve`] combines it with one.

use std::ops::Range;

use motet_collective::CollectiveKind;
use motet_net::formats::{ReadError, read_toml};
use motet_net::state::{BandwidthRange, RangeTable};
use motet_net::{LinkClass, Network};
use motet_synth::{Goal, Method};
use motet_units::{Bandwidth, Bytes, Duration, Instant, LinkId, Rank, Seed};
use serde::Deserialize;
use toml::Spanned;

use super::{matrices_csv, trace_csv};
use crate::fault::Fault;
use crate::scenario::{
    Asked, Congestion, Links, ProgramsHand, Routers, RoutesHand, Scenario, StartRoutes, Testbed,
};
use crate::trigger::{Costs, Hand, Trigger};
use crate::variation::Variation;

/// Most collectives of one run.
const MAX_COUNT: u32 = 100_000_000;
/// Most routes of a flow.
const MAX_PATHS: u32 = 256;

/// What a scenario runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cluster {
    /// A template with parameters, or a file.
    Named(String),
    /// The text of a cluster file, which the scenario holds.
    Inline(String),
}

/// A scenario file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioFile {
    #[serde(default)]
    pub name: String,
    cluster: Spanned<toml::Value>,
    pub seed: Option<u64>,
    count: Option<Spanned<u32>>,
    gap: Option<Spanned<String>>,
    collective: Spanned<Vec<CollectiveTable>>,
    #[serde(default)]
    variation: VariationTable,
    #[serde(default)]
    routes: HandTable,
    #[serde(default)]
    programs: HandTable,
    #[serde(default)]
    fault: Vec<Spanned<FaultTable>>,
    #[serde(default)]
    testbed: TestbedTable,
    #[serde(skip)]
    text: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectiveTable {
    kind: Spanned<String>,
    size: Option<Spanned<String>>,
    chunk: Option<Spanned<String>>,
    root: Option<Spanned<u32>>,
    counts: Option<Spanned<Vec<Vec<u32>>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariationTable {
    kind: Option<Spanned<String>>,
    intra: Option<Spanned<[String; 2]>>,
    wan: Option<Spanned<[String; 2]>>,
    every: Option<Spanned<u32>>,
    correlation: Option<Spanned<f64>>,
    file: Option<Spanned<String>>,
    unit: Option<Spanned<String>>,
}

/// The tables `[routes]` and `[programs]`. Keys that belong to the other table are refused when the scenario
/// is resolved.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HandTable {
    every: Option<Spanned<u32>>,
    trigger: Option<Spanned<String>>,
    above: Option<Spanned<f64>>,
    below: Option<Spanned<f64>>,
    compute: Option<Spanned<String>>,
    distribute: Option<Spanned<String>>,
    converge: Option<Spanned<String>>,
    paths: Option<Spanned<u32>>,
    split: Option<Spanned<u32>>,
    start: Option<Spanned<String>>,
    by: Option<Spanned<String>>,
    base: Option<Spanned<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultTable {
    link: Option<Spanned<String>>,
    node: Option<Spanned<String>>,
    region: Option<Spanned<String>>,
    at: Spanned<String>,
    #[serde(rename = "for")]
    lasts: Option<Spanned<String>>,
}

/// What only a testbed needs.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TestbedTable {
    queue: Option<Spanned<String>>,
    loss: Option<Spanned<f64>>,
    period: Option<Spanned<String>>,
    routers: Option<Spanned<String>>,
    links: Option<Spanned<String>>,
    congestion: Option<Spanned<String>>,
}

impl ScenarioFile {
    /// Reads the text of a scenario.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        let mut file: Self = read_toml(text)?;
        text.clone_into(&mut file.text);
        Ok(file)
    }

    /// What it runs on: `cluster = "…"` or the tables of `[cluster]`.
    pub fn cluster(&self) -> Result<Cluster, ReadError> {
        match self.cluster.get_ref() {
            toml::Value::String(name) => Ok(Cluster::Named(name.clone())),
            toml::Value::Table(table) => Ok(Cluster::Inline(table.to_string())),
            _ => Err(self
                .wrong(self.cluster.span(), "a cluster is a name or a table")
                .with_remedy("write the name of a file or template, or [[cluster.wan]] and so on")),
        }
    }

    /// The file that the variation names, if any.
    #[must_use]
    pub fn variation_file(&self) -> Option<&str> {
        self.variation.file.as_ref().map(|it| it.get_ref().as_str())
    }

    /// The scenario on its network; `variation` is the text of the file that it names.
    pub fn resolve<'a>(
        &self,
        network: &'a Network,
        variation: Option<&str>,
        seed: Seed,
    ) -> Result<Scenario<'a>, ReadError> {
        let count = self.number(self.count.as_ref(), 1..MAX_COUNT, 100_000)?;
        if self.collective.get_ref().is_empty() {
            let error = ReadError::new("there is no collective to run");
            return Err(error.with_remedy("add a [[collective]] with a kind and a size"));
        }
        let asked = self.collective.get_ref().iter().map(|it| self.asked(it, network));
        let faults = self.fault.iter().map(|it| self.fault(it, network));
        Ok(Scenario {
            name: self.name.clone(),
            network,
            seed,
            count,
            gap: self.value(self.gap.as_ref())?.unwrap_or(Duration::ZERO),
            collectives: asked.collect::<Result<_, _>>()?,
            variation: self.variation(network, variation)?,
            routes: self.routes_hand()?,
            programs: self.programs_hand()?,
            faults: faults.collect::<Result<_, _>>()?,
            testbed: self.testbed()?,
        })
    }

    fn wrong(&self, at: Range<usize>, problem: impl Into<String>) -> ReadError {
        ReadError::new(problem).at(&self.text, at.start)
    }

    /// A quantity with a unit.
    fn value<T>(&self, text: Option<&Spanned<String>>) -> Result<Option<T>, ReadError>
    where
        T: std::str::FromStr<Err: std::fmt::Display>,
    {
        let Some(text) = text else { return Ok(None) };
        let value = text
            .get_ref()
            .parse()
            .map_err(|error: T::Err| self.wrong(text.span(), error.to_string()))?;
        Ok(Some(value))
    }

    fn number(
        &self,
        number: Option<&Spanned<u32>>,
        range: Range<u32>,
        otherwise: u32,
    ) -> Result<u32, ReadError> {
        let Some(number) = number else { return Ok(otherwise) };
        let (least, most) = (range.start, range.end - 1);
        if range.contains(number.get_ref()) {
            return Ok(*number.get_ref());
        }
        let problem = format!("{} is not from {least} to {most}", number.get_ref());
        let remedy = format!("write a whole number of at least {least}");
        Err(self.wrong(number.span(), problem).with_remedy(remedy))
    }

    fn asked(&self, table: &CollectiveTable, network: &Network) -> Result<Asked, ReadError> {
        let ranks = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
        let at = table.kind.span();
        let kind: CollectiveKind =
            (table.kind.get_ref().parse()).map_err(|error: motet_net::node::UnknownName| {
                self.wrong(at.clone(), error.to_string())
            })?;
        let root = Rank(table.root.as_ref().map_or(0, |it| *it.get_ref()));
        if let Some(counts) = table.counts.as_ref().filter(|_| kind != CollectiveKind::AllToAllV) {
            return Err(self.wrong(counts.span(), format!("{kind} has no counts")));
        }
        let goal = match kind {
            CollectiveKind::AllToAllV => {
                let counts = table.counts.as_ref().ok_or_else(|| {
                    let problem = "alltoallv needs a count for each pair of ranks";
                    self.wrong(at.clone(), problem.to_owned())
                        .with_remedy("add `counts` with one row of numbers per sending rank")
                })?;
                Goal::all_to_all_v(ranks, counts.get_ref().concat())
            }
            CollectiveKind::SendRecv => {
                Goal::send_recv((0..ranks).map(|it| Some(Rank((it + 1) % ranks))).collect())
            }
            _ => Goal::rooted(kind, ranks, root),
        };
        let goal = goal.map_err(|error| self.wrong(at.clone(), error.to_string()))?;
        let size: Option<Bytes> = self.value(table.size.as_ref())?;
        let chunk: Option<Bytes> = self.value(table.chunk.as_ref())?;
        let by_rank = matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter);
        let size = match (size, chunk) {
            (Some(size), None) => Some(size),
            (None, Some(chunk)) if by_rank => chunk.checked_mul(u64::from(ranks)),
            (None, Some(chunk)) => Some(chunk),
            _ => None,
        };
        match size.filter(|it| !it.is_zero()) {
            Some(size) => Ok(Asked { goal, size }),
            None => Err(self
                .wrong(at, "a collective needs a size or a chunk, one of them, above zero")
                .with_remedy(
                    "write size = \"64 MiB\", or chunk = \"8 MB\" for what each rank has",
                )),
        }
    }

    fn variation(&self, network: &Network, text: Option<&str>) -> Result<Variation, ReadError> {
        let table = &self.variation;
        let kind = table.kind.as_ref().map_or("none", |it| it.get_ref().as_str());
        let at = table.kind.as_ref().map_or(0..0, Spanned::span);
        let every = self.number(table.every.as_ref(), 1..MAX_COUNT, 1)?;
        let needs_file = || {
            self.wrong(at.clone(), format!("variation `{kind}` needs a file"))
                .with_remedy("write file = \"NAME.csv\"")
        };
        match kind {
            "none" => Ok(Variation::None),
            "uniform" => Ok(Variation::Uniform { ranges: self.ranges(network)?, every }),
            "correlated" => {
                let correlation = table.correlation.as_ref();
                let value = correlation.map_or(0.9, |it| *it.get_ref());
                if !(0.0..=1.0).contains(&value) {
                    let at = correlation.map_or(0..0, Spanned::span);
                    return Err(self.wrong(at, "a correlation is from 0 to 1"));
                }
                let ranges = self.ranges(network)?;
                Ok(Variation::Correlated { ranges, every, correlation: value })
            }
            "matrices" => {
                let unit = self.value(table.unit.as_ref())?;
                let unit = unit.unwrap_or(Bandwidth::from_bits_per_s(1_000_000));
                let text = text.ok_or_else(needs_file)?;
                Ok(Variation::Background {
                    traffic: matrices_csv::read(text, network, unit)?,
                    every,
                })
            }
            "trace" => {
                Ok(Variation::Trace(trace_csv::read(text.ok_or_else(needs_file)?, network)?))
            }
            _ => Err(self
                .wrong(at, format!("there is no variation `{kind}`"))
                .with_remedy("write none, uniform, correlated, matrices or trace")),
        }
    }

    /// The bandwidth ranges: `wan` for WAN links, `intra` for all others. Without a range a link keeps its
    /// nominal bandwidth.
    fn ranges(&self, network: &Network) -> Result<RangeTable, ReadError> {
        let wan = self.range(self.variation.wan.as_ref())?;
        let intra = self.range(self.variation.intra.as_ref())?;
        let made = RangeTable::new(network, |_, link| {
            let nominal = link.spec.bandwidth;
            let given = if link.spec.class == LinkClass::Wan { wan } else { intra };
            given.unwrap_or(BandwidthRange { low: nominal, high: nominal })
        });
        made.map_err(|error| ReadError::new(error.to_string()))
    }

    fn range(
        &self,
        texts: Option<&Spanned<[String; 2]>>,
    ) -> Result<Option<BandwidthRange>, ReadError> {
        let Some(texts) = texts else { return Ok(None) };
        let parse = |text: &String| {
            let value: Result<Bandwidth, _> = text.parse();
            value.map_err(|error| self.wrong(texts.span(), error.to_string()))
        };
        let [low, high] = texts.get_ref();
        let (low, high) = (parse(low)?, parse(high)?);
        if low > high || low.is_zero() {
            let problem =
                format!("a range goes from a rate above zero up, not from {low} to {high}");
            return Err(self.wrong(texts.span(), problem));
        }
        Ok(Some(BandwidthRange { low, high }))
    }

    fn hand(&self, table: &HandTable, otherwise: u32) -> Result<Hand, ReadError> {
        let every = self.number(table.every.as_ref(), 1..MAX_COUNT, otherwise)?;
        let factor = |it: Option<&Spanned<f64>>, otherwise: f64| match it {
            Some(it) if *it.get_ref() >= 1.0 => Ok(*it.get_ref()),
            Some(it) => Err(self.wrong(it.span(), "a factor is at least 1")),
            None => Ok(otherwise),
        };
        let kind = table.trigger.as_ref().map_or("cadence", |it| it.get_ref().as_str());
        let trigger = match kind {
            "cadence" => Trigger::Cadence(every),
            "gain" => Trigger::Gain { every },
            "threshold" => {
                let above = factor(table.above.as_ref(), 1.2)?;
                let below = factor(table.below.as_ref(), above.min(1.1))?;
                if let Some(it) = table.below.as_ref().filter(|_| below > above) {
                    let problem = format!("`below` ({below}) is above `above` ({above})");
                    return Err(self.wrong(it.span(), problem));
                }
                Trigger::Threshold { above, below }
            }
            _ => {
                let at = table.trigger.as_ref().map_or(0..0, Spanned::span);
                let error = self.wrong(at, format!("there is no trigger `{kind}`"));
                return Err(error.with_remedy("write cadence, threshold or gain"));
            }
        };
        let time = |it: Option<&Spanned<String>>| -> Result<Duration, ReadError> {
            Ok(self.value(it)?.unwrap_or(Duration::ZERO))
        };
        let costs = Costs {
            compute: time(table.compute.as_ref())?,
            distribute: time(table.distribute.as_ref())?,
            converge: time(table.converge.as_ref())?,
        };
        Ok(Hand { trigger, costs })
    }

    fn routes_hand(&self) -> Result<RoutesHand, ReadError> {
        let table = &self.routes;
        if let Some(it) = &table.base {
            return Err(self.wrong(it.span(), "`base` is a key of [programs]"));
        }
        let start = match table.start.as_ref().map_or("hashed", |it| it.get_ref().as_str()) {
            "hashed" => StartRoutes::Hashed,
            "first" => StartRoutes::First,
            other => {
                let at = table.start.as_ref().map_or(0..0, Spanned::span);
                let error = self.wrong(at, format!("there is no start `{other}`"));
                return Err(error.with_remedy("write hashed or first"));
            }
        };
        let by_pair = match table.by.as_ref().map_or("path", |it| it.get_ref().as_str()) {
            "path" => false,
            "pair" => true,
            other => {
                let at = table.by.as_ref().map_or(0..0, Spanned::span);
                let error = self.wrong(at, format!("flows are not told apart by `{other}`"));
                return Err(error.with_remedy("write path or pair"));
            }
        };
        Ok(RoutesHand {
            by_pair,
            hand: self.hand(table, 1)?,
            paths: self.number(table.paths.as_ref(), 1..MAX_PATHS + 1, 16)? as usize,
            split: self.number(table.split.as_ref(), 1..65, 1)?,
            start,
        })
    }

    fn testbed(&self) -> Result<Testbed, ReadError> {
        let (table, usual) = (&self.testbed, Testbed::default());
        let loss = table.loss.as_ref().map_or(usual.loss, |it| *it.get_ref());
        if let Some(it) = table.loss.as_ref().filter(|_| !(0.0..1.0).contains(&loss)) {
            return Err(self.wrong(it.span(), "a loss is from 0 to less than 1"));
        }
        let period = self.value(table.period.as_ref())?.unwrap_or(usual.period);
        if let Some(it) = table.period.as_ref().filter(|_| period < Duration::from_ms(10)) {
            return Err(self.wrong(it.span(), "a period is at least 10 ms"));
        }
        let queue = self.value(table.queue.as_ref())?.unwrap_or(usual.queue);
        let routers = [("kernel", Routers::Kernel), ("frr", Routers::Frr)];
        let routers = self.one_of(table.routers.as_ref(), "routers", &routers)?;
        let links = [("own", Links::Own), ("kernel", Links::Kernel), ("auto", Links::Auto)];
        let links = self.one_of(table.links.as_ref(), "links", &links)?;
        let known = [
            ("system", Congestion::System),
            ("bbr", Congestion::Bbr),
            ("cubic", Congestion::Cubic),
            ("reno", Congestion::Reno),
        ];
        let congestion = self.one_of(table.congestion.as_ref(), "congestion", &known)?;
        Ok(Testbed { queue, loss, period, routers, links, congestion })
    }

    /// The value that a keyword stands for; the default if the key is missing.
    fn one_of<T: Copy + Default>(
        &self,
        given: Option<&Spanned<String>>,
        what: &str,
        known: &[(&str, T)],
    ) -> Result<T, ReadError> {
        let Some(given) = given else { return Ok(T::default()) };
        let found = known.iter().find(|it| it.0 == given.get_ref()).map(|it| it.1);
        found.ok_or_else(|| {
            let words: Vec<String> = known.iter().map(|it| format!("\"{}\"", it.0)).collect();
            self.wrong(given.span(), format!("there are no {what} `{}`", given.get_ref()))
                .with_remedy(format!("write {}", words.join(" or ")))
        })
    }

    fn programs_hand(&self) -> Result<ProgramsHand, ReadError> {
        let table = &self.programs;
        let others =
            [table.paths.as_ref().map(Spanned::span), table.split.as_ref().map(Spanned::span)];
        let start = [&table.start, &table.by].map(|it| it.as_ref().map(Spanned::span));
        if let Some(at) = others.into_iter().chain(start).flatten().next() {
            return Err(self.wrong(at, "`paths`, `split`, `start` and `by` are keys of [routes]"));
        }
        let base = match &table.base {
            None => None,
            Some(name) => Some(
                name.get_ref()
                    .parse::<Method>()
                    .map_err(|error| self.wrong(name.span(), error.to_string()))?,
            ),
        };
        Ok(ProgramsHand { hand: self.hand(table, 10)?, base })
    }

    fn fault(&self, table: &Spanned<FaultTable>, network: &Network) -> Result<Fault, ReadError> {
        let at = table.span();
        let table = table.get_ref();
        let (what, links) = match (&table.link, &table.node, &table.region) {
            (Some(it), None, None) => (it.get_ref().clone(), self.links(it, network)?),
            (None, Some(it), None) => {
                let node = network.find(it.get_ref()).ok_or_else(|| {
                    self.wrong(it.span(), format!("there is no node `{}`", it.get_ref()))
                })?;
                let links = network.outgoing(node).iter().chain(network.incoming(node)).copied();
                (it.get_ref().clone(), links.collect())
            }
            (None, None, Some(it)) => {
                (format!("region {}", it.get_ref()), Fault::region(network, it.get_ref()))
            }
            _ => {
                let error = self.wrong(at, "a fault is of one link, one node or one region");
                return Err(error.with_remedy("write link = \"a -> b\", node = or region ="));
            }
        };
        if links.is_empty() {
            return Err(self.wrong(at, format!("no link of the network is part of `{what}`")));
        }
        let start: Option<Duration> = self.value(Some(&table.at))?;
        let lasts = self.value(table.lasts.as_ref())?;
        let at = Instant::from_ps(start.unwrap_or(Duration::ZERO).as_ps());
        Ok(Fault { what, links, at, lasts })
    }

    /// The links of `FROM -> TO`, both ways.
    fn links(&self, text: &Spanned<String>, network: &Network) -> Result<Vec<LinkId>, ReadError> {
        let (a, b) = text.get_ref().split_once("->").ok_or_else(|| {
            self.wrong(text.span(), format!("`{}` is no link", text.get_ref()))
                .with_remedy("write \"FROM -> TO\" with the names of two nodes")
        })?;
        let node = |name: &str| {
            network.find(name.trim()).ok_or_else(|| {
                self.wrong(text.span(), format!("there is no node `{}`", name.trim()))
            })
        };
        let (a, b) = (node(a)?, node(b)?);
        let joins = |it: &LinkId| {
            let link = network.link(*it);
            (link.from, link.to) == (a, b) || (link.from, link.to) == (b, a)
        };
        Ok(network.link_ids().filter(joins).collect())
    }
}
