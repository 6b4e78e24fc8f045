//! Frames of the probe protocol: any bytes are read or refused, and what is read is written as the
//! same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::probe::frame::{HEADER, decode, decode_header, encode};

fuzz_target!(|bytes: &[u8]| {
    let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() else { return };
    let Ok((kind, length)) = decode_header(header) else { return };
    let Some(payload) = rest.get(..length) else { return };
    if let Ok(frame) = decode(kind, payload) {
        let again = encode(&frame);
        // Texts longer than any frame needs are cut.
        if again.len() == HEADER + length {
            assert_eq!(&again[HEADER..], payload);
        }
    }
});
