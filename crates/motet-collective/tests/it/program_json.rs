//! Motet's own program file: exact round trips of any program, right or wrong.

use crate::programs;
use motet_collective::formats::{ProgramFormat, program_json, read_any};
use motet_collective::program::{Hints, Lane, LaneKind, MadeFor, Protocol};
use motet_collective::{
    Action, Buffer, Collective, CollectiveKind, Event, Forms, Program, ProgramBuilder, Slot,
    Transfer,
};
use motet_units::{Bytes, LinkId, Rank};
use proptest::prelude::*;

fn comes_back(program: &Program) {
    let text = program_json::write(program);
    let read = program_json::read(&text).unwrap();
    assert!(read == *program, "{text}");
}

#[test]
fn textbook_programs_come_back() {
    for program in programs::all(4) {
        comes_back(&program);
        let (format, read) = read_any(&program_json::write(&program)).unwrap();
        assert_eq!(format, ProgramFormat::Motet);
        assert!(read.check(None).is_right());
    }
}

fn collectives() -> impl Strategy<Value = Collective> {
    (prop::sample::select(CollectiveKind::ALL.to_vec()), 1u32..6, 1u32..5, any::<u32>()).prop_map(
        |(kind, ranks, chunks, seed)| match kind {
            CollectiveKind::AllToAllV => {
                let counts = (0..ranks * ranks).map(|it| seed.rotate_left(it) % 4).collect();
                Collective::all_to_all_v(ranks, counts).unwrap()
            }
            CollectiveKind::SendRecv => {
                let peer =
                    |it: u32| (!(it + seed).is_multiple_of(3)).then(|| Rank((it + 1) % ranks));
                Collective::send_recv(chunks, (0..ranks).map(peer).collect()).unwrap()
            }
            _ if kind.has_root() => {
                Collective::rooted(kind, ranks, chunks, Rank(seed % ranks)).unwrap()
            }
            _ => Collective::new(kind, ranks, chunks).unwrap(),
        },
    )
}

prop_compose! {
    fn slots()(
        rank in 0u32..8,
        buffer in prop::sample::select(Buffer::ALL.to_vec()),
        offset in prop_oneof![0u32..9, any::<u32>()],
    ) -> Slot {
        Slot::new(Rank(rank), buffer, offset)
    }
}

prop_compose! {
    fn transfers()(
        reduce in any::<bool>(),
        src in slots(),
        dst in slots(),
        count in 0u32..4,
        path in prop::option::of(0u32..3),
    ) -> Transfer {
        let action = if reduce { Action::Reduce } else { Action::Copy };
        Transfer { action, src, dst, count, path }
    }
}

prop_compose! {
    fn lanes()(
        rank in 0u32..8,
        port in prop::option::of(0u32..4),
        channel in any::<u32>(),
        events in prop::collection::vec(0usize..40, 0..6),
    ) -> Lane {
        let kind = port.map_or(LaneKind::Block, |block| LaneKind::Port { block });
        let events = events.into_iter().map(Event::from_index).collect();
        Lane { rank: Rank(rank), kind, channel, events }
    }
}

proptest! {
    #[test]
    fn any_program_comes_back(
        name in ".*",
        collective in collectives(),
        (in_place, out_of_place) in any::<(bool, bool)>(),
        protocol in prop::sample::select(Protocol::ALL.to_vec()),
        (min, max) in any::<(u64, Option<u64>)>(),
        transfers in prop::collection::vec(transfers(), 0..12),
        waits in prop::collection::vec((0usize..40, 0usize..40), 0..12),
        lanes in prop::collection::vec(lanes(), 0..4),
        paths in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..4), 0..3),
        scratch in any::<Option<u32>>(),
        made_for in any::<Option<(String, u64)>>(),
    ) {
        let mut b = ProgramBuilder::new(name, collective)
            .forms(Forms { in_place, out_of_place })
            .hints(Hints { protocol, min_size: Bytes::new(min), max_size: max.map(Bytes::new) });
        if let Some(chunks) = scratch {
            b.set_scratch(Rank(0), chunks);
            b.set_switch(Rank(0), chunks);
            b.set_network(Some("0123456789abcdef0123456789abcdef".parse().unwrap()));
        }
        let made_for = made_for.map(|(cluster, size)| MadeFor { cluster, size: Bytes::new(size) });
        b.set_made_for(made_for);
        for transfer in transfers {
            b.add(transfer);
        }
        for (event, awaited) in waits {
            b.wait(Event::from_index(event), Event::from_index(awaited));
        }
        b.set_lanes(lanes);
        for path in paths {
            b.add_path(path.into_iter().map(LinkId).collect());
        }
        comes_back(&b.build());
    }
}

#[test]
fn wrong_files_are_refused_with_a_reason() {
    let good = program_json::write(&programs::with_lanes(&programs::ring_all_gather(2, 1)));
    let refuses = |from: &str, to: &str, part: &str| {
        assert!(good.contains(from), "{from} is not in {good}");
        let error = program_json::read(&good.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(part), "{from} to {to}: {error}");
    };
    refuses("\"motet_program\": 1", "\"motet_program\": 2", "version 2");
    refuses("\"motet_program\": 1,", "", "no `motet_program` key");
    refuses("\"name\"", "\"nome\"", "unknown field `nome`");
    let place = "\"transfers\"";
    let made_for = |it: &str| format!("\"made_for\": {it}, {place}");
    refuses(place, &made_for("{\"cluster\": \"ring\"}"), "missing field `size_bytes`");
    refuses(place, &made_for("\"ring\""), "invalid type");
    refuses("allgather\", \"ranks\"", "allgather\", \"root\": 1, \"ranks\"", "has no `root`");
    refuses("kind\": \"allgather\"", "kind\": \"gather\"", "needs `root`");
    refuses("kind\": \"allgather\"", "kind\": \"scan\"", "scan");
    refuses("\"ranks\": 2", "\"ranks\": 4000000000", "ranks");
    refuses("\"ranks\": 2", "\"ranks\": -2", "line 3");
    refuses("\"Simple\"", "\"Complex\"", "unknown protocol `Complex`");
    refuses("\"out-of-place\"", "\"elsewhere\"", "elsewhere");
    refuses("[\"c\"", "[\"x\"", "an action is");
    refuses("\"i\"", "\"q\"", "a buffer is");
    refuses("[\"c\",", "[", "line 8");
    refuses(",1],", "],", "line");
    refuses("\"transfers\": [", "\"waits\": [[99,0]], \"transfers\": [", "event 99");
    refuses("\"transfers\": [", "\"scratch\": [1], \"transfers\": [", "1 numbers for 2 ranks");
    refuses("\"block\"", "\"thread\"", "line");
    let deep = format!("{{\"motet_program\": {}", "[".repeat(100_000));
    assert!(program_json::read(&deep).is_err());
    assert!(program_json::read("").is_err());
}
