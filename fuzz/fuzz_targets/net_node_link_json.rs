//! node-link JSON files: read or refused, never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::{WanDefaults, node_link_json};

fuzz_target!(|text: &str| {
    let _ = node_link_json::read(text, &WanDefaults::default());
});
