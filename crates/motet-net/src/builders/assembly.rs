//! [`Assembly`]: several templates put together into one network.
//!
//! A server leaves its network ports open; a fabric added after it joins every open port; a WAN
//! joins what stands in each of its datacenters. A fabric with no port to join makes GPUs of its
//! own, so that each template also works alone.
//!
//! Every template says how many nodes and links it will add (`Assembly::reserve`) before it
//! adds one, so that a hostile count is refused before any memory is taken for it.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::{Bandwidth, Duration, NodeId};

use super::template::{Args, Params, Template, TemplateError};
use super::{find, leaf_spine};
use crate::link::{LinkClass, LinkSpec};
use crate::network::{MAX_LINKS, MAX_NODES, Network, NetworkBuilder};
use crate::node::{Node, NodeKind};

/// Fetches the text of a file that a cluster file names; the error says why it could not.
pub type Fetch<'f> = dyn Fn(&str) -> Result<String, String> + 'f;

/// In which direction a port carries data. Usually in both; but where several GPUs share a NIC and
/// no NIC is drawn, one GPU may send for all of them and another receive (`attach = "relay"`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PortUse {
    Both,
    Send,
    Receive,
}

/// An end that a fabric can be attached to: a NIC, or a GPU with its share of one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Port {
    pub(super) node: NodeId,
    pub(super) bandwidth: Bandwidth,
    /// From the node to the first switch.
    pub(super) latency: Duration,
    /// The server it belongs to, counted over the whole assembly.
    pub(super) server: usize,
    /// Its number within the server: ports of equal number form a rail.
    pub(super) rail: usize,
    pub(super) carries: PortUse,
}

/// A network under construction from templates and explicit parts.
pub struct Assembly<'f> {
    pub(super) builder: NetworkBuilder,
    ports: Vec<Port>,
    /// Switches at the top of each fabric, where a WAN may be attached.
    tops: Vec<NodeId>,
    /// The next number of each server name.
    numbers: BTreeMap<String, usize>,
    servers: usize,
    /// Whether open ports are joined by a switch at the end.
    join: bool,
    fetch: Option<&'f Fetch<'f>>,
    /// What was assumed on the way, each a sentence to show the user.
    pub(super) notes: Vec<String>,
}

impl std::fmt::Debug for Assembly<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (nodes, links) = (self.builder.nodes().len(), self.builder.links().len());
        let open = self.ports.len();
        f.debug_struct("Assembly")
            .field("nodes", &nodes)
            .field("links", &links)
            .field("open_ports", &open)
            .finish_non_exhaustive()
    }
}

