//! [`Manifest`]: a line of the harness's manifest, which says what to do with one plan of MSCCL++
//! (`benches/mscclpp/README.md`).

use std::fmt;

use motet_collective::CollectiveKind;
use serde::Serialize;

/// A plan that the harness shall load and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest<'a> {
    /// The plan's name; its file is the name and `.json`, beside the manifest.
    pub id: String,
    pub collective: CollectiveKind,
    pub ranks: u32,
    /// Sizes of call to measure.
    pub bytes: &'a [u64],
    pub in_place: bool,
}

#[derive(Serialize)]
struct Line<'a> {
    file: String,
    id: &'a str,
    collective: &'a str,
    ranks: u32,
    bytes: &'a [u64],
    source: &'a str,
    r#do: &'a str,
    forms: [&'a str; 1],
}

impl fmt::Display for Manifest<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = Line {
            file: format!("{}.json", self.id),
            id: &self.id,
            collective: self.collective.name(),
            ranks: self.ranks,
            bytes: self.bytes,
            source: "motet",
            r#do: "time",
            forms: [if self.in_place { "in" } else { "out" }],
        };
        // A struct of words and numbers always has a JSON form.
        out.write_str(&serde_json::to_string(&line).unwrap_or_default())
    }
}
