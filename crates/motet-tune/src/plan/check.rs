//! [`check`]: reads everything again that a plan has written, and proves it: right, loadable, and as
//! fast as the table says.
//!
//! Nothing is taken over from the making of the plan. The network is read from the folder; every program
//! file is read, verified and held to its runtime's limits, and priced with the settings in its own header
//! at every size that it is for; NCCL's times are computed anew; no modelled time may be below the bound.
//! The run-time table and the tuner's table must agree with the tasks. Measured times cannot be computed
//! again; they must be in the table of measurements.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_collective::formats::msccl_xml;
use motet_collective::formats::mscclpp_json::whole_chunks;
use motet_nccl::Priced;
use motet_nccl::kernel::Kernels;
use motet_net::formats::cluster_toml;
use motet_net::{Network, Signature};
use motet_runtime::{Checksum, Method};
use motet_units::{Bytes, Duration};

use super::candidates::{MscclppLayout, MscclppUse};
use super::files::{ProgramFile, runs};
use super::folder::{FileRow, MANIFEST, NETWORK, Stored, TABLE, TUNER};
use super::make::{Nccl, bounds};
use super::{Pick, Plan, Runtime, TunedTask, baseline, files};
use crate::calibrate::nccl::store;
use crate::layouts::Layout;
use crate::measure::plan::{MEASURED, is_measured};

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub files: usize,
    pub programs: usize,
    pub tasks: usize,
    /// Times that were computed again, or found in the table of measurements.
    pub times: usize,
}

/// Something that is wrong with a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The file of the plan's folder.
    pub file: String,
    pub problem: String,
}

/// Checks a plan whose files have their checksums.
pub fn check(stored: &Stored) -> Result<Checked, Vec<Problem>> {
    let wrong = |file: &str, problem: String| vec![Problem { file: file.to_owned(), problem }];
    let none = |_: &str| Err("a plan's network names no files".to_owned());
    let network = cluster_toml::read(&stored.files[NETWORK], &none)
        .map_err(|it| wrong(NETWORK, it.to_string()))?
        .network;
    stored.is_for(Signature::of(&network)).map_err(|it| wrong(NETWORK, it.to_string()))?;
    let nccl = Nccl::new(&network, stored.manifest.setup);
    let priced = nccl.priced(&network);
    let kernels = Arc::clone(&nccl.kernels);
    let mut checker = Checker {
        stored,
        network: &network,
        kernels,
        priced: priced.as_ref(),
        problems: Vec::new(),
        checked: Checked { files: stored.files.len(), ..Checked::default() },
    };
    checker.bounds(&nccl);
    checker.nccl();
    checker.measured();
    checker.margins();
    checker.programs();
    checker.table();
    checker.tuner();
    if checker.problems.is_empty() { Ok(checker.checked) } else { Err(checker.problems) }
}

struct Checker<'a> {
    stored: &'a Stored,
    network: &'a Network,
    kernels: Arc<Kernels>,
    priced: Option<&'a Priced<'a>>,
    problems: Vec<Problem>,
    checked: Checked,
}

