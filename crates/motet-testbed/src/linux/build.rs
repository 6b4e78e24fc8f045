//! [`Spaces`]: the namespaces of a testbed and all that is in them, made as a [`Layout`] says.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, OwnedFd};

use motet_wan::Congestion;

use super::frr::{Frr, Launch};
use super::netlink::{Netlink, Route};
use super::sys::{new_namespace, within};
use crate::error::TestbedError;
use crate::layout::Layout;
use crate::ways::{Device, Hop, Place};

/// What a host's and a router's device in its datacenter is called.
const LAN: &str = "eth0";
/// The folder of Linux's settings for IPv4.
const IPV4: &str = "/proc/sys/net/ipv4";
/// The setting there of TCP's congestion control.
const CONGESTION: &str = "tcp_congestion_control";
/// The beginning of the settings that say whether a bridge's packets go through a firewall; the firewall's name follows.
const BRIDGE: &str = "/proc/sys/net/bridge/bridge-nf-call";
/// The number of each router's routing table for packets that rank 0 sends; those of the other ranks follow.
const FIRST_TABLE: u32 = 1000;
/// The prefix length of a datacenter's addresses.
const LAN_BITS: u8 = 16;
/// The prefix length of a wire's addresses.
const WIRE_BITS: u8 = 30;

/// A host or router.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) namespace: OwnedFd,
    netlink: Netlink,
    /// The kernel's index of its device at the datacenter's bridge.
    lan: Option<u32>,
    /// The wires that end here: each wire's number, and the kernel's index of the device.
    wires: Vec<(usize, u32)>,
    /// FRR, where that sets its routes and not the keeper itself.
    frr: Option<Frr>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Spaces {
    pub(super) lans: Vec<(OwnedFd, Netlink)>,
    pub(super) hosts: Vec<Space>,
    pub(super) routers: Vec<Space>,
}

impl Spaces {
    /// Makes everything but the wires, which are added later by [`join`](Self::join).
    pub(super) fn new(layout: &Layout, congestion: Congestion) -> Result<Self, TestbedError> {
        let mut lans = Vec::new();
        for _ in &layout.lans {
            lans.push(new_lan()?);
        }
        let mut made = Self { lans, hosts: Vec::new(), routers: Vec::new() };
        for (number, host) in layout.hosts.iter().enumerate() {
            let mut space = new_space(false)?;
            if let Some(name) = congestion.name() {
                within(&space.namespace, || set_ipv4(CONGESTION, name))?;
            }
            made.attach(&mut space, host.lan, host.address, &format!("h{number}"))?;
            made.hosts.push(space);
        }
        for (number, router) in layout.routers.iter().enumerate() {
            let mut space = new_space(true)?;
            if let Some((lan, address)) = router.lan {
                made.attach(&mut space, lan, address, &format!("r{number}"))?;
            }
            for (rank, host) in (FIRST_TABLE..).zip(&layout.hosts) {
                space.netlink.add_rule(host.address, rank)?;
            }
            made.routers.push(space);
        }
        Ok(made)
    }

    /// TCP's congestion control on the hosts, as Linux calls it.
    pub(super) fn congestion(&self) -> Result<String, TestbedError> {
        let Some(host) = self.hosts.first() else { return Ok(String::new()) };
        let path = format!("{IPV4}/{CONGESTION}");
        let text = within(&host.namespace, || {
            std::fs::read_to_string(&path)
                .map_err(|it| TestbedError::system(format!("read {path}"), it))
        })?;
        Ok(text.trim().to_owned())
    }

    /// Starts FRR in all routers, which then sets their routes.
    pub(super) fn start_frr(&mut self, launch: &Launch) -> Result<(), TestbedError> {
        for (number, space) in self.routers.iter_mut().enumerate() {
            space.frr = Some(Frr::start(launch, number, space.namespace.as_raw_fd())?);
        }
        Ok(())
    }

    /// Joins a host or router to its datacenter's bridge.
    fn attach(
        &mut self,
        space: &mut Space,
        lan: usize,
        address: Ipv4Addr,
        peer: &str,
    ) -> Result<(), TestbedError> {
        let none = || TestbedError::Layout("there is no such datacenter".to_owned());
        let (namespace, bridge) = self.lans.get_mut(lan).ok_or_else(none)?;
        space.netlink.add_veth(LAN, peer, namespace.as_raw_fd())?;
        let (device, port) = (space.netlink.index(LAN)?, bridge.index(peer)?);
        space.netlink.add_address(device, address, LAN_BITS)?;
        space.netlink.set_up(device, None)?;
        let master = bridge.index("br0")?;
        bridge.set_up(port, Some(master))?;
        space.lan = Some(device);
        Ok(())
    }

