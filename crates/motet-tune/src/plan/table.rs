//! A plan as the [`Table`] that the run-time half looks things up in.

use motet_runtime::{
    Bucket, Candidate, Checksum, Collective, Entry, Key, Knobs, Method, Setting, Signature, Table,
    TableError,
};

use super::{Pick, Plan};

/// The table of a plan. `checksum` gives the checksum of a program's file by the program's name.
pub fn table(
    plan: &Plan,
    checksum: impl Fn(&str) -> Option<Checksum>,
) -> Result<Table, TableError> {
    let signature = plan.signature.to_string().parse().unwrap_or(Signature(0));
    let mut entries = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        // The runtime knows every collective that a plan can be made for.
        let Ok(collective) = task.collective.parse::<Collective>() else { continue };
        let candidates: Vec<Candidate> =
            task.picks.iter().filter_map(|it| candidate(it, &checksum)).collect();
        if !candidates.is_empty() {
            let bucket = Bucket::of(task.size());
            let key = Key { signature, collective, ranks: plan.ranks, bucket };
            entries.push(Entry { key, candidates });
        }
    }
    Table::new(entries)
}

fn candidate(pick: &Pick, checksum: &impl Fn(&str) -> Option<Checksum>) -> Option<Candidate> {
    let method = match &pick.algorithm {
        Some(name) => Method::Nccl { algorithm: Some(name.parse().ok()?) },
        None => Method::Program { name: pick.way.as_str().into(), checksum: checksum(&pick.way)? },
    };
    let knobs = Knobs {
        protocol: Some(pick.protocol.parse().ok()?),
        channels: pick.channels,
        threads: pick.threads,
        buffer: pick.buffer_bytes.map(motet_units::Bytes::new),
    };
    Some(Candidate { setting: Setting { method, knobs }, expected: pick.time() })
}
