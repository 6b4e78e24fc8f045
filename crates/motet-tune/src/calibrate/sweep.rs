//! Which plans are worth measuring: every pattern over slices, threads and forms, at sizes from 1 KiB to
//! 64 MiB, so that every term of the model matters somewhere.

use motet_collective::CollectiveKind;
use motet_collective::formats::mscclpp_json;
use motet_synth::one_sided::{Pattern, Shape};
use rayon::prelude::*;

use super::entry::{Entry, LARGEST_PACKETS};
use super::manifest::Manifest;

const KINDS: [CollectiveKind; 4] = [
    CollectiveKind::AllGather,
    CollectiveKind::ReduceScatter,
    CollectiveKind::AllReduce,
    CollectiveKind::AllToAll,
];

/// Numbers of slices: powers of two. With others, slices begin in the middle of cache lines, whose cost has no term in
/// the model.
const SLICES: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Over ports every slice is a post of its own for each peer, and a proxy does one after the other.
const SLICES_OVER_PORTS: [u32; 4] = [1, 2, 4, 8];
/// Fewer than 512 threads were never best.
const THREADS: [u32; 2] = [512, 1024];

/// Peers per block that stand for all peers, as sweeps have at most this many ranks.
const ALL_PEERS: u32 = 8;

/// The least bytes that a block has of every part.
const LEAST_PART: u64 = 64;
/// Calls from this size on are measured only with at least [`SLICES_OF_LARGE`] slices; otherwise one plan would take
/// as long to measure as a hundred others.
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

impl SweepPlan {
    /// The line of the harness's manifest.
    #[must_use]
    pub fn manifest(&self) -> Manifest<'_> {
        Manifest {
            id: self.entry.to_string(),
            collective: self.entry.kind,
            ranks: self.entry.ranks,
            bytes: &self.sizes,
            in_place: self.entry.in_place,
        }
    }
}

/// Entries of a sweep, in a fixed order; not all of them fit a GPU. With `gpus_per_server`, those whose packets
/// go over ports between servers of that many ranks; they need more ranks than one server has.
#[must_use]
pub fn entries(ranks: &[u32], gpus_per_server: Option<u32>) -> Vec<Entry> {
    let all_slices = gpus_per_server.map_or(&SLICES[..], |_| &SLICES_OVER_PORTS[..]);
    let mut entries = Vec::new();
    for ranks in ranks {
        for kind in KINDS {
            for pattern in Pattern::ALL.into_iter().filter(|it| it.does(kind)) {
                for threads in THREADS {
                    for slices in all_slices {
                        let with = |it: Entry| {
                            let shape = Shape { gpus_per_server, ..it.shape };
                            Entry { kind, ranks: *ranks, threads, shape, ..it }
                        };
                        entries.extend(shapes(kind, *ranks, pattern, *slices).map(with));
                    }
                }
            }
        }
    }
    entries.retain(Entry::is_possible);
    entries
}

/// The entries of a pattern with this number of slices: all shapes and forms that differ. Threads are filled in by the
/// caller.
fn shapes(
    kind: CollectiveKind,
    ranks: u32,
    pattern: Pattern,
    slices: u32,
) -> impl Iterator<Item = Entry> {
    let copies = matches!(kind, CollectiveKind::AllGather | CollectiveKind::AllToAll);
    // A direct sum is one block's whatever it is asked for.
    let spreads = ranks > 2 && (copies || pattern.has_packets()) && pattern != Pattern::Rails;
    let some = (spreads && ranks > 4).then_some(2);
    let peers = [Some(ALL_PEERS.max(ranks)), some, spreads.then_some(1)].into_iter().flatten();
    let entry = move |(peers_per_block, apart, in_place)| Entry {
        kind,
        ranks,
        shape: Shape { pattern, slices, peers_per_block, apart, gpus_per_server: None },
        in_place,
        threads: 0,
    };
    peers
        .flat_map(move |peers| [false, true].map(|apart| (peers, apart)))
        .filter(move |it| pattern.has_packets() || !it.1)
        .flat_map(|(peers, apart)| [false, true].map(|in_place| (peers, apart, in_place)))
        .map(entry)
}

/// The plans of a sweep, where so many ranks share a GPU (`None`: all of them), without those that do not
/// fit or that no size suits; `gpus_per_server` as for [`entries`]. Always the same for the same ranks.
#[must_use]
pub fn plans(
    ranks: &[u32],
    ranks_per_gpu: Option<u32>,
    gpus_per_server: Option<u32>,
) -> Vec<SweepPlan> {
    let make = |entry: Entry| {
        let text = entry.plan(ranks_per_gpu.unwrap_or(entry.ranks))?;
        let outline = mscclpp_json::outline(&text).ok()??;
        if outline.most_blocks() != entry.blocks() {
            return None;
        }
        // Where ranks are no power of two, the largest size below one that divides.
        let whole =
            |it: u64| if entry.ranks.is_power_of_two() { it } else { it - it % outline.divisor };
        let mut sizes: Vec<u64> = (5..=13)
            .map(|it| whole(outline.largest.get().min(1 << (2 * it))))
            .filter(|it| *it % outline.divisor == 0 && suits(&entry, *it))
            .collect();
        sizes.dedup();
        (!sizes.is_empty()).then_some(SweepPlan { entry, text, sizes })
    };
    entries(ranks, gpus_per_server).into_par_iter().filter_map(make).collect()
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
        let over_ports = entries(&[2, 4, 8], Some(2));
        assert!(over_ports.iter().all(|it| it.ranks > 2 && it.shape.pattern.has_packets()));
        assert!(over_ports.len() > 100, "{}", over_ports.len());
        let mut entries = entries(&[2, 4, 8], None);
        entries.extend(over_ports);
        assert!(entries.iter().all(Entry::is_possible));
        let names: BTreeSet<String> = entries.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), entries.len());
        assert!(names.iter().all(|it| Entry::of_name(it).is_some()));
    }

    #[test]
    fn plans_are_what_their_names_say() {
        let plans = plans(&[2], None, None);
        assert!((150..500).contains(&plans.len()), "{}", plans.len());
        let first = plans[0].manifest().to_string();
        let line = "{\"file\":\"allgather-2-direct-s1-p8-t512.json\",\
                    \"id\":\"allgather-2-direct-s1-p8-t512\",\"collective\":\"allgather\",\"ranks\":2,\
                    \"bytes\":[1024,4096,16384,65536,262144,1048576],\"source\":\"motet\",\"do\":\"time\",\
                    \"forms\":[\"out\"]}";
        assert_eq!(first, line);
    }

    #[test]
    fn sizes_divide_by_odd_ranks() {
        let name = "allgather-3-packets-s1-p8-g1-t512";
        let plans = plans(&[3], None, Some(1));
        let plan = plans.iter().find(|it| it.entry.to_string() == name).unwrap();
        assert_eq!(plan.sizes[..2], [1008, 4080]);
        for plan in plans {
            let outline = mscclpp_json::outline(&plan.text).unwrap().unwrap();
            let fits =
                |it: &u64| *it <= outline.largest.get() && it.is_multiple_of(outline.divisor);
            assert!(plan.sizes.iter().all(fits), "{}: {:?}", plan.entry, plan.sizes);
        }
    }

    #[test]
    fn a_sweep_is_not_too_long() {
        let fit = entries(&[2, 4, 8], None).into_iter().filter(|it| it.fits(it.ranks)).count();
        assert!((1000..=1500).contains(&fit), "{fit}");
    }
}
