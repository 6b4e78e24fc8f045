//! AllReduce whose servers exchange their sums, so that data crosses between them as few times as can be.
//!
//! Each GPU sums up a share of the data inside its server. Then GPUs in the same position of the servers send each
//! other their sums and add what they get. At last every GPU spreads its share inside its server. Trees that have one
//! root, as [`super::hierarchical`]'s, cross between servers twice, there and back. Between two servers the exchange
//! sends the same bytes as they do and crosses once: as good for large data, and a latency better for small. Between more
//! servers it sends more, and pays for small data only.
//!
//! Everything is in slices, which follow each other through the three parts.

use motet_collective::{Action, Buffer, Slot, Transfer};
use motet_units::Rank;

use super::levels::{Group, divisions, nest};
use super::plan::explained;
use super::steps::{Steps, alike};
use crate::fabric::Fabric;
use crate::lower::Lowered;
use crate::task::{SynthError, Task};

/// Slices that are tried after one, fewest first, until more of them gain nothing.
const SLICES: [u32; 5] = [4, 16, 32, 64, 128];
/// Programs with more transfers are not made.
const MOST_TRANSFERS: usize = 1 << 17;
/// Between more servers, whole sums are too much to exchange.
const MOST_SERVERS: usize = 8;

/// How servers exchange their sums.
#[derive(Clone, Copy)]
enum Exchange {
    /// Every server sends to every other at once: one crossing.
    AtOnce,
    /// Recursive doubling: a crossing for each doubling, with fewer bytes than [`Self::AtOnce`].
    Doubling,
}

pub(super) fn make(task: &Task<'_>, fabric: &Fabric) -> Result<Lowered, SynthError> {
    let servers = servers(task, fabric)?;
    let mut best: Option<Lowered> = None;
    for exchange in [Exchange::AtOnce, Exchange::Doubling] {
        // Between two servers both are the same.
        let doubles = servers.len() > 2 && servers.len().is_power_of_two();
        if matches!(exchange, Exchange::AtOnce) || doubles {
            let made = sliced_best(task, fabric, &servers, exchange)?;
            if best.as_ref().is_none_or(|it| made.makespan < it.makespan) {
                best = Some(made);
            }
        }
    }
    best.ok_or_else(|| SynthError::not_for("exchanged", "there is no rank"))
}

/// With as many slices as are best.
fn sliced_best(
    task: &Task<'_>,
    fabric: &Fabric,
    servers: &[Vec<Rank>],
    exchange: Exchange,
) -> Result<Lowered, SynthError> {
    let made =
        |slices| sliced(task, fabric, servers, exchange, slices).map_err(|it| explained(task, it));
    let mut best = made(1)?;
    for slices in SLICES {
        let whole = u64::from(slices) * servers[0].len() as u64 <= task.size.get();
        if !whole || transfers(servers, slices) > MOST_TRANSFERS {
            break;
        }
        let next = made(slices)?;
        if best.makespan <= next.makespan {
            break;
        }
        best = next;
    }
    Ok(best)
}

/// The ranks of each server, which must be of one size.
fn servers(task: &Task<'_>, fabric: &Fabric) -> Result<Vec<Vec<Rank>>, SynthError> {
    let not = |why: &str| Err(SynthError::not_for("exchanged", why));
    let all = divisions(task, fabric);
    let Some(finest) = all.first() else {
        return not("the ranks are not in several servers");
    };
    let Group { parts, .. } = nest(fabric.rank_count(), &[finest]);
    let servers: Vec<Vec<Rank>> = parts.into_iter().map(|it| it.members).collect();
    if servers.len() > MOST_SERVERS {
        return not("there are more than 8 servers");
    }
    if servers.iter().any(|it| it.len() != servers[0].len()) {
        return not("servers have different numbers of ranks");
    }
    Ok(servers)
}

/// An upper estimate of how many transfers the program has.
fn transfers(servers: &[Vec<Rank>], slices: u32) -> usize {
    let (count, size) = (servers.len(), servers[0].len());
    count * size * (2 * size + count) * slices as usize
}

fn sliced(
    task: &Task<'_>,
    fabric: &Fabric,
    servers: &[Vec<Rank>],
    exchange: Exchange,
    slices: u32,
) -> Result<Lowered, SynthError> {
    let size = servers[0].len();
    let chunks = size as u32 * slices;
    let mut steps = Steps::new(task, fabric, task.goal.collective(chunks)?, 0);
    // Slice by slice, every position of a server has a share.
    let chunk = |slice: u32, place: usize| slice * size as u32 + place as u32;
    let shares = |slice: u32| (0..size).map(move |place| (place, chunk(slice, place)));
    for slice in 0..slices {
        let own = servers.iter().flat_map(|server| {
            shares(slice).map(|(place, chunk)| {
                let rank = server[place];
                Transfer::copy(Slot::input(rank, chunk), Slot::output(rank, chunk), 1)
            })
        });
        steps.step(&own.collect::<Vec<_>>())?;
        // Each turn every rank sends to another one and gets from another one.
        for turn in 1..size {
            let sums = servers.iter().flat_map(|server| {
                shares(slice).map(move |(place, chunk)| {
                    let from = server[(place + turn) % size];
                    let (src, dst) = (Slot::input(from, chunk), Slot::output(server[place], chunk));
                    Transfer { action: Action::Reduce, src, dst, count: 1, path: None }
                })
            });
            steps.step(&sums.collect::<Vec<_>>())?;
        }
    }
    // Each step says which server every server sends to, as pairs of numbers.
    let count = servers.len();
    let crossings: Vec<Vec<(usize, usize)>> = match exchange {
        Exchange::AtOnce => {
            let turns =
                (1..count).flat_map(|turn| (0..count).map(move |it| (it, (it + turn) % count)));
            vec![turns.collect()]
        }
        Exchange::Doubling => {
            let bits = (0..count.ilog2()).map(|it| 1 << it);
            bits.map(|bit| (0..count).map(|it| (it, it ^ bit)).collect()).collect()
        }
    };
    for slice in 0..slices {
        for crossing in &crossings {
            let sent = crossing.iter().flat_map(|&(from, to)| {
                shares(slice).map(move |(place, chunk)| {
                    let pair = (servers[from][place], servers[to][place]);
                    alike(Action::Reduce, pair, Buffer::Output, chunk, 1)
                })
            });
            steps.step(&sent.collect::<Vec<_>>())?;
        }
    }
    for slice in 0..slices {
        for turn in 1..size {
            let copies = servers.iter().flat_map(|server| {
                shares(slice).map(move |(place, chunk)| {
                    let pair = (server[place], server[(place + turn) % size]);
                    alike(Action::Copy, pair, Buffer::Output, chunk, 1)
                })
            });
            steps.step(&copies.collect::<Vec<_>>())?;
        }
    }
    Ok(steps.finish())
}
