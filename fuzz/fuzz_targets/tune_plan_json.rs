//! `plan.json`: any text is a plan or refused, and what is read comes back the same when written; no
//! file outside the plan's folder is ever asked for, and a check of what is read says what is wrong with
//! it instead of failing.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use motet_tune::plan::check::check;
use motet_tune::plan::folder::{
    self, CHECKSUMS, MANIFEST, Manifest, NETWORK, Stored, TABLE, TUNER,
};

/// Two GPUs, which any plan may claim to be for.
const PAIR: &str = "[[fabric]]\nkind = \"ring\"\ngpus = 2\n";

fuzz_target!(|text: &str| {
    let mut files = BTreeMap::from([
        (MANIFEST.to_owned(), text.to_owned()),
        (NETWORK.to_owned(), PAIR.to_owned()),
        (TUNER.to_owned(), String::new()),
    ]);
    if let Ok(table) = motet_runtime::Table::new(Vec::new()) {
        files.insert(TABLE.to_owned(), table.write());
    }
    let sums = folder::checksums(&files);
    files.insert(CHECKSUMS.to_owned(), sums);
    let get = |name: &str| {
        assert!(!name.starts_with('/') && name.split('/').all(|it| it != ".."));
        files.get(name).cloned()
    };
    if let Ok(stored) = Stored::read(&get) {
        // Too many tasks would only take long.
        if stored.manifest.tasks.len() < 4 {
            let _ = check(&stored);
        }
    }
    let Ok(manifest) = Manifest::read(text) else { return };
    for task in &manifest.tasks {
        let _ = (task.gain(task.nccl.as_ref()), task.gain(task.msccl.as_ref()));
        for (_, pick) in task.picks() {
            let _ = (pick.knobs(&manifest.setup), pick.algbw(task.size()));
        }
    }
    let Ok(written) = serde_json::to_string(&manifest) else { panic!("no JSON") };
    assert_eq!(Manifest::read(&written), Ok(manifest));
});
