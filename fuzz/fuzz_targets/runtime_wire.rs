//! Frames between ranks and their leader: any bytes are read or refused, and what is read is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_runtime::wire::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((frame, length))) = decode(bytes) {
        let mut again = Vec::new();
        encode(&frame, &mut again);
        assert_eq!(again, &bytes[..length]);
    }
});
