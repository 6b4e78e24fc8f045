//! Plans for the executor: which program is fastest between processes, tried out on their sockets.
//!
//! For a task (a collective and a size) there are some [`Candidate`]s: the program that `motet exec` would run, and
//! programs of other methods. A [`Race`](crate::measure::Race) times them by turns; the binary runs the calls. The
//! result is a [`SocketPlan`]: for each task a program, and all that was tried. It has nothing in common with NCCL's
//! plans but the name: there are no thread blocks, protocols or channels here.

use motet_collective::formats::program_json;
use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::{Network, Signature};
use motet_synth::for_sockets::joined;
use motet_synth::one_sum::sums_once;
use motet_synth::{Effort, Goal, Method, SynthError, Task, for_sockets, synthesize};
use motet_units::{Bytes, Duration, Seed};
use serde::{Deserialize, Serialize};

/// The file of such a plan, in its folder.
pub const MANIFEST: &str = "tcp.json";
/// The version of its format.
pub const VERSION: u32 = 1;

/// A candidate is tried only if the simulator gives it at most this many times the time of the best.
const WITHIN: u64 = 4;

/// A program that may serve a task.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub method: String,
    pub program: Verified<Program>,
    /// Its time in the simulator.
    pub simulated: Duration,
}

/// The candidates for a task: first the program that is run without a plan, then others, the fastest in the simulator
/// first; `most` in all. For an AllReduce, only programs that give all ranks the same bits.
///
/// # Errors
/// When there is no program at all.
pub fn candidates(
    network: &Network,
    goal: &Goal,
    size: Bytes,
    seed: Seed,
    most: usize,
) -> Result<Vec<Candidate>, SynthError> {
    let own = for_sockets(network, true, goal, size, Method::Auto, seed)?;
    let mut all = vec![Candidate {
        method: own.method.name().to_owned(),
        program: own.program,
        simulated: own.time,
    }];
    // To sockets links side by side are one, whatever the method.
    let network = joined(network);
    let task = Task::new(&network, goal.clone(), size);
    let effort = Effort::normal(seed);
    for method in Method::all() {
        let asks_switches = matches!(method, Method::InSwitch);
        if all.len() > 1 && most <= 1 || asks_switches || !method.does(goal.kind()) {
            continue;
        }
        let made = synthesize(&task, method, &effort).and_then(|it| it.prove(&task));
        let Ok(made) = made else { continue };
        let same_bits = goal.kind() != CollectiveKind::AllReduce || sums_once(&made.program);
        let known = all.iter().any(|it| it.program.transfers() == made.program.transfers());
        if same_bits && !known {
            let method = made.method.name().to_owned();
            all.push(Candidate { method, program: made.program, simulated: made.time });
        }
    }
    let best = all.iter().map(|it| it.simulated).min().unwrap_or_default();
    if let Some(others) = all.get_mut(1..) {
        others.sort_by_key(|it| it.simulated);
    }
    let mut place = 0;
    all.retain(|it| {
        place += 1;
        place == 1 || it.simulated <= best.saturating_mul(WITHIN)
    });
    all.truncate(most.max(1));
    Ok(all)
}

/// A program that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub method: String,
    pub simulated_ps: u64,
    /// The time of each call on its slowest rank; empty if the program was not timed.
    pub times_ps: Vec<u64>,
    /// Whether its results were wrong.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrong: bool,
}

impl Trial {
    /// The median of its times (of an even number, the upper of the middle two).
    #[must_use]
    pub fn median(&self) -> Option<Duration> {
        let mut sorted = self.times_ps.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).map(|it| Duration::from_ps(*it))
    }
}

/// What a plan says of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketTask {
    pub collective: CollectiveKind,
    pub size_bytes: u64,
    /// Its program's file in the folder.
    pub program: String,
    pub method: String,
    pub time_ps: u64,
    /// Whether `time_ps` was measured; otherwise it is the simulator's.
    pub measured: bool,
    /// All programs that were tried; first the one that is run without a plan.
    pub tried: Vec<Trial>,
}

impl SocketTask {
    /// How many times as fast the plan's program is as the one that is run without a plan; `None` if not both were
    /// measured.
    #[must_use]
    pub fn gain(&self) -> Option<f64> {
        let own = self.tried.first()?.median()?;
        (self.measured && self.time_ps > 0).then(|| own.as_ps() as f64 / self.time_ps as f64)
    }
}

/// A plan for the executor: [`MANIFEST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketPlan {
    pub motet_tcp_plan: u32,
    /// The Motet that made it.
    pub motet: String,
    pub network: String,
    pub signature: String,
    pub ranks: u32,
    pub seed: u64,
    /// By collective, then size.
    pub tasks: Vec<SocketTask>,
}

