//! States of searches: any JSON is refused or a search that goes on where it was, and says the same when
//! it is written down again. The space's fingerprint is put right first, or nothing would get past it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::search::{Search, Settings, State};
use motet_tune::space::{Dimension, Space};
use serde_json::Value;

fuzz_target!(|text: &str| {
    let dimensions = vec![
        Dimension::categorical("way", 2),
        Dimension::logarithmic("channels", [1, 2, 4, 8]).with_restarts(),
    ];
    let Ok(space) = Space::new(dimensions, |_| true) else { return };
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return };
    let ours = serde_json::to_value(Search::new(&space, Settings::default()).state());
    let (Some(object), Ok(ours)) = (value.as_object_mut(), ours) else { return };
    for key in ["version", "fingerprint"] {
        object.insert(key.to_owned(), ours[key].clone());
    }
    let Ok(state) = serde_json::from_value::<State>(value) else { return };
    if let Ok(search) = Search::resume(&space, &state) {
        assert_eq!(search.state(), state);
        let _ = search.outcome();
    }
});
