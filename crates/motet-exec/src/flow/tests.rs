//! Frames thrown at the flow without sockets: what is in order is done, and all else refused.

use super::*;
use crate::element::{Element, Reduction};
use crate::layout::{Layout, REGIONS};
use crate::memory::Memory;
use crate::merged::Merged;
use crate::plan::Plan;
use crate::run::{Outcome, Registered};
use crate::uses::Uses;
use motet_collective::{Collective, CollectiveKind, ProgramBuilder, Slot, Transfer};
use motet_units::{Instant, Rank};
use proptest::prelude::*;
use std::sync::mpsc::{Receiver, channel};

/// Nothing is lent here.
const USES: Uses = Uses { shown: [true; REGIONS], writes_input: true, overlap: None };

/// Rank 0 of three, in the middle of an AllReduce whose sums go round a ring.
fn started() -> (Flow, Receiver<Outcome>) {
    let collective = Collective::new(CollectiveKind::AllReduce, 3, 3).unwrap();
    let mut b = ProgramBuilder::new("p", collective);
    let mut before = Vec::new();
    for rank in 0..3u32 {
        let to = Rank((rank + 1) % 3);
        let slot = |it: Rank| Slot::input(it, 0);
        let transfer = Transfer::reduce(slot(Rank(rank)), slot(to), 2);
        before = vec![b.add_after(transfer, &before)];
    }
    let program = b.build();
    let layout = Layout::new(&program, Rank(0), Element::F32, 100, false, 64).unwrap();
    let memory = layout.regions.map(|it| Memory::new(it).unwrap());
    let registered = Registered {
        number: 0,
        plan: Plan::new(&program, Rank(0)),
        layout,
        merged: Merged::default(),
        uses: USES,
        element: Element::F32,
        reduction: Reduction::Sum,
        output_is_sum: true,
        ranks: 3,
        foreign: BTreeMap::new(),
    };
    let (reply, outcome) = channel();
    let run = Run::new(Arc::new(registered), memory, reply, Instant::from_ps(1));
    let mut flow = Flow::new(0, 3, 1 << 10);
    flow.start(run).unwrap();
    (flow, outcome)
}

/// Rank 0 of two, which copies from the memory of rank 1.
#[cfg(target_os = "linux")]
fn sharing(failed: u8) -> (Flow, Receiver<Outcome>) {
    use crate::memory::Foreign;
    let collective = Collective::rooted(CollectiveKind::Broadcast, 2, 1, Rank(1)).unwrap();
    let mut b = ProgramBuilder::new("p", collective);
    b.add(Transfer::copy(Slot::input(Rank(1), 0), Slot::output(Rank(0), 0), 1));
    let program = b.build();
    let layout = |rank| Layout::new(&program, Rank(rank), Element::U8, 10, false, 64).unwrap();
    let theirs = layout(1);
    let mut memory = theirs.regions.map(|it| Memory::new(it).unwrap());
    memory[0].bytes_mut().fill(7);
    memory[2].bytes_mut()[theirs.failed] = failed;
    let maps = memory.iter().map(|it| Foreign::open(std::process::id(), it.descriptor()));
    let maps = maps.collect::<Result<Vec<Foreign>, String>>().unwrap();
    let registered = Registered {
        number: 0,
        plan: Plan::new(&program, Rank(0)),
        layout: layout(0),
        merged: Merged::default(),
        uses: USES,
        element: Element::U8,
        reduction: Reduction::Sum,
        output_is_sum: false,
        ranks: 2,
        foreign: BTreeMap::from([(1, (theirs, maps))]),
    };
    let own = registered.layout.regions.map(|it| Memory::new(it).unwrap());
    let (reply, outcome) = channel();
    let run = Run::new(Arc::new(registered), own, reply, Instant::from_ps(1));
    let mut flow = Flow::new(0, 2, 1 << 10);
    flow.start(run).unwrap();
    (flow, outcome)
}

#[test]
#[cfg(target_os = "linux")]
fn memory_of_a_call_that_failed_is_not_taken_for_data() {
    let offer = Header { operation: 1, ..Header::new(Kind::Offer) };
    let (mut flow, outcome) = sharing(0);
    flow.came(1, &offer, Sink::Buffer, &mut Aligned::default()).unwrap();
    flow.work().unwrap();
    // The caller may end with its call, and the other rank waits for a frame that is still to be sent.
    assert!(outcome.try_recv().is_err());
    assert!(flow.lines[1].controls.iter().any(|it| it.0.kind == Kind::Taken));
    flow.answer();
    assert_eq!(outcome.try_recv().unwrap().memory[1].bytes(), [7; 10]);
    let (mut flow, outcome) = sharing(1);
    flow.came(1, &offer, Sink::Buffer, &mut Aligned::default()).unwrap();
    flow.work().unwrap();
    flow.answer();
    assert!(!flow.has_work());
    assert!(outcome.try_recv().is_err());
    // And no rank may offer the same twice.
    let (mut flow, _outcome) = sharing(0);
    flow.came(1, &offer, Sink::Buffer, &mut Aligned::default()).unwrap();
    assert!(flow.came(1, &offer, Sink::Buffer, &mut Aligned::default()).is_err());
}

impl Flow {
    /// Takes away what a rank has sent for calls that are not made here yet.
    pub(crate) fn take_early(&mut self, from: u32) -> Vec<(Header, Aligned)> {
        let line = &mut self.lines[from as usize];
        line.early_bytes = 0;
        std::mem::take(&mut line.early)
    }
}

