//! Tables of plans: any text is a table or refused, never a panic; a table has one text. The
//! checksum line is put right first, or hardly any input would get past it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_runtime::{Bucket, Call, Checksum, Collective, Runtime, Table, View};
use motet_units::Bytes;

fuzz_target!(|text: &str| {
    let body = text.rfind("checksum ").map_or(text, |it| &text[..it]);
    let sealed = format!("{body}checksum {}\n", Checksum::of(body.as_bytes()));
    for text in [text, &sealed] {
        let Ok(table) = Table::read(text) else { continue };
        assert_eq!(table.write(), text);
        let Some(key) = table.entries().first().map(|it| it.key) else { continue };
        let runtime = Runtime::default();
        runtime.install(View::new(table, key.signature).into());
        for bucket in (0..=Bucket::MOST).filter_map(Bucket::new) {
            let bytes = Bytes::new(1 << bucket.log2());
            for collective in [key.collective, Collective::SendRecv] {
                let call = Call { collective, bytes, ranks: key.ranks };
                let _ = runtime.decide(runtime.begin(), &call).map(|it| it.ticket());
            }
        }
    }
});
