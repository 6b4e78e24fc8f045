//! The windows of the job that Opus measured: what the paper says of them that follows from how PyTorch runs such a job,
//! and what the host's time does to them. And those of a job that we recorded.

#![allow(clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_rails::opus::{Setting, measured};
use motet_rails::{Machine, TrainingStep};
use motet_units::{Bandwidth, Duration};
use motet_workload::Run;
use motet_workload::formats::job_toml;
use motet_workload::windows::{View, Window, Windows};

fn rail(setting: &Setting) -> (Windows, Run) {
    let step = measured(setting).unwrap();
    let run = step.electrical().unwrap();
    (Windows::of_groups(&step.calls(&run, View::Rail)), run)
}

/// Fig. 4b has one volume for all AllGathers and one for all ReduceScatters: either stage's come in one piece, with no
/// other traffic between or beside them (§3.1), and the longest window is before ReduceScatter.
#[test]
fn phases_are_whole_and_apart() {
    let (windows, _) = rail(&Setting::default());
    let mib = |traffic: &str| -> Vec<u64> {
        let all = windows.phases.iter().filter(|it| it.traffic() == traffic);
        all.map(|it| it.bytes().get() >> 20).collect()
    };
    assert_eq!(mib("DP allgather"), [957, 957]);
    assert_eq!(mib("DP reducescatter"), [3829, 3829]);
    assert!(windows.all().all(|it| it.overlap().is_zero()));
    let longest = windows.all().max_by_key(Window::length).unwrap();
    assert_eq!(longest.after.traffic(), "DP reducescatter");
}

/// The host is waited for at the end of the step only: two calls lie between the sum over replicas and that over stages
/// (the one over tensor-parallel ranks does not leave the server), and no window before the first of them changes.
#[test]
fn the_host_shows_at_the_end_of_the_step() {
    let with = |us| rail(&Setting { host: Duration::from_us(us), ..Setting::default() });
    let ((none, fast), (some, slow)) = (with(0), with(700));
    let lengths = |it: &Windows| it.all().map(|it| it.length()).collect::<Vec<_>>();
    let (none, some) = (lengths(&none), lengths(&some));
    let count = none.len();
    assert_eq!(none[..count - 4], some[..count - 4]);
    assert_eq!(some[count - 2], none[count - 2] + Duration::from_us(1400));
    assert_eq!(some[count - 1], none[count - 1] + Duration::from_us(700));
    // Copied gradients, the norm (twice), the sum over stages and the loss.
    assert_eq!(slow.time(), fast.time() + Duration::from_us(5 * 700));
}

/// What follows what in the recording of `benches/workload/results/h200-2026-11-16.md`, and the bytes of each phase (messages
/// and sums over stages: of one of its two pairs of ranks).
const RECORDED: [(&str, u64); 7] = [
    ("DP allgather", 939_589_632),
    ("PP sendrecv", 33_554_432),
    ("DP allgather", 939_589_632),
    ("PP sendrecv", 234_881_024),
    ("DP reducescatter", 7_516_717_056),
    ("PP allreduce", 4),
    ("DP allreduce", 4),
];

/// The job that was recorded has the recorded phases, in order and size, and no traffic of two of them overlaps; in the order
/// of PyTorch as it was before, it has two more.
#[test]
fn phases_are_the_recorded_ones() {
    let text = include_str!("../../../benches/workload/pipeline-job.toml");
    let phases = |text: &str| {
        let mut machine = Machine { domain: 1, ..Machine::named("dgx-h200").unwrap() };
        machine.rail.bandwidth = Bandwidth::from_bits_per_s(8 * 2_900_000_000);
        let step =
            TrainingStep::new(job_toml::read(text).unwrap().check().unwrap(), machine).unwrap();
        let windows = step.windows(&step.electrical().unwrap(), View::Rail);
        assert!(windows.all().all(|it| it.overlap().is_zero()));
        windows.phases
    };
    let now = phases(text);
    assert_eq!(now.len(), RECORDED.len());
    for (ours, (traffic, bytes)) in now.iter().zip(RECORDED) {
        assert_eq!(ours.traffic(), traffic);
        // The recorded model's norms have biases, which ours have not.
        let gap = ours.bytes().get().abs_diff(bytes);
        assert!(gap <= bytes / 10_000, "{traffic}: {} against {bytes}", ours.bytes());
    }
    let before = phases(&text.replace("pp = 2", "pp = 2\nreduce = \"before-send\""));
    assert_eq!(before.len(), RECORDED.len() + 2);
}
