//! Plans: never worse than NCCL's own choice, the same for the same seed, and believed only whole.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeMap;
use std::sync::Mutex;

use motet_collective::{CollectiveKind, Verified};
use motet_net::builders::{Params, find};
use motet_net::{Network, Signature};
use motet_runtime::{Bucket, TableErrorKind};
use motet_tune::plan::folder::{self, FolderError, MANIFEST, Stored, TABLE};
use motet_tune::plan::tune::Effort;
use motet_tune::plan::{Journal, NoJournal, Plan, Request, Step, Tuned, make};
use motet_tune::search::Method;
use motet_units::Bytes;

fn network(words: &str) -> Network {
    let (template, words) = words.split_once(' ').unwrap_or((words, ""));
    let params = Params::from_words(words.split_whitespace()).unwrap();
    find(template).unwrap().build(&params).unwrap()
}

fn request(seed: u64) -> Request {
    Request {
        collectives: vec![CollectiveKind::AllGather, CollectiveKind::AllReduce],
        sizes: [1 << 10, 1 << 20, 1 << 28].map(Bytes::new).to_vec(),
        seed,
        effort: Effort { method: Method::Surrogate, trials: 4 },
        sketch: None,
    }
}

fn files(plan: &Plan) -> BTreeMap<String, String> {
    folder::files(plan, Some(4), BTreeMap::from([("note".to_owned(), "extra".to_owned())])).unwrap()
}

fn stored(files: &BTreeMap<String, String>) -> Result<Stored, FolderError> {
    Stored::read(&|name| files.get(name).cloned())
}

/// Remembers everything.
#[derive(Default)]
struct Memory {
    known: Vec<Tuned>,
    told: Mutex<Vec<Tuned>>,
}

impl Journal for Memory {
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<Tuned> {
        let same = |it: &&Tuned| it.kind() == Some(kind) && it.size() == size;
        self.known.iter().find(same).cloned()
    }
    fn done(&self, step: Step<'_>) {
        if let Step::Tuned(tuned) = step {
            self.told.lock().unwrap().push(tuned.clone());
        }
    }
}

#[test]
fn a_plan_is_never_worse_than_what_it_is_compared_with() {
    for words in ["v100-x4 count=2", "dgx-h100 count=1"] {
        let network = network(words);
        let plan = make(&network, &request(1), &NoJournal).unwrap();
        assert_eq!(plan.tasks.len(), 6, "{words}");
        for task in &plan.tasks {
            let best = task.best().unwrap();
            // What switches sum is outside the bound.
            assert!(best.by_model || best.time_ps >= task.bound_ps, "{words}: {task:?}");
            let others = [&task.nccl, &task.msccl, &task.sketch_only];
            for other in others.into_iter().flatten() {
                assert!(best.time_ps <= other.time_ps, "{words}: {best:?} {other:?}");
            }
            assert!(task.nccl.is_some(), "{words}");
            assert!(task.picks.is_sorted_by_key(|it| it.time_ps), "{words}");
            let ways: std::collections::BTreeSet<_> = task.picks.iter().map(|it| &it.way).collect();
            assert_eq!(ways.len(), task.picks.len(), "{words}");
            // Every pick that the simulator runs takes the time it says.
            for pick in task.picks.iter().filter(|it| it.algorithm.is_none()) {
                let way = plan.programs.iter().find(|it| it.name == pick.way).unwrap();
                let time = way.knobbed.time(task.size(), &pick.knobs().unwrap()).unwrap();
                assert_eq!(time.as_ps(), pick.time_ps, "{words}");
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_also_after_a_stop() {
    let network = network("v100-x4 count=2");
    let journal = Memory::default();
    let whole = files(&make(&network, &request(3), &journal).unwrap());
    assert_eq!(whole, files(&make(&network, &request(3), &NoJournal).unwrap()));
    let mut known = journal.told.into_inner().unwrap();
    assert_eq!(known.len(), 6);
    known.truncate(3);
    let resumed = Memory { known, told: Mutex::default() };
    assert_eq!(whole, files(&make(&network, &request(3), &resumed).unwrap()));
}

#[test]
fn a_folder_is_believed_only_whole() {
    let network = network("v100-x4 count=2");
    let plan = make(&network, &request(0), &NoJournal).unwrap();
    let good = files(&plan);
    let read = stored(&good).unwrap();
    assert_eq!(read.manifest.tasks, plan.tasks);
    assert_eq!(read.table.entries().len(), plan.tasks.len());
    let buckets: Vec<Bucket> = read.table.entries().iter().map(|it| it.key.bucket).collect();
    assert!(buckets.contains(&Bucket::of(Bytes::new(1 << 28))));
    for (name, text) in good.iter().filter(|it| it.0.starts_with("programs/")) {
        if !name.ends_with(".xml") && !name.ends_with(".mscclpp.json") {
            let program = motet_collective::formats::program_json::read(text).unwrap();
            assert!(Verified::new(program, Some(&network)).is_ok(), "{name}");
        }
    }
    for name in good.keys() {
        let mut missing = good.clone();
        missing.remove(name);
        assert!(stored(&missing).is_err(), "without {name}");
        let mut cut = good.clone();
        cut.get_mut(name).unwrap().pop();
        cut.get_mut(name).unwrap().pop();
        assert!(stored(&cut).is_err(), "{name} cut off");
    }
    let mut newer = good.clone();
    let text = newer[MANIFEST].replacen("\"motet_plan\": 1", "\"motet_plan\": 2", 1);
    newer.insert(MANIFEST.to_owned(), text);
    assert_eq!(stored(&newer).unwrap_err(), FolderError::Newer(2));
    let mut outside = good.clone();
    let text = outside[MANIFEST].replacen("\"note\":", "\"../note\":", 1);
    outside.insert(MANIFEST.to_owned(), text);
    assert!(matches!(stored(&outside), Err(FolderError::Malformed(_))));
    let here = Signature::of(&network);
    assert_eq!(read.is_for(here), Ok(()));
    let other = Signature::of(&self::network("v100-x4 count=3"));
    assert!(matches!(read.is_for(other), Err(FolderError::OtherNetwork { .. })));
    let broken = motet_runtime::Table::read(&good[TABLE].replacen("simple", "simpel", 1));
    assert_eq!(broken.unwrap_err().kind, TableErrorKind::Corrupt);
}
