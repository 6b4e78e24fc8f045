//! GraphML files: read or refused, never a panic; what is read is written and read back equal.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::formats::{WanDefaults, graphml};

/// What XML cannot hold: a name that has one changes in writing. References may name one, too.
fn may_change(text: &str) -> bool {
    let lost = |it: char| matches!(it, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    text.contains(lost) || text.contains("&#")
}

fuzz_target!(|text: &str| {
    if let Ok(read) = graphml::read(text, &WanDefaults::default())
        && !may_change(text)
    {
        let again = graphml::read(&graphml::write(&read.network), &WanDefaults::default());
        assert!(again.is_ok_and(|it| it.network == read.network), "the network did not come back");
    }
});
