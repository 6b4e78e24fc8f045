//! [`for_sockets`]: the program to run between processes, by `motet exec`, the C library and
//! `motet plan --backend tcp` alike.

use motet_collective::CollectiveKind;
use motet_net::Network;
use motet_net::builders::{self, Params, TemplateError};
use motet_units::{Bytes, Seed};

use crate::auto::{Synthesis, synthesize};
use crate::effort::Effort;
use crate::method::Method;
use crate::one_sum::sums_once;
use crate::task::{Goal, SynthError, Task};

/// A network for ranks of which nothing is known: each is joined to every other, all alike, so that programs are direct
/// ones.
pub fn unknown_network(ranks: u32) -> Result<Network, TemplateError> {
    // A program for one rank needs no links, but a network with ranks has some.
    let (name, gpus) = if ranks < 2 { ("ring", 3) } else { ("full-mesh", ranks) };
    builders::find(name)?.build(&Params::from_words([format!("gpus={gpus}")])?)
}

/// Makes the program for a goal. `known` says whether the network's figures are real ones, or the network is
/// [`unknown_network`]'s.
///
/// An AllReduce by `auto` gives all ranks the same bits ([`sums_once`]); a method that was asked for by name may not.
///
/// The same arguments give the same program, so ranks that are given the same need not tell each other.
pub fn for_sockets(
    network: &Network,
    known: bool,
    goal: &Goal,
    size: Bytes,
    method: Method,
    seed: Seed,
) -> Result<Synthesis, SynthError> {
    let task = Task::new(network, goal.clone(), size);
    let effort = Effort::normal(seed);
    let make = |method| synthesize(&task, method, &effort).and_then(|it| it.prove(&task));
    let made = make(method)?;
    let made = match method {
        Method::Auto if goal.kind() == CollectiveKind::AllReduce => one_sum(made, make),
        _ => made,
    };
    // On ideal links sums first and copies after take as long as both at once, up and down trees. On real ones they
    // do not: with nothing between the two halves, no rank waits for the slowest part of the first (BENCHMARKS.md).
    if goal.kind() == CollectiveKind::AllReduce
        && known
        && matches!(method, Method::Auto)
        && let Ok(trees) = make(Method::Packing)
        && sums_once(&trees.program)
        && trees.time.as_ps() / 50 <= made.time.as_ps() / 49
    {
        return Ok(trees);
    }
    Ok(made)
}

/// The program itself, if it gives all ranks the same bits, or the fastest other one that does. Direct programs, which let every rank
/// add up everything itself, do not, and are faster by one latency at small sizes.
fn one_sum(made: Synthesis, make: impl Fn(Method) -> Result<Synthesis, SynthError>) -> Synthesis {
    if sums_once(&made.program) {
        return made;
    }
    let others = [Method::Forest, Method::Packing].into_iter().chain("ring".parse());
    let others = others.filter_map(|it| make(it).ok()).filter(|it| sums_once(&it.program));
    // Every network that ranks can reduce on has a ring.
    others.min_by_key(|it| it.time).unwrap_or(made)
}
