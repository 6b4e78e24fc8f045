//! A policy leads simulated ranks whose calls take the times that a test gives.

use motet_nccl::Loopback;
use motet_net::formats::cluster_toml;
use motet_runtime::{Bucket, Collective, Key, Measured, Method, Setting, Signature, TableKnobs};
use motet_units::{Bytes, Rank};

use super::book::{BookError, PlanTexts};
use super::*;

/// The plan's measurements of the settings, in µs; first NCCL's own choice.
const TIMES: [(&str, f64); 5] = [
    (",,", 120.0),
    ("tree,ll,", 70.0),
    ("ring,ll,", 85.0),
    ("ring,simple,", 180.0),
    ("tree,simple,", 160.0),
];
const SIZES: [u64; 2] = [8192, 65536];

fn network() -> (String, Signature) {
    let network = Loopback { ranks: 4, ..Loopback::default() }.network().unwrap();
    let text = cluster_toml::write(&network);
    (text, Signature(motet_net::Signature::of(&network).as_u128()))
}

fn csv() -> String {
    let mut text = "nccl,ranks,nodes,collective,bytes,algorithm,protocol,channels,chunk,rounds,us,least_us,most_us\n".to_owned();
    for (number, size) in SIZES.into_iter().enumerate() {
        for (setting, us) in TIMES {
            let us = us * (1 + number) as f64;
            text += &format!("2.28.9,4,4,allreduce,{size},{setting},,9,{us:.3},1,1\n");
        }
    }
    text
}

fn setting(words: &str) -> Setting {
    let mut words = words.split(',');
    let algorithm = words.next().and_then(|it| it.parse().ok());
    let protocol = words.next().and_then(|it| it.parse().ok());
    let knobs = TableKnobs { protocol, ..TableKnobs::default() };
    Setting { method: Method::Nccl { algorithm }, knobs }
}

/// The plan's pick, and what NCCL does by itself.
fn table(signature: Signature) -> Table {
    let entries = SIZES.into_iter().enumerate().map(|(number, size)| {
        let bucket = Bucket::of(Bytes::new(size));
        let candidate = |at: usize| Candidate {
            setting: setting(TIMES[at].0),
            expected: Duration::from_ps((TIMES[at].1 * 1e6) as u64 * (1 + number as u64)),
        };
        let key = Key { signature, collective: Collective::AllReduce, ranks: 4, bucket };
        Entry { key, candidates: vec![candidate(1), candidate(0)] }
    });
    Table::new(entries.collect()).unwrap()
}

fn book() -> Book {
    let (network, signature) = network();
    let texts = PlanTexts { network: &network, measured: Some(&csv()) };
    Book::new(&table(signature), signature, texts).unwrap()
}

/// A job: how long calls took, and what was in use, turn by turn.
struct Job {
    pilot: PolicyPilot,
    table: Table,
    trial: Option<Table>,
    turn: u64,
    since: u64,
    spent: f64,
    default: f64,
    switches: u32,
    tried: u32,
}

impl Job {
    fn new(policy: &str) -> Self {
        let found = live().find(|it| it.name == policy).unwrap();
        let book = book();
        let table = book.plan.clone();
        let pilot = PolicyPilot::new(found, Seed::new(1), book);
        Self {
            pilot,
            table,
            trial: None,
            turn: 0,
            since: 0,
            spent: 0.0,
            default: 0.0,
            switches: 0,
            tried: 0,
        }
    }

    fn words(table: &Table, entry: usize) -> String {
        let Setting { method, knobs } = &table.entries()[entry].candidates[0].setting;
        let Method::Nccl { algorithm } = method else { panic!("a program") };
        let name = |it: Option<&'static str>| it.unwrap_or_default();
        assert_eq!(knobs.channels, None);
        format!(
            "{},{},",
            name(algorithm.map(motet_runtime::Algorithm::name)),
            name(knobs.protocol.map(motet_runtime::Protocol::name))
        )
    }

