//! Deadlocks of steps that receive and send on in one go (`rcs`, `rrs`, `rrcs`).
//!
//! Such a step takes nothing from its connection before there is a free FIFO slot for what it sends
//! on. A receive followed by a send, which is how the program says the same, would take the data
//! first. So a cycle of such steps can deadlock where the program by itself does not.

use crate::program::{Event, EventGraph, Program};
use crate::verify::waits_for_room;

/// Whether the program deadlocks if each of these steps (given as its events in order) starts only
/// when the FIFO of its last send has a free slot.
pub(super) fn deadlocks<'a>(program: &Program, steps: impl Iterator<Item = &'a [Event]>) -> bool {
    let room = waits_for_room(program);
    let mut more = Vec::new();
    for events in steps {
        let between_ranks = |it: &&Event| !program.transfer(it.transfer()).is_local();
        let sending = events.iter().rfind(between_ranks).filter(|it| it.is_sent());
        let Some(sending) = sending else { continue };
        let sending = sending.index() as u32;
        let start = room.partition_point(|it| it.0 < sending);
        let awaited = room[start..].iter().take_while(|it| it.0 == sending).map(|it| it.1);
        more.extend(
            awaited.flat_map(|awaited| events.iter().map(move |it| (it.index() as u32, awaited))),
        );
    }
    more.sort_unstable();
    !more.is_empty() && EventGraph::with_more(program, &more).order().is_none()
}
