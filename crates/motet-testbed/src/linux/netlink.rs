//! [`Netlink`]: links, addresses, neighbours, routes, rules and queueing disciplines of one namespace, by the kernel's own protocol.
//!
//! A netlink socket belongs for good to the namespace that it was made in, so that the keeper can use those of all its namespaces from one
//! thread.

use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;

use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcStats2};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};

use super::qdisc::Qdisc;
use crate::error::TestbedError;

/// A route. Without `table` it is in the main table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub table: Option<u32>,
    pub to: Ipv4Addr,
    pub bits: u8,
    pub via: Ipv4Addr,
    pub device: u32,
}

/// What a device's queueing discipline has sent and the bytes that wait. A large segment (TSO) counts as the packets that it is cut into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    pub bytes: u64,
    pub packets: u64,
    pub waiting: u64,
}

/// The number of the main routing table.
const MAIN: u8 = 254;
/// `TCA_OPTIONS` of `linux/rtnetlink.h`.
const OPTIONS: u16 = 2;
/// The priority of our routing rules, which puts them before the usual ones.
const PRIORITY: u32 = 1000;

/// See the [module](self).
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl std::fmt::Debug for Netlink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Netlink")
    }
}

impl Netlink {
    /// Opens a socket in the namespace of this thread.
    pub fn open() -> Result<Self, TestbedError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(Self { socket, sequence: 0 })
        };
        open().map_err(|it: std::io::Error| TestbedError::system("open a netlink socket", it))
    }

    /// Sends the kernel a request and waits until it is done. `what` is for errors. Returns the index of a link, if that was asked for.
    fn ask(
        &mut self,
        what: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Option<u32>, TestbedError> {
        let mut found = None;
        self.hear(what, message, NLM_F_ACK | flags, &mut |it| {
            if let RouteNetlinkMessage::NewLink(link) = it {
                found = Some(link.header.index);
            }
        })?;
        Ok(found)
    }

    /// The same, but gives every message of the kernel's answer to `heard`.
    fn hear(
        &mut self,
        what: &str,
        message: RouteNetlinkMessage,
        flags: u16,
        heard: &mut dyn FnMut(RouteNetlinkMessage),
    ) -> Result<(), TestbedError> {
        let failed = |it: std::io::Error| TestbedError::system(what, it);
        let mut message = NetlinkMessage::from(message);
        self.sequence += 1;
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map_err(failed)?;
        loop {
            let (answer, _) = self.socket.recv_from_full().map_err(failed)?;
            let mut rest = answer.as_slice();
            while !rest.is_empty() {
                let read = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|it| TestbedError::system(what, it))?;
                let length = (read.header.length as usize).next_multiple_of(4).min(rest.len());
                rest = &rest[length.max(1).min(rest.len())..];
                match read.payload {
                    NetlinkPayload::Error(error) if error.code.is_some() => {
                        return Err(failed(error.to_io()));
                    }
                    NetlinkPayload::Error(_) | NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::InnerMessage(it) => heard(it),
                    _ => {}
                }
            }
        }
    }

    /// The kernel's index of a device.
    pub fn index(&mut self, name: &str) -> Result<u32, TestbedError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let what = format!("find the device {name}");
        let found = self.ask(&what, RouteNetlinkMessage::GetLink(message), 0)?;
        found.ok_or_else(|| TestbedError::system(what, "there is none"))
    }

    /// The Ethernet address of a device.
    pub fn hardware(&mut self, name: &str) -> Result<Vec<u8>, TestbedError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let (what, mut found) = (format!("find the address of the device {name}"), None);
        self.hear(&what, RouteNetlinkMessage::GetLink(message), NLM_F_ACK, &mut |it| {
            let RouteNetlinkMessage::NewLink(link) = it else { return };
            found = link.attributes.into_iter().find_map(|it| match it {
                LinkAttribute::Address(it) => Some(it),
                _ => None,
            });
        })?;
        found.ok_or_else(|| TestbedError::system(what, "it has none"))
    }

    /// Sets the Ethernet address of a neighbour for good, so that none is asked for.
    pub fn add_neighbour(
        &mut self,
        device: u32,
        address: Ipv4Addr,
        hardware: Vec<u8>,
    ) -> Result<(), TestbedError> {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.ifindex = device;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        let address = NeighbourAddress::Inet(address);
        message.attributes.push(NeighbourAttribute::Destination(address));
        message.attributes.push(NeighbourAttribute::LinkLayerAddress(hardware));
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        self.ask("add a neighbour", RouteNetlinkMessage::NewNeighbour(message), flags).map(drop)
    }

    /// Sets the queueing discipline by which packets leave a device. One of the same kind is changed and keeps its queue; one of another
    /// kind is replaced.
    pub fn set_qdisc(&mut self, device: u32, qdisc: &Qdisc) -> Result<(), TestbedError> {
        let mut message = TcMessage::default();
        message.header.index = device.cast_signed();
        message.header.parent = TcHandle::ROOT;
        message.attributes.push(TcAttribute::Kind(qdisc.kind.to_owned()));
        let options = DefaultNla::new(OPTIONS, qdisc.options.clone());
        message.attributes.push(TcAttribute::Other(options));
        let (what, flags) =
            (format!("shape a link by {}", qdisc.kind), NLM_F_CREATE | NLM_F_REPLACE);
        self.ask(&what, RouteNetlinkMessage::NewQueueDiscipline(message), flags).map(drop)
    }

    /// What the queueing discipline at the root of a device has sent, and what waits there.
    pub fn queue(&mut self, device: u32) -> Result<Queue, TestbedError> {
        let mut queue = Queue::default();
        let message = RouteNetlinkMessage::GetQueueDiscipline(TcMessage::default());
        self.hear("read what was sent", message, NLM_F_DUMP, &mut |it| {
            let RouteNetlinkMessage::NewQueueDiscipline(it) = it else { return };
            let header = &it.header;
            if header.index.cast_unsigned() != device || header.parent != TcHandle::ROOT {
                return;
            }
            let stats = it.attributes.iter().filter_map(|it| match it {
                TcAttribute::Stats2(all) => Some(all),
                _ => None,
            });
            for it in stats.flatten() {
                match it {
                    TcStats2::Basic(it) => {
                        (queue.bytes, queue.packets) = (it.bytes, u64::from(it.packets));
                    }
                    TcStats2::Queue(it) => queue.waiting = u64::from(it.backlog),
                    _ => {}
                }
            }
        })?;
        Ok(queue)
    }

    /// Makes a bridge.
    pub fn add_bridge(&mut self, name: &str) -> Result<(), TestbedError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Bridge)]));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask("make a bridge", RouteNetlinkMessage::NewLink(message), flags).map(drop)
    }

    /// Makes a pair of devices, the second in the namespace `there`.
    pub fn add_veth(&mut self, name: &str, peer: &str, there: RawFd) -> Result<(), TestbedError> {
        let mut other = LinkMessage::default();
        other.attributes.push(LinkAttribute::IfName(peer.to_owned()));
        other.attributes.push(LinkAttribute::NetNsFd(there));
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(other))),
        ]));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask("make a veth pair", RouteNetlinkMessage::NewLink(message), flags).map(drop)
    }

    /// Takes a device into use, as a port of a bridge if one is given.
    pub fn set_up(&mut self, device: u32, bridge: Option<u32>) -> Result<(), TestbedError> {
        let mut message = LinkMessage::default();
        message.header.index = device;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        message.attributes.extend(bridge.map(LinkAttribute::Controller));
        self.ask("take a device into use", RouteNetlinkMessage::SetLink(message), 0).map(drop)
    }

    /// Gives a device an address.
    pub fn add_address(
        &mut self,
        device: u32,
        address: Ipv4Addr,
        bits: u8,
    ) -> Result<(), TestbedError> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = bits;
        message.header.index = device;
        message.attributes.push(AddressAttribute::Local(IpAddr::V4(address)));
        message.attributes.push(AddressAttribute::Address(IpAddr::V4(address)));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask("give a device an address", RouteNetlinkMessage::NewAddress(message), flags)
            .map(drop)
    }

    fn route_message(route: Route) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = route.bits;
        message.header.table = if route.table.is_some() { 0 } else { MAIN };
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes.extend(route.table.map(RouteAttribute::Table));
        if route.bits > 0 {
            message.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(route.to)));
        }
        message.attributes.push(RouteAttribute::Gateway(RouteAddress::Inet(route.via)));
        message.attributes.push(RouteAttribute::Oif(route.device));
        message
    }

    /// Sets a route, in the place of any that its table has to the same destination.
    pub fn set_route(&mut self, route: Route) -> Result<(), TestbedError> {
        let message = RouteNetlinkMessage::NewRoute(Self::route_message(route));
        self.ask("set a route", message, NLM_F_CREATE | NLM_F_REPLACE).map(drop)
    }

    /// The next hop of a table's route to a destination; none if it has no route there, or one with several next hops.
    pub fn gateway(&mut self, table: u32, to: Ipv4Addr) -> Result<Option<Ipv4Addr>, TestbedError> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        let (mut found, end) = (None, RouteAttribute::Destination(RouteAddress::Inet(to)));
        let message = RouteNetlinkMessage::GetRoute(message);
        self.hear("read routes", message, NLM_F_DUMP, &mut |it| {
            let RouteNetlinkMessage::NewRoute(route) = it else { return };
            let has = |it: &RouteAttribute| route.attributes.contains(it);
            if has(&RouteAttribute::Table(table)) && has(&end) {
                found = route.attributes.iter().find_map(|it| match it {
                    RouteAttribute::Gateway(RouteAddress::Inet(it)) => Some(*it),
                    _ => None,
                });
            }
        })?;
        Ok(found)
    }

    /// Removes a route.
    pub fn remove_route(&mut self, route: Route) -> Result<(), TestbedError> {
        let message = RouteNetlinkMessage::DelRoute(Self::route_message(route));
        self.ask("remove a route", message, 0).map(drop)
    }

    /// Has packets from `source` looked up in this table first.
    pub fn add_rule(&mut self, source: Ipv4Addr, table: u32) -> Result<(), TestbedError> {
        let mut message = RuleMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.src_len = 32;
        message.header.action = RuleAction::ToTable;
        message.attributes.push(RuleAttribute::Source(IpAddr::V4(source)));
        message.attributes.push(RuleAttribute::Table(table));
        message.attributes.push(RuleAttribute::Priority(PRIORITY));
        let flags = NLM_F_CREATE | NLM_F_EXCL;
        self.ask("add a routing rule", RouteNetlinkMessage::NewRule(message), flags).map(drop)
    }
}