    /// The reports of all ranks; `slow` gives a factor by which a setting's calls are slowed.
    fn reports(&self, table: &Table, samples: u64, slow: &dyn Fn(&str) -> f64) -> Vec<Report> {
        let report = |rank: u32| {
            let times = (0..SIZES.len()).map(|entry| {
                let words = Self::words(table, entry);
                let us = TIMES.iter().find(|it| it.0 == words).unwrap().1 * (1 + entry) as f64;
                // A little noise, and a slowest rank.
                let wave = 1.0 + 0.01 * ((self.turn * 7 + entry as u64) % 5) as f64;
                let us = us * slow(&words) * wave * (0.9 + f64::from(rank) / 30.0);
                let median = Duration::from_ps((us * 1e6) as u64);
                Measured { entry: entry as u32, candidate: 0, samples, median }
            });
            let table = Some(table.checksum());
            Report { rank: Rank(rank), table, retuning: None, times: times.collect() }
        };
        (0..4).map(report).collect()
    }

    fn run(&mut self, turns: u32, slow: &dyn Fn(&str) -> f64) {
        for _ in 0..turns {
            self.turn += 1;
            let reports = self.reports(&self.table, 4 * (self.turn - self.since), slow);
            let trial = self.trial.take();
            let tried = trial.as_ref().map(|it| self.reports(it, 5, slow));
            for entry in 0..SIZES.len() {
                let time = |words: &str| {
                    let us = TIMES.iter().find(|it| it.0 == words).unwrap().1;
                    us * (1 + entry) as f64 * slow(words)
                };
                self.spent += time(&Self::words(trial.as_ref().unwrap_or(&self.table), entry));
                self.default += time(TIMES[0].0);
            }
            let sight = Sight {
                table: &self.table,
                reports: &reports,
                trial: trial.as_ref().zip(tried.as_deref()),
            };
            match self.pilot.steer(&sight) {
                Course::Stay => {}
                Course::Switch(table) => {
                    self.take(&table);
                    self.table = table;
                    self.since = self.turn;
                    self.switches += 1;
                }
                Course::Try { table, turns } => {
                    assert!((TRIAL..=LONGEST_TRIAL).contains(&turns));
                    self.take(&table);
                    self.trial = Some(table);
                    self.tried += 1;
                }
            }
        }
    }

    fn take(&self, table: &Table) {
        let keys = |it: &Table| it.entries().iter().map(|it| it.key).collect::<Vec<_>>();
        assert_eq!(keys(table), keys(&self.table));
        assert_ne!(table.checksum(), self.table.checksum(), "nothing changes");
        // What was never measured is never used.
        (0..SIZES.len()).for_each(|it| {
            let words = Self::words(table, it);
            assert!(TIMES.iter().any(|it| it.0 == words), "{words}");
        });
    }

    fn in_use(&self) -> String {
        Self::words(&self.table, 0)
    }
}

#[test]
fn what_a_plan_has_measured_is_kept_while_nothing_changes() {
    let mut job = Job::new(DEFAULT_POLICY);
    job.run(4000, &|_| 1.0);
    assert_eq!((job.in_use().as_str(), job.switches), ("tree,ll,", 0));
    // NCCL's default is audited now and then, but rarely.
    assert!(job.tried > 0 && job.tried < 200, "{}", job.tried);
    assert!(job.spent < 0.62 * job.default, "{} of {}", job.spent, job.default);
}

#[test]
fn what_gets_slow_is_left_and_taken_again() {
    let mut job = Job::new(DEFAULT_POLICY);
    job.run(400, &|_| 1.0);
    let trees = |words: &str| if words.starts_with("tree") { 3.0 } else { 1.0 };
    let (spent, default) = (job.spent, job.default);
    job.run(100, &trees);
    assert_ne!(job.in_use(), "tree,ll,");
    job.run(1900, &trees);
    let share = (job.spent - spent) / (job.default - default);
    assert!(share < 0.8, "{share} of NCCL's default");
    assert_eq!(job.in_use(), "ring,ll,");
    // The policy knows no load that slows only trees. It takes this for an error of the model, and would
    // hardly ever measure them again.
    job.run(4 * REVISION, &|_| 1.0);
    assert_eq!(job.in_use(), "tree,ll,");
}

