//! Configurations of the service: any text is read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_server::Config;

fuzz_target!(|text: &str| {
    if let Ok(config) = Config::parse(text, std::path::Path::new("folder")) {
        let open = config.check().is_ok_and(|it| it.is_open());
        assert!(!open || config.listen.ip().is_loopback());
    }
});