    /// Sets up one end of a wire: its device, which must already be in the router's namespace, gets its address and goes up.
    pub(super) fn join(
        &mut self,
        layout: &Layout,
        number: usize,
        end: usize,
    ) -> Result<(), TestbedError> {
        let wire = &layout.wires[number];
        let space = &mut self.routers[wire.ends[end]];
        let device = space.netlink.index(&wire_name(number))?;
        space.netlink.add_address(device, wire.addresses[end], WIRE_BITS)?;
        space.netlink.set_up(device, None)?;
        space.wires.push((number, device));
        Ok(())
    }

    /// An end of a wire that was set up by [`join`](Self::join): the netlink socket of its router, and the device's index.
    pub(super) fn end(
        &mut self,
        layout: &Layout,
        number: usize,
        end: usize,
    ) -> Result<(&mut Netlink, u32), TestbedError> {
        let none = || TestbedError::Layout("there is no such wire".to_owned());
        let router = layout.wires.get(number).and_then(|it| it.ends.get(end));
        let space = router.and_then(|it| self.routers.get_mut(*it)).ok_or_else(none)?;
        let device = space.wires.iter().find(|it| it.0 == number).ok_or_else(none)?.1;
        Ok((&mut space.netlink, device))
    }

    fn route(
        &mut self,
        from: u32,
        to: Ipv4Addr,
        hop: Hop,
    ) -> Result<(&mut Space, Route), TestbedError> {
        let none = || TestbedError::Layout("a route by a device that is not there".to_owned());
        let (space, table) = match hop.at {
            Place::Host(it) => (self.hosts.get_mut(it), None),
            Place::Router(it) => (self.routers.get_mut(it), Some(FIRST_TABLE + from)),
        };
        let space = space.ok_or_else(none)?;
        let device = match hop.device {
            Device::Lan => space.lan,
            Device::Wire(it) => space.wires.iter().find(|wire| wire.0 == it).map(|it| it.1),
        };
        let device = device.ok_or_else(none)?;
        Ok((space, Route { table, to, bits: 32, via: hop.via, device }))
    }

    /// Sets the route at one place: packets from rank `from` to address `to` go on by this hop.
    pub(super) fn set(&mut self, from: u32, to: Ipv4Addr, hop: Hop) -> Result<(), TestbedError> {
        let (space, route) = self.route(from, to, hop)?;
        match &mut space.frr {
            Some(frr) => frr.set(route, Some(&name(hop.device)), &mut space.netlink),
            None => space.netlink.set_route(route),
        }
    }

    /// Removes a route that [`set`](Self::set) has set.
    pub(super) fn unset(&mut self, from: u32, to: Ipv4Addr, hop: Hop) -> Result<(), TestbedError> {
        let (space, route) = self.route(from, to, hop)?;
        match &mut space.frr {
            Some(frr) => frr.set(route, None, &mut space.netlink),
            None => space.netlink.remove_route(route),
        }
    }
}

/// What a device is called where it is.
fn name(device: Device) -> String {
    match device {
        Device::Lan => LAN.to_owned(),
        Device::Wire(number) => wire_name(number),
    }
}

/// Sets one of IPv4's values in the namespace that this thread is in.
fn set_ipv4(name: &str, value: &str) -> Result<(), TestbedError> {
    let path = format!("{IPV4}/{name}");
    std::fs::write(&path, value)
        .map_err(|it| TestbedError::system(format!("write `{value}` to {path}"), it))
}

/// What both ends of a wire are called.
pub(super) fn wire_name(number: usize) -> String {
    format!("wan{number}")
}

fn new_lan() -> Result<(OwnedFd, Netlink), TestbedError> {
    let namespace = new_namespace()?;
    let mut netlink = within(&namespace, || {
        // A switch filters nothing, but on some machines a bridge's packets go through the firewall's hooks unless this is set. Errors
        // do not matter: a kernel without these settings does not filter, and where we may not set them packets only take longer.
        for name in ["iptables", "ip6tables", "arptables"] {
            let _ = std::fs::write(format!("{BRIDGE}-{name}"), "0");
        }
        Netlink::open()
    })?;
    netlink.add_bridge("br0")?;
    let bridge = netlink.index("br0")?;
    netlink.set_up(bridge, None)?;
    Ok((namespace, netlink))
}

fn new_space(router: bool) -> Result<Space, TestbedError> {
    let namespace = new_namespace()?;
    let mut netlink = within(&namespace, || {
        // The two directions of a pair may take different routes, which reverse path filtering would drop.
        set_ipv4("conf/all/rp_filter", "0")?;
        set_ipv4("conf/default/rp_filter", "0")?;
        if router {
            set_ipv4("ip_forward", "1")?;
            // Routers must not redirect hosts to shorter routes: the routes are ours to choose.
            set_ipv4("conf/all/send_redirects", "0")?;
            set_ipv4("conf/default/send_redirects", "0")?;
        }
        Netlink::open()
    })?;
    let lo = netlink.index("lo")?;
    netlink.set_up(lo, None)?;
    Ok(Space { namespace, netlink, lan: None, wires: Vec::new(), frr: None })
}
