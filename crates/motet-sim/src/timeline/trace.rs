//! [`Trace`]: spans on tracks as Chrome's JSON, which ui.perfetto.dev opens.
//!
//! Used for runs of collectives (`perfetto`) and, by `motet-workload`, for steps of training jobs.
//!
//! Times are microseconds with nanosecond digits, which is the viewer's resolution. The viewer
//! rounds start and duration separately, and drops spans that overlap as a result. Here start and
//! end are rounded instead, so spans that do not overlap never will; the exact picoseconds are
//! among the arguments.

use std::fmt::Write as _;

use motet_units::Instant;

use super::rows::rows;

/// A span on a track: its time, the name that the viewer shows, and its details.
#[derive(Clone, Debug)]
pub struct Slice {
    pub start: Instant,
    pub end: Instant,
    /// Written as it is, so it must not contain characters that JSON escapes.
    pub name: String,
    /// The details, as a JSON object.
    pub args: String,
}

/// A trace in the making. Tracks are numbered across all processes, since a viewer may take equal numbers in
/// two processes for one thread, and from 1, since it takes 0 for the idle thread.
#[derive(Debug, Default)]
pub struct Trace {
    text: String,
    events: usize,
    tracks: u32,
}

impl Trace {
    /// An empty trace; `about` are names and values that the file gives as metadata.
    #[must_use]
    pub fn new(about: &[(&str, &str)]) -> Self {
        let about: Vec<String> =
            about.iter().map(|(name, it)| format!("{}:{}", quoted(name), quoted(it))).collect();
        let text = format!(
            "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{{}}},\"traceEvents\":[\n",
            about.join(",")
        );
        Self { text, events: 0, tracks: 0 }
    }

    /// The JSON text.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text.push_str("\n]}\n");
        self.text
    }

    fn event(&mut self, json: std::fmt::Arguments<'_>) {
        self.text.push_str(if self.events == 0 { "" } else { ",\n" });
        self.events += 1;
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(json);
    }

    /// Names a process, under which tracks are gathered.
    pub fn process(&mut self, pid: u32, name: &str) {
        self.event(format_args!(
            "{{\"ph\":\"M\",\"pid\":{pid},\"name\":\"process_name\",\"args\":{{\"name\":\"{name}\"}}}}"
        ));
    }

    /// Writes spans on as many tracks as they need so that none overlap, at least one; returns the number of
    /// the first track.
    pub fn tracks(&mut self, pid: u32, title: &str, mut slices: Vec<Slice>) -> u32 {
        slices.sort_by_key(|it| (it.start, it.end));
        let rows = rows(slices.iter().map(|it| (it.start, it.end)));
        let first = self.tracks + 1;
        for row in 0..rows.iter().max().map_or(1, |it| it + 1) {
            self.tracks += 1;
            let tid = self.tracks;
            let name = if row == 0 { title.to_owned() } else { format!("{title} +{row}") };
            self.event(format_args!(
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_name\",\
                 \"args\":{{\"name\":{}}}}}",
                quoted(&name)
            ));
            self.event(format_args!(
                "{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"thread_sort_index\",\
                 \"args\":{{\"sort_index\":{tid}}}}}"
            ));
        }
        for (slice, row) in slices.iter().zip(rows) {
            let Slice { start, end, name, args } = slice;
            self.event(format_args!(
                "{{\"ph\":\"X\",\"pid\":{pid},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":\"{name}\",\
                 \"args\":{{\"start_ps\":{},\"dur_ps\":{},{}}}",
                first + row as u32,
                microseconds(nanoseconds(*start)),
                microseconds(nanoseconds(*end) - nanoseconds(*start)),
                start.as_ps(),
                end.since(*start).as_ps(),
                args.trim_start_matches('{'),
            ));
        }
        first
    }

    /// Writes a mark at one instant on a track.
    pub fn instant(&mut self, pid: u32, tid: u32, at: Instant, name: &str, args: &str) {
        self.event(format_args!(
            "{{\"ph\":\"i\",\"s\":\"t\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"name\":\"{name}\",\
             \"args\":{args}}}",
            microseconds(nanoseconds(at))
        ));
    }
}

/// Rounded to the nearest nanosecond.
fn nanoseconds(at: Instant) -> u64 {
    (at.as_ps() / 1000) + u64::from(at.as_ps() % 1000 >= 500)
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

/// A text as a JSON string.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
