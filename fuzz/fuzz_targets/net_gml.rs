//! GML files: read or refused, never a panic; what is read can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::{WanDefaults, dot, gml, svg};

fuzz_target!(|text: &str| {
    if let Ok(read) = gml::read(text, &WanDefaults::default()) {
        let _ = (svg::write(&read.network), dot::write(&read.network));
    }
});
