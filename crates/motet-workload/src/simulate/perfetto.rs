//! A [`Run`] as a trace that ui.perfetto.dev opens: a process per stage, with a track of compute and one for
//! each parallelism. Slices that overlap get further tracks.

use std::collections::BTreeMap;

use motet_sim::timeline::{Slice, Trace};

use super::run::Run;
use crate::iteration::{Iteration, Phase, Work};

impl Run {
    /// The trace as JSON text. Equal runs give equal text.
    #[must_use]
    pub fn to_perfetto(&self, iteration: &Iteration, title: &str) -> String {
        let mut tracks: BTreeMap<(u32, &'static str), Vec<Slice>> = BTreeMap::new();
        for (index, (it, span)) in iteration.operations().iter().zip(self.spans()).enumerate() {
            let (track, what, bytes) = match it.work {
                Work::Compute { .. } => ("compute", phase(it.phase).to_owned(), 0),
                Work::Host(_) => ("compute", "host".to_owned(), 0),
                Work::Communicate(what) => {
                    let name = format!("{} {}", what.kind, what.bytes);
                    (what.parallelism.name(), name, what.bytes.get())
                }
            };
            let part = it.part.map_or(String::new(), |it| format!(" {it:?}"));
            let batch = it.micro_batch.map_or(String::new(), |it| format!(" batch {it}"));
            let waited = span.start.since(span.ready).as_ps();
            let args = format!(
                "{{\"operation\":{index},\"bytes\":{bytes},\"waited_ps\":{waited},\"alone_ps\":{}}}",
                span.alone.as_ps()
            );
            let name = format!("{what}{part}{batch}");
            let slice = Slice { start: span.start, end: span.end, name, args };
            tracks.entry((it.stage, track)).or_default().push(slice);
        }
        let mut trace = Trace::new(&[("step", title)]);
        let mut process = None;
        for ((stage, track), slices) in tracks {
            if process != Some(stage) {
                trace.process(stage + 1, &format!("stage {stage}"));
                process = Some(stage);
            }
            trace.tracks(stage + 1, track, slices);
        }
        trace.finish()
    }
}

const fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "forward",
        Phase::Backward => "backward",
        Phase::Weights => "weights",
        Phase::Optimizer => "optimizer",
    }
}
