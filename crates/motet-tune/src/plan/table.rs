//! A plan as the [`Table`] that the run-time half looks things up in.

use motet_runtime::{
    Bucket, Candidate, Checksum, Collective, Entry, Key, Knobs, Method, Setting, Signature, Table,
};

use super::files::Run;
use super::folder::FolderError;
use super::{Pick, Plan};

/// The table of a plan: for each task its pick, then what NCCL is left with, then NCCL by itself.
/// `runs` are MSCCL's files with the checksum of each.
pub fn table(plan: &Plan, runs: &[(Run, Checksum)]) -> Result<Table, FolderError> {
    let unknown = |what: &str| FolderError::Malformed(format!("the table has no word for {what}"));
    let text = plan.signature.to_string();
    let signature: Signature = text.parse().map_err(|_| unknown(&text))?;
    let mut entries = Vec::with_capacity(plan.tasks.len());
    for task in &plan.tasks {
        let name = task.collective.name();
        let collective: Collective = name.parse().map_err(|_| unknown(name))?;
        let file = runs.iter().find(|it| it.0.serves(task));
        let picks = [Some(&task.pick), plan.kept(task), task.nccl.as_ref()];
        let mut candidates: Vec<Candidate> = Vec::new();
        for pick in picks.into_iter().flatten() {
            let candidate = candidate(pick, file)
                .ok_or_else(|| unknown(&format!("{} of {}", pick.way, task.size())))?;
            if candidates.iter().all(|it| it.setting != candidate.setting) {
                candidates.push(candidate);
            }
        }
        let bucket = Bucket::of(task.size());
        let key = Key { signature, collective, ranks: plan.ranks, bucket };
        entries.push(Entry { key, candidates });
    }
    Ok(Table::new(entries)?)
}

fn candidate(pick: &Pick, file: Option<&(Run, Checksum)>) -> Option<Candidate> {
    let (method, channels) = match pick.algorithm {
        Some(algorithm) => {
            let algorithm = Some(algorithm.name().parse().ok()?);
            (Method::Nccl { algorithm }, pick.asked.then_some(pick.channels))
        }
        None => {
            let (run, checksum) = file?;
            let name = run.name.as_str().into();
            (Method::Program { name, checksum: *checksum }, Some(pick.channels))
        }
    };
    let protocol = Some(pick.protocol.name().parse().ok()?);
    let knobs = Knobs { protocol, channels, ..Knobs::default() };
    Some(Candidate { setting: Setting { method, knobs }, expected: pick.time() })
}
