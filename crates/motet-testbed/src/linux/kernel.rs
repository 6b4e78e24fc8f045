//! [`Kernel`]: wires that the kernel shapes by itself, without the keeper.
//!
//! A wire is a veth pair from each of its routers into a namespace in between, and a bridge there that joins the two. A packet leaves its router by
//! `tbf`, which has the rate and the queue, and the namespace by `netem`, which has delay and loss: one device could not have both in that order on all
//! kernels ([`qdisc`](super::qdisc) says what they are told). Each end has the other's Ethernet address from the start, so that
//! no ARP request goes over the link.

use std::os::fd::{AsRawFd as _, OwnedFd};

use motet_units::{Bandwidth, Duration};

use super::build::{Spaces, wire_name};
use super::netlink::Netlink;
use super::qdisc::{OVERHEAD, Qdisc};
use super::sys::{new_namespace, within};
use crate::error::TestbedError;
use crate::layout::Layout;
use crate::line::{Shape, Traffic};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Kernel {
    /// The namespace in between lives as long as this is open.
    _between: OwnedFd,
}

/// Whether the kernel has both disciplines: tries them in a namespace of its own.
pub(super) fn check() -> Result<(), TestbedError> {
    let (rate, time) = (Bandwidth::gbit_per_s(1), Duration::from_ms(1));
    let shape = Shape { rate, delay: time, queue: time, loss: 0.0 };
    let namespace = new_namespace()?;
    let mut netlink = within(&namespace, Netlink::open)?;
    let device = netlink.index("lo")?;
    for qdisc in [Qdisc::delay(shape), Qdisc::rate(shape)] {
        netlink.set_qdisc(device, &qdisc).map_err(|it| match it {
            // "No such file" is how the kernel says that it has no such discipline.
            TestbedError::System { why, .. } if why.ends_with("(os error 2)") => {
                let kind = qdisc.kind;
                TestbedError::system(
                    "have WAN links of the kernel",
                    format!("it has no {kind}; load it with `modprobe sch_{kind}` if there is such a module, or write `links = \"own\"` or \"auto\""),
                )
            }
            other => other,
        })?;
    }
    Ok(())
}

impl Kernel {
    /// Makes the wires of a testbed, each direction with its shape.
    pub(super) fn new(
        layout: &Layout,
        spaces: &mut Spaces,
        shapes: &[[Shape; 2]],
    ) -> Result<Self, TestbedError> {
        let between = new_namespace()?;
        let mut netlink = within(&between, Netlink::open)?;
        for (number, shapes) in shapes.iter().enumerate() {
            Self::wire(&mut netlink, layout, spaces, number, shapes)?;
        }
        Ok(Self { _between: between })
    }

    fn wire(
        between: &mut Netlink,
        layout: &Layout,
        spaces: &mut Spaces,
        number: usize,
        shapes: &[Shape; 2],
    ) -> Result<(), TestbedError> {
        let (wire, name, bridge) = (&layout.wires[number], wire_name(number), format!("b{number}"));
        between.add_bridge(&bridge)?;
        let bridge = between.index(&bridge)?;
        between.set_up(bridge, None)?;
        for (end, router) in wire.ends.into_iter().enumerate() {
            let here = format!("w{number}-{end}");
            let namespace = &spaces.routers[router].namespace;
            between.add_veth(&here, &name, namespace.as_raw_fd())?;
            let device = between.index(&here)?;
            // Packets that leave by this device have come from the other end.
            between.set_qdisc(device, &Qdisc::delay(shapes[1 - end]))?;
            between.set_up(device, Some(bridge))?;
            spaces.join(layout, number, end)?;
        }
        for (end, shape) in shapes.iter().enumerate() {
            Self::reshape(layout, spaces, (number, end), *shape)?;
            let (netlink, _) = spaces.end(layout, number, 1 - end)?;
            let other = netlink.hardware(&name)?;
            let (netlink, device) = spaces.end(layout, number, end)?;
            netlink.add_neighbour(device, wire.addresses[1 - end], other)?;
        }
        Ok(())
    }

    /// Changes the rate of one direction of a wire.
    pub(super) fn reshape(
        layout: &Layout,
        spaces: &mut Spaces,
        (wire, way): (usize, usize),
        shape: Shape,
    ) -> Result<(), TestbedError> {
        let (netlink, device) = spaces.end(layout, wire, way)?;
        netlink.set_qdisc(device, &Qdisc::rate(shape))
    }

    /// By wire and direction: what was sent and what waits, in bytes as a line counts them.
    pub(super) fn traffic(
        layout: &Layout,
        spaces: &mut Spaces,
    ) -> Result<Vec<[Traffic; 2]>, TestbedError> {
        let mut of = |wire: usize, end: usize| {
            let (netlink, device) = spaces.end(layout, wire, end)?;
            let queue = netlink.queue(device)?;
            let sent = queue.bytes + queue.packets * u64::from(OVERHEAD);
            Ok(Traffic { sent, waiting: queue.waiting })
        };
        (0..layout.wires.len()).map(|it| Ok([of(it, 0)?, of(it, 1)?])).collect()
    }
}