impl SocketPlan {
    #[must_use]
    pub fn new(network: &Network, motet: &str, seed: u64) -> Self {
        Self {
            motet_tcp_plan: VERSION,
            motet: motet.to_owned(),
            network: network.name().to_owned(),
            signature: Signature::of(network).to_string(),
            ranks: u32::try_from(network.ranks().len()).unwrap_or(u32::MAX),
            seed,
            tasks: Vec::new(),
        }
    }

    /// Reads [`MANIFEST`].
    ///
    /// # Errors
    /// When it is none, or of another version.
    pub fn read(text: &str) -> Result<Self, String> {
        let plan: Self = serde_json::from_str(text).map_err(|it| it.to_string())?;
        if plan.motet_tcp_plan != VERSION {
            let other = plan.motet_tcp_plan;
            return Err(format!("version {other} of the format; this Motet reads {VERSION}"));
        }
        Ok(plan)
    }
}

/// A program's file in the folder, and its text.
#[must_use]
pub fn file(kind: CollectiveKind, size: Bytes, program: &Program) -> (String, String) {
    (format!("programs/{kind}-{}.json", size.get()), program_json::write(program))
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{Params, find};

    #[test]
    fn what_is_run_without_a_plan_comes_first_and_no_program_twice() {
        let ring = find("ring").unwrap().build(&Params::from_words(["gpus=4"]).unwrap()).unwrap();
        let goal = Goal::new(CollectiveKind::AllReduce, 4).unwrap();
        let (size, seed) = (Bytes::mib(1), Seed::new(1));
        let all = candidates(&ring, &goal, size, seed, 6).unwrap();
        assert!((2..=6).contains(&all.len()), "{}", all.len());
        let own = for_sockets(&ring, true, &goal, size, Method::Auto, seed).unwrap();
        assert_eq!(all[0].program.transfers(), own.program.transfers());
        for (place, it) in all.iter().enumerate() {
            assert!(sums_once(&it.program), "{}", it.method);
            let others = all[place + 1..].iter();
            assert!(
                others.clone().all(|other| other.program.transfers() != it.program.transfers())
            );
        }
        assert!(all[1..].is_sorted_by_key(|it| it.simulated));
        assert_eq!(candidates(&ring, &goal, size, seed, 1).unwrap().len(), 1);
    }

    /// Links side by side are one to all candidates, so that their times can be compared.
    #[test]
    fn candidates_are_for_the_network_as_sockets_have_it() {
        let words =
            ["gpus=2", "borders=1", "leaves=1", "spines=1", "wan-latency=5 ms", "wan=1 Gbit/s"];
        let one = find("two-dc").unwrap().build(&Params::from_words(words).unwrap()).unwrap();
        let mut builder = motet_net::NetworkBuilder::new("two ways");
        for node in one.nodes() {
            builder.add_node(node.clone()).unwrap();
        }
        for link in one.links() {
            let ways = if link.spec.class == motet_net::LinkClass::Wan { 2 } else { 1 };
            for _ in 0..ways {
                builder.add_link(link.from, link.to, link.spec).unwrap();
            }
        }
        let two = builder.build().unwrap();
        let goal = Goal::new(CollectiveKind::AllReduce, 4).unwrap();
        let all = candidates(&two, &goal, Bytes::mib(16), Seed::new(1), 6).unwrap();
        assert_eq!(all[0].method, "gateways");
        let here = Signature::of(&joined(&two));
        assert!(all.len() > 1 && all.iter().all(|it| it.program.network() == Some(here)));
    }

    #[test]
    fn a_plan_is_read_as_written_and_no_other_version() {
        let ring = find("ring").unwrap().build(&Params::from_words(["gpus=3"]).unwrap()).unwrap();
        let mut plan = SocketPlan::new(&ring, "0.2.0", 7);
        let trial = |method: &str, times_ps: Vec<u64>| Trial {
            method: method.to_owned(),
            simulated_ps: 5,
            times_ps,
            wrong: false,
        };
        plan.tasks.push(SocketTask {
            collective: CollectiveKind::AllReduce,
            size_bytes: 1024,
            program: "programs/allreduce-1024.json".to_owned(),
            method: "ring".to_owned(),
            time_ps: 50,
            measured: true,
            tried: vec![trial("forest", vec![120, 100, 80]), trial("ring", vec![50])],
        });
        assert_eq!(plan.tasks[0].gain(), Some(2.0));
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(SocketPlan::read(&text), Ok(plan.clone()));
        plan.motet_tcp_plan = 99;
        assert!(SocketPlan::read(&serde_json::to_string(&plan).unwrap()).is_err());
    }
}
