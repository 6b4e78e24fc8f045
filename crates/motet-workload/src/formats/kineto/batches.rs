//! The messages of a batch: PyTorch's `batch_isend_irecv`, which pipelines use, runs as one kernel that says
//! neither partner nor size.
//!
//! The host's events say them. On the thread that launches the kernel, every message has a
//! `record_param_comms` of its own; then comes the span `nccl:coalesced`, in which the one kernel is
//! launched. So the messages of a kernel are found by way of its launch (the same `correlation`), the span
//! around the launch, and the messages between the previous span and this one.

use std::collections::{BTreeMap, BTreeSet};

use super::json::{Args, Event, File, Key};
use crate::formats::pytorch::{Told, told};
use crate::recording::Nanoseconds;

/// The arguments of batches' messages, by their kernels' `correlation`.
pub(super) struct Batches<'a>(BTreeMap<i64, Vec<&'a Args<'a>>>);

/// What one thread of the host did, in the order of the file.
#[derive(Default)]
struct Thread<'a> {
    messages: Vec<(Nanoseconds, &'a Args<'a>)>,
    /// The spans `nccl:coalesced`: from when to when messages were put together.
    spans: Vec<(Nanoseconds, Nanoseconds)>,
    /// The launches of batches: when, and the kernel's `correlation`.
    launches: Vec<(Nanoseconds, i64)>,
}

/// Whether a kernel may be one of a batch.
pub(super) fn is_batch(kernel: &Event<'_>) -> bool {
    let says = kernel.args.as_ref().is_some_and(|it| it.get(Key::Collective).is_some());
    !says && kernel.name().starts_with("nccl") && kernel.name().contains("SendRecv")
}

impl<'a> Batches<'a> {
    pub(super) fn new(file: &'a File<'a>) -> Self {
        let kernels = || file.events.iter().filter(|it| it.is("kernel"));
        let number = |it: &Event<'a>, key| it.args.as_ref()?.number::<i64>(key);
        let batches: BTreeSet<i64> = kernels()
            .filter(|it| is_batch(it))
            .filter_map(|it| number(it, Key::Correlation))
            .collect();
        if batches.is_empty() {
            return Self(BTreeMap::new());
        }
        // Messages that have a kernel of their own are in no batch.
        let alone: BTreeSet<i64> = kernels()
            .filter(|it| it.name().starts_with("nccl"))
            .filter_map(|it| number(it, Key::ExternalId))
            .collect();
        let mut threads: BTreeMap<&str, Thread<'a>> = BTreeMap::new();
        for event in &file.events {
            // Only differences of times matter here, so they may count from any moment.
            let (Some(thread), Some(span)) = (event.tid, event.span(0)) else { continue };
            let correlation = number(event, Key::Correlation).filter(|it| batches.contains(it));
            if event.name() == "nccl:coalesced" && event.is("user_annotation") {
                threads.entry(thread.get()).or_default().spans.push((span.start, span.end));
            } else if let Some(correlation) = correlation
                && (event.is("cuda_runtime") || event.is("cuda_driver"))
            {
                let launch = (span.start, correlation);
                threads.entry(thread.get()).or_default().launches.push(launch);
            } else if event.name() == "record_param_comms"
                && let Some(args) = &event.args
                && is_message(args)
                && number(event, Key::ExternalId).is_none_or(|it| !alone.contains(&it))
            {
                threads.entry(thread.get()).or_default().messages.push((span.start, args));
            }
        }
        Self(threads.into_values().flat_map(Thread::batches).collect())
    }

    /// The messages of a kernel; `None` if the trace does not have them.
    pub(super) fn of(&self, kernel: &Args<'_>) -> Option<&[&'a Args<'a>]> {
        let correlation = kernel.number(Key::Correlation)?;
        self.0.get(&correlation).map(Vec::as_slice).filter(|it| !it.is_empty())
    }
}

fn is_message(args: &Args<'_>) -> bool {
    let name = args.text(Key::Collective);
    matches!(name.as_deref().and_then(told), Some(Told::Send | Told::Receive))
}

impl<'a> Thread<'a> {
    fn batches(mut self) -> impl Iterator<Item = (i64, Vec<&'a Args<'a>>)> {
        self.spans.sort_unstable();
        self.messages.sort_by_key(|it| it.0);
        let Self { messages, spans, launches } = self;
        launches.into_iter().filter_map(move |(time, correlation)| {
            let place = spans.partition_point(|it| it.0 <= time).checked_sub(1)?;
            let (start, end) = spans[place];
            let before = place.checked_sub(1).map(|it| spans[it].0);
            let first = messages.partition_point(|it| before.is_some_and(|before| it.0 <= before));
            let last = messages.partition_point(|it| it.0 <= start);
            let found = messages.get(first..last)?.iter().map(|it| it.1).collect();
            (time <= end).then_some((correlation, found))
        })
    }
}
