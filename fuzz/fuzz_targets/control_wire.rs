//! Frames between ranks and their manager: any bytes are read or refused, and what is read is written as the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_control::wire::Frame;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Some((frame, length))) = Frame::read(bytes) {
        let mut again = Vec::new();
        frame.write(&mut again);
        assert_eq!(again, &bytes[..length]);
    }
});