impl Checker<'_> {
    fn say(&mut self, file: &str, problem: String) {
        self.problems.push(Problem { file: file.to_owned(), problem });
    }

    fn of(&self, kind: CollectiveKind) -> impl Iterator<Item = &TunedTask> {
        self.stored.manifest.tasks.iter().filter(move |it| it.collective == kind)
    }

    /// The bound of every task is the network's, and nothing is below it.
    fn bounds(&mut self, nccl: &Nccl) {
        let mut kinds: Vec<CollectiveKind> =
            self.stored.manifest.tasks.iter().map(|it| it.collective).collect();
        kinds.dedup();
        for kind in kinds {
            let tasks: Vec<TunedTask> = self.of(kind).cloned().collect();
            let sizes: Vec<Bytes> = tasks.iter().map(TunedTask::size).collect();
            match bounds(self.network, nccl, kind, &sizes) {
                Err(error) => self.say(MANIFEST, error.to_string()),
                Ok(found) => {
                    for (task, bound) in tasks.iter().zip(found) {
                        self.checked.tasks += 1;
                        self.bound(task, bound);
                    }
                }
            }
        }
    }

    fn bound(&mut self, task: &TunedTask, bound: Duration) {
        if bound.as_ps() != task.bound_ps {
            let said = Duration::from_ps(task.bound_ps);
            let size = task.size();
            let what =
                format!("{} of {size} has a bound of {said}, it is {bound}", task.collective);
            self.say(MANIFEST, what);
        }
        if let Err(error) = task.possible() {
            self.say(MANIFEST, error.to_string());
        }
    }

    /// NCCL's times and choices are those of the tasks.
    fn nccl(&mut self) {
        // Where ranks share a GPU, NCCL was not priced.
        let Some(priced) = self.priced.filter(|_| self.stored.manifest.ranks_per_gpu <= 1) else {
            return;
        };
        for task in self.stored.manifest.tasks.iter().filter(|it| !it.is_measured()) {
            let (kind, size) = (task.collective, task.size());
            let found = [
                ("NCCL", baseline::nccl(priced, kind, size), &task.nccl),
                ("NCCL at its best", baseline::nccl_best(priced, kind, size), &task.nccl_best),
            ];
            for (who, found, said) in found {
                self.checked.times += 1;
                if found != *said {
                    let text = |it: &Option<Pick>| {
                        it.as_ref().map_or("nothing".to_owned(), |it| {
                            format!("{} in {}", it.way, it.time())
                        })
                    };
                    let what = format!(
                        "{who} does {kind} of {size} by {}, not by {}",
                        text(&found),
                        text(said)
                    );
                    self.say(MANIFEST, what);
                }
            }
        }
    }

    /// Measured times are in the table of measurements.
    fn measured(&mut self) {
        let all = self.stored.manifest.tasks.iter().filter(|it| it.is_measured());
        let table = self.stored.files.get(MEASURED).map(|it| store::read(it));
        let mut problems = Vec::new();
        let calls = match table.transpose() {
            Ok(calls) => calls.unwrap_or_default(),
            Err(error) => {
                problems.push(error.to_string());
                Vec::new()
            }
        };
        for task in all {
            for pick in [&task.nccl, &task.nccl_best].into_iter().flatten() {
                self.checked.times += 1;
                let own = task.leaves_to_nccl(pick);
                if !is_measured(&calls, task, pick, own) {
                    let (kind, size, time) = (task.collective, task.size(), pick.time());
                    problems.push(format!("has no {} for {kind} of {size} in {time}", pick.way));
                }
            }
        }
        problems.into_iter().for_each(|it| self.say(MEASURED, it));
    }

    /// A program is picked only where it beats NCCL's best by the margin.
    fn margins(&mut self) {
        let margin = self.stored.manifest.margin_percent;
        for task in &self.stored.manifest.tasks {
            let picks = [Some(&task.pick), task.mscclpp.as_ref()];
            for pick in picks.into_iter().flatten().filter(|it| it.is_program()) {
                let Some(best) = &task.nccl_best else { continue };
                if !super::tune::beats(pick, best, margin) {
                    let what = format!(
                        "{} of {}: {} does not beat NCCL's best by {margin}%",
                        task.collective,
                        task.size(),
                        pick.way
                    );
                    self.say(MANIFEST, what);
                }
            }
        }
    }

    /// Every program file is right, loadable, for the tasks that it should be for, and as fast.
    fn programs(&mut self) {
        for runtime in [Runtime::Msccl, Runtime::Mscclpp] {
            for run in runs(&self.stored.manifest.tasks, runtime) {
                self.checked.programs += 1;
                let path = run.path();
                let Some(text) = self.stored.files.get(&path) else {
                    self.say(&path, "is needed by a task and is not in the folder".to_owned());
                    continue;
                };
                let row = self.stored.manifest.files.iter().find(|it| it.file == path);
                if row.is_none_or(|it| !agrees(it, &run)) {
                    self.say(MANIFEST, format!("{path} is not listed as the tasks use it"));
                }
                if let Err(problem) = self.program(&run, text) {
                    self.say(&path, problem);
                }
            }
        }
        let needed: Vec<String> = [Runtime::Msccl, Runtime::Mscclpp]
            .into_iter()
            .flat_map(|it| runs(&self.stored.manifest.tasks, it))
            .map(|it| it.path())
            .collect();
        let strays: Vec<String> = self
            .stored
            .files
            .keys()
            .filter(|it| it.starts_with("msccl/algorithms/") || it.starts_with("mscclpp/plans/"))
            .filter(|it| !needed.contains(it))
            .cloned()
            .collect();
        for stray in strays {
            self.say(
                &stray,
                "is for no task, and the runtime would load it all the same".to_owned(),
            );
        }
    }

    fn program(&mut self, run: &ProgramFile, text: &str) -> Result<(), String> {
        let tasks: Vec<TunedTask> =
            self.stored.manifest.tasks.iter().filter(|it| run.serves(it)).cloned().collect();
        match run.runtime {
            Runtime::Mscclpp => {
                let as_used = self.stored.mscclpp()?;
                let options = as_used.options(self.network, self.kernels.resident_blocks());
                let plan = MscclppLayout::read(text, self.network, &options, &as_used.terms)?;
                let hints = *plan.program.hints();
                // A plan states no more than whole chunks.
                let most = whole_chunks(run.most, plan.program.collective());
                let run = &ProgramFile { most, ..run.clone() };
                header(run, plan.program.name(), hints.min_size, hints.max_size)?;
                self.fits(plan.blocks())?;
                for task in &tasks {
                    if !plan.takes(task.size()) {
                        return Err(format!("the executor does not take it for {}", task.size()));
                    }
                    let time = plan.time(task.size()).ok_or("it waits for itself")?;
                    self.same_time(task, task.mscclpp.as_ref(), time)?;
                }
            }
            Runtime::Msccl | Runtime::Nccl => {
                let layout =
                    Layout::read(text, self.network, &self.kernels, (run.instances, run.packed))?;
                // Within the limits: what is written again is what was read.
                let again = msccl_xml::write(&layout.program, &msccl_xml::Options::default());
                let again = again.map_err(|it| it.to_string())?;
                if again != *text {
                    return Err("is not as Motet writes this program".to_owned());
                }
                let hints = *layout.program.hints();
                header(run, layout.program.name(), hints.min_size, hints.max_size)?;
                self.fits(layout.blocks())?;
                let protocol = hints.protocol;
                let knobs = self.stored.manifest.setup.knobs(protocol);
                for task in &tasks {
                    if !layout.divides(task.size()) {
                        return Err(format!("its chunks do not divide {}", task.size()));
                    }
                    let time = layout
                        .laid
                        .price_under(task.size(), &knobs)
                        .map_err(|it| it.to_string())?;
                    self.same_time(task, Some(&task.pick), time.time)?;
                }
            }
        }
        Ok(())
    }

    fn fits(&self, blocks: u32) -> Result<(), String> {
        let most = self.stored.manifest.most_blocks.min(self.kernels.resident_blocks());
        match blocks <= most {
            true => Ok(()),
            false => Err(format!("has {blocks} thread blocks on a GPU; {most} are allowed")),
        }
    }

    fn same_time(
        &mut self,
        task: &TunedTask,
        said: Option<&Pick>,
        time: Duration,
    ) -> Result<(), String> {
        self.checked.times += 1;
        match said {
            Some(pick) if pick.time() == time => Ok(()),
            Some(pick) => {
                Err(format!("takes {time} for {}, and the table says {}", task.size(), pick.time()))
            }
            None => Err(format!("is for {}, where the plan uses no program", task.size())),
        }
    }

    /// The run-time table agrees with the tasks, and has the checksums of the files.
    fn table(&mut self) {
        let manifest = &self.stored.manifest;
        if self.stored.table.entries().len()
            != manifest.tasks.iter().filter(|it| it.is_in_table()).count()
        {
            self.say(TABLE, "has not one entry for each task".to_owned());
        }
        let mut wrong = Vec::new();
        for task in manifest.tasks.iter().filter(|it| it.is_in_table()) {
            let entry = self.stored.table.entries().iter().find(|it| {
                it.key.collective.name() == task.collective.name()
                    && it.key.bucket == motet_runtime::Bucket::of(task.size())
            });
            let first = entry.and_then(|it| it.candidates.first());
            let same = first.is_some_and(|it| {
                let method = match &it.setting.method {
                    Method::Nccl { algorithm: None } => task.leaves_to_nccl(&task.pick),
                    Method::Nccl { algorithm } => {
                        task.pick
                            .algorithm
                            .map(|it| it.name().to_ascii_lowercase().replace('_', ""))
                            == algorithm.map(|it| it.name().replace('_', ""))
                    }
                    Method::Program { name, checksum } => {
                        let path = format!("msccl/algorithms/{name}.xml");
                        self.stored.files.get(&path).map(|it| Checksum::of(it.as_bytes()))
                            == Some(*checksum)
                    }
                };
                method && it.expected == task.pick.time()
            });
            if !same {
                wrong.push(format!(
                    "says something else than the task {} of {}",
                    task.collective,
                    task.size()
                ));
            }
        }
        for problem in wrong {
            self.say(TABLE, problem);
        }
    }

    /// The tuner's table is the one that follows from the tasks.
    fn tuner(&mut self) {
        let manifest = &self.stored.manifest;
        let plan = Plan {
            network: manifest.network.clone(),
            signature: Signature::of(self.network),
            ranks: manifest.ranks,
            nodes: manifest.nodes,
            seed: manifest.seed,
            margin_percent: manifest.margin_percent,
            most_blocks: manifest.most_blocks,
            mscclpp: MscclppUse::default(),
            setup: manifest.setup,
            tasks: manifest.tasks.clone(),
            candidates: Vec::new(),
            left_out: Vec::new(),
        };
        if self.stored.files.get(TUNER) != Some(&files::tuner_csv(&plan, self.priced)) {
            self.say(TUNER, "is not what follows from the tasks".to_owned());
        }
    }
}

fn agrees(row: &FileRow, run: &ProgramFile) -> bool {
    (row.collective, row.runtime, row.protocol, row.instances, row.packed)
        == (run.collective, run.runtime, run.protocol, run.instances, run.packed)
        && row.way == run.way
        && (row.least_bytes, row.most_bytes) == (run.least.get(), run.most.get())
}

/// Whether the header of a file names the program and the sizes that the tasks use it for.
fn header(run: &ProgramFile, name: &str, least: Bytes, most: Option<Bytes>) -> Result<(), String> {
    if name != run.name {
        return Err(format!("holds the program {name}"));
    }
    if (least, most) != (run.least, Some(run.most)) {
        return Err(format!("is not for {} to {}", run.least, run.most));
    }
    Ok(())
}
