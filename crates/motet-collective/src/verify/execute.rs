//! One run of a program over symbolic values, in a topological order of its events.
//!
//! [`SymbolicRun::go`] tells an [`Observer`] of every access to a cell. [`Watch`] is the observer of the
//! first run: it checks that each read is ordered after the last write, and each write after the
//! last write and the reads since. Where all accesses are so ordered, every order of events gives
//! the same values and nothing more need be asked. Cells where one is not are suspects, and go to
//! [`super::races`].

use motet_units::Rank;

use super::happens_before::HappensBefore;
use super::memory::Memory;
use super::order::EventOrder;
use super::values::{Leaf, Value, Values};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Action, Buffer, Event, Program, Slot, Transfer};

/// Told of each access, in order.
pub(super) trait Observer {
    fn read(&mut self, event: usize, cell: usize, value: Value);
    fn write(&mut self, event: usize, cell: usize, value: Value);
}

/// Everything a run needs.
#[derive(Debug)]
pub(super) struct SymbolicRun<'a> {
    pub(super) program: &'a Program,
    pub(super) memory: &'a Memory,
    pub(super) sound: &'a [bool],
    pub(super) order: &'a EventOrder,
}

/// How a run ends.
#[derive(Debug)]
pub(super) struct End {
    pub(super) cells: Vec<Value>,
    pub(super) values: Values,
}

impl SymbolicRun<'_> {
    /// Runs the program. Reads of undefined chunks go to `report`, if given (a second run over the
    /// same program has nothing new to say).
    pub(super) fn go(&self, observer: &mut impl Observer, report: Option<&mut Report>) -> End {
        let mut undefined = report.map(Undefined::new);
        let mut values = Values::new(self.program);
        let mut cells = initial_cells(self.program, self.memory, &values);
        // What each transfer carries between being sent and arriving, as one long list.
        let transfers = self.program.transfers();
        let mut cargo_starts = Vec::with_capacity(transfers.len());
        let mut total = 0;
        for (transfer, sound) in transfers.iter().zip(self.sound) {
            cargo_starts.push(total);
            total += if *sound { transfer.count as usize } else { 0 };
        }
        let mut cargo = vec![Value::UNDEFINED; total];
        for event in &self.order.sequence {
            let event = Event::from_index(*event as usize);
            let id = event.transfer();
            if !self.sound[id.index()] {
                continue;
            }
            let transfer = self.program.transfer(id);
            let carried = &mut cargo[cargo_starts[id.index()]..][..transfer.count as usize];
            if event.is_sent() {
                let cell = self.memory.cell(transfer.src);
                for (index, slot) in carried.iter_mut().enumerate() {
                    *slot = cells[cell + index];
                    observer.read(event.index(), cell + index, *slot);
                    if let (Some(it), Value::UNDEFINED) = (&mut undefined, *slot) {
                        it.add(cell + index);
                    }
                }
                if let Some(it) = &mut undefined {
                    it.say(self, event);
                }
                continue;
            }
            let cell = self.memory.cell(transfer.dst);
            for (index, value) in carried.iter().enumerate() {
                let slot = &mut cells[cell + index];
                let mut new = *value;
                if transfer.action == Action::Reduce {
                    observer.read(event.index(), cell + index, *slot);
                    if let (Some(it), Value::UNDEFINED) = (&mut undefined, *slot) {
                        it.add(cell + index);
                    }
                    new = values.add(*slot, new);
                }
                *slot = new;
                observer.write(event.index(), cell + index, new);
            }
            if let Some(it) = &mut undefined {
                it.say(self, event);
            }
        }
        if let Some(it) = undefined {
            it.finish(self);
        }
        End { cells, values }
    }
}

/// The precondition as cell values.
pub(super) fn initial_cells(program: &Program, memory: &Memory, values: &Values) -> Vec<Value> {
    let collective = program.collective();
    let mut cells = vec![Value::UNDEFINED; memory.cells()];
    for rank in (0..collective.ranks()).map(Rank) {
        if !collective.input_defined(rank) {
            continue;
        }
        let start = memory.cell(Slot::new(rank, Buffer::Input, 0));
        for offset in 0..collective.input_chunks(rank) {
            cells[start + offset as usize] = values.leaf(Leaf { rank, offset });
        }
    }
    cells
}

/// Reports reads of undefined chunks and changes of out-of-place inputs.
struct Undefined<'a> {
    report: &'a mut Report,
    /// The first undefined chunk that the present event reads, and how many it reads.
    first: usize,
    count: usize,
}

