//! Plans: what is timed is what is written, NCCL keeps what it wins, nothing is below its bound, the
//! same seed gives the same bytes, and a folder is believed only whole.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};

use motet_collective::CollectiveKind;
use motet_net::builders::{Params, find};
use motet_net::formats::cluster_toml;
use motet_net::{Network, Signature};
use motet_runtime::{Bucket, TableErrorKind};
use motet_tune::plan::check::check;
use motet_tune::plan::communicator::Effort;
use motet_tune::plan::files::runs;
use motet_tune::plan::folder::{
    self, CHECKSUMS, FolderError, MANIFEST, Maker, NETWORK, Stored, TABLE,
};
use motet_tune::plan::make::Nccl;
use motet_tune::plan::{
    Journal, MscclppUse, NoJournal, Plan, PlanEvent, Request, Runtime, TunedTask, make,
};
use motet_tune::search::Method;
use motet_units::Bytes;

fn network(words: &str) -> Network {
    let (template, words) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(words.split_whitespace()).unwrap();
    find(template).unwrap().build(&params).unwrap()
}

fn request(seed: u64) -> Request {
    Request {
        tasks: [CollectiveKind::AllGather, CollectiveKind::AllReduce]
            .map(|it| (it, [1 << 10, 1 << 20, 1 << 28].map(Bytes::new).to_vec()))
            .to_vec(),
        seed,
        effort: Effort { method: Method::Surrogate, trials: 2 },
        sketch: None,
        most_blocks: None,
        margin_percent: 5,
        mscclpp: MscclppUse::default(),
        runtime: None,
    }
}

fn files(network: &Network, plan: &Plan) -> BTreeMap<String, String> {
    let maker = Maker { motet: "test".to_owned(), command: "motet plan".to_owned() };
    let extra = BTreeMap::from([
        ("note".to_owned(), "extra".to_owned()),
        (NETWORK.to_owned(), cluster_toml::write(network)),
    ]);
    let nccl = Nccl::new(network, plan.setup);
    folder::files(plan, &maker, nccl.priced(network).as_ref(), extra).unwrap()
}

fn stored(files: &BTreeMap<String, String>) -> Result<Stored, FolderError> {
    Stored::read(&|name| files.get(name).cloned())
}

/// Remembers everything.
#[derive(Default)]
struct Memory {
    known: Vec<TunedTask>,
    told: Mutex<Vec<TunedTask>>,
}

impl Journal for Memory {
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<TunedTask> {
        let same = |it: &&TunedTask| it.collective == kind && it.size() == size;
        self.known.iter().find(same).cloned()
    }
    fn done(&self, step: PlanEvent<'_>) {
        if let PlanEvent::Tuned(tuned) = step {
            self.told.lock().unwrap().push(tuned.clone());
        }
    }
}

/// The rails of four DGX H100 and two datacenters are in the tests of the command line.
const NETWORKS: [&str; 3] = ["dgx-a100 count=2", "v100-x4 count=2", "dgx-h100 count=1"];

/// Their plans, made once for all tests that only look at them.
static PLANS: [LazyLock<(Network, Plan)>; 3] =
    [LazyLock::new(|| planned(0)), LazyLock::new(|| planned(1)), LazyLock::new(|| planned(2))];

fn planned(number: usize) -> (Network, Plan) {
    let network = network(NETWORKS[number]);
    let plan = make(&network, &request(1), &NoJournal).unwrap();
    (network, plan)
}

#[test]
fn nccl_keeps_what_it_wins_and_nothing_is_below_its_bound() {
    for (words, made) in NETWORKS.iter().zip(&PLANS) {
        let plan = &made.1;
        assert_eq!(plan.tasks.len(), 6, "{words}");
        for task in &plan.tasks {
            for (what, pick) in task.picks() {
                assert!(pick.time_ps >= task.bound_ps, "{words}: {what} {pick:?}");
            }
            let (best, own) = (task.nccl_best.as_ref().unwrap(), task.nccl.as_ref().unwrap());
            assert!(best.time_ps <= own.time_ps, "{words}");
            let program = task.program.as_ref().unwrap();
            let wins = program.time_ps * 105 < best.time_ps * 100;
            assert_eq!(task.pick.runtime == Runtime::Msccl, wins, "{words}: {task:?}");
            for pick in [&task.pick, program] {
                assert!(!pick.is_program() || pick.blocks <= plan.most_blocks, "{words}: {pick:?}");
            }
        }
    }
}

