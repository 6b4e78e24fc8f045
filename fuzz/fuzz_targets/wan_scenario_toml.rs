//! Scenarios: any text is a scenario on a network or an error; never a panic, never a hang.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_units::Seed;
use motet_wan::formats::ScenarioFile;

fuzz_target!(|text: &str| {
    let Ok(network) = builders::find("two-dc").and_then(|it| it.build(&Params::new())) else {
        return;
    };
    if let Ok(file) = ScenarioFile::read(text)
        && let Ok(scenario) = file.resolve(&network, Some("0,0,1,5\n"), Seed::new(1))
    {
        assert!(scenario.count > 0 && !scenario.collectives.is_empty());
    }
});
