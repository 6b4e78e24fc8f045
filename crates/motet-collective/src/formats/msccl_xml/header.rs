//! What the attributes of `<algo>` say: the collective, its chunks, the forms and the hints.
//!
//! The file counts chunks of the whole collective (`nchunksperloop`), a [`Collective`] counts
//! them per part. The root of a rooted collective is in no attribute that the runtime reads: we
//! write `root`, and where it is missing it follows from who only sends or only receives.

use motet_net::formats::ReadError;
use motet_units::{Bytes, Rank, brief};

use super::parse::{Algo, XmlStepKind};
use crate::collective::{Collective, CollectiveKind};
use crate::diagnostic::{Diagnostic, Finding, Report};
use crate::program::{Forms, Hints, Protocol};

/// No buffer can be longer: offsets have 16 bits. Larger numbers are refused before anything is
/// allocated for them.
pub(super) const MOST_CHUNKS: i64 = 1 << 16;
/// A rank without a `<gpu>` is a fault to report, but not for more ranks than this.
const MOST_MISSING_GPUS: i64 = 64;

pub(super) struct Header {
    pub(super) name: String,
    pub(super) collective: Collective,
    pub(super) hints: Hints,
    pub(super) forms: Forms,
    pub(super) channels: Option<i64>,
}

/// Whether the runtime multiplies the size of a call by the number of ranks, so that
/// `nchunksperloop` counts the parts of all of them.
pub(super) const fn counts_all_parts(kind: CollectiveKind) -> bool {
    matches!(
        kind,
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll
    )
}

pub(super) fn read(text: &str, algo: &Algo, report: &mut Report) -> Result<Header, ReadError> {
    let collective = collective(text, algo, report)?;
    let name = algo.get("proto");
    let name = algo.needed(text, "proto", name)?;
    let protocol = Protocol::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
        algo.wrong(text, &format!("unknown protocol `{}`", brief(name)))
            .with_remedy("proto is Simple, LL or LL128")
    })?;
    let channels = algo.number(text, "nchannels")?;
    let mut missing: Vec<&str> = Vec::new();
    let mut optional = |name: &'static str| -> Result<Option<i64>, ReadError> {
        let value = algo.number(text, name)?;
        if value.is_none() {
            missing.push(name);
        }
        Ok(value)
    };
    optional("nchannels")?;
    let min = optional("minBytes")?.unwrap_or(0);
    let max = optional("maxBytes")?.unwrap_or(0);
    let in_place = optional("inplace")?.unwrap_or(0) != 0;
    let out_of_place = optional("outofplace")?.map_or(!in_place, |it| it != 0);
    if !missing.is_empty() {
        report.push(Diagnostic::warning(
            Finding::Limit,
            format!(
                "<algo> has no {}: the Azure executor refuses the file, older runtimes take it",
                missing.join(", ")
            ),
        ));
    }
    if min < 0 || max < 0 {
        let message = "minBytes and maxBytes must not be negative".to_owned();
        report.push(Diagnostic::error(Finding::OutOfRange, message));
    }
    let bytes = |it: i64| Bytes::new(u64::try_from(it).unwrap_or(0));
    Ok(Header {
        name: algo.get("name").unwrap_or("msccl").to_owned(),
        collective,
        hints: Hints {
            protocol,
            min_size: bytes(min),
            max_size: Some(bytes(max)).filter(|it| !it.is_zero()),
        },
        forms: Forms { in_place, out_of_place },
        channels,
    })
}

