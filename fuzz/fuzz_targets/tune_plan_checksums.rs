//! The list of a plan's files: any text is a list or refused, and no file outside the plan's folder is ever
//! asked for.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_runtime::Checksum;
use motet_tune::plan::folder::{CHECKSUMS, MANIFEST, Stored};

/// Any version that is read at all: what follows is the list.
const PLAN: &str = include_str!("../corpus/tune_plan_json/one.json");

fuzz_target!(|text: &str| {
    let get = |name: &str| {
        assert!(!name.starts_with('/') && name.split('/').all(|it| it != ".."), "{name}");
        match name {
            CHECKSUMS => Some(text.replace("PLAN", &Checksum::of(PLAN.as_bytes()).to_string())),
            MANIFEST => Some(PLAN.to_owned()),
            _ => Some(String::new()),
        }
    };
    let _ = Stored::read(&get);
});
