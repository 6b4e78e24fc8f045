//! The journal of a plan: any bytes are what is left of one or none of ours. The checksum of each line
//! is put right first, or hardly any input would get past it; what is read makes a table or is refused.

#![no_main]

use std::cell::LazyCell;

use libfuzzer_sys::fuzz_target;
use motet_net::builders::{self, Params};
use motet_net::{Network, Signature};
use motet_runtime::Checksum;
use motet_tune::plan::journal::{self, Found};
use motet_tune::plan::{Plan, Runtime, Setup, TunedTask, files, table};

thread_local! {
    static NETWORK: LazyCell<Option<Network>> =
        LazyCell::new(|| builders::find("ring").ok()?.build(&Params::default()).ok());
}

fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut journal = journal::header("fuzz").into_bytes();
    for line in bytes.split(|it| *it == b'\n') {
        journal.extend_from_slice(format!("{} ", Checksum::of(line)).as_bytes());
        journal.extend_from_slice(line);
        journal.push(b'\n');
    }
    journal
}

fn make_table(tasks: Vec<TunedTask>) {
    NETWORK.with(|network| {
        let Some(network) = &**network else { return };
        let plan = Plan {
            network: String::new(),
            signature: Signature::of(network),
            ranks: 4,
            nodes: 1,
            seed: 0,
            margin_percent: 5,
            most_blocks: 16,
            mscclpp: motet_tune::plan::MscclppUse::default(),
            setup: Setup::default(),
            tasks,
            candidates: Vec::new(),
            left_out: Vec::new(),
        };
        let runs = files::runs(&plan.tasks, Runtime::Msccl);
        let runs: Vec<_> = runs.into_iter().map(|it| (it, Checksum(7))).collect();
        if let Ok(made) = table::table(&plan, &runs) {
            assert_eq!(motet_runtime::Table::read(&made.write()).as_ref(), Ok(&made));
        }
        let _ = (plan.mean_gain(|it| it.nccl.as_ref()), plan.gains(|it| it.nccl.as_ref()));
    });
}

fuzz_target!(|bytes: &[u8]| {
    let _ = journal::read::<TunedTask>(bytes, "fuzz");
    let sealed = sealed(bytes);
    let Found::Ours(known) = journal::read::<TunedTask>(&sealed, "fuzz") else { panic!("the header is ours") };
    // What is whole reads the same alone, and written again.
    let whole = &sealed[..known.whole as usize];
    assert_eq!(journal::read(whole, "fuzz"), Found::Ours(known.clone()));
    let written: String = known.tasks.iter().map(journal::line).collect();
    let again = journal::read::<TunedTask>((journal::header("fuzz") + &written).as_bytes(), "fuzz");
    let Found::Ours(again) = again else { panic!("the header is ours") };
    assert_eq!(again.tasks, known.tasks);
    make_table(known.tasks);
});