#[test]
fn each_kind_has_its_longest_payload() {
    let (flow, _outcome) = started();
    let refused = |kind, length| {
        let header = Header { operation: 2, length, ..Header::new(kind) };
        flow.sink(1, &header).err()
    };
    for (kind, longest) in [
        (Kind::Data, 1 << 20),
        (Kind::Register, 2 << 10),
        (Kind::Abort, 4 << 10),
        (Kind::Offer, 0),
        (Kind::Taken, 0),
        (Kind::Notice, 0),
        (Kind::Started, 0),
        (Kind::Ping, 0),
        (Kind::Bye, 0),
    ] {
        assert_eq!(refused(kind, longest), None, "{kind:?}");
        let error = refused(kind, longest + 1).unwrap();
        assert_eq!(error.culprit(), Some(1), "{kind:?}: {error}");
    }
    for kind in [Kind::Hello, Kind::Intro, Kind::Roster, Kind::Refused, Kind::Go] {
        assert_eq!(refused(kind, 0).unwrap().culprit(), Some(1), "{kind:?}");
    }
    // The longest registration that a rank makes.
    let longest = crate::wire::Registration {
        digest: [1; 32],
        title: "t".repeat(5_000),
        process: 1,
        memory: vec![(1, 1); 8],
    };
    assert_eq!(refused(Kind::Register, longest.encode().len() as u32), None);
}

/// What comes in one place twice is missing in another, though there are bytes enough.
#[test]
fn a_message_must_be_covered_and_not_only_counted() {
    let piece = |flow: &mut Flow, offset: u64, length: u32| {
        // Of the second slice, which has 64 bytes of each of the two chunks.
        let header = Header {
            operation: 1,
            slice: 1,
            transfer: 2,
            offset,
            length,
            ..Header::new(Kind::Data)
        };
        let mut bytes = Aligned::from_bytes(&vec![0; length as usize]);
        flow.came(2, &header, Sink::Buffer, &mut bytes)
    };
    for order in [[(0, 4), (4, 60), (64, 64)], [(64, 64), (4, 60), (0, 4)]] {
        let (mut flow, _outcome) = started();
        assert!(order.into_iter().all(|(at, len)| piece(&mut flow, at, len).is_ok()));
    }
    for order in [[(0, 64), (0, 64)], [(0, 64), (32, 64)], [(64, 64), (4, 64)], [(0, 128), (0, 4)]]
    {
        let (mut flow, _outcome) = started();
        let refused = order.into_iter().find_map(|(at, len)| piece(&mut flow, at, len).err());
        assert_eq!(refused.unwrap().culprit(), Some(2), "{order:?}");
    }
}

/// The system may have taken part of the data when the other rank says that it needs none.
#[test]
fn what_is_sent_over_tcp_cannot_be_taken() {
    let (mut flow, _outcome) = started();
    let piece = flow.next_piece(1, 1 << 10).unwrap();
    let Message { operation, slice, transfer } = piece.message;
    let taken = Header { operation, slice, transfer, ..Header::new(Kind::Taken) };
    let error = flow.came(1, &taken, Sink::Buffer, &mut Aligned::default()).unwrap_err();
    assert_eq!(error.culprit(), Some(1), "{error}");
    flow.went(&piece).unwrap();
}

#[test]
fn what_is_sent_early_is_limited() {
    let (mut flow, _outcome) = started();
    let header = Header { operation: 2, length: 1 << 20, ..Header::new(Kind::Data) };
    let mut bytes = Aligned::from_bytes(&vec![0; 1 << 20]);
    let refused = (0..10).find_map(|_| flow.came(1, &header, Sink::Buffer, &mut bytes).err());
    assert!(refused.unwrap().to_string().contains("before a call is made"));
    assert!(flow.lines[1].early_bytes <= EAGER + 2 * MAX_PIECE);
}

proptest! {
    /// Any frames of an authenticated rank are taken or refused; none makes the engine panic.
    #[test]
    fn any_frames_are_taken_or_refused(
        frames in prop::collection::vec(
            (0..5usize, 1u32..3, 0u32..3, 0u32..9, 0u32..4, 0u64..500, 0u32..200),
            1..20,
        ),
    ) {
        let (mut flow, _outcome) = started();
        let kinds = [Kind::Data, Kind::Offer, Kind::Taken, Kind::Notice, Kind::Started];
        for (kind, from, operation, slice, transfer, offset, length) in frames {
            let kind = kinds[kind];
            let length = if kind == Kind::Data { length } else { 0 };
            let header =
                Header { operation, slice, transfer, length, offset, ..Header::new(kind) };
            let mut bytes = Aligned::from_bytes(&vec![0; length as usize]);
            let done = match kind {
                Kind::Started => flow.peer_started(from, &header),
                _ => flow
                    .sink(from, &header)
                    .and_then(|_| flow.came(from, &header, Sink::Buffer, &mut bytes)),
            };
            let done = done.and_then(|()| {
                while flow.has_work() {
                    flow.work()?;
                }
                while let Some(piece) = flow.next_piece(1, 1 << 20) {
                    flow.went(&piece)?;
                }
                Ok(())
            });
            if let Err(error) = done {
                // It is that rank's fault, and none of ours.
                prop_assert_eq!(error.culprit(), Some(from), "{}", error);
                flow.fail(&error);
                return Ok(());
            }
        }
    }
}