/// The profiler's times lack the time between kernels, which may be long for one setting and short for
/// another.
#[test]
fn what_only_the_profiler_holds_to_be_faster_is_not_taken_over() {
    let mut job = Job::new(DEFAULT_POLICY);
    let seen = |words: &str| if words == "ring,ll," { 0.5 } else { 1.1 };
    job.run(2000, &seen);
    assert_eq!((job.in_use().as_str(), job.switches), ("tree,ll,", 0));
    // The measurements at the beginning, and NCCL's default now and then.
    assert!(job.tried < 150, "{}", job.tried);
}

#[test]
fn nccls_own_choice_is_taken_where_it_is_best() {
    let mut job = Job::new(DEFAULT_POLICY);
    job.run(400, &|_| 1.0);
    let (spent, default) = (job.spent, job.default);
    job.run(2000, &|words| if words == ",," { 1.0 } else { 4.0 });
    assert_eq!(job.in_use(), ",,");
    let share = (job.spent - spent) / (job.default - default);
    assert!(share < 1.3, "{share} of NCCL's default");
}

#[test]
fn every_live_policy_can_lead_and_costs_little() {
    assert!(live().all(|it| it.name != "oracle") && live().any(|it| it.name == DEFAULT_POLICY));
    for policy in live() {
        let mut job = Job::new(policy.name);
        job.run(1000, &|_| 1.0);
        job.run(1000, &|words| if words.contains("ll,") { 2.5 } else { 1.0 });
        if policy.name != "plan" {
            assert!(
                job.spent < 1.1 * job.default,
                "{}: {} of {}",
                policy.name,
                job.spent,
                job.default
            );
        }
        let fixed = ["nccl", "plan"].contains(&policy.name);
        assert_eq!(job.tried > 0, !fixed, "{}", policy.name);
    }
}

#[test]
fn a_trial_that_was_too_short_is_followed_by_a_longer_one() {
    let mut job = Job::new(DEFAULT_POLICY);
    while job.trial.is_none() {
        job.run(1, &|_| 1.0);
    }
    let trial = job.trial.take().unwrap();
    let reports = job.reports(&job.table, 1000, &|_| 1.0);
    let sight = Sight { table: &job.table, reports: &reports, trial: Some((&trial, &[])) };
    job.pilot.steer(&sight);
    assert_eq!(job.pilot.trial, 2 * TRIAL);
}

#[test]
fn nothing_is_tried_where_nothing_is_measured() {
    let mut pilot = PolicyPilot::new(live().last().unwrap(), Seed::new(1), book());
    let plan = pilot.book.plan.clone();
    for _ in 0..200 {
        let sight = Sight { table: &plan, reports: &[], trial: None };
        assert_eq!(pilot.steer(&sight), Course::Stay);
    }
}

#[test]
fn plans_that_do_not_fit_are_refused() {
    let (text, signature) = network();
    let table = table(signature);
    let fails = |texts: PlanTexts<'_>, signature| Book::new(&table, signature, texts).unwrap_err();
    let plain = PlanTexts { network: &text, measured: None };
    assert!(matches!(fails(plain, Signature(1)), BookError::OtherNetwork { .. }));
    let broken = PlanTexts { network: "[[node", ..plain };
    assert!(matches!(fails(broken, signature), BookError::Network(_)));
    for (from, to, at) in [("us,", "su,", 1), ("120.000", "-1", 2), ("tree", "gossip", 3)] {
        let csv = csv().replacen(from, to, 1);
        let error = fails(PlanTexts { measured: Some(&csv), ..plain }, signature);
        assert!(matches!(error, BookError::Measured { line, .. } if line == at), "{error}");
    }
    // As a spreadsheet writes it: quoted, and with a field that holds a comma.
    let quoted = csv().replacen("2.28.9,4", "\"2.28.9, CUDA 13\",\"4\"", 1);
    let book = Book::new(&table, signature, PlanTexts { measured: Some(&quoted), ..plain });
    assert_eq!(book.unwrap().tasks(), (2, 2));
    // Without measurements the model stands in.
    let book = Book::new(&table, signature, plain).unwrap();
    assert_eq!(book.tasks(), (2, 0));
    assert!(book.tasks[0].brief.nominal.iter().all(|it| it.is_finite()));
}
