//! Measured points as a plan keeps them: any bytes are points or not; points have a middle between their least and greatest times, and
//! as calls they are written and read again as the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::calibrate::nccl::store;
use motet_tune::measure::plan::{Measurements, calls};
use motet_tune::measure::Point;

fuzz_target!(|text: &str| {
    let points: Vec<Point> = text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
    for point in &points {
        let again = serde_json::to_string(point).unwrap();
        assert_eq!(&serde_json::from_str::<Point>(&again).unwrap(), point);
        let _ = point.choice();
        for times in &point.times {
            let (least, most) = times.spread();
            assert!(least <= times.median() && times.median() <= most);
        }
    }
    let measured = Measurements { nccl: "2.28.9".to_owned(), nodes: Some(1), points };
    let calls = calls(&measured, 4);
    // A time of nothing cannot have been measured, and is refused as such.
    if calls.iter().all(|it| it.micros > 0.0 && it.least > Some(0.0)) {
        assert_eq!(store::read(&store::write(&calls)), Ok(calls));
    }
});