impl<'f> Assembly<'f> {
    /// An empty assembly; the network will have this name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            builder: NetworkBuilder::new(name),
            ports: Vec::new(),
            tops: Vec::new(),
            numbers: BTreeMap::new(),
            servers: 0,
            join: true,
            fetch: None,
            notes: Vec::new(),
        }
    }

    /// With a way to fetch the files that templates name.
    #[must_use]
    pub fn with_fetch(mut self, fetch: &'f Fetch<'f>) -> Self {
        self.fetch = Some(fetch);
        self
    }

    /// Leaves ports that nothing joined as they are, instead of joining them by a switch.
    pub fn leave_ports_open(&mut self) {
        self.join = false;
    }

    /// For the explicit nodes and links between templates.
    pub fn builder_mut(&mut self) -> &mut NetworkBuilder {
        &mut self.builder
    }

    /// What templates assumed where a file they read said nothing, each a sentence to show.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds what `template` makes of `params`.
    pub fn add(&mut self, template: &Template, params: &Params) -> Result<(), TemplateError> {
        let args = template.args(params)?;
        (template.build)(self, &args)
    }

    /// The finished network.
    pub fn finish(self) -> Result<Network, TemplateError> {
        Ok(self.into_builder()?.build()?)
    }

    /// All that was added. Ports still open on several servers are joined by one switch, unless
    /// someone said otherwise: servers without a fabric are meant to talk.
    pub(crate) fn into_builder(mut self) -> Result<NetworkBuilder, TemplateError> {
        let servers = self.ports.iter().map(|it| it.server);
        if self.join && servers.clone().min() != servers.max() {
            let switch = find(leaf_spine::SWITCH.name)?;
            self.add(switch, &Params::new())?;
        }
        Ok(self.builder)
    }

    /// Makes sure that so many more nodes and links fit.
    pub(super) fn reserve(&self, nodes: u128, links: u128) -> Result<(), TemplateError> {
        let fits = |have: usize, more: u128, most: usize| {
            more.checked_add(have as u128).is_some_and(|it| it <= most as u128)
        };
        if fits(self.builder.nodes().len(), nodes, MAX_NODES)
            && fits(self.builder.links().len(), links, MAX_LINKS)
        {
            return Ok(());
        }
        Err(TemplateError::new(format!(
            "this makes {nodes} nodes and {links} links, but a network may have at most \
             {MAX_NODES} nodes and {MAX_LINKS} links"
        ))
        .with_remedy("use smaller counts"))
    }

    pub(super) fn fetch(&self, file: &str) -> Result<String, TemplateError> {
        let Some(fetch) = self.fetch else {
            return Err(TemplateError::of("file", format!("`{file}` cannot be read from here")));
        };
        fetch(file).map_err(|why| TemplateError::of("file", format!("`{file}`: {why}")))
    }

    /// The number of the next server called `name`, and its number over the whole assembly.
    pub(super) fn next_server(&mut self, name: &str) -> (usize, usize) {
        let number = self.numbers.entry(name.to_owned()).or_default();
        let own = *number;
        *number += 1;
        self.servers += 1;
        (own, self.servers - 1)
    }

    pub(super) fn open(&mut self, port: Port) {
        self.ports.push(port);
    }

    pub(super) fn add_top(&mut self, switch: NodeId) {
        self.tops.push(switch);
    }

    /// The tops of fabrics that stand in `dc`.
    pub(super) fn tops_in(&self, dc: &str) -> Vec<NodeId> {
        let here =
            |it: &&NodeId| self.builder.nodes()[it.index()].location.dc.as_deref() == Some(dc);
        self.tops.iter().filter(here).copied().collect()
    }

    /// The datacenters in which a port is open or a fabric stands.
    pub(super) fn datacenters(&self) -> BTreeSet<String> {
        let nodes = self.ports.iter().map(|it| it.node).chain(self.tops.iter().copied());
        nodes.filter_map(|it| self.builder.nodes()[it.index()].location.dc.clone()).collect()
    }

    /// Takes the open ports: all of them, or those of one datacenter.
    pub(super) fn take_ports(&mut self, dc: Option<&str>) -> Vec<Port> {
        let nodes = self.builder.nodes();
        let here = |it: &Port| dc.is_none() || nodes[it.node.index()].location.dc.as_deref() == dc;
        let (taken, left) = std::mem::take(&mut self.ports).into_iter().partition(here);
        self.ports = left;
        taken
    }

    /// What a fabric joins: the open ports, or new GPUs if there are none. `own` is the parameter
    /// that sets how many, which makes no sense when there are ports, and that number; `size` the
    /// nodes and links of the fabric itself, for which room is made together with the rest.
    pub(super) fn fabric_ports(
        &mut self,
        args: &Args,
        own: (&str, usize),
        size: (u128, u128),
    ) -> Result<Vec<Port>, TemplateError> {
        let place = Place::of(args)?;
        let ports = self.take_ports(place.dc.as_deref());
        if ports.is_empty() {
            let more = own.1 as u128;
            self.reserve(size.0.saturating_add(more), size.1.saturating_add(2 * more))?;
            return self.own_gpus(args, &place, own.1);
        }
        if args.given(own.0) {
            let problem = format!(
                "`{}` is for a fabric with GPUs of its own, but this one joins {} open ports of \
                 the servers before it",
                own.0,
                ports.len()
            );
            return Err(TemplateError::of(own.0, problem).with_remedy("leave it out"));
        }
        self.reserve(size.0, size.1.saturating_add(2 * ports.len() as u128))?;
        Ok(ports)
    }

    /// `count` GPUs with a port each, of the fabric's `bandwidth` and `latency`.
    fn own_gpus(
        &mut self,
        args: &Args,
        place: &Place,
        count: usize,
    ) -> Result<Vec<Port>, TemplateError> {
        let (bandwidth, latency) = (args.bandwidth("bandwidth")?, args.latency("latency")?);
        let mut ports = Vec::with_capacity(count);
        for index in 0..count {
            let node = self.builder.add_node(place.node(format!("gpu{index}"), NodeKind::Gpu))?;
            self.servers += 1;
            let server = self.servers - 1;
            ports.push(Port { node, bandwidth, latency, server, rail: 0, carries: PortUse::Both });
        }
        Ok(ports)
    }

    /// Joins a port to a switch.
    pub(super) fn attach(
        &mut self,
        port: &Port,
        switch: NodeId,
        class: LinkClass,
    ) -> Result<(), TemplateError> {
        let spec = LinkSpec::new(class, port.bandwidth, port.latency);
        match port.carries {
            PortUse::Both => self.builder.add_duplex(port.node, switch, spec).map(|_| ())?,
            PortUse::Send => self.builder.add_link(port.node, switch, spec).map(|_| ())?,
            PortUse::Receive => self.builder.add_link(switch, port.node, spec).map(|_| ())?,
        }
        Ok(())
    }
}

/// Where a template's nodes stand and what their names begin with.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    pub(super) prefix: String,
    pub(super) dc: Option<String>,
}

impl Place {
    /// From the parameters `name` and `dc`.
    pub(super) fn of(args: &Args) -> Result<Self, TemplateError> {
        let (prefix, dc) = (args.text("name")?, args.text("dc")?);
        Ok(Self { prefix, dc: (!dc.is_empty()).then_some(dc) })
    }

    pub(super) fn node(&self, name: impl AsRef<str>, kind: NodeKind) -> Node {
        let mut node = Node::new(format!("{}{}", self.prefix, name.as_ref()), kind);
        node.location.dc.clone_from(&self.dc);
        node
    }
}
