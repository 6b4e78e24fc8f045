//! Checkpoints of training: any text is a run to go on with or refused, never a panic; a run has one text. The
//! checksum line is put right first, or hardly any input would get past it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_agent::train::Trainer;
use motet_runtime::Checksum;

fuzz_target!(|text: &str| {
    let body = text.rfind("checksum ").map_or(text, |it| &text[..it]);
    let sealed = format!("{body}checksum {}\n", Checksum::of(body.as_bytes()));
    for text in [text, &sealed] {
        if let Ok(trainer) = Trainer::read(text) {
            assert_eq!(trainer.write(), text);
        }
    }
});
