//! A plan as the [`Table`] that the run-time half looks things up in.
//!
//! `motet-runtime` is linked into training jobs and knows no other crate than `motet-units`, so it has
//! its own enums for collectives, algorithms and protocols. This is the one place where ours become
//! its: variant by variant, so that a new one does not compile before it has a counterpart.

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_runtime::{
    self as runtime, Bucket, Candidate, Checksum, Collective, Entry, Key, Method, Setting,
    Signature, Table, TableKnobs,
};

use super::files::ProgramFile;
use super::folder::FolderError;
use super::{Pick, Plan};

/// The table of a plan: for each task its pick, then what NCCL does if that cannot be used ([`Plan::kept`]), then
/// NCCL's own choice. `runs` are MSCCL's files with the checksum of each. Tasks that only MSCCL++ does are not in it,
/// because jobs that use the table run NCCL or MSCCL.
///
/// # Errors
/// When a task's program has no file among `runs`, or the entries are more than a table takes.
pub fn table(plan: &Plan, runs: &[(ProgramFile, Checksum)]) -> Result<Table, FolderError> {
    let signature = Signature(plan.signature.as_u128());
    let mut entries = Vec::with_capacity(plan.tasks.len());
    for task in plan.tasks.iter().filter(|it| it.is_in_table()) {
        let file = runs.iter().find(|it| it.0.serves(task));
        let picks = [Some(&task.pick), plan.kept(task), task.nccl.as_ref()];
        let mut candidates: Vec<Candidate> = Vec::new();
        for pick in picks.into_iter().flatten() {
            let candidate =
                if task.leaves_to_nccl(pick) { Some(own(pick)) } else { candidate(pick, file) };
            let candidate = candidate.ok_or_else(|| {
                let (way, kind, size) = (&pick.way, task.collective, task.size());
                FolderError::Malformed(format!("{way}, for {kind} of {size}, has no file"))
            })?;
            if candidates.iter().all(|it| it.setting != candidate.setting) {
                candidates.push(candidate);
            }
        }
        let (collective, bucket) = (collective(task.collective), Bucket::of(task.size()));
        let key = Key { signature, collective, ranks: plan.ranks, bucket };
        entries.push(Entry { key, candidates });
    }
    Ok(Table::new(entries)?)
}

/// NCCL's own choice, as a candidate that asks for nothing.
fn own(pick: &Pick) -> Candidate {
    let setting =
        Setting { method: Method::Nccl { algorithm: None }, knobs: TableKnobs::default() };
    Candidate { setting, expected: pick.time() }
}

/// A pick as a candidate; `None` if it is a program without a file.
fn candidate(pick: &Pick, file: Option<&(ProgramFile, Checksum)>) -> Option<Candidate> {
    let (method, channels) = match pick.algorithm {
        Some(it) => {
            let channels = pick.asked.then_some(pick.channels);
            (Method::Nccl { algorithm: Some(algorithm(it)) }, channels)
        }
        None => {
            let (run, checksum) = file?;
            let name = run.name.as_str().into();
            (Method::Program { name, checksum: *checksum }, Some(pick.channels))
        }
    };
    let protocol = Some(protocol(pick.protocol));
    let knobs = TableKnobs { protocol, channels, ..TableKnobs::default() };
    Some(Candidate { setting: Setting { method, knobs }, expected: pick.time() })
}

/// An algorithm and a protocol of the run-time half.
#[must_use]
pub const fn runtime(of: Algorithm, with: Protocol) -> (runtime::Algorithm, runtime::Protocol) {
    (algorithm(of), protocol(with))
}

const fn collective(kind: CollectiveKind) -> Collective {
    match kind {
        CollectiveKind::AllGather => Collective::AllGather,
        CollectiveKind::ReduceScatter => Collective::ReduceScatter,
        CollectiveKind::AllReduce => Collective::AllReduce,
        CollectiveKind::Broadcast => Collective::Broadcast,
        CollectiveKind::Reduce => Collective::Reduce,
        CollectiveKind::Gather => Collective::Gather,
        CollectiveKind::Scatter => Collective::Scatter,
        CollectiveKind::AllToAll => Collective::AllToAll,
        CollectiveKind::AllToAllV => Collective::AllToAllV,
        CollectiveKind::SendRecv => Collective::SendRecv,
    }
}

const fn algorithm(algorithm: Algorithm) -> runtime::Algorithm {
    match algorithm {
        Algorithm::Tree => runtime::Algorithm::Tree,
        Algorithm::Ring => runtime::Algorithm::Ring,
        Algorithm::CollNetDirect => runtime::Algorithm::CollNetDirect,
        Algorithm::CollNetChain => runtime::Algorithm::CollNetChain,
        Algorithm::Nvls => runtime::Algorithm::Nvls,
        Algorithm::NvlsTree => runtime::Algorithm::NvlsTree,
        Algorithm::Pat => runtime::Algorithm::Pat,
    }
}

const fn protocol(protocol: Protocol) -> runtime::Protocol {
    match protocol {
        Protocol::Ll => runtime::Protocol::Ll,
        Protocol::Ll128 => runtime::Protocol::Ll128,
        Protocol::Simple => runtime::Protocol::Simple,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_halves_use_the_same_names() {
        for it in CollectiveKind::ALL {
            assert_eq!(collective(it).name(), it.name());
        }
        for it in Algorithm::ALL {
            assert_eq!(it.name().parse(), Ok(algorithm(it)));
        }
        for it in Protocol::ALL {
            assert_eq!(it.name().parse(), Ok(protocol(it)));
        }
    }
}
