//! cluster files: read or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::cluster_toml;

fuzz_target!(|text: &str| {
    let _ = cluster_toml::read(text, &|_| Err("no files".to_owned()));
});
