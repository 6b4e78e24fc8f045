//! [`Kernel`]: wires that the kernel shapes by itself, without the keeper.
//!
//! A wire is a veth pair from each of its routers into a namespace in between, and a bridge there that joins the two. A packet leaves its router by
//! `tbf`, which has the rate and the queue, and the namespace by `netem`, which has delay and loss: one device could not have both in that order on all
//! kernels ([`qdisc`](super::qdisc) says what they are told). Who is at the other end is known from the start, so that nobody asks for it over the link.

use std::os::fd::{AsRawFd as _, OwnedFd};

use motet_units::{Bandwidth, Duration};

use super::build::{Spaces, wire_name};
use super::netlink::Netlink;
use super::qdisc::{OVERHEAD, Qdisc};
use super::sys::{new_namespace, within};
use crate::error::TestbedError;
use crate::layout::Layout;
use crate::line::Shape;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Kernel {
    /// The namespace in between lives as long as this is open.
    _between: OwnedFd,
    netlink: Netlink,
    /// By wire: the numbers of the devices in between that lead to its ends.
    devices: Vec<[u32; 2]>,
}

/// Whether the kernel can do it: tried in a namespace of its own.
pub(super) fn check() -> Result<(), TestbedError> {
    let (rate, time) = (Bandwidth::gbit_per_s(1), Duration::from_ms(1));
    let shape = Shape { rate, delay: time, queue: time, loss: 0.0 };
    let namespace = new_namespace()?;
    let mut netlink = within(&namespace, Netlink::open)?;
    let device = netlink.index("lo")?;
    for qdisc in [Qdisc::delay(shape), Qdisc::rate(shape)] {
        netlink.set_qdisc(device, &qdisc).map_err(|it| match it {
            // What the kernel calls a file is the discipline.
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
        let netlink = within(&between, Netlink::open)?;
        let mut made = Self { _between: between, netlink, devices: Vec::new() };
        for (number, shapes) in shapes.iter().enumerate() {
            made.wire(layout, spaces, number, shapes)?;
        }
        Ok(made)
    }

    fn wire(
        &mut self,
        layout: &Layout,
        spaces: &mut Spaces,
        number: usize,
        shapes: &[Shape; 2],
    ) -> Result<(), TestbedError> {
        let (wire, name, bridge) = (&layout.wires[number], wire_name(number), format!("b{number}"));
        self.netlink.add_bridge(&bridge)?;
        let bridge = self.netlink.index(&bridge)?;
        self.netlink.set_up(bridge, None)?;
        let mut devices = [0; 2];
        for (end, (router, device)) in wire.ends.into_iter().zip(&mut devices).enumerate() {
            let here = format!("w{number}-{end}");
            let namespace = &spaces.routers[router].namespace;
            self.netlink.add_veth(&here, &name, namespace.as_raw_fd())?;
            *device = self.netlink.index(&here)?;
            // What comes out here has come from the other end.
            self.netlink.set_qdisc(*device, &Qdisc::delay(shapes[1 - end]))?;
            self.netlink.set_up(*device, Some(bridge))?;
            spaces.join(layout, number, end)?;
        }
        self.devices.push(devices);
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

    /// By wire and direction: the bytes that have arrived, as a line counts them.
    pub(super) fn carried(&mut self) -> Result<Vec<[u64; 2]>, TestbedError> {
        let sent = self.netlink.sent()?;
        let of = |device: u32| {
            let (bytes, packets) = sent.get(&device).copied().unwrap_or_default();
            bytes + packets * u64::from(OVERHEAD)
        };
        Ok(self.devices.iter().map(|it| [of(it[1]), of(it[0])]).collect())
    }
}
