//! Sketches: any text is a sketch for a network or an error with a remedy; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_synth::Sketch;

fuzz_target!(|text: &str| {
    let Ok(network) = builders::find("ring").and_then(|it| it.build(&Params::new())) else { return };
    if let Ok(sketch) = Sketch::read(text, &network) {
        assert_eq!(sketch.allowed.len(), network.links().len());
    }
});
