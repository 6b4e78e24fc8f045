//! [`Own`]: wires that are the keeper's own: a TUN device at each end, and between them packets as [`Line`]s let them pass.

use std::fs::File;
use std::io::{Read as _, Write as _};

use motet_units::{Instant, Stream};
use rand::Rng as _;

use super::build::{Spaces, wire_name};
use super::sys::{open_tun, within};
use crate::error::TestbedError;
use crate::layout::Layout;
use crate::line::{Line, Shape, Traffic};
use crate::packet::line_bytes;

/// The longest packet that a TUN device gives, with its header.
const LONGEST: usize = 70_000;
/// How many packets are taken from a device before the others have their turn.
const ONCE: usize = 64;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Own {
    /// By wire: the devices at its two ends.
    tuns: Vec<[File; 2]>,
    /// By wire and direction.
    lines: Vec<[Line<Box<[u8]>>; 2]>,
    /// Random numbers that decide which packets are lost.
    chance: Stream,
    buffer: Vec<u8>,
}

impl Own {
    /// Makes the wires of a testbed, each direction with its shape.
    pub(super) fn new(
        layout: &Layout,
        spaces: &mut Spaces,
        shapes: &[[Shape; 2]],
        chance: Stream,
    ) -> Result<Self, TestbedError> {
        let mut tuns = Vec::new();
        for (number, wire) in layout.wires.iter().enumerate() {
            let mut end = |end: usize| {
                // A loop from a router to itself would have two devices of one name; the layout has none.
                let namespace = &spaces.routers[wire.ends[end]].namespace;
                let tun = within(namespace, || open_tun(&wire_name(number)))?;
                spaces.join(layout, number, end)?;
                Ok(tun)
            };
            tuns.push([end(0)?, end(1)?]);
        }
        let lines = shapes.iter().map(|it| it.map(Line::new)).collect();
        Ok(Self { tuns, lines, chance, buffer: vec![0; LONGEST] })
    }

    /// The devices that packets come from.
    pub(super) fn devices(&self) -> impl Iterator<Item = &File> {
        self.tuns.iter().flatten()
    }

    /// When a packet arrives next.
    pub(super) fn next(&self) -> Option<Instant> {
        self.lines.iter().flatten().filter_map(Line::next).min()
    }

    /// Takes packets from all devices onto their lines, and gives those that have arrived to the devices at the other ends.
    pub(super) fn pass(&mut self, clock: &dyn Fn() -> Instant) {
        for (tuns, lines) in self.tuns.iter().zip(&mut self.lines) {
            for (way, line) in lines.iter_mut().enumerate() {
                let (mut from, mut to) = (&tuns[way], &tuns[1 - way]);
                for _ in 0..ONCE {
                    let Ok(length) = from.read(&mut self.buffer) else { break };
                    let packet = self.buffer.get(..length).unwrap_or_default();
                    let draw = self.chance.next_u64() as f64 / u64::MAX as f64;
                    line.offer(clock(), line_bytes(packet), packet.into(), draw);
                }
                let now = clock();
                while let Some(packet) = line.take(now) {
                    // A device that is full drops, as a line would.
                    let _ = to.write(&packet);
                }
            }
        }
    }

    /// Changes what one direction of a wire is like.
    pub(super) fn reshape(&mut self, wire: usize, way: usize, shape: Shape, now: Instant) {
        self.lines[wire][way].reshape(now, shape);
    }

    /// By wire and direction: what was sent and what waits.
    pub(super) fn traffic(&mut self, now: Instant) -> Vec<[Traffic; 2]> {
        self.lines.iter_mut().map(|it| it.each_mut().map(|it| it.traffic(now))).collect()
    }
}
