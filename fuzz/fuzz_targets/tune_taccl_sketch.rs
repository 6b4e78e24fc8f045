//! TACCL sketches: any text is a sketch or an error; what is read can be written and read again, and
//! fits a network or is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_tune::sketch::taccl;

fuzz_target!(|text: &str| {
    let Ok(sketch) = taccl::read(text) else { return };
    assert_eq!(taccl::read(&taccl::write(&sketch)).as_ref(), Ok(&sketch));
    let Ok(params) = Params::from_words(["count=2", "detail=full"]) else { return };
    let Ok(network) = builders::find("v100-x4").and_then(|it| it.build(&params)) else { return };
    if let Ok(ours) = sketch.on(&network, "fuzz") {
        assert_eq!(ours.allowed.len(), network.links().len());
        let _ = taccl::export(&network, &ours);
    }
});
