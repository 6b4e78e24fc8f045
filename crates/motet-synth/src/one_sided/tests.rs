//! One-sided programs are right, and MSCCL++ can say them.

use motet_collective::formats::mscclpp_json;
use motet_collective::program::{Forms, Hints};
use motet_collective::{CollectiveKind, Verified};

use motet_units::Bytes;

use super::{Pattern, Shape, program};

/// Every pattern is right for every collective, rank count and form, and MSCCL++ can say it.
#[test]
fn all_are_right_and_can_be_written() {
    for kind in CollectiveKind::ALL {
        for pattern in Pattern::ALL.into_iter().filter(|it| it.does(kind)) {
            for ranks in [2, 3, 5, 8] {
                for (slices, peers_per_block, apart) in
                    [(1, 8, false), (3, 1, false), (2, 4, true), (1, 1, true)]
                {
                    for forms in [Forms::OUT_OF_PLACE, Forms::IN_PLACE] {
                        let gpus_per_server = None;
                        let shape =
                            Shape { pattern, slices, peers_per_block, apart, gpus_per_server };
                        let out_of_place = forms == Forms::OUT_OF_PLACE;
                        if !shape.suits(kind, ranks) || out_of_place && !shape.serves_out_of_place()
                        {
                            continue;
                        }
                        let what = format!("{kind} {shape:?} {ranks} {forms:?}");
                        let made = program(kind, ranks, forms, shape).unwrap();
                        let of_first = made.lanes().iter().filter(|it| it.rank.0 == 0).count();
                        assert_eq!(of_first, shape.blocks(kind, ranks) as usize, "{what}");
                        let right = Verified::new(made, None);
                        if forms == Forms::IN_PLACE && !shape.serves_in_place(kind, ranks) {
                            continue;
                        }
                        let right = match right {
                            Ok(right) => right,
                            Err(it) => panic!("{what}: {}", it.report),
                        };
                        let options = mscclpp_json::Options::default();
                        match mscclpp_json::write(&right, &options) {
                            Ok(text) => assert!(text.contains("\"ops\""), "{what}"),
                            Err(it) => panic!("{what}: {it}"),
                        }
                    }
                }
            }
        }
    }
}

/// Blocks that only read from others need not make sure that anything is seen when they end.
#[test]
fn only_those_that_write_elsewhere_end_with_full_signals() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    for (kind, pattern, forms, writes) in [
        (AllGather, Pattern::Pull, Forms::IN_PLACE, false),
        (AllGather, Pattern::Direct, Forms::IN_PLACE, true),
        (ReduceScatter, Pattern::Direct, Forms::OUT_OF_PLACE, false),
        (AllReduce, Pattern::Direct, Forms::OUT_OF_PLACE, false),
        (AllReduce, Pattern::DirectTwice, Forms::IN_PLACE, true),
    ] {
        let gpus_per_server = None;
        let shape = Shape { pattern, slices: 2, peers_per_block: 1, apart: false, gpus_per_server };
        let made = Verified::new(program(kind, 4, forms, shape).unwrap(), None).unwrap();
        let in_place = forms == Forms::IN_PLACE;
        let options = mscclpp_json::Options { in_place, ..Default::default() };
        let text = mscclpp_json::write(&made, &options).unwrap();
        for word in ["\"signal\"", "\"wait\""] {
            assert_eq!(text.contains(word), writes, "{kind} {pattern:?}: {word}");
        }
        assert_eq!(mscclpp_json::read(&text).unwrap().report.to_string(), "", "{kind} {pattern:?}");
    }
}

/// Packets share the executor's scratch where their largest call fits it, and nothing else is reached.
#[test]
fn packets_share_scratch_as_far_as_it_goes() {
    let shares = |pattern, gpus_per_server, most: Option<u64>| {
        let kind = CollectiveKind::AllReduce;
        let shape = Shape { pattern, slices: 2, peers_per_block: 7, apart: false, gpus_per_server };
        let made = program(kind, 8, Forms::OUT_OF_PLACE, shape).unwrap();
        let hints = Hints { max_size: most.map(Bytes::new), ..*made.hints() };
        let right = Verified::new(made.to_builder().hints(hints).build(), None).unwrap();
        let channel = match gpus_per_server {
            Some(gpus_per_server) => mscclpp_json::Channel::Auto { gpus_per_server },
            None => mscclpp_json::Channel::Memory,
        };
        let options = mscclpp_json::Options { channel, ..Default::default() };
        let text = mscclpp_json::write(&right, &options).unwrap();
        text.contains("\"reuse_resources\": true")
    };
    // In one phase every rank has all eight inputs in scratch, in two phases two times its own.
    assert!(shares(Pattern::Packets, None, Some(4 << 20)));
    assert!(!shares(Pattern::Packets, None, Some(5 << 20)));
    assert!(shares(Pattern::PacketsTwice, None, Some(16 << 20)));
    assert!(!shares(Pattern::PacketsTwice, None, Some(17 << 20)));
    assert!(!shares(Pattern::Packets, None, None));
    assert!(!shares(Pattern::Packets, Some(4), Some(1 << 20)));
    assert!(!shares(Pattern::Direct, None, Some(1 << 20)));
}

