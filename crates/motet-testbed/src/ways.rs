//! Which routes hosts and routers need so that packets from one rank to another take given links.
//!
//! Hosts tell ranks apart by their addresses; routers also by who sends, with a table for each sending rank. So every ordered pair of
//! ranks has a route of its own, as flows have in `motet wan`.

use std::net::Ipv4Addr;

use motet_units::LinkId;

use crate::error::TestbedError;
use crate::layout::Layout;

/// Where a route is set: a host or a router, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Host(usize),
    Router(usize),
}

/// The device by which packets leave a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Device {
    /// The datacenter's bridge.
    Lan,
    /// The end of a wire.
    Wire(usize),
}

/// A pair's route at one place: the device by which its packets leave, and the address that they go to next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hop {
    pub at: Place,
    pub via: Ipv4Addr,
    pub device: Device,
}

/// The hops of a pair that takes `links`; none for two ranks of one datacenter.
pub fn hops(
    layout: &Layout,
    from: usize,
    to: usize,
    links: &[LinkId],
) -> Result<Vec<Hop>, TestbedError> {
    let unknown = || TestbedError::Layout(format!("there are no ranks {from} and {to}"));
    let (source, target) =
        (layout.hosts.get(from).ok_or_else(unknown)?, layout.hosts.get(to).ok_or_else(unknown)?);
    let (mut at, mut lan, mut hops) = (Place::Host(from), Some(source.lan), Vec::new());
    for link in links {
        let Some((wire, way)) = layout.wire_of(*link) else { continue };
        let it = &layout.wires[wire];
        let (router, next) = (it.ends[way], it.ends[1 - way]);
        if at != Place::Router(router) {
            // To the router over the bridge that both are at.
            let via = layout.routers[router].lan.filter(|it| Some(it.0) == lan);
            let via = via.ok_or_else(|| broken(layout, *link))?.1;
            hops.push(Hop { at, via, device: Device::Lan });
        }
        let via = it.addresses[1 - way];
        hops.push(Hop { at: Place::Router(router), via, device: Device::Wire(wire) });
        at = Place::Router(next);
        lan = layout.routers[next].lan.map(|it| it.0);
    }
    if lan != Some(target.lan) {
        return Err(TestbedError::Layout(format!(
            "the links given from rank {from} do not end in the datacenter of rank {to}"
        )));
    }
    Ok(hops)
}

fn broken(layout: &Layout, link: LinkId) -> TestbedError {
    let wire = layout.wire_of(link).map_or(0, |it| it.0);
    TestbedError::Layout(format!("WAN link {wire} does not begin where the one before it ends"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};
    use motet_net::{Metric, Search};
    use motet_units::Rank;

    #[test]
    fn a_pair_goes_to_its_border_over_the_wire_and_is_there() {
        let network = builders::find("two-dc").unwrap().build(&Params::new()).unwrap();
        let layout = Layout::new(&network).unwrap();
        let gpu = |it: u32| network.gpu(Rank(it)).unwrap();
        let found = Search::new(&network, Metric::Latency).k_shortest(gpu(0), gpu(7), 16);
        assert!(found.len() >= 4);
        for path in &found {
            let hops = hops(&layout, 0, 7, path.links()).unwrap();
            assert_eq!((hops.len(), hops[0].at, hops[0].device), (2, Place::Host(0), Device::Lan));
            let Device::Wire(wire) = hops[1].device else { panic!("not over the WAN") };
            assert!(path.links().contains(&layout.wires[wire].links[0]));
            assert_eq!(hops[1].via, layout.wires[wire].addresses[1]);
        }
        let inside = Search::new(&network, Metric::Latency).k_shortest(gpu(0), gpu(1), 1);
        assert_eq!(hops(&layout, 0, 1, inside[0].links()).unwrap(), []);
        // Links that lead elsewhere.
        assert!(hops(&layout, 0, 1, found[0].links()).is_err());
        assert!(hops(&layout, 0, 99, found[0].links()).is_err());
    }
}
