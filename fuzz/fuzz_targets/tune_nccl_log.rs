//! NCCL's debug log: any text is a log or an error, its figures are numbers, and nccl-tests' rows can be joined with it and held
//! against a model; never a panic.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use motet_nccl::{Loopback, NcclModel, NcclOptions};
use motet_tune::calibrate::nccl::{believe, join, log};
use motet_tune::calibrate::nccl_tests;

fuzz_target!(|text: &str| {
    static MODEL: OnceLock<Option<NcclModel>> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let network = Loopback { ranks: 4, ..Loopback::default() }.network().ok()?;
        NcclModel::new(&network, NcclOptions::default()).ok()
    });
    let Ok(log) = log::read(text) else { return };
    let cells = log.tables.iter().flat_map(|it| &it.cells);
    assert!(cells.into_iter().all(|it| it.latency >= 0.0 && it.bandwidth >= 0.0));
    if let Some(model) = model {
        let found = believe(&log, model);
        assert!(found.rings.0 <= found.rings.1 && found.parents.0 <= found.parents.1);
    }
    if let Ok(rows) = nccl_tests::read(text) {
        let calls = join(&rows, None, &[&log]).unwrap_or_default();
        assert!(calls.len() <= rows.calls.len());
    }
});
