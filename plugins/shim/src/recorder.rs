//! The trace of this rank's calls (`MOTET_SHIM_TRACE`), in the format of the NCCL plugin's traces, which `motet trace`, `motet workload
//! show` and `motet rails windows` read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use motet_runtime::{Collective, Communicator, Source, TraceWriter, TracedCall};
use motet_units::{Duration, Instant};

use crate::log;
use crate::worker::Ticket;

/// Only one in so many requests to write is carried out, so that records are written many at a time.
const EVERY: u32 = 1024;

pub(crate) struct Recorder {
    /// `None` after it could not be written to.
    file: Option<File>,
    path: PathBuf,
    writer: TraceWriter,
    /// Calls so far of each collective of each communicator.
    sequences: BTreeMap<(u32, Collective), u64>,
    turns: u32,
}

impl Recorder {
    pub(crate) fn new(path: PathBuf) -> Option<Self> {
        let mut file = File::create(&path)
            .map_err(|it| log::warn(&format!("cannot write the trace {}: {it}", path.display())))
            .ok()?;
        let head = file.write_all(&TraceWriter::head());
        head.map_err(|it| log::warn(&format!("cannot write {}: {it}", path.display()))).ok()?;
        let (writer, sequences) = (TraceWriter::default(), BTreeMap::new());
        Some(Self { file: Some(file), path, writer, sequences, turns: 0 })
    }

    pub(crate) fn communicator(&mut self, about: &Communicator) {
        self.writer.communicator(about);
    }

    pub(crate) fn call(&mut self, ticket: &Ticket, began: Instant, ended: Instant) {
        let number = self.sequences.entry((ticket.communicator, ticket.collective)).or_default();
        *number += 1;
        self.writer.call(&TracedCall {
            communicator: ticket.communicator,
            sequence: *number,
            collective: ticket.collective,
            bytes: ticket.bytes,
            algorithm: None,
            protocol: None,
            channels: 1,
            finished: 1,
            source: Source::Host,
            start_ns: began.since(Instant::START).as_ps() / Duration::from_ns(1).as_ps(),
            duration_ns: ended.since(began).as_ps() / Duration::from_ns(1).as_ps(),
        });
        if self.writer.is_due() {
            self.write(true);
        }
    }

    /// Writes what there is, now and then or at once.
    pub(crate) fn write(&mut self, now: bool) {
        self.turns += 1;
        if !now && self.turns < EVERY {
            return;
        }
        self.turns = 0;
        let (Some(block), Some(file)) = (self.writer.take(), &mut self.file) else { return };
        if let Err(error) = file.write_all(&block) {
            log::warn(&format!(
                "cannot write the trace {}: {error}; it ends here",
                self.path.display()
            ));
            self.file = None;
        }
    }
}
