//! [`Keeper`]: the process that holds a testbed's namespaces, passes packets between the ends of its wires where the kernel does not, and does
//! what it is told.
//!
//! One thread waits for packets, orders and the next arrival at once. Everything that it made is gone when it ends, however it
//! ends.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use motet_net::NetworkState;
use motet_units::{Bandwidth, Instant, LinkId};
use motet_wan::route_table::RouteTable;
use motet_wan::{Routers, Scenario};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::build::Spaces;
use super::frr::Launch;
use super::own::Own;
use super::process::{end_all, number};
use super::wires::{Wires, by_kernel};
use crate::error::TestbedError;
use crate::layout::Layout;
use crate::line::{Shape, Traffic};
use crate::order::Order;
use crate::schedule::Schedule;
use crate::state::HostState;
use crate::ways::{self, Hop, Place};

/// The most bytes of an order. A client that sends more without a line's end is dropped.
const LONGEST_ORDER: usize = 16 << 10;

/// See the [module](self).
pub struct Keeper<'a> {
    scenario: &'a Scenario<'a>,
    layout: Layout,
    spaces: Spaces,
    wires: Wires,
    /// By wire and direction: what links are like at present.
    shapes: Vec<[Shape; 2]>,
    /// The routes that are set: by pair of ranks, the hop at each place.
    ways: BTreeMap<(u32, u32), BTreeMap<Place, Hop>>,
    schedule: Option<Schedule<'a>>,
    stopped: bool,
}

impl std::fmt::Debug for Keeper<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keeper({})", self.layout.summary())
    }
}

/// A controller that has connected, and what it has sent of a line that is not whole yet.
struct Client {
    stream: UnixStream,
    said: Vec<u8>,
}

impl<'a> Keeper<'a> {
    /// Makes a testbed. With `by_the_clock`, links change as the scenario says; otherwise when told. `launch` is for routers that are not the kernel alone.
    pub fn new(
        scenario: &'a Scenario<'a>,
        by_the_clock: bool,
        launch: &Launch,
    ) -> Result<Self, TestbedError> {
        let layout = Layout::new(scenario.network)?;
        let nominal = NetworkState::nominal(scenario.network);
        let shape = |link: LinkId| Shape {
            rate: nominal.bandwidth(link),
            delay: scenario.network.link(link).spec.latency,
            queue: scenario.testbed.queue,
            loss: scenario.testbed.loss,
        };
        let shapes: Vec<_> = layout.wires.iter().map(|it| it.links.map(shape)).collect();
        // First, so that nothing was made if the kernel cannot do its part.
        let by_kernel = by_kernel(scenario.testbed.links)?;
        let mut spaces = Spaces::new(&layout, scenario.testbed.congestion)?;
        let chance = scenario.seed.stream("loss");
        let wires = Wires::new(by_kernel, &layout, &mut spaces, &shapes, chance)?;
        if scenario.testbed.routers == Routers::Frr {
            spaces.start_frr(launch)?;
        }
        let mut keeper = Self {
            scenario,
            layout,
            spaces,
            wires,
            shapes,
            ways: BTreeMap::new(),
            schedule: by_the_clock.then(|| Schedule::new(scenario)),
            stopped: false,
        };
        keeper.start_ways()?;
        Ok(keeper)
    }

