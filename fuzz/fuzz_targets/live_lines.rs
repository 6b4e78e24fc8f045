//! What a driver and its ranks say to each other: any line is a step, an answer or neither; what is read is written and read again
//! as the same, and a call that is read says where its data lies without harm.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_live::{Answer, Call, Mode, RankRequest};

fuzz_target!(|text: &str| {
    if let Ok(mode) = text.parse::<Mode>() {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    if let Ok(answer) = serde_json::from_str::<Answer>(text) {
        let again = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&again).unwrap(), answer);
    }
    let Ok(step) = serde_json::from_str::<RankRequest>(text) else { return };
    let again = serde_json::to_string(&step).unwrap();
    assert_eq!(serde_json::from_str::<RankRequest>(&again).unwrap(), step);
    let _ = step.text();
    let (RankRequest::Check { call, .. } | RankRequest::Time { call, .. }) = &step else { return };
    if let Ok(call) = Call::try_from(call) {
        let span = call.span(7, 8);
        assert!(span.from_end() >= span.from && span.to_end() >= span.to);
        let _ = call.bytes(8);
    }
});
