//! Files of terms: any text gives terms or an error; what is read comes back the same when written and
//! read again; never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_tune::calibrate::terms_file;

fuzz_target!(|text: &str| {
    let Ok(file) = terms_file::read(text) else { return };
    let mscclpp = file.mscclpp.iter().flat_map(|it| it.values());
    let nccl = file.nccl.iter().flat_map(|it| it.values());
    assert!(mscclpp.chain(nccl).all(|it| it.is_finite() && it > 0.0));
    assert_eq!(terms_file::read(&terms_file::write(&file)), Ok(file));
});
