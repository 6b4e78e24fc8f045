//! [`Family`]: a program as MSCCL's executor would run it: laid out on thread blocks, in one instance
//! and in several that run side by side.
//!
//! A plan's times must be those of the files in it. So every layout here is written as the file that a job
//! would load, within the executor's limits, read back and verified; the program that was read back is
//! priced. The protocol is a word in the file's header and does not change the layout: layouts are made
//! for Simple, whose FIFOs have the fewest slots, and so work under the other protocols too.

use std::sync::Arc;

use motet_collective::formats::msccl_xml;
use motet_collective::program::Hints;
use motet_collective::{Program, Verified};
use motet_nccl::kernel::{Kernels, Laid};
use motet_nccl::{Knobs, Protocol};
use motet_net::Network;
use motet_sim::{Routed, SwitchForwarding};
use motet_units::{Bytes, Duration};

/// The bytes of a buffer's element. MSCCL skips a program whose chunks do not divide the number of elements. What
/// divides the number of 4-byte elements divides that of smaller elements too.
pub const ELEMENT: u64 = 4;

/// The most instances that are tried.
const MOST_INSTANCES: u32 = 32;

/// A program laid out in a number of instances, each of which does a part of every chunk.
#[derive(Clone, Debug)]
pub struct Layout {
    pub instances: u32,
    /// Whether it uses as few thread blocks as its peers allow.
    pub packed: bool,
    /// The program as read back from the file.
    pub program: Verified<Program>,
    pub laid: Laid,
    /// How many chunks the call's buffer is cut into. The number of its elements must be a multiple of this.
    pub parts: u32,
}

impl Layout {
    /// Lays a program out for MSCCL.
    pub fn new(
        program: &Verified<Program>,
        network: &Network,
        kernels: &Arc<Kernels>,
        (instances, packed): (u32, bool),
    ) -> Result<Self, String> {
        let options = msccl_xml::Options { instances, packed, ..msccl_xml::Options::default() };
        let text = msccl_xml::write(program, &options).map_err(|it| first_line(&it.to_string()))?;
        Self::read(&text, network, kernels, (instances, packed))
    }

    /// Reads a layout from a file's text; the text does not say from how many instances, and whether packed, it
    /// was made.
    pub fn read(
        text: &str,
        network: &Network,
        kernels: &Arc<Kernels>,
        (instances, packed): (u32, bool),
    ) -> Result<Self, String> {
        let read = msccl_xml::read(text).map_err(|it| it.to_string())?;
        let program = read.verify(None).map_err(|it| first_line(&it.report.to_string()))?;
        let routed = Routed::new(&program, network, SwitchForwarding::CutThrough)
            .map_err(|it| it.to_string())?;
        let laid = Laid::new(&routed, Arc::clone(kernels)).map_err(|it| it.to_string())?;
        let parts = program.collective().size_chunks();
        Ok(Self { instances, packed, program, laid, parts })
    }

    /// Thread blocks of the rank that has most.
    #[must_use]
    pub const fn blocks(&self) -> u32 {
        self.laid.blocks().1
    }

    /// Whether MSCCL takes the program for a call of this size.
    #[must_use]
    pub const fn divides(&self, size: Bytes) -> bool {
        size.get().is_multiple_of(ELEMENT * self.parts as u64)
    }

    /// The file for calls of a range of sizes under a protocol.
    pub fn file(
        &self,
        name: &str,
        protocol: Protocol,
        (least, most): (Bytes, Option<Bytes>),
    ) -> Result<String, String> {
        let hints = Hints { protocol, min_size: least, max_size: most };
        let named = self.program.to_builder().hints(hints).named(name).build();
        let wrong = |it: String| first_line(&it);
        let proved = Verified::new(named, None).map_err(|it| wrong(it.report.to_string()))?;
        msccl_xml::write(&proved, &msccl_xml::Options::default())
            .map_err(|it| wrong(it.to_string()))
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// A program in all layouts that MSCCL can load.
#[derive(Clone, Debug)]
pub struct Family {
    pub layouts: Vec<Layout>,
    /// Why there is no layout with more instances.
    pub stopped_by: Option<String>,
}

impl Family {
    /// Layouts in every power of two of instances that needs at most `most_blocks` thread blocks on a GPU; then the
    /// same packed on as few blocks as peers allow, where that is fewer.
    ///
    /// # Errors
    /// Why not even one instance can be loaded.
    pub fn new(
        program: &Verified<Program>,
        network: &Network,
        kernels: &Arc<Kernels>,
        most_blocks: u32,
    ) -> Result<Self, String> {
        let most = most_blocks.min(kernels.resident_blocks());
        let mut family = Self { layouts: Vec::new(), stopped_by: None };
        for packed in [false, true] {
            let made = |instances| Layout::new(program, network, kernels, (instances, packed));
            family.add(most, made);
        }
        match (family.layouts.is_empty(), &family.stopped_by) {
            (true, Some(why)) => Err(why.clone()),
            _ => Ok(family),
        }
    }

    /// Adds layouts with 1, 2, 4, … instances while they need at most `most` thread blocks.
    fn add(&mut self, most: u32, make: impl Fn(u32) -> Result<Layout, String>) {
        let mut one = 0u32;
        let mut instances = 1;
        while instances <= MOST_INSTANCES && one.saturating_mul(instances) <= most {
            let made = make(instances);
            let layout = match made {
                Ok(layout) => layout,
                Err(why) => {
                    self.stopped_by = Some(why);
                    return;
                }
            };
            if instances == 1 {
                one = layout.blocks();
                // Packing saves no blocks.
                if self.layouts.first().is_some_and(|it| it.blocks() <= one) {
                    return;
                }
            }
            if layout.blocks() > most {
                break;
            }
            self.layouts.push(layout);
            instances *= 2;
        }
        let needed = one.saturating_mul(instances);
        self.stopped_by =
            Some(format!("{instances} instances need {needed} thread blocks; {most} are allowed"));
    }

    /// The channels of one instance.
    #[must_use]
    pub fn channels(&self) -> u32 {
        self.layouts.first().map_or(1, |it| it.laid.channels())
    }

    /// The layout with this number of instances, packed or not.
    #[must_use]
    pub fn find(&self, instances: u32, packed: bool) -> Option<&Layout> {
        self.layouts.iter().find(|it| (it.instances, it.packed) == (instances, packed))
    }

    /// The first layout with this number of instances, which is not packed if there is one that is not.
    #[must_use]
    pub fn in_instances(&self, instances: u32) -> Option<&Layout> {
        self.layouts.iter().find(|it| it.instances == instances)
    }

    /// How long a call takes under some knobs; their channels decide how many instances run.
    pub fn time(&self, size: Bytes, knobs: &Knobs) -> Result<Duration, String> {
        let own = self.channels();
        let instances = knobs.channels.unwrap_or(own) / own.max(1);
        let layout = self
            .in_instances(instances)
            .ok_or_else(|| format!("there is no layout of {instances} instances"))?;
        layout.laid.price_under(size, knobs).map(|it| it.time).map_err(|it| it.to_string())
    }
}
