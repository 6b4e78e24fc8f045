//! What `--fail` and `--scale` take: any words name links of a network, with a factor, or are refused; a
//! link never gets more than the factor allows, and the changed network can be built.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_net::state::WhatIf;

fuzz_target!(|text: &str| {
    let Ok(network) = builders::find("two-dc").and_then(|it| it.build(&Params::new())) else {
        return;
    };
    let (mut fail, mut scale) = (Vec::new(), Vec::new());
    for line in text.lines().take(4) {
        match line.rsplit_once('=').map(|(name, factor)| (name, factor.parse())) {
            Some((name, Ok(factor))) => scale.push((name.to_owned(), factor)),
            _ => fail.push(line.to_owned()),
        }
    }
    if let Ok(asked) = WhatIf::new(&network, &fail, &scale) {
        let state = asked.state(&network);
        assert!(asked.failed().all(|it| !state.is_up(it)));
        assert!(asked.scaled().all(|it| state.is_up(it)));
        if let Ok(changed) = asked.network(&network) {
            assert!(changed.links().len() <= network.links().len());
        }
    }
});
