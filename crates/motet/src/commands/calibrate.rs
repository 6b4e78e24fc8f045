//! `motet calibrate`: cost models held against measurements.
//!
//! Measured calls of MSCCL++ plans give the terms of its cost model (`terms`). What was measured of NCCL, and what its log says, is
//! held against its model, and gives terms, too (`nccl`). `--write-plans` makes the plans to measure (`plans`).

mod nccl;
mod plans;
mod terms;

use motet_tune::calibrate;

use crate::args::calibrate::CalibrateArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

pub(crate) fn run(args: &CalibrateArgs, printer: &mut Printer) -> Result<Status, Failure> {
    if let Some(folder) = &args.write_plans {
        return plans::run(folder, args, printer);
    }
    let mut texts = Vec::with_capacity(args.files.len());
    for name in &args.files {
        let text = files::read(name)?;
        let format = calibrate::detect(&text).map_err(|it| Failure::from(it).in_file(name))?;
        texts.push((name.as_str(), format, text));
    }
    let of_nccl = texts.iter().filter(|it| it.1.is_of_nccl()).count();
    if of_nccl == 0 {
        terms::run(&texts, args, printer)
    } else if of_nccl == texts.len() {
        nccl::run(&texts, args, printer)
    } else {
        let other = texts.iter().find(|it| !it.1.is_of_nccl()).map_or("", |it| it.0);
        Err(Failure::unreadable("is of MSCCL++, and other files are of NCCL")
            .in_file(other)
            .with_remedy("give them one after the other; `--from` keeps the terms of the first in `-o` of the second"))
    }
}
