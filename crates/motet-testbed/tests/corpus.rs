//! Replays the fuzzer's corpus: what each file holds is read as what its name says, and nothing panics.

#![allow(clippy::panic, clippy::unwrap_used, reason = "tests may fail, and say so")]

use motet_testbed::live::words::{FromRank, ToRank, read, write};
use motet_testbed::order::Order;
use motet_testbed::packet::line_bytes;
use motet_testbed::state::{State, started};

#[test]
fn the_corpus_is_read_as_what_it_is() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/testbed_words");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        assert!(line_bytes(&bytes) >= 38);
        files += 1;
        let Ok(text) = std::str::from_utf8(&bytes) else { continue };
        let (order, state) = (text.parse::<Order>(), State::read(text));
        let (to, from) = (read::<ToRank>(text), read::<FromRank>(text));
        match path.file_name().unwrap().to_str().unwrap() {
            "rate" | "way" => assert_eq!(order.as_ref().unwrap().to_string(), text),
            "state" => {
                assert_eq!(State::read(&state.unwrap().write().unwrap()).unwrap().keeper.pid, 77);
            }
            "register" | "switch" => assert_eq!(write(&to.unwrap()).trim_end(), text),
            "called" | "joined" => assert_eq!(write(&from.unwrap()).trim_end(), text),
            "stat" => assert_eq!(started(text), Some(1234)),
            "stat-ending" => assert_eq!(started(text), None),
            _ => {}
        }
    }
    assert!(files >= 9);
}
