//! Sketches: any text is a sketch for a network or an error with a remedy; what is read comes back
//! the same when written and read again; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_tune::sketch::Sketch;

fuzz_target!(|text: &str| {
    for (kind, words) in [("ring", &[][..]), ("v100-x4", &["count=2", "detail=full"])] {
        let Ok(params) = Params::from_words(words.iter().copied()) else { return };
        let Ok(network) = builders::find(kind).and_then(|it| it.build(&params)) else { return };
        if let Ok(sketch) = Sketch::read(text, &network) {
            assert_eq!(sketch.allowed.len(), network.links().len());
            assert_eq!(Sketch::read(&sketch.write(&network), &network), Ok(sketch));
        }
    }
});
