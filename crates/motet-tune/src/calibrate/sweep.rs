//! Which plans are worth measuring: every pattern over slices, threads and forms, at sizes from 1 KiB to
//! 64 MiB, so that every term of the model matters somewhere.

use motet_collective::CollectiveKind;
use motet_collective::formats::mscclpp_json;
use motet_synth::one_sided::{Pattern, Shape};
use rayon::prelude::*;
use serde::Serialize;

use super::entry::Entry;

const KINDS: [CollectiveKind; 4] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
];

/// Powers of two. What other numbers take besides, where slices begin in the middle of cache lines, has no
/// term in the model.
const SLICES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Fewer than 512 threads were never best.
const THREADS: [u32; 2] = [512, 1024];

/// As many peers as a thread block can have here: all of them.
const ALL_PEERS: u32 = 8;

/// Packets are for small calls: above this they are not measured.
const LARGEST_PACKETS: u64 = 4 << 20;
/// A block has at least so many bytes of every part,
const LEAST_PART: u64 = 64;
/// and large calls at least so many slices, or one plan takes as long as a hundred others.
const LARGE: u64 = 4 << 20;
const SLICES_OF_LARGE: u32 = 4;

/// A plan with its line in the harness's manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepPlan {
    pub entry: Entry,
    pub text: String,
    /// Sizes of call to measure.
    pub sizes: Vec<u64>,
}

#[derive(Serialize)]
struct Line<'a> {
    file: String,
    id: String,
    collective: &'a str,
    ranks: u32,
    bytes: &'a [u64],
    source: &'a str,
    r#do: &'a str,
    forms: [&'a str; 1],
}

impl SweepPlan {
    /// The line of the manifest (`benches/mscclpp/README.md`); the file is the name and `.json`.
    #[must_use]
    pub fn manifest_line(&self) -> String {
        let id = self.entry.to_string();
        let line = Line {
            file: format!("{id}.json"),
            id,
            collective: self.entry.kind.name(),
            ranks: self.entry.ranks,
            bytes: &self.sizes,
            source: "motet",
            r#do: "time",
            forms: [self.entry.form()],
        };
        // A struct of words and numbers always has a JSON form.
        serde_json::to_string(&line).unwrap_or_default()
    }
}

/// Entries of a sweep, in a fixed order; not all of them fit a GPU.
#[must_use]
pub fn entries(ranks: &[u32]) -> Vec<Entry> {
    let mut entries = Vec::new();
    for ranks in ranks {
        for kind in KINDS {
            for pattern in Pattern::ALL.into_iter().filter(|it| it.does(kind)) {
                for threads in THREADS {
                    for slices in SLICES {
                        let with = |it| Entry { kind, ranks: *ranks, threads, ..it };
                        entries.extend(shapes(kind, *ranks, pattern, slices).map(with));
                    }
                }
            }
        }
    }
    entries
}

/// Shapes and forms in which a pattern differs.
fn shapes(
    kind: CollectiveKind,
    ranks: u32,
    pattern: Pattern,
    slices: u32,
) -> impl Iterator<Item = Entry> {
    let copies = matches!(kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
    // A direct sum is one block's whatever it is asked for.
    let spreads = ranks > 2 && (copies || pattern.has_packets());
    let some = (spreads && ranks > 4).then_some(2);
    let peers = [Some(ALL_PEERS.max(ranks)), some, spreads.then_some(1)].into_iter().flatten();
    let entry = move |(peers_per_block, apart, in_place)| Entry {
        kind,
        ranks,
        shape: Shape { pattern, slices, peers_per_block, apart },
        in_place,
        threads: 0,
    };
    peers
        .flat_map(move |peers| [false, true].map(|apart| (peers, apart)))
        .filter(move |it| pattern.has_packets() || !it.1)
        .flat_map(|(peers, apart)| [false, true].map(|in_place| (peers, apart, in_place)))
        .map(entry)
        .filter(|it| !it.in_place || it.shape.serves_in_place(it.kind, it.ranks))
}

/// The plans of a sweep, where so many ranks share a GPU (`None`: all of them), without those that do not
/// fit or that no size suits. Always the same for the same ranks.
#[must_use]
pub fn plans(ranks: &[u32], ranks_per_gpu: Option<u32>) -> Vec<SweepPlan> {
    let make = |entry: Entry| {
        let text = entry.plan(ranks_per_gpu.unwrap_or(entry.ranks))?;
        let outline = mscclpp_json::outline(&text).ok()??;
        if outline.most_blocks() != entry.blocks() {
            return None;
        }
        let sizes: Vec<u64> = (5..=13)
            .map(|it| 1u64 << (2 * it))
            .filter(|it| *it % outline.divisor == 0 && suits(&entry, *it))
            .collect();
        (!sizes.is_empty()).then_some(SweepPlan { entry, text, sizes })
    };
    entries(ranks).into_par_iter().filter_map(make).collect()
}

/// Whether a size is worth measuring.
const fn suits(entry: &Entry, size: u64) -> bool {
    let Shape { pattern, slices, .. } = entry.shape;
    let part = size / slices as u64 / entry.ranks as u64;
    part >= LEAST_PART
        && (!pattern.has_packets() || size <= LARGEST_PACKETS)
        && (size < LARGE || slices >= SLICES_OF_LARGE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_entry_is_possible_and_its_own() {
        let entries = entries(&[2, 4, 8]);
        assert!(entries.iter().all(Entry::is_possible));
        let names: BTreeSet<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), entries.len());
        assert!(names.iter().all(|it| Entry::of_name(it).is_some()));
    }

    #[test]
    fn plans_are_what_their_names_say() {
        let plans = plans(&[2], None);
        assert!((150..500).contains(&plans.len()), "{}", plans.len());
        let first = plans[0].manifest_line();
        let line = "{\"file\":\"allgather-2-direct-s1-p8-t512.json\",\
                    \"id\":\"allgather-2-direct-s1-p8-t512\",\"collective\":\"allgather\",\"ranks\":2,\
                    \"bytes\":[1024,4096,16384,65536,262144,1048576],\"source\":\"motet\",\"do\":\"time\",\
                    \"forms\":[\"out\"]}";
        assert_eq!(first, line);
    }

    #[test]
    fn a_sweep_is_not_too_long() {
        let fit = entries(&[2, 4, 8]).into_iter().filter(|it| it.fits(it.ranks)).count();
        assert!((1000..=1500).contains(&fit), "{fit}");
    }
}
