//! What people look at: the trace, read back, and utilization over time agree with the outcome.

use std::collections::BTreeMap;

use motet_collective::{Program, Verified};
use motet_net::Network;
use motet_sim::{
    Discipline, Outcome, Prepared, Routed, SimOptions, Simulation, SwitchForwarding, Timeline,
    Utilization,
};
use motet_units::{Bytes, Instant, LinkId};
use proptest::prelude::*;
use serde_json::Value;

use crate::programs;
use crate::support::{any_network, any_options, any_program, any_switches, template, verified};

fn trace(
    program: &Verified<Program>,
    network: &Network,
    size: Bytes,
    options: SimOptions,
    switches: SwitchForwarding,
) -> (String, Outcome) {
    let routed = Routed::new(program, network, switches).unwrap();
    let prepared = Prepared::new(&routed);
    let mut timeline = Timeline::new(&routed);
    let outcome =
        Simulation::new(&prepared, size).options(options).run_with(&mut timeline).unwrap();
    (timeline.to_perfetto(), outcome)
}

/// A track: its name and its spans in ps.
type Tracks = BTreeMap<u64, (u64, String, Vec<(u64, u64)>)>;

/// As the viewer reads it: in nanoseconds, start and duration each rounded by itself.
fn ns(value: &Value) -> u64 {
    (value.as_f64().unwrap() * 1e3).round() as u64
}

fn tracks(text: &str) -> Tracks {
    let json: Value = serde_json::from_str(text).unwrap();
    let mut tracks = Tracks::new();
    let mut seen: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for event in json["traceEvents"].as_array().unwrap() {
        let pid = event["pid"].as_u64().unwrap();
        match (event["ph"].as_str().unwrap(), event["name"].as_str().unwrap()) {
            ("M", "thread_name") => {
                let name = event["args"]["name"].as_str().unwrap().to_owned();
                let had = tracks.insert(event["tid"].as_u64().unwrap(), (pid, name, Vec::new()));
                assert_eq!(had, None, "a track is named once");
            }
            ("X", _) => {
                let track = tracks.get_mut(&event["tid"].as_u64().unwrap()).unwrap();
                assert_eq!(track.0, pid);
                let exact = |key: &str| event["args"][key].as_u64().unwrap();
                let (start, end) = (exact("start_ps"), exact("start_ps") + exact("dur_ps"));
                assert!(ns(&event["ts"]).abs_diff((start + 500) / 1000) == 0);
                track.2.push((start, end));
                let seen = seen.entry(event["tid"].as_u64().unwrap()).or_default();
                seen.push((ns(&event["ts"]), ns(&event["ts"]) + ns(&event["dur"])));
            }
            _ => {}
        }
    }
    // The viewer drops a span that begins before the last one on its track has ended.
    for spans in seen.values() {
        assert!(spans.windows(2).all(|it| it[0].1 <= it[1].0), "{spans:?}");
    }
    tracks
}

/// How long any of the spans lasts.
fn union(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let (mut total, mut reached) = (0, 0);
    for (start, end) in spans {
        total += end.saturating_sub(start.max(reached));
        reached = reached.max(end);
    }
    total
}

/// No overlap on a track, and links as busy as the outcome says.
fn check(text: &str, outcome: &Outcome) {
    let tracks = tracks(text);
    let mut of_link: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for (pid, name, spans) in tracks.values() {
        let mut sorted = spans.clone();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|it| it[0].1 <= it[1].0), "{name} overlaps: {sorted:?}");
        if *pid == 1 {
            let id = name.split([' ', ':']).nth(1).unwrap().parse().unwrap();
            of_link.entry(id).or_default().extend(spans);
        }
    }
    for (id, usage) in outcome.links.iter().enumerate() {
        let spans = of_link.remove(&id).unwrap_or_default();
        assert_eq!(spans.len() as u64, usage.crossings, "link {id}");
        assert_eq!(union(spans), usage.busy.as_ps(), "link {id}");
    }
    assert_eq!(of_link.len(), 0);
}

