//! What a plan gives each runtime to load: which file serves which sizes, and what is in it.
//!
//! - **MSCCL** takes the first file that fits a call. So only picks are written, one file for each
//!   sequence of sizes with the same program, layout and protocol, with ranges that do not overlap; calls
//!   that no file fits are left to NCCL.
//! - **MSCCL++** has its own picks, written in the same way.
//! - **NCCL** has NVIDIA's example tuner, which reads a table of settings ([`tuner_csv`]).
//!
//! A file's name says what it is, and is the name of the program inside.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Priced, Protocol, TunedCollective};
use motet_units::Bytes;

use super::candidates::short;
use super::{Pick, Plan, Runtime, TunedTask};

/// A file of a plan that a runtime loads: a program in one layout and protocol, for a range of sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramFile {
    pub collective: CollectiveKind,
    pub runtime: Runtime,
    /// Also the stem of the file.
    pub name: String,
    pub way: String,
    pub protocol: Protocol,
    pub instances: u32,
    pub packed: bool,
    /// The smallest and the largest size that it is for, both included.
    pub least: Bytes,
    pub most: Bytes,
}

impl ProgramFile {
    /// Where the file lies in the plan's folder.
    #[must_use]
    pub fn path(&self) -> String {
        match self.runtime {
            Runtime::Mscclpp => format!("mscclpp/plans/{}.json", self.name),
            Runtime::Msccl | Runtime::Nccl => format!("msccl/algorithms/{}.xml", self.name),
        }
    }

    /// Whether a task is one of those it serves.
    #[must_use]
    pub fn serves(&self, task: &TunedTask) -> bool {
        task.collective == self.collective
            && (self.least.get()..=self.most.get()).contains(&task.size_bytes)
    }
}

/// The pick of a task on a runtime, if it is a program for that runtime.
fn program(task: &TunedTask, runtime: Runtime) -> Option<&Pick> {
    let pick = if runtime == Runtime::Mscclpp { task.mscclpp.as_ref()? } else { &task.pick };
    (pick.runtime == runtime).then_some(pick)
}

/// The files of a runtime, in the order of tasks.
#[must_use]
pub fn runs(tasks: &[TunedTask], runtime: Runtime) -> Vec<ProgramFile> {
    let mut runs: Vec<ProgramFile> = Vec::new();
    // Whether the task before belongs to the last run.
    let mut open = false;
    for (at, task) in tasks.iter().enumerate() {
        let Some(pick) = program(task, runtime) else {
            open = false;
            continue;
        };
        let next = tasks.get(at + 1).filter(|it| it.collective == task.collective);
        // Up to the next size of the plan; beyond the last, as far as sizes double.
        let end = next.map_or(task.size_bytes.saturating_mul(2), |it| it.size_bytes);
        let most = Bytes::new(end.saturating_sub(1).max(task.size_bytes));
        let same = |it: &ProgramFile| {
            it.collective == task.collective
                && (&it.way, it.protocol, it.instances, it.packed)
                    == (&pick.way, pick.protocol, pick.instances, pick.packed)
        };
        match runs.last_mut().filter(|it| open && same(it)) {
            Some(run) => run.most = most,
            None => runs.push(ProgramFile {
                collective: task.collective,
                runtime,
                name: String::new(),
                way: pick.way.clone(),
                protocol: pick.protocol,
                instances: pick.instances,
                packed: pick.packed,
                least: task.size(),
                most,
            }),
        }
        open = true;
    }
    for run in &mut runs {
        let protocol = run.protocol.name().to_ascii_lowercase();
        let (from, to) = (short(run.least), short(Bytes::new(run.most.get().saturating_add(1))));
        let packed = if run.packed { "p" } else { "" };
        run.name = format!("{}-{protocol}-{}x{packed}-{from}-{to}", run.way, run.instances);
    }
    runs
}

/// The texts of all programs of a plan, by path.
pub fn programs(plan: &Plan) -> Result<BTreeMap<String, String>, String> {
    let mut files = BTreeMap::new();
    for runtime in [Runtime::Msccl, Runtime::Mscclpp] {
        for run in runs(&plan.tasks, runtime) {
            let wrong = |why: String| format!("{}: {why}", run.name);
            let way =
                plan.candidate(&run.way).ok_or_else(|| wrong("there is no such way".to_owned()))?;
            let text = match runtime {
                Runtime::Mscclpp => {
                    let layout = way.plans.iter().find(|it| it.instances == run.instances);
                    let layout = layout.ok_or_else(|| wrong("there is no such plan".to_owned()))?;
                    layout.file(&run.name, run.least, Some(run.most)).map_err(wrong)?
                }
                Runtime::Msccl | Runtime::Nccl => {
                    let layout = way.family.find(run.instances, run.packed);
                    let layout =
                        layout.ok_or_else(|| wrong("there is no such layout".to_owned()))?;
                    let sizes = (run.least, Some(run.most));
                    layout.file(&run.name, run.protocol, sizes).map_err(wrong)?
                }
            };
            files.insert(run.path(), text);
        }
    }
    Ok(files)
}