impl<'a> Undefined<'a> {
    const fn new(report: &'a mut Report) -> Self {
        Self { report, first: 0, count: 0 }
    }

    fn add(&mut self, cell: usize) {
        if self.count == 0 {
            self.first = cell;
        }
        self.count += 1;
    }

    /// One finding for all undefined chunks of an event.
    fn say(&mut self, run: &SymbolicRun<'_>, event: Event) {
        let others = match std::mem::take(&mut self.count) {
            0 => return,
            1 => String::new(),
            more => format!("; nor do {} more of its chunks", more - 1),
        };
        let id = event.transfer();
        let transfer: &Transfer = run.program.transfer(id);
        let verb = if event.is_sent() { "sends" } else { "reduces into" };
        let slot = run.memory.slot(run.program, self.first);
        let message = format!(
            "transfer {} ({transfer}) {verb} {slot}{}, which holds nothing yet{others}",
            id.0,
            form(run.program, run.memory)
        );
        self.report.push(Diagnostic::error(Finding::ReadsUndefined, message).of(id));
    }

    /// NCCL promises that the input of an out-of-place call is left alone; not part of being
    /// right, but worth a word.
    fn finish(self, run: &SymbolicRun<'_>) {
        if run.memory.in_place {
            return;
        }
        let writes = |it: &&Transfer| it.dst.buffer == Buffer::Input;
        if let Some(transfer) = run.program.transfers().iter().find(writes) {
            self.report.push(Diagnostic::warning(
                Finding::InputOverwritten,
                format!("an out-of-place call changes its input ({transfer}, the first of them)"),
            ));
        }
    }
}

/// " (in place)" where a program serves both call forms and a message must say which.
pub(super) fn form(program: &Program, memory: &Memory) -> &'static str {
    let forms = program.forms();
    match (forms.in_place && forms.out_of_place, memory.in_place) {
        (false, _) => "",
        (true, true) => " (in-place call)",
        (true, false) => " (out-of-place call)",
    }
}

const NEVER: u32 = u32::MAX;

/// Watches one run for accesses that are not ordered after those they must follow.
#[derive(Debug)]
pub(super) struct Watch<'a, 'b> {
    before: &'a mut HappensBefore<'b>,
    last_write: Vec<u32>,
    /// The newest read since the last write, as an index into `reads`.
    last_read: Vec<u32>,
    /// (event, next older read of the cell).
    reads: Vec<(u32, u32)>,
    suspects: Vec<u32>,
    /// The last question and its answer: a transfer asks the same of each of its chunks.
    last_asked: (u32, usize, bool),
}

impl<'a, 'b> Watch<'a, 'b> {
    pub(super) fn new(memory: &Memory, before: &'a mut HappensBefore<'b>) -> Self {
        Self {
            before,
            last_write: vec![NEVER; memory.cells()],
            last_read: vec![NEVER; memory.cells()],
            reads: Vec::new(),
            suspects: Vec::new(),
            last_asked: (NEVER, 0, false),
        }
    }

    /// The cells to look at again, each once, in order.
    pub(super) fn into_suspects(mut self) -> Vec<u32> {
        self.suspects.sort_unstable();
        self.suspects.dedup();
        self.suspects
    }

    fn must_follow(&mut self, earlier: u32, event: usize, cell: usize) {
        if earlier == NEVER || earlier as usize == event {
            return;
        }
        if (self.last_asked.0, self.last_asked.1) != (earlier, event) {
            self.last_asked = (earlier, event, self.before.before(earlier as usize, event));
        }
        if !self.last_asked.2 {
            self.suspects.push(cell as u32);
        }
    }
}

impl Observer for Watch<'_, '_> {
    fn read(&mut self, event: usize, cell: usize, _: Value) {
        self.must_follow(self.last_write[cell], event, cell);
        self.reads.push((event as u32, self.last_read[cell]));
        self.last_read[cell] = self.reads.len() as u32 - 1;
    }

    fn write(&mut self, event: usize, cell: usize, _: Value) {
        let mut read = std::mem::replace(&mut self.last_read[cell], NEVER);
        if read == NEVER {
            self.must_follow(self.last_write[cell], event, cell);
        }
        while read != NEVER {
            let (reader, older) = self.reads[read as usize];
            self.must_follow(reader, event, cell);
            read = older;
        }
        self.last_write[cell] = event as u32;
    }
}
