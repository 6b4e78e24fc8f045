//! `motet wan -o FOLDER` writes programs and routes that can be put to use.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::fs;
use std::process::Command;

#[test]
fn the_programs_and_routes_of_the_end_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let motet = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_motet"))
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let scenario = "examples/two-regions.toml";
    motet(&["wan", scenario, "--count", "40", "--yardstick", "0", "-q", "-o", out]);
    let text = fs::read_to_string(folder.path().join("routes.json")).unwrap();
    let rows: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
    let modes: Vec<&str> = rows.iter().map(|it| it["mode"].as_str().unwrap()).collect();
    assert_eq!(modes.len(), 6, "{modes:?}");
    for row in &rows {
        let program = format!("{out}/{}", row["program"].as_str().unwrap());
        motet(&["verify", &program]);
        motet(&["sim", "two-dc:fabric=logical,wan-latency=1 ms", &program, "--size", "64 MB"]);
        let flows = row["flows"].as_array().unwrap();
        assert!(flows.iter().any(|it| it["movable"] == true));
        for flow in flows {
            let way: Vec<&str> =
                flow["way"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
            let gpu = |rank: &serde_json::Value| {
                let rank = rank.as_u64().unwrap();
                format!("dc{}-gpu{}", rank / 4, rank % 4)
            };
            assert_eq!(way[0], gpu(&flow["from"]));
            assert_eq!(*way.last().unwrap(), gpu(&flow["to"]));
            let crosses = way.windows(2).any(|it| it[0][..3] != it[1][..3]);
            assert_eq!(crosses, flow["movable"] == true, "{way:?}");
        }
    }
    let made =
        |mode: &str| rows[modes.iter().position(|it| *it == mode).unwrap()]["made_by"].clone();
    assert_ne!(made("base"), made("both (synth)"));
}