    /// Sets the route of every pair to the one that routers would give it by themselves.
    fn start_ways(&mut self) -> Result<(), TestbedError> {
        let mut table = RouteTable::of(self.scenario);
        let ranks = self.layout.hosts.len() as u32;
        for from in 0..ranks {
            for to in (0..ranks).filter(|it| *it != from) {
                let (a, b) = (motet_units::Rank(from), motet_units::Rank(to));
                let routes = table.between(a, b);
                let start = table.start(&routes, a, b, 0) as usize;
                let links: Vec<LinkId> =
                    routes.get(start).map_or_else(Vec::new, |it| it.links().collect());
                // Ranks that nothing joins are no fault of the testbed.
                if !links.is_empty() {
                    self.set_way(from, to, &links)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the route of a pair, from its end to its beginning, so that no packet comes to a place without a route. Places that are no
    /// longer on the route keep theirs for packets that are still under way to them; only where the route now ends none may stay.
    fn set_way(&mut self, from: u32, to: u32, links: &[LinkId]) -> Result<(), TestbedError> {
        let hops = ways::hops(&self.layout, from as usize, to as usize, links)?;
        let target = self.layout.hosts[to as usize].address;
        let known = self.ways.entry((from, to)).or_default();
        let last = links.iter().rev().find_map(|it| self.layout.wire_of(*it));
        let last = last.map(|(wire, way)| Place::Router(self.layout.wires[wire].ends[1 - way]));
        if let Some(hop) = last.and_then(|it| known.remove(&it)) {
            self.spaces.unset(from, target, hop)?;
        }
        for hop in hops.iter().rev().filter(|it| known.get(&it.at) != Some(it)) {
            self.spaces.set(from, target, *hop)?;
        }
        known.extend(hops.iter().map(|it| (it.at, *it)));
        Ok(())
    }

    /// The hosts, as ranks need them.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostState> {
        let all = self.layout.hosts.iter().zip(&self.spaces.hosts);
        all.map(|(host, space)| HostState {
            name: host.name.clone(),
            address: host.address,
            namespace: u32::try_from(std::os::fd::AsRawFd::as_raw_fd(&space.namespace))
                .unwrap_or(0),
        })
        .collect()
    }

    /// The file descriptors by which this process holds all namespaces that processes may be in.
    #[must_use]
    pub fn held(&self) -> Vec<i32> {
        let all = self.spaces.hosts.iter().chain(&self.spaces.routers);
        all.map(|it| std::os::fd::AsRawFd::as_raw_fd(&it.namespace)).collect()
    }

    /// The system's numbers of all namespaces that processes may be in.
    #[must_use]
    pub fn namespaces(&self) -> Vec<u64> {
        let all = self.spaces.hosts.iter().chain(&self.spaces.routers);
        all.filter_map(|it| number(&it.namespace)).collect()
    }

    /// Whether the kernel shapes the links.
    #[must_use]
    pub const fn has_kernel_links(&self) -> bool {
        self.wires.own().is_none()
    }

    /// TCP's congestion control on the hosts, as Linux calls it.
    pub fn congestion(&self) -> Result<String, TestbedError> {
        self.spaces.congestion()
    }

    /// What was made, in words.
    #[must_use]
    pub fn summary(&self) -> String {
        self.layout.summary()
    }

    /// Runs until told to stop, or until the writer of `parent` is gone; then ends all that runs in the namespaces.
    pub fn run(
        mut self,
        control: &UnixListener,
        parent: Option<&File>,
        clock: &dyn Fn() -> Instant,
    ) -> Result<(), TestbedError> {
        let ran = self.keep(control, parent, clock);
        end_all(&self.namespaces());
        ran
    }

    fn keep(
        &mut self,
        control: &UnixListener,
        parent: Option<&File>,
        clock: &dyn Fn() -> Instant,
    ) -> Result<(), TestbedError> {
        let failed = |it: std::io::Error| TestbedError::system("listen for orders", it);
        control.set_nonblocking(true).map_err(failed)?;
        let mut clients: Vec<Client> = Vec::new();
        while !self.stopped {
            self.wait(control, parent, &clients, clock())?;
            let changes = self.schedule.as_mut().map(|it| it.changes(clock()));
            for (link, rate) in changes.unwrap_or_default() {
                self.set_rate(link, rate, clock())?;
            }
            if let Ok((stream, _)) = control.accept()
                && stream.set_nonblocking(true).is_ok()
            {
                clients.push(Client { stream, said: Vec::new() });
            }
            self.stopped |= parent.is_some_and(is_closed);
            clients.retain_mut(|it| self.serve(it, clock()));
            self.wires.pass(clock);
        }
        Ok(())
    }

    /// Waits until there is something to do: an order, a packet, an arrival or a change that is due.
    fn wait(
        &self,
        control: &UnixListener,
        parent: Option<&File>,
        clients: &[Client],
        now: Instant,
    ) -> Result<(), TestbedError> {
        let mut files = vec![PollFd::new(control, PollFlags::IN)];
        files.extend(parent.map(|it| PollFd::new(it, PollFlags::IN)));
        files.extend(clients.iter().map(|it| PollFd::new(&it.stream, PollFlags::IN)));
        let own = self.wires.own();
        let devices = own.into_iter().flat_map(Own::devices);
        files.extend(devices.map(|it| PollFd::new(it, PollFlags::IN)));
        let next = own.and_then(Own::next);
        let next = next.into_iter().chain(self.schedule.as_ref().and_then(Schedule::next)).min();
        let timeout = next.map(|it| {
            let ns = it.since(now).as_ps() / 1000;
            Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as _ }
        });
        match poll(&mut files, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(TestbedError::system("wait for packets", error)),
        }
    }

    fn set_rate(
        &mut self,
        link: LinkId,
        rate: Bandwidth,
        now: Instant,
    ) -> Result<(), TestbedError> {
        let Some((wire, way)) = self.layout.wire_of(link) else { return Ok(()) };
        let shape = &mut self.shapes[wire][way];
        shape.rate = rate;
        self.wires.reshape(&self.layout, &mut self.spaces, (wire, way), *shape, now)
    }

    /// Reads what a client says and answers; false if it is gone or must be dropped.
    fn serve(&mut self, client: &mut Client, now: Instant) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match client.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    client.said.extend_from_slice(buffer.get(..length).unwrap_or_default());
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        let mut answers = String::new();
        while let Some(end) = client.said.iter().position(|it| *it == b'\n') {
            let line: Vec<u8> = client.said.drain(..=end).collect();
            answers += &self.answer(&String::from_utf8_lossy(&line), now);
            answers.push('\n');
        }
        client.said.len() <= LONGEST_ORDER && client.stream.write_all(answers.as_bytes()).is_ok()
    }

    fn answer(&mut self, text: &str, now: Instant) -> String {
        let done = match text.parse::<Order>() {
            Err(error) => return format!("no {error}"),
            Ok(Order::Rate(link, rate)) => self.set_rate(link, rate, now),
            Ok(Order::Way(from, to, links)) => self.set_way(from, to, &links),
            Ok(Order::Stop) => {
                self.stopped = true;
                Ok(())
            }
            Ok(Order::Carried) => {
                return self.carried(now).unwrap_or_else(|it| format!("no {it}"));
            }
        };
        done.map_or_else(|it| format!("no {it}"), |()| "ok".to_owned())
    }

    fn carried(&mut self, now: Instant) -> Result<String, TestbedError> {
        let traffic = self.wires.traffic(&self.layout, &mut self.spaces, now)?;
        let links = self.layout.wires.iter().flat_map(|it| it.links);
        let all = links.zip(traffic.into_iter().flatten());
        let word =
            |(link, it): (LinkId, Traffic)| format!(" {} {} {}", link.0, it.sent, it.waiting);
        Ok("ok".to_owned() + &all.map(word).collect::<String>())
    }
}

/// Whether nobody can write to a pipe any more.
fn is_closed(mut file: &File) -> bool {
    let mut fds = [PollFd::new(file, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if !matches!(poll(&mut fds, Some(&now)), Ok(1..)) {
        return false;
    }
    matches!(file.read(&mut [0; 64]), Ok(0))
}