/// Over ports a plan has threadblocks that the program has no lanes for: they count, too.
#[test]
fn what_does_not_fit_the_gpu_is_refused() {
    let (pattern, gpus_per_server) = (Pattern::Packets, None);
    let shape = Shape { pattern, slices: 4, peers_per_block: 7, apart: false, gpus_per_server };
    let made = program(CollectiveKind::AllReduce, 8, Forms::OUT_OF_PLACE, shape).unwrap();
    let right = Verified::new(made, None).unwrap();
    let per_rank = |options: &mscclpp_json::Options| {
        let text = mscclpp_json::write(&right, options).ok()?;
        Some(mscclpp_json::outline(&text).ok()??.most_blocks())
    };
    let ports = mscclpp_json::Channel::Auto { gpus_per_server: 4 };
    let gpu = mscclpp_json::Gpu { ranks: 1, ..Default::default() };
    let wide = mscclpp_json::Options { channel: ports, gpu, ..Default::default() };
    let blocks = per_rank(&wide).unwrap();
    assert!(blocks > shape.blocks(CollectiveKind::AllReduce, 8), "{blocks}");
    // So few multiprocessors that the lanes fit, and the blocks do not.
    let gpu = mscclpp_json::Gpu { multiprocessors: blocks - 1, ranks: 1 };
    assert_eq!(per_rank(&mscclpp_json::Options { gpu, ..wide }), None);
}

/// The shapes in which packets go over ports, between servers of every size.
fn port_shapes(kind: CollectiveKind, ranks: u32) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for pattern in Pattern::ALL.into_iter().filter(|it| it.does(kind) && it.has_packets()) {
        for gpus_per_server in 1..ranks {
            for (slices, peers_per_block, apart) in
                [(1, 8, false), (3, 1, false), (2, 4, true), (1, 1, true)]
            {
                let gpus_per_server = Some(gpus_per_server);
                shapes.push(Shape { pattern, slices, peers_per_block, apart, gpus_per_server });
            }
            shapes.retain(|it| it.suits(kind, ranks));
        }
    }
    shapes
}

/// Packets over ports are right, too, and need no signal, no relay and no further blocks.
#[test]
fn packets_go_over_ports() {
    for kind in CollectiveKind::ALL {
        for ranks in [2, 3, 4, 5, 6, 8] {
            for shape in port_shapes(kind, ranks) {
                for forms in [Forms::OUT_OF_PLACE, Forms::IN_PLACE] {
                    if forms == Forms::IN_PLACE && !shape.serves_in_place(kind, ranks) {
                        continue;
                    }
                    let what = format!("{kind} {shape:?} {ranks} {forms:?}");
                    let made = program(kind, ranks, forms, shape).unwrap();
                    let right = Verified::new(made, None)
                        .unwrap_or_else(|it| panic!("{what}: {}", it.report));
                    let gpus_per_server = shape.gpus_per_server.unwrap();
                    let options = mscclpp_json::Options {
                        channel: mscclpp_json::Channel::Auto { gpus_per_server },
                        in_place: forms == Forms::IN_PLACE,
                        ..Default::default()
                    };
                    let text = mscclpp_json::write(&right, &options)
                        .unwrap_or_else(|it| panic!("{what}: {it}"));
                    let blocks = mscclpp_json::outline(&text).unwrap().unwrap().most_blocks();
                    assert_eq!(blocks, shape.blocks(kind, ranks), "{what}");
                    assert!(text.contains("rppkt") && text.contains("\"port\""), "{what}");
                    for word in ["signal", "wait", "\"flush\"", "\"put\"", "pws", "sem_"] {
                        assert!(!text.contains(word), "{what}: {word}");
                    }
                    assert!(text.contains("\"use_double_scratch_buffer\": true"), "{what}");
                }
            }
        }
    }
}
