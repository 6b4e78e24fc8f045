//! One-sided programs are right, and MSCCL++ can say them.

use motet_collective::formats::mscclpp_json;
use motet_collective::program::Forms;
use motet_collective::{CollectiveKind, Verified};

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
                        if !shape.suits(kind, ranks) {
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
