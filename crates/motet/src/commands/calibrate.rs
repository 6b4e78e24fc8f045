//! `motet calibrate`: cost models held against measurements.
//!
//! Measured calls of MSCCL++ plans give the terms of its cost model (`terms`); a log of nccl-tests is
//! compared with the model of NCCL (`nccl`). `--write-plans` makes the plans to measure (`plans`).

mod nccl;
mod plans;
mod terms;

use motet_tune::calibrate::{self, Format};

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
    let logs = texts.iter().filter(|it| it.1 == Format::NcclTests).count();
    match logs {
        0 => terms::run(&texts, args, printer),
        1 if texts.len() == 1 => nccl::run(texts[0].0, &texts[0].2, args, printer),
        _ => {
            let log = texts.iter().find(|it| it.1 == Format::NcclTests).map_or("", |it| it.0);
            Err(Failure::unreadable("is a log of nccl-tests")
                .in_file(log)
                .with_remedy("give one log by itself; several may stand in one file"))
        }
    }
}
