//! Files of policies: any text is a policy or refused, never a panic; a policy has one text, and what it says is finite
//! enough to choose by. The checksum line is put right first, or hardly any input would get past it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_agent::State;
use motet_agent::gate::Expert;
use motet_agent::lstm::{Input, Memory, PolicyFile};
use motet_runtime::Checksum;

fuzz_target!(|text: &str| {
    let body = text.rfind("checksum ").map_or(text, |it| &text[..it]);
    let sealed = format!("{body}checksum {}\n", Checksum::of(body.as_bytes()));
    for text in [text, &sealed] {
        let Ok(policy) = PolicyFile::read(text) else { continue };
        assert_eq!(policy.write(), text);
        let mut memory = Memory::new(policy.net.shape());
        for expert in Expert::ALL {
            let _ = policy.net.step(Input::new(&State::BLANK, None), *expert, &mut memory);
        }
    }
});
