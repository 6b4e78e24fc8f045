//! The last step of joining: converts the times of ranks' clocks to instants of one recording.

use std::collections::BTreeSet;

use motet_units::{Instant, Rank};

use super::error::JoinError;
use super::join::Matched;
use super::{Call, LoggedSpan, RankLog, RecordedGroup, Recording, Sighting, Span};

/// Makes the recording, with times as instants that count from the earliest event.
pub(super) fn timed(
    logs: Vec<RankLog>,
    groups: Vec<RecordedGroup>,
    matched: Vec<Matched>,
    offsets: &[i64],
    notes: BTreeSet<String>,
) -> Result<Recording, JoinError> {
    let spans = logs.iter().zip(offsets).flat_map(|(log, offset)| {
        let calls = log.calls.iter().map(|it| it.span);
        let others = log.compute.iter().chain(&log.steps).copied();
        calls.chain(others).map(|it| i128::from(it.start) + i128::from(*offset))
    });
    let first = spans.min().unwrap_or(0);
    let instant = |ns: i64, place: usize| {
        let ps = (i128::from(ns) + i128::from(offsets[place]) - first) * 1000;
        u64::try_from(ps).map(Instant::from_ps).map_err(|_| JoinError::FarApart)
    };
    let span = |it: LoggedSpan, place: usize| {
        let start = instant(it.start, place)?;
        Ok(Span { start, end: instant(it.end, place)?.max(start) })
    };
    let mut calls = Vec::with_capacity(matched.len());
    for it in matched {
        let seen = it.seen.iter().map(|seen| {
            let rank = Rank(logs[seen.place].rank);
            Ok(Sighting { rank, span: span(seen.span, seen.place)?, stream: seen.stream })
        });
        let seen = seen.collect::<Result<Vec<_>, JoinError>>()?;
        let Matched { group, kind, bytes, sender, .. } = it;
        calls.push(Call { group, kind, bytes, sender, seen });
    }
    calls.sort_by_key(|it| (it.span(), it.group));
    let (mut compute, mut steps): (Vec<Vec<Span>>, Vec<Vec<Span>>) = Default::default();
    for (place, log) in logs.iter().enumerate() {
        let of = |all: &[LoggedSpan]| {
            all.iter().map(|it| span(*it, place)).collect::<Result<Vec<_>, JoinError>>()
        };
        compute.push(merged(of(&log.compute)?));
        steps.push(of(&log.steps)?);
    }
    let ranks = logs.iter().map(|it| Rank(it.rank)).collect();
    let world = logs.iter().filter_map(|it| it.world).max();
    let notes = notes.into_iter().collect();
    Ok(Recording { ranks, world, groups, calls, compute, steps: together(&steps), notes })
}

/// Merges spans that touch or overlap.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable();
    let mut all: Vec<Span> = Vec::new();
    for span in spans {
        match all.last_mut().filter(|it| span.start <= it.end) {
            Some(last) => last.end = last.end.max(span.end),
            None => all.push(span),
        }
    }
    all
}

/// The n-th steps of all ranks merged, for as many steps as every rank has.
fn together(steps: &[Vec<Span>]) -> Vec<Span> {
    let count = steps.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).filter_map(|place| Span::around(steps.iter().map(|it| it[place]))).collect()
}
