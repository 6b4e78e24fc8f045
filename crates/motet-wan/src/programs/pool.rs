//! The programs that a [`Rebuilder`](super::Rebuilder) chooses from.

use motet_collective::{CollectiveKind, Program, Verified};
use motet_net::NetworkState;
use motet_synth::forest::{self, ForestOptions, Room};
use motet_synth::{
    Edge, Effort, Fabric, Forest, Lowering, Method, PairForest, PathTable, Repairer, SynthError,
    Task, Tree, Trees, synthesize,
};
use motet_units::{Rank, Stream};
use rand::RngExt;

use super::permute::permuted;
use crate::built::Built;
use crate::error::WanError;
use crate::route_table::RouteTable;
use crate::scenario::{Asked, Scenario};

/// Limit of transfers per program of the pool, because a rebuild simulates every program of the pool.
const MOST_TRANSFERS: u64 = 2000;

/// How many random orders of ranks [`Strength::Remap`](crate::Strength::Remap) offers.
const ORDERS: usize = 32;

fn task<'a>(scenario: &Scenario<'a>, asked: &Asked) -> Task<'a> {
    // Routes change under these programs, and turns are for the routes they were made for.
    Task::new(scenario.network, asked.goal.clone(), asked.size).by_numbers()
}

/// The program that every mode starts with. It is made by the method that the scenario names. If it names
/// none, it is a ring in rank order that passes whole chunks (Xiong et al.: NCCL, store and forward at GPUs),
/// or a direct exchange for point-to-point collectives, which have no ring.
pub(crate) fn base(
    scenario: &Scenario<'_>,
    asked: &Asked,
    table: &mut RouteTable<'_>,
) -> Result<Built, WanError> {
    let task = task(scenario, asked);
    let split = scenario.routes.split;
    let trees = matches!(
        asked.goal.kind(),
        CollectiveKind::AllGather
            | CollectiveKind::ReduceScatter
            | CollectiveKind::AllReduce
            | CollectiveKind::Broadcast
            | CollectiveKind::Reduce
    );
    match scenario.programs.base {
        None if trees => {
            let program = ring(&task, table)?;
            Ok(Built::new("ring", prove(program, &task)?, asked.size, table, split)?)
        }
        method => {
            let method = method.unwrap_or(Method::Exchange);
            made(scenario, &task, method, asked, table)
        }
    }
}

fn prove(program: Program, task: &Task<'_>) -> Result<Verified<Program>, SynthError> {
    Verified::new(program, Some(task.network))
        .map_err(|it| SynthError::Wrong { method: "base", report: it.report.to_string() })
}

/// A program by a method, for the network as it nominally is.
fn made(
    scenario: &Scenario<'_>,
    task: &Task<'_>,
    method: Method,
    asked: &Asked,
    table: &mut RouteTable<'_>,
) -> Result<Built, WanError> {
    let effort = Effort { most_transfers: MOST_TRANSFERS, ..Effort::unlimited(scenario.seed) };
    let found = synthesize(task, method, &effort)?.prove(task)?;
    let name = found.method.name();
    Ok(Built::new(name, found.program, asked.size, table, scenario.routes.split)?)
}

/// A program made by `method`, each flow of which is split into `split` parts; `None` if the method has none
/// for the task.
pub(crate) fn by_method(
    scenario: &Scenario<'_>,
    asked: &Asked,
    table: &mut RouteTable<'_>,
    method: Method,
    split: u32,
) -> Result<Option<Built>, WanError> {
    let task = task(scenario, asked);
    let effort = Effort { most_transfers: MOST_TRANSFERS, ..Effort::unlimited(scenario.seed) };
    let Some(found) = if_possible(synthesize(&task, method, &effort))? else { return Ok(None) };
    let program = found.prove(&task)?.program;
    Ok(Some(Built::new(method.name(), program, asked.size, table, split)?))
}

/// The ring in rank order, one chunk at a time.
fn ring(task: &Task<'_>, table: &mut RouteTable<'_>) -> Result<Program, WanError> {
    let fabric = Fabric::new(task)?;
    let ranks = task.goal.ranks();
    let kind = task.goal.kind();
    let roots: Vec<Rank> = match task.goal.root() {
        Some(root) => vec![root],
        None => (0..ranks).map(Rank).collect(),
    };
    let spread = along_ring(&roots, ranks, table, false)?;
    let collect = along_ring(&roots, ranks, table, true)?;
    let pairs = PairForest::of(&collect, &spread);
    let trees = match kind {
        CollectiveKind::AllReduce => Trees::Both(&pairs),
        CollectiveKind::ReduceScatter | CollectiveKind::Reduce => Trees::Collect(&collect),
        _ => Trees::Spread(&spread),
    };
    Ok(Lowering::new(task, &fabric, trees)?.with_slices(1)?.program)
}

/// One chain per root around the ring. The chain goes to the next higher rank and carries data away from the
/// root; if `turned`, it goes to the next lower rank and carries data into the root. Data moves toward higher
/// ranks either way.
fn along_ring(
    roots: &[Rank],
    ranks: u32,
    table: &mut RouteTable<'_>,
    turned: bool,
) -> Result<Forest, WanError> {
    let mut paths = PathTable::default();
    let mut trees = Vec::new();
    for root in roots {
        let mut edges = Vec::new();
        for step in 0..ranks.saturating_sub(1) {
            let at =
                |it: u32| Rank(if turned { root.0 + 2 * ranks - it } else { root.0 + it } % ranks);
            let (from, to) = (at(step), at(step + 1));
            // Data of a chain that collects flows from `to` to `from`.
            let (a, b) = if turned { (to, from) } else { (from, to) };
            let routes = table.between(a, b);
            let Some(route) = routes.first() else {
                return Err(motet_sim::RouteError::NoPath { from: a, to: b }.into());
            };
            let mut links: Vec<_> = route.links().collect();
            if turned {
                links.reverse();
            }
            edges.push(Edge { from, to, path: paths.number(&links) });
        }
        trees.push(Tree { root: *root, weight: 1, edges });
    }
    Ok(Forest { paths: paths.into_paths(), trees })
}