fn collective(text: &str, algo: &Algo, report: &mut Report) -> Result<Collective, ReadError> {
    let name = algo.needed(text, "coll", algo.get("coll"))?;
    let kind: CollectiveKind =
        name.parse().map_err(|_| unknown(text, algo, name, "is no collective that Motet knows"))?;
    if matches!(kind, CollectiveKind::AllToAllV | CollectiveKind::SendRecv) {
        return Err(unknown(text, algo, name, "says nothing of how much goes where"));
    }
    if name != kind.name() {
        report.push(Diagnostic::warning(
            Finding::Limit,
            format!("runtimes do not know coll=\"{name}\"; write \"{}\"", kind.name()),
        ));
    }
    let ranks = algo.needed(text, "ngpus", algo.number(text, "ngpus")?)?;
    let chunks = algo.needed(text, "nchunksperloop", algo.number(text, "nchunksperloop")?)?;
    let gpus = i64::try_from(algo.gpus.len()).unwrap_or(i64::MAX);
    if ranks < 1 || ranks > gpus.saturating_add(MOST_MISSING_GPUS) {
        return Err(algo.wrong(text, &format!("ngpus=\"{ranks}\", but there are {gpus} <gpu>s")));
    }
    if !(1..=MOST_CHUNKS).contains(&chunks) {
        let problem = format!("nchunksperloop=\"{chunks}\" is outside 1 to {MOST_CHUNKS}");
        return Err(algo.wrong(text, &problem));
    }
    if ranks != gpus {
        let message = format!("ngpus is {ranks}, but there are {gpus} <gpu> elements");
        report.push(Diagnostic::error(Finding::Mismatch, message));
    }
    let parts = if counts_all_parts(kind) { ranks } else { 1 };
    if chunks % parts != 0 {
        return Err(algo
            .wrong(
                text,
                &format!("nchunksperloop=\"{chunks}\" is no multiple of ngpus=\"{ranks}\""),
            )
            .with_remedy(format!("{kind} needs the same number of chunks for every rank")));
    }
    let fits = |it: i64| u32::try_from(it).unwrap_or(u32::MAX);
    let made = match kind.has_root() {
        false => Collective::new(kind, fits(ranks), fits(chunks / parts)),
        true => {
            let root = root(text, algo, kind, report)?;
            Collective::rooted(kind, fits(ranks), fits(chunks), root)
        }
    };
    made.map_err(|error| algo.wrong(text, &error.to_string()))
}

fn unknown(text: &str, algo: &Algo, name: &str, why: &str) -> ReadError {
    algo.wrong(text, &format!("coll=\"{}\" {why}", brief(name))).with_remedy(
        "allgather, reducescatter, allreduce, alltoall, broadcast, reduce, gather and scatter are \
         understood",
    )
}

/// The root: as written, or else the only rank that never receives (never sends, where data
/// flows towards the root).
fn root(
    text: &str,
    algo: &Algo,
    kind: CollectiveKind,
    report: &mut Report,
) -> Result<Rank, ReadError> {
    if let Some(root) = algo.number(text, "root")? {
        return Ok(Rank(u32::try_from(root).unwrap_or(u32::MAX)));
    }
    let inward = matches!(kind, CollectiveKind::Reduce | CollectiveKind::Gather);
    let against = |kind: XmlStepKind| match kind {
        XmlStepKind::Send => inward,
        XmlStepKind::Receive | XmlStepKind::ReceiveReduceCopy => !inward,
        XmlStepKind::Copy | XmlStepKind::Reduce | XmlStepKind::Nop => false,
        XmlStepKind::ReceiveCopySend
        | XmlStepKind::ReceiveReduceSend
        | XmlStepKind::ReceiveReduceCopySend => true,
    };
    let mut candidates = algo.gpus.iter().filter(|gpu| {
        let mut steps = gpu.blocks.iter().flat_map(|it| &it.steps);
        !steps.any(|it| against(it.kind))
    });
    let root = match (candidates.next(), candidates.next()) {
        (Some(only), None) => only.id,
        _ => {
            let message = format!(
                "the root of the {kind} does not follow from the steps; taken to be 0 (add a `root` \
                 attribute to <algo>, which runtimes pass over)"
            );
            report.push(Diagnostic::warning(Finding::Mismatch, message));
            0
        }
    };
    Ok(Rank(u32::try_from(root).unwrap_or(0)))
}
