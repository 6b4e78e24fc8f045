//! NCCL topology files and graph dumps: read or refused, never a panic; what is read can be drawn.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::{dot, nccl_xml, svg};

fuzz_target!(|text: &str| {
    if let Ok(read) = nccl_xml::read(text) {
        let _ = (svg::write(&read.network), dot::write(&read.network));
    }
});
