//! What a testbed's controller, keeper and ranks say to each other, and its state file: any text is one of them or none; what is read is written and read again as
//! the same, and a packet of any bytes takes some of a line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_testbed::live::words::{FromRank, ToRank, read, write};
use motet_testbed::order::Order;
use motet_testbed::packet::line_bytes;
use motet_testbed::state::{State, started};

fuzz_target!(|bytes: &[u8]| {
    assert!(line_bytes(bytes) >= 38);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = started(text);
    if let Ok(order) = text.parse::<Order>() {
        assert_eq!(order.to_string().parse(), Ok(order));
    }
    if let Ok(state) = State::read(text) {
        assert_eq!(State::read(&state.write().unwrap()).unwrap(), state);
    }
    if let Ok(word) = read::<ToRank>(text) {
        assert_eq!(read(&write(&word)), Ok(word));
    }
    if let Ok(word) = read::<FromRank>(text) {
        assert_eq!(read(&write(&word)), Ok(word));
    }
});