#[test]
fn what_is_timed_is_what_is_written() {
    // From the other end, so as not to wait for what the test above makes.
    for (words, made) in NETWORKS.iter().zip(&PLANS).rev() {
        let (network, plan) = &**made;
        let files = files(network, plan);
        let checked = check(&stored(&files).unwrap()).unwrap();
        let programs = [Runtime::Msccl, Runtime::Mscclpp].map(|it| runs(&plan.tasks, it).len());
        assert_eq!(checked.programs, programs[0] + programs[1], "{words}");
        assert!(checked.programs > 0, "{words}");
        // Every byte counts, also where the checksum is made to fit.
        for name in files.keys().filter(|it| *it != CHECKSUMS) {
            let mut changed = files.clone();
            change_one_byte(changed.get_mut(name).unwrap());
            assert!(stored(&changed).is_err(), "{words}: {name}");
        }
        let mut slower = plan.clone();
        slower.tasks[0].pick.time_ps += 1;
        let files = self::files(network, &slower);
        assert!(check(&stored(&files).unwrap()).is_err(), "{words}: a time that is not so");
    }
}

fn change_one_byte(text: &mut String) {
    let mut bytes = std::mem::take(text).into_bytes();
    let middle = bytes.len() / 2;
    bytes[middle] = if bytes[middle] == b'1' { b'2' } else { b'1' };
    *text = String::from_utf8_lossy(&bytes).into_owned();
}

#[test]
fn the_same_seed_gives_the_same_bytes_also_after_a_stop() {
    let network = network("v100-x4 count=2");
    let journal = Memory::default();
    let made =
        |journal: &dyn Journal| files(&network, &make(&network, &request(3), journal).unwrap());
    let whole = made(&journal);
    assert_eq!(whole, made(&NoJournal));
    let mut known = journal.told.into_inner().unwrap();
    assert_eq!(known.len(), 6);
    known.truncate(3);
    assert_eq!(whole, made(&Memory { known, told: Mutex::default() }));
}

#[test]
fn a_folder_is_believed_only_whole() {
    let (network, plan) = &*PLANS[1];
    let good = files(network, plan);
    let read = stored(&good).unwrap();
    assert_eq!(read.manifest.tasks, plan.tasks);
    assert_eq!(read.table.entries().len(), plan.tasks.len());
    let buckets: Vec<Bucket> = read.table.entries().iter().map(|it| it.key.bucket).collect();
    assert!(buckets.contains(&Bucket::of(Bytes::new(1 << 28))));
    for name in good.keys() {
        let mut missing = good.clone();
        missing.remove(name);
        assert!(stored(&missing).is_err(), "without {name}");
        let mut cut = good.clone();
        cut.get_mut(name).unwrap().pop();
        assert!(stored(&cut).is_err(), "{name} cut off");
    }
    let mut newer = good.clone();
    let text = newer[MANIFEST].replacen("\"motet_plan\": 2", "\"motet_plan\": 3", 1);
    newer.insert(MANIFEST.to_owned(), text);
    assert_eq!(stored(&newer).unwrap_err(), FolderError::Version(3));
    let mut outside = good.clone();
    let text = outside[CHECKSUMS].replacen(" note", " ../note", 1);
    outside.insert(CHECKSUMS.to_owned(), text);
    assert!(stored(&outside).is_err());
    let here = Signature::of(network);
    assert_eq!(read.is_for(here), Ok(()));
    let other = Signature::of(&self::network("v100-x4 count=3"));
    assert!(matches!(read.is_for(other), Err(FolderError::OtherNetwork { .. })));
    let broken = motet_runtime::Table::read(&good[TABLE].replacen("simple", "simpel", 1));
    assert_eq!(broken.unwrap_err().kind, TableErrorKind::Corrupt);
}