#[test]
fn a_ring_has_a_track_for_each_link_and_two_for_each_rank() {
    let (program, network) =
        (verified(programs::ring_all_gather(4, 1)), template("ring", &["gpus=4"]));
    let (text, outcome) = trace(
        &program,
        &network,
        Bytes::mib(1),
        SimOptions::default(),
        SwitchForwarding::CutThrough,
    );
    let tracks = tracks(&text);
    let names: Vec<&str> = tracks.values().map(|it| it.1.as_str()).collect();
    assert_eq!(names.iter().filter(|it| it.starts_with("link")).count(), 4);
    assert!(names.contains(&"link 0: gpu0 → gpu1"), "{names:?}");
    assert!(names.contains(&"rank 3 gpu3 sends") && names.contains(&"rank 3 gpu3 receives"));
    assert_eq!(names.len(), 4 + 2 * 4, "nothing overlaps, so nothing has a second track");
    check(&text, &outcome);
}

#[test]
fn the_end_of_the_trace_is_the_time_of_the_run() {
    let (program, network) =
        (verified(programs::ring_all_gather(4, 1)), template("ring", &["gpus=4"]));
    let (text, outcome) = trace(
        &program,
        &network,
        Bytes::new(12_345),
        SimOptions::default(),
        SwitchForwarding::CutThrough,
    );
    let last = tracks(&text).into_values().flat_map(|it| it.2).map(|it| it.1).max();
    assert_eq!(last, Some(outcome.time.as_ps()));
}

#[test]
fn names_from_files_are_escaped() {
    let network = template("ring", &["gpus=4"]).renamed("a \"quoted\"\\ name");
    let program = verified(programs::ring_all_gather(4, 1));
    let (text, _) = trace(
        &program,
        &network,
        Bytes::mib(1),
        SimOptions::default(),
        SwitchForwarding::CutThrough,
    );
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["otherData"]["network"], "a \"quoted\"\\ name");
}

proptest! {
    #[test]
    fn traces_agree_with_the_outcome(
        program in any_program(6),
        network in any_network(6, true),
        options in any_options(),
        switches in any_switches(),
        size in 0u64..100_000,
    ) {
        let (text, outcome) = trace(&program, &network, Bytes::new(size), options, switches);
        check(&text, &outcome);
        prop_assert_eq!(text, trace(&program, &network, Bytes::new(size), options, switches).0);
        if options.discipline != Discipline::FairShare {
            let doubled = tracks(&trace(&program, &network, Bytes::new(size), options, switches).0)
                .into_values()
                .any(|(pid, name, _)| pid == 1 && name.contains('+'));
            prop_assert!(!doubled, "one transfer takes a link at a time");
        }
    }

    #[test]
    fn parts_add_up_to_the_whole(
        program in any_program(6),
        network in any_network(6, true),
        options in any_options(),
        switches in any_switches(),
        size in 1u64..100_000,
        parts in 1usize..50,
        start in 0u64..1_000_000,
    ) {
        let routed = Routed::new(&program, &network, switches).unwrap();
        let prepared = Prepared::new(&routed);
        let mut utilization = Utilization::new(&network);
        let start = Instant::from_ps(start);
        let outcome = Simulation::new(&prepared, Bytes::new(size))
            .options(options)
            .starting_at(start)
            .run_with(&mut utilization)
            .unwrap();
        for id in (0..network.links().len()).map(LinkId::from_index) {
            let over_time = utilization.over_time(id, start, &outcome, parts);
            prop_assert_eq!(over_time.len(), parts);
            prop_assert!(over_time.iter().all(|it| (0.0..=1.0).contains(it)));
            let mean = over_time.iter().sum::<f64>() / parts as f64;
            prop_assert!((mean - outcome.utilization(id)).abs() < 1e-9);
        }
    }
}
