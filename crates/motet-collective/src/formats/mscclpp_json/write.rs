//! Writing a program as an MSCCL++ plan. [`super::lower()`] writes the plan and reads it back on the way, to
//! choose among the ways of writing it; this hands out the text.

use super::{Options, lower};
use crate::diagnostic::Report;
use crate::program::Program;
use crate::verify::Verified;

/// Writes a program, [lowered](super::lower()) first, as a plan that the executor loads.
///
/// What is written is read back and compared before it is handed out, so that the plan does what
/// the program does, no more and no less.
pub fn write(program: &Verified<Program>, options: &Options) -> Result<String, Report> {
    Ok(lower::lowered(program, options)?.1)
}
