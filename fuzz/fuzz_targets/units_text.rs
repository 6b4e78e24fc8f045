//! Quantities: any text is read or refused, and what is read prints as text that reads the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_units::{Bandwidth, Bytes, Duration};

fuzz_target!(|text: &str| {
    if let Ok(it) = text.parse::<Bytes>() {
        assert_eq!(it.to_string().parse(), Ok(it));
    }
    if let Ok(it) = text.parse::<Duration>() {
        assert_eq!(it.to_string().parse(), Ok(it));
    }
    if let Ok(it) = text.parse::<Bandwidth>() {
        assert_eq!(it.to_string().parse(), Ok(it));
    }
});
