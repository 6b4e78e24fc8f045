//! [`Wires`]: a testbed's WAN links, either the keeper's [`Own`] or the [`Kernel`]'s.

use motet_units::{Instant, Stream};
use motet_wan::Links;

use super::build::Spaces;
use super::kernel::{self, Kernel};
use super::own::Own;
use crate::error::TestbedError;
use crate::layout::Layout;
use crate::line::{Shape, Traffic};

/// See the [module](self).
#[derive(Debug)]
pub(super) enum Wires {
    Own(Own),
    /// They need no further work, but exist only as long as this value.
    Kernel {
        _wires: Kernel,
    },
}

/// Whether the kernel is to shape the links. If the scenario demands it and the kernel cannot, that is an error.
pub(super) fn by_kernel(links: Links) -> Result<bool, TestbedError> {
    match links {
        Links::Own => Ok(false),
        Links::Kernel => kernel::check().map(|()| true),
        Links::Auto => Ok(kernel::check().is_ok()),
    }
}

impl Wires {
    pub(super) fn new(
        by_kernel: bool,
        layout: &Layout,
        spaces: &mut Spaces,
        shapes: &[[Shape; 2]],
        chance: Stream,
    ) -> Result<Self, TestbedError> {
        Ok(if by_kernel {
            Self::Kernel { _wires: Kernel::new(layout, spaces, shapes)? }
        } else {
            Self::Own(Own::new(layout, spaces, shapes, chance)?)
        })
    }

    /// The keeper's own wires, over which it must pass packets.
    pub(super) const fn own(&self) -> Option<&Own> {
        match self {
            Self::Own(own) => Some(own),
            Self::Kernel { .. } => None,
        }
    }

    /// Passes on whatever has come, where that is the keeper's to do.
    pub(super) fn pass(&mut self, clock: &dyn Fn() -> Instant) {
        if let Self::Own(own) = self {
            own.pass(clock);
        }
    }

    /// Changes what one direction of a wire is like.
    pub(super) fn reshape(
        &mut self,
        layout: &Layout,
        spaces: &mut Spaces,
        (wire, way): (usize, usize),
        shape: Shape,
        now: Instant,
    ) -> Result<(), TestbedError> {
        match self {
            Self::Own(own) => {
                own.reshape(wire, way, shape, now);
                Ok(())
            }
            Self::Kernel { .. } => Kernel::reshape(layout, spaces, (wire, way), shape),
        }
    }

    /// By wire and direction: what was sent and what waits.
    pub(super) fn traffic(
        &mut self,
        layout: &Layout,
        spaces: &mut Spaces,
        now: Instant,
    ) -> Result<Vec<[Traffic; 2]>, TestbedError> {
        match self {
            Self::Own(own) => Ok(own.traffic(now)),
            Self::Kernel { .. } => Kernel::traffic(layout, spaces),
        }
    }
}
