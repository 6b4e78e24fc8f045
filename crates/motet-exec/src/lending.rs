//! [`Lending`]: a call on the caller's own buffers. The engine works in them where it can, and where it cannot they are copied,
//! into the operation's own memory before the call or out of it after.
//!
//! | a buffer is copied if | because |
//! | --- | --- |
//! | a rank of this host reads that region in this program | it must be memory that can be mapped |
//! | it is the input and the program writes there | it is not the caller's to lose |
//! | it lies where no element may begin | sums are made on elements |
//! | input and output overlap, and the program keeps them apart | a region must not change by way of another; the smaller is copied, unless they lie as in place and the program writes nothing there but the input itself |
//!
//! In place, where the input lies in the output, the output is lent and the input brought to its place in it, unless it is there.
//! Whether a rank lends is its own business: the others see no difference. What the program does with its memory, and so which
//! buffers can be lent, is found once, when it is registered ([`uses`](crate::uses)).
//!
//! **Invariant:** the engine has lent memory only as part of a call's regions, which it gives back with the call's end or has
//! dropped when its thread ended. So whoever has heard of the end has the memory to itself.

use motet_collective::Buffer;

use crate::buffers::{Input, Output};
use crate::error::ExecError;
use crate::layout::{Layout, REGIONS, Region};
use crate::memory::Memory;
use crate::run::{Regions, Registered};

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Lending {
    /// The operation's own memory of each region that a buffer of the caller's has taken the place of, until the call has ended.
    own: [Option<Memory>; REGIONS],
    /// The caller's output, if it is not lent: the result is copied there at the end.
    output: Option<Output>,
    /// Bytes that were copied from the caller's input to the caller's output, or between these and the operation's own memory.
    copied: usize,
}

fn check(what: &'static str, given: usize, wanted: usize, missing: bool) -> Result<(), ExecError> {
    // Who has nothing to give, or wants nothing, says so by giving none.
    if given != 0 && (given != wanted || missing) {
        return Err(ExecError::Size { what, wanted, given: if missing { 0 } else { given } });
    }
    Ok(())
}

impl Lending {
    /// Puts the caller's buffers in the place of the operation's memory where they can be lent, and copies the input where it cannot.
    /// After an error nothing has changed.
    pub(crate) fn begin(
        registered: &Registered,
        memory: &mut Regions,
        input: Input,
        mut output: Output,
    ) -> Result<Self, ExecError> {
        let (layout, uses) = (&registered.layout, &registered.uses);
        let (source, target) = (layout.whole(Buffer::Input), layout.whole(Buffer::Output));
        check("the input", input.bytes(), source.len, input.is_missing())?;
        check("the output", output.bytes(), target.len, output.is_missing())?;
        let (gives, gets) = (input.bytes(), output.bytes());
        let element = registered.element.bytes();
        let may = |region: Region, bytes: usize, aligned: bool| {
            let region = region as usize;
            bytes > 0 && bytes == layout.regions[region] && !uses.shown[region] && aligned
        };
        let mut lends_output = may(target.region, gets, output.is_aligned(element));
        let mut lends_input =
            may(source.region, gives, input.is_aligned(element)) && !uses.writes_input;
        let mut this = Self::default();
        if source.region == target.region {
            // One region is lent once.
            lends_input &= gets == 0;
            if lends_output {
                this.copied += output.bring(&input, source.start);
                this.lend(memory, target.region, output.lend());
                return Ok(this);
            }
        } else if lends_input
            && lends_output
            && input.overlaps(&output)
            && uses.overlap != Some(input.behind(&output))
        {
            lends_input = gives > gets;
            lends_output = !lends_input;
        }
        if lends_input {
            this.lend(memory, source.region, input.lend());
        } else if gives > 0 {
            input.copy_to(&mut memory[source.region as usize].bytes_mut()[source.range()]);
            this.copied += gives;
        }
        if lends_output {
            this.lend(memory, target.region, output.lend());
        } else if gets > 0 {
            this.output = Some(output);
        }
        Ok(this)
    }

    fn lend(&mut self, memory: &mut Regions, region: Region, lent: Memory) {
        let own = std::mem::replace(&mut memory[region as usize], lent);
        self.own[region as usize] = Some(own);
    }

    /// Whether the engine has memory of the caller's.
    pub(crate) fn is_lent(&self) -> bool {
        self.own.iter().any(Option::is_some)
    }

    /// After the call: puts the operation's own memory back and, if there is a `result`, copies it to an output that was not lent.
    /// Returns how many bytes were copied in all.
    pub(crate) fn end(mut self, layout: &Layout, memory: &mut Regions, result: bool) -> usize {
        for (region, own) in memory.iter_mut().zip(self.own) {
            if let Some(own) = own {
                *region = own;
            }
        }
        if let Some(output) = self.output.as_mut().filter(|_| result) {
            let from = layout.whole(Buffer::Output);
            output.copy_from(&memory[from.region as usize].bytes()[from.range()]);
            self.copied += from.len;
        }
        self.copied
    }
}
