//! Prices of parts: any text is prices or an error, and prices give totals; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_rails::cost::{Cluster, Design, bill};
use motet_rails::formats::prices_toml;
use motet_rails::scale::Wiring;

fuzz_target!(|text: &str| {
    let Ok(prices) = prices_toml::read(text) else { return };
    for gpus in [8, 2304, 65_536] {
        let cluster = Cluster { gpus, domain: 8, wiring: Wiring::default() };
        for design in Design::ALL {
            if let Ok(bill) = bill(design, &cluster, &prices) {
                let total = bill.total(&prices, true);
                assert!(total.price >= bill.total(&prices, false).price);
            }
        }
    }
});