/// The names of an algorithm and a protocol in the example tuner's table.
fn words(algorithm: Algorithm, protocol: Protocol) -> (&'static str, &'static str) {
    let algorithm = match algorithm {
        Algorithm::Tree => "tree",
        Algorithm::Ring => "ring",
        Algorithm::CollNetDirect => "collnet_direct",
        Algorithm::CollNetChain => "collnet_chain",
        Algorithm::Nvls => "nvls",
        Algorithm::NvlsTree => "nvls_tree",
        Algorithm::Pat => "pat",
    };
    let protocol = match protocol {
        Protocol::Ll => "ll",
        Protocol::Ll128 => "ll128",
        Protocol::Simple => "simple",
    };
    (algorithm, protocol)
}

/// A row of the table: a range of bytes with a setting.
type Row = (u64, u64, Algorithm, Protocol, u32);

/// The table that NVIDIA's example tuner reads. Where no row fits, that tuner forces one channel, and
/// no row can stand for NCCL's own choice; so every collective that NCCL tunes has rows for all sizes. Where
/// the plan has no task, they say what NCCL would choose by the model. 0 channels are NCCL's own count.
#[must_use]
pub fn tuner_csv(plan: &Plan, priced: Option<&Priced<'_>>) -> String {
    let mut out = String::from(
        "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,regBuff\n",
    );
    let Some(priced) = priced else { return out };
    for tuned in TunedCollective::ALL {
        let kind = tuned.kind();
        for (least, most, algorithm, protocol, channels) in rows(plan, priced, kind) {
            let (algorithm, protocol) = words(algorithm, protocol);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{kind},{least},{most},{algorithm},{protocol},{channels},{},{},-1,-1",
                plan.nodes, plan.ranks
            );
        }
        // Where NCCL cannot use a row's setting for a call, and on other communicators.
        let _ = writeln!(out, "{kind},0,{},ring,simple,0,-1,-1,-1,-1", u64::MAX);
    }
    out
}

fn rows(plan: &Plan, priced: &Priced<'_>, kind: CollectiveKind) -> Vec<Row> {
    let known: BTreeMap<u64, &TunedTask> = plan
        .tasks
        .iter()
        .filter(|it| it.collective == kind)
        .map(|it| (it.size_bytes, it))
        .collect();
    let usual = (10..=30).map(|it| 1u64 << it);
    let mut sizes: Vec<u64> = known.keys().copied().chain(usual).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut rows: Vec<Row> = Vec::new();
    for (at, size) in sizes.iter().enumerate() {
        let setting = match known.get(size).and_then(|it| plan.kept(it)) {
            Some(pick) => pick
                .algorithm
                .map(|it| (it, pick.protocol, pick))
                .map(|(a, p, pick)| (a, p, if pick.asked { pick.channels } else { 0 })),
            None => priced
                .default(kind, Bytes::new(*size))
                .map(|it| (it.choice.algorithm, it.choice.protocol, 0)),
        };
        let Some((algorithm, protocol, channels)) = setting else { continue };
        let least = if at == 0 { 0 } else { *size };
        let most = sizes.get(at + 1).map_or(u64::MAX, |it| it - 1);
        match rows.last_mut() {
            Some(row) if (row.2, row.3, row.4) == (algorithm, protocol, channels) => row.1 = most,
            _ => rows.push((least, most, algorithm, protocol, channels)),
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::testing::tuned;

    fn laid_out(size_bytes: u64, instances: u32, packed: bool) -> TunedTask {
        let task = tuned(size_bytes);
        TunedTask { pick: Pick { instances, packed, ..task.pick }, ..task }
    }

    /// Each size gets the layout that it was priced with, so sizes of different layouts have different files.
    #[test]
    fn sizes_share_a_file_only_if_their_layouts_are_the_same() {
        let tasks = [
            laid_out(1024, 1, false),
            laid_out(2048, 1, false),
            laid_out(4096, 1, true),
            laid_out(8192, 2, true),
        ];
        let files = runs(&tasks, Runtime::Msccl);
        let found: Vec<_> = files
            .iter()
            .map(|it| (it.instances, it.packed, it.least.get(), it.most.get()))
            .collect();
        let expected = [(1, false, 1024, 4095), (1, true, 4096, 8191), (2, true, 8192, 16_383)];
        assert_eq!(found, expected);
    }
}
