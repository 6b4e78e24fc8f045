//! `plan.json`: any text is a plan or refused, and what is read comes back the same when written; no
//! file outside the plan's folder is ever asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::plan::folder::{MANIFEST, Manifest, Stored};

fuzz_target!(|text: &str| {
    let get = |name: &str| {
        assert!(!name.starts_with('/') && name.split('/').all(|it| it != ".."));
        (name == MANIFEST).then(|| text.to_owned())
    };
    // There is no table, so that no plan is whole.
    assert!(Stored::read(&get).is_err());
    let Ok(manifest) = Manifest::read(text) else { return };
    for task in &manifest.tasks {
        let _ = (task.kind(), task.gain(task.nccl.as_ref()), task.gain(task.msccl.as_ref()));
        for pick in &task.picks {
            let _ = (pick.knobs(), pick.nccl_algorithm(), pick.algbw(task.size()));
        }
    }
    let Ok(written) = serde_json::to_string(&manifest) else { panic!("no JSON") };
    assert_eq!(Manifest::read(&written), Ok(manifest));
});