/// The base program with its ranks in [`ORDERS`] random orders. Datacenters are shuffled, and ranks within
/// each, so that ranks of one datacenter stay together and the WAN is crossed no more often.
pub(super) fn remapped(
    scenario: &Scenario<'_>,
    base: &Built,
    table: &mut RouteTable<'_>,
) -> Result<Vec<Built>, WanError> {
    let mut stream = scenario.seed.stream("orders");
    let ranks = base.program.collective().ranks();
    let network = scenario.network;
    let dc = |rank: Rank| network.node(network.ranks()[rank.index()]).location.dc.clone();
    let mut groups: Vec<(Option<String>, Vec<Rank>)> = Vec::new();
    for rank in (0..ranks).map(Rank) {
        match groups.iter_mut().find(|it| it.0 == dc(rank)) {
            Some(group) => group.1.push(rank),
            None => groups.push((dc(rank), vec![rank])),
        }
    }
    let mut found: Vec<Built> = Vec::new();
    for _ in 0..ORDERS {
        shuffle(&mut groups, &mut stream);
        for group in &mut groups {
            shuffle(&mut group.1, &mut stream);
        }
        let order: Vec<Rank> = groups.iter().flat_map(|it| it.1.iter().copied()).collect();
        let Some(program) = permuted(&base.program, &order) else { continue };
        let program = Verified::new(program, Some(network))
            .map_err(|it| SynthError::Wrong { method: "remap", report: it.report.to_string() })?;
        found.push(Built::new("remap", program, base.size, table, scenario.routes.split)?);
    }
    Ok(found)
}

fn shuffle<T>(list: &mut [T], stream: &mut Stream) {
    for last in (1..list.len()).rev() {
        list.swap(last, stream.random_range(0..=last));
    }
}

/// Programs that motet-synth makes for the network.
pub(super) fn synthesized(
    scenario: &Scenario<'_>,
    asked: &Asked,
    table: &mut RouteTable<'_>,
) -> Result<Vec<Built>, WanError> {
    let task = task(scenario, asked);
    let kind = asked.goal.kind();
    // Leave out methods that only try others, that need a symmetric network, or that take longer than a run.
    let not = |it: &Method| matches!(it, Method::Auto | Method::Symmetric);
    let worth = |it: &Method| it.does(kind) && !not(it);
    let mut found = Vec::new();
    for method in Method::all().filter(worth) {
        match made(scenario, &task, method, asked, table) {
            Ok(built) if built.program.transfers().len() as u64 > 2 * MOST_TRANSFERS => {}
            Ok(built) => found.push(built),
            Err(WanError::Synth(SynthError::NotForMethod { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    if Method::Forest.does(kind) {
        found.extend(other_forests(scenario, &task, asked, table, &found)?);
    }
    Ok(found)
}

/// Variants of the spanning forest that is fastest on the nominal network, which use more or less of the links' bandwidth. They are
/// tried because a program's nominal time does not tell how well its routes can be changed.
fn other_forests(
    scenario: &Scenario<'_>,
    task: &Task<'_>,
    asked: &Asked,
    table: &mut RouteTable<'_>,
    known: &[Built],
) -> Result<Vec<Built>, WanError> {
    let options = ForestOptions { most_transfers: MOST_TRANSFERS };
    let mut found: Vec<Built> = Vec::new();
    for room in [Room::All, Room::Needed] {
        let Some(lowered) = if_possible(forest::synthesize_in(task, options, room))? else {
            continue;
        };
        let same = |it: &Built| it.program.transfers() == lowered.program.transfers();
        if known.iter().chain(&found).any(same) {
            continue;
        }
        let program = Verified::new(lowered.program, Some(scenario.network))
            .map_err(|it| SynthError::Wrong { method: "forest", report: it.report.to_string() })?;
        let split = scenario.routes.split;
        found.push(Built::new(Method::Forest.name(), program, asked.size, table, split)?);
    }
    Ok(found)
}

/// Makes programs for one particular state; `None` if programs of this collective cannot be repaired.
pub(super) fn repairer<'a>(
    scenario: &Scenario<'a>,
    asked: &Asked,
) -> Result<Option<Repairer<'a>>, WanError> {
    let made = if_possible(Repairer::new(&task(scenario, asked)))?;
    Ok(made.map(|it| it.most_transfers(MOST_TRANSFERS)))
}

/// The program repaired for `state`; `None` if that is not possible, as when `state` cuts the
/// network. A repaired program that does not verify is a fault in Motet, and an error.
pub(super) fn repaired(
    repairer: &Repairer<'_>,
    state: &NetworkState,
    asked: &Asked,
    table: &mut RouteTable<'_>,
    split: u32,
) -> Result<Option<Built>, WanError> {
    let Some(lowered) = if_possible(repairer.repair(state))? else { return Ok(None) };
    let program = Verified::new(lowered.program, Some(table.network()))
        .map_err(|it| SynthError::Wrong { method: "repair", report: it.report.to_string() })?;
    Ok(Some(Built::new("repair", program, asked.size, table, split)?))
}

/// Turns "this method does not apply here" into `None`; all other errors stay errors.
pub(crate) fn if_possible<T>(made: Result<T, SynthError>) -> Result<Option<T>, SynthError> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(SynthError::NotForMethod { .. } | SynthError::Impossible(_) | SynthError::TooLong) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
