//! `motet plan --write-candidates FOLDER`: every plan of MSCCL++ that was considered, not only the picks.
//!
//! With them a pick can be held against all it was chosen from: `benches/mscclpp` times what `manifest.jsonl`
//! lists, and `candidates.csv` has what the model said of every one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use motet_collective::CollectiveKind;
use motet_tune::calibrate::Manifest;
use motet_tune::plan::candidates::MscclppLayout;
use motet_tune::plan::{CandidateProgram, Journal, Origin, PlanEvent, Request, TunedTask};
use motet_units::Bytes;

use crate::failure::Failure;
use crate::files;
use crate::table::{Table, Values};

/// Passes everything on to the plan's journal, and keeps the candidates as they are made.
pub(super) struct Considered<'a> {
    journal: &'a dyn Journal,
    request: &'a Request,
    ranks: u32,
    /// Collectives are made at the same time; sorted, their files are the same ones each time.
    found: Mutex<BTreeMap<CollectiveKind, Vec<File>>>,
}

/// A plan of MSCCL++ as it is written.
struct File {
    /// Also the name of the program inside.
    name: String,
    text: String,
    origin: &'static str,
    blocks: u32,
    /// Sizes of the request that it is for, each with what the model says in microseconds.
    sizes: Vec<(u64, f64)>,
}

impl<'a> Considered<'a> {
    pub(super) fn new(journal: &'a dyn Journal, request: &'a Request, ranks: usize) -> Self {
        let ranks = u32::try_from(ranks).unwrap_or(u32::MAX);
        Self { journal, request, ranks, found: Mutex::default() }
    }

    /// All plans of a collective's candidates, of one instance and of more.
    fn files(&self, kind: CollectiveKind, candidates: &[CandidateProgram]) -> Vec<File> {
        let sizes = self.request.tasks.iter().find(|it| it.0 == kind).map_or(&[][..], |it| &it.1);
        let plans = candidates.iter().flat_map(|way| way.plans.iter().map(move |it| (way, it)));
        plans.filter_map(|(way, plan)| File::new(way, plan, sizes)).collect()
    }

    /// Writes the plans, their manifest and the table of prices; returns how many plans there are.
    pub(super) fn write(self, folder: &str) -> Result<usize, Failure> {
        std::fs::create_dir_all(folder).map_err(|error| {
            Failure::unreadable(format!("cannot be made: {error}")).in_file(folder)
        })?;
        let path = |name: &str| Path::new(folder).join(name).to_string_lossy().into_owned();
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut manifest = String::new();
        let mut prices = Prices::default();
        for (collective, file) in
            found.iter().flat_map(|(kind, all)| all.iter().map(|it| (*kind, it)))
        {
            files::write_bytes(&path(&format!("{}.json", file.name)), file.text.as_bytes())?;
            let bytes: Vec<u64> = file.sizes.iter().map(|it| it.0).collect();
            let in_place = self.request.mscclpp.in_place;
            let line = Manifest {
                id: file.name.clone(),
                collective,
                ranks: self.ranks,
                bytes: &bytes,
                in_place,
            };
            // Writing to a string cannot fail.
            let _ = writeln!(manifest, "{line}");
            prices.add(collective, file);
        }
        files::write_bytes(&path("manifest.jsonl"), manifest.as_bytes())?;
        files::write_bytes(&path("candidates.csv"), prices.table().csv().as_bytes())?;
        Ok(found.values().map(Vec::len).sum())
    }
}

impl Journal for Considered<'_> {
    fn known(&self, kind: CollectiveKind, size: Bytes) -> Option<TunedTask> {
        self.journal.known(kind, size)
    }

    fn done(&self, event: PlanEvent<'_>) {
        if let PlanEvent::Made(kind, candidates) = event {
            let files = self.files(kind, candidates);
            self.found.lock().unwrap_or_else(PoisonError::into_inner).insert(kind, files);
        }
        self.journal.done(event);
    }
}

impl File {
    /// `None` if it is for none of the sizes, or cannot be written: such a plan cannot be picked either.
    fn new(way: &CandidateProgram, plan: &MscclppLayout, sizes: &[Bytes]) -> Option<Self> {
        let taken = sizes.iter().filter(|it| plan.takes(**it));
        let priced: Vec<(u64, f64)> =
            taken.filter_map(|it| Some((it.get(), plan.time(*it)?.as_us_f64()))).collect();
        // As far as sizes double, as picks are: a plan's largest size is rounded down to whole chunks.
        let (least, last) = (priced.first()?.0, priced.last()?.0);
        let doubled = last.saturating_mul(2) - 1;
        let most = if plan.takes(Bytes::new(doubled)) { doubled } else { last };
        let name = match plan.instances {
            1 => way.name.clone(),
            several => format!("{}-{several}x", way.name),
        };
        let text = plan.file(&name, Bytes::new(least), Some(Bytes::new(most))).ok()?;
        let origin = match way.origin {
            Origin::OneSided => "one-sided",
            Origin::FullMesh | Origin::Made => "synthesized",
        };
        Some(Self { name, text, origin, blocks: plan.blocks(), sizes: priced })
    }
}

/// The columns of `candidates.csv`.
#[derive(Default)]
struct Prices {
    collectives: Vec<String>,
    bytes: Vec<i64>,
    names: Vec<String>,
    origins: Vec<String>,
    blocks: Vec<i64>,
    us: Vec<f64>,
}

impl Prices {
    fn add(&mut self, collective: CollectiveKind, file: &File) {
        for (bytes, us) in &file.sizes {
            self.collectives.push(collective.name().to_owned());
            self.bytes.push(i64::try_from(*bytes).unwrap_or(i64::MAX));
            self.names.push(file.name.clone());
            self.origins.push(file.origin.to_owned());
            self.blocks.push(i64::from(file.blocks));
            self.us.push(*us);
        }
    }

    fn table(self) -> Table {
        Table::new()
            .with("collective", Values::Words(self.collectives))
            .with("bytes", Values::Whole(self.bytes))
            .with("plan", Values::Words(self.names))
            .with("kind", Values::Words(self.origins))
            .with("blocks", Values::Whole(self.blocks))
            .with("model_us", Values::Number(self.us, 3))
    }
}
