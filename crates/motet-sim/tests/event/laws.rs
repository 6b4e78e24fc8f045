//! Laws that every run keeps, over random programs, networks, sizes, options and changes: the
//! equations of the model link by link, bytes conserved, no link above capacity, causality, and
//! equal results from equal inputs.

use std::collections::BTreeMap;

use motet_collective::{Event, Program, TransferId, Verified};
use motet_net::{LinkChange, Network, NetworkState, StateEvent, StateTrace};
use motet_sim::{Discipline, Outcome, Prepared, Routed, SimOptions, Simulation, run_many};
use motet_units::{Bandwidth, Bytes, Instant, LinkId};
use proptest::prelude::*;

use crate::support::{Log, Told, any_network, any_options, any_program, any_switches, run};

const PS_PER_S: u128 = 1_000_000_000_000;
const RANKS: u32 = 5;

/// Changes within the time that runs take; at the end every link is up and has bandwidth.
fn any_changes() -> impl Strategy<Value = Vec<(u64, usize, LinkChange)>> {
    let change = prop_oneof![
        (0u64..6)
            .prop_map(|it| LinkChange::Bandwidth(Bandwidth::from_bits_per_s(it * 700_000_001))),
        Just(LinkChange::Down),
        Just(LinkChange::Up),
    ];
    prop::collection::vec((0u64..300_000_000, 0usize..64, change), 0..40)
}

fn trace(network: &Network, changes: &[(u64, usize, LinkChange)]) -> StateTrace {
    let links = network.links().len();
    let event = |at: u64, link: usize, change| StateEvent {
        at: Instant::from_ps(at),
        link: LinkId::from_index(link % links),
        change,
    };
    let mut events: Vec<StateEvent> =
        changes.iter().map(|(at, link, change)| event(*at, *link, *change)).collect();
    if !events.is_empty() {
        for link in 0..links {
            let rate = LinkChange::Bandwidth(Bandwidth::gbit_per_s(1));
            events.push(event(300_000_000, link, LinkChange::Up));
            events.push(event(300_000_000, link, rate));
        }
    }
    StateTrace::new(network, events).unwrap()
}

/// A crossing as an observer saw it.
#[derive(Clone, Debug, Default)]
struct Seen {
    start: Option<u64>,
    streamed: Option<u64>,
    finish: Option<u64>,
    bytes: u64,
}

/// What an observer saw, by crossing (transfer and hop) and by event.
struct Record {
    crossings: BTreeMap<(u32, u32), Seen>,
    happened: Vec<u64>,
}

impl Record {
    /// Checks on the way that times never go back, nothing happens twice, and nothing before what
    /// it waits for.
    fn new(routed: &Routed<'_>, log: &Log) -> Result<Self, TestCaseError> {
        let mut crossings: BTreeMap<(u32, u32), Seen> = BTreeMap::new();
        let mut happened: Vec<Option<u64>> = vec![None; routed.graph().events()];
        let mut now = 0;
        for (at, told) in &log.0 {
            prop_assert!(at.as_ps() >= now);
            now = at.as_ps();
            let mut happens = |event: Event| {
                let first = happened[event.index()].replace(now).is_none();
                let preds = routed.graph().preds(event.index());
                first && preds.iter().all(|it| happened[*it as usize].is_some())
            };
            match told {
                Told::Sent(id) => prop_assert!(happens(id.sent())),
                Told::Arrived(id) => prop_assert!(happens(id.arrived())),
                Told::Started { link, transfers, hop, bytes } => {
                    let hops = routed.hops(transfers[0].index());
                    prop_assert_eq!(hops[*hop as usize].link, *link);
                    let seen = crossings.entry((transfers[0].0, *hop)).or_default();
                    prop_assert!(seen.start.replace(now).is_none());
                    seen.bytes = bytes.get();
                }
                Told::Streamed { transfers, hop } => {
                    let seen = crossings.entry((transfers[0].0, *hop)).or_default();
                    prop_assert!(seen.start.is_some() && seen.streamed.replace(now).is_none());
                }
                Told::Finished { transfers, hop, .. } => {
                    let seen = crossings.entry((transfers[0].0, *hop)).or_default();
                    prop_assert!(seen.streamed.is_some() && seen.finish.replace(now).is_none());
                }
                Told::Rate { .. } | Told::Changed(..) => {}
            }
        }
        let happened: Option<Vec<u64>> = happened.into_iter().collect();
        prop_assert!(happened.is_some(), "an event never happened");
        Ok(Self { crossings, happened: happened.unwrap() })
    }

    /// When the last of what an event waits for happened, or the start.
    fn after_preds(&self, routed: &Routed<'_>, event: Event, start: u64) -> u64 {
        let preds = routed.graph().preds(event.index()).iter();
        preds.map(|it| self.happened[*it as usize]).max().unwrap_or(start)
    }
}

/// What a link carries from `from` to `to`, in bits × [`PS_PER_S`], by walking the trace.
fn carried(trace: &StateTrace, state: &NetworkState, link: LinkId, from: u64, to: u64) -> u128 {
    let mut state = state.clone();
    let mut cursor = trace.cursor();
    let (mut sum, mut at) = (0, from);
    cursor.advance(&mut state, Instant::from_ps(from));
    while at < to {
        let until = cursor.next_at().map_or(to, |it| it.as_ps().min(to));
        sum += u128::from(state.bandwidth(link).bits_per_s()) * u128::from(until - at);
        at = until;
        cursor.advance(&mut state, Instant::from_ps(at));
    }
    sum
}

/// A crossing that wants a link: what decides the order of turns (head if FIFO, place in program
/// order, hop), whose it is, and its head.
type Turn = ((u64, usize, u32), TransferId, u64);

/// A crossing under fair sharing: its link, its rate, since when, the sum of rate × time before,
/// and how long that was.
type Metered = (LinkId, u64, u64, u128, u128);

struct Case<'a> {
    routed: &'a Routed<'a>,
    trace: StateTrace,
    options: SimOptions,
    chunk: u64,
}

impl Case<'_> {
    /// The model's equations for links that one transfer takes at a time.
    fn check_exclusive(&self, record: &Record, outcome: &Outcome) -> Result<(), TestCaseError> {
        let (routed, network) = (self.routed, self.routed.network());
        let begin = self.options.launch.as_ps();
        let mut turns: BTreeMap<LinkId, Vec<Turn>> = BTreeMap::new();
        let order = routed.sequence().iter().filter(|it| it.is_sent()).map(|it| it.transfer());
        for (place, id) in order.enumerate() {
            let mut before: Option<(u64, u64)> = None;
            for (number, hop) in routed.hops(id.index()).iter().enumerate() {
                let seen = &record.crossings[&(id.0, number as u32)];
                let (start, finish) = (seen.start.unwrap(), seen.finish.unwrap());
                let streamed = seen.streamed.unwrap();
                let (head, tail) = match before {
                    None => (record.after_preds(routed, id.sent(), begin), 0),
                    Some((_, last)) if hop.starts_segment => (last, 0),
                    Some((first, last)) => (first, last),
                };
                let work = u128::from(seen.bytes) * 8 * PS_PER_S;
                let enough = |at| self.carried(hop.link, start, at) >= work;
                prop_assert!(enough(streamed));
                prop_assert!(streamed == start || !enough(streamed - 1));
                prop_assert_eq!(finish, streamed.max(tail));
                let by_head = if self.options.discipline == Discipline::Fifo { head } else { 0 };
                let turn = ((by_head, place, number as u32), id, head);
                turns.entry(hop.link).or_default().push(turn);
                let latency = network.link(hop.link).spec.latency.as_ps();
                before = Some((start + latency, finish + latency));
                if number == 0 {
                    prop_assert_eq!(record.happened[id.sent().index()], finish);
                }
            }
            if let Some((_, reached)) = before {
                let waits = record.after_preds(routed, id.arrived(), 0);
                prop_assert_eq!(record.happened[id.arrived().index()], reached.max(waits));
            }
        }
        for (link, turns) in &mut turns {
            turns.sort_unstable();
            self.check_link(*link, turns, record, outcome)?;
        }
        Ok(())
    }

    /// A link takes each as soon as it is there and the one before has had its time, and so is
    /// never above its capacity: starts are at least β apart; what it has taken was busy no longer
    /// than has passed, and is no more than what it could carry since its first start.
    fn check_link(
        &self,
        link: LinkId,
        turns: &[Turn],
        record: &Record,
        outcome: &Outcome,
    ) -> Result<(), TestCaseError> {
        let (mut first, mut free, mut busy, mut work) = (None, 0, 0, 0);
        for ((_, _, number), id, head) in turns {
            let seen = &record.crossings[&(id.0, *number)];
            let (start, streamed) = (seen.start.unwrap(), seen.streamed.unwrap());
            prop_assert_eq!(start, (*head).max(free));
            prop_assert!(start >= free && streamed >= start);
            free = streamed;
            let first = *first.get_or_insert(start);
            busy += streamed - start;
            prop_assert!(busy <= streamed - first);
            work += u128::from(seen.bytes) * 8 * PS_PER_S;
            prop_assert!(work <= self.carried(link, first, streamed));
        }
        prop_assert_eq!(outcome.links[link.index()].busy.as_ps(), busy);
        prop_assert!(outcome.utilization(link) <= 1.0);
        Ok(())
    }

    /// What a link can carry from `from` to `to`.
    fn carried(&self, link: LinkId, from: u64, to: u64) -> u128 {
        let state = NetworkState::nominal(self.routed.network());
        carried(&self.trace, &state, link, from, to)
    }

    /// Fair sharing: rates within what links have, and what they add up to is what was carried.
    fn check_fair(&self, record: &Record, log: &Log) -> Result<(), TestCaseError> {
        let network = self.routed.network();
        let mut state = NetworkState::nominal(network);
        let mut cursor = self.trace.cursor();
        let mut rates: BTreeMap<(u32, u32), Metered> = BTreeMap::new();
        for instant in log.0.chunk_by(|a, b| a.0 == b.0) {
            let now = instant[0].0.as_ps();
            cursor.advance(&mut state, instant[0].0);
            for (_, told) in instant {
                let (link, key, rate) = match told {
                    Told::Started { link, transfers, hop, .. } => (link, (transfers[0].0, *hop), 0),
                    Told::Rate { link, transfers, hop, rate } => {
                        (link, (transfers[0].0, *hop), rate.bits_per_s())
                    }
                    Told::Finished { link, transfers, hop, .. } => {
                        (link, (transfers[0].0, *hop), 0)
                    }
                    _ => continue,
                };
                let entry = rates.entry(key).or_insert((*link, 0, now, 0, 0));
                entry.3 += u128::from(entry.1) * u128::from(now - entry.2);
                entry.4 += u128::from(now - entry.2);
                (entry.1, entry.2) = (rate, now);
            }
            let mut used = vec![0u128; network.links().len()];
            for (link, rate, ..) in rates.values() {
                used[link.index()] += u128::from(*rate);
            }
            for link in network.link_ids() {
                prop_assert!(used[link.index()] <= u128::from(state.bandwidth(link).bits_per_s()));
            }
        }
        for (key, seen) in &record.crossings {
            let work = u128::from(seen.bytes) * 8 * PS_PER_S;
            let (link, _, _, sum, lasted) = rates[key];
            // Told rates are rounded down to whole bit/s, and the end up to whole picoseconds.
            prop_assert!(sum + lasted >= work);
            let most = u128::from(network.link(link).spec.bandwidth.bits_per_s()) + 4_000_000_000;
            prop_assert!(sum < work + most);
            prop_assert!(seen.finish >= seen.start && seen.streamed == seen.finish);
        }
        Ok(())
    }

    /// Every transfer crosses every link of its way once, with all its bytes; sums agree.
    fn check_bytes(&self, record: &Record, outcome: &Outcome) -> Result<(), TestCaseError> {
        let mut bytes = vec![0u64; outcome.links.len()];
        let mut crossings = 0;
        for (index, transfer) in self.routed.program().transfers().iter().enumerate() {
            for (number, hop) in self.routed.hops(index).iter().enumerate() {
                let seen = &record.crossings[&(index as u32, number as u32)];
                prop_assert_eq!(seen.bytes, u64::from(transfer.count) * self.chunk);
                prop_assert!(seen.finish.is_some());
                bytes[hop.link.index()] += seen.bytes;
                crossings += 1;
            }
        }
        prop_assert_eq!(crossings, record.crossings.len());
        let counted: Vec<u64> = outcome.links.iter().map(|it| it.bytes.get()).collect();
        prop_assert_eq!(counted, bytes);
        let last = record.happened.iter().copied().max().unwrap_or(self.options.launch.as_ps());
        prop_assert_eq!(outcome.time.as_ps(), last);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_run_keeps_the_laws(
        program in any_program(RANKS),
        network in any_network(RANKS as usize, false),
        options in any_options(),
        switches in any_switches(),
        size in 1u64..150_000,
        changes in prop_oneof![Just(Vec::new()), any_changes()],
    ) {
        let routed = Routed::new(&program, &network, switches).unwrap();
        let prepared = Prepared::new(&routed);
        let trace = trace(&network, &changes);
        let simulation = || {
            let simulation = Simulation::new(&prepared, Bytes::new(size)).options(options);
            // A run without changes takes another way through the engine than one with none left.
            if changes.is_empty() { simulation } else {
                simulation.changes(trace.events().iter().copied())
            }
        };
        let (mut log, mut again) = (Log::default(), Log::default());
        let outcome = simulation().run_with(&mut log).unwrap();
        prop_assert_eq!(&outcome, &simulation().run_with(&mut again).unwrap());
        prop_assert_eq!(&log, &again);
        let silent = simulation().run().unwrap();
        prop_assert_eq!((silent.time, &silent.links), (outcome.time, &outcome.links));
        prop_assert!(silent.events <= outcome.events);
        let record = Record::new(&routed, &log)?;
        let case = Case { routed: &routed, trace: trace.clone(), options, chunk: outcome.chunk.get() };
        case.check_bytes(&record, &outcome)?;
        if options.discipline == Discipline::FairShare {
            case.check_fair(&record, &log)?;
        } else {
            case.check_exclusive(&record, &outcome)?;
        }
    }

    /// More bandwidth never makes a run in program order later.
    #[test]
    fn more_bandwidth_is_never_later(
        program in any_program(RANKS),
        network in any_network(RANKS as usize, false),
        size in 1u64..150_000,
        more in prop::collection::vec(0u64..3_000_000_000, 40),
        changes in any_changes(),
    ) {
        let routed = Routed::new(&program, &network, Default::default()).unwrap();
        let prepared = Prepared::new(&routed);
        let time = |more: &[u64]| {
            let mut state = NetworkState::nominal(&network);
            let add = |link: LinkId, rate: Bandwidth| {
                rate.saturating_add(Bandwidth::from_bits_per_s(more[link.index() % more.len()]))
            };
            for link in network.link_ids() {
                state.set_bandwidth(link, add(link, state.bandwidth(link)));
            }
            let changes = trace(&network, &changes);
            let changes = changes.events().iter().map(|it| match it.change {
                LinkChange::Bandwidth(rate) => {
                    StateEvent { change: LinkChange::Bandwidth(add(it.link, rate)), ..*it }
                }
                _ => *it,
            });
            let changes: Vec<StateEvent> = changes.collect();
            Simulation::new(&prepared, Bytes::new(size)).state(&state).changes(changes).run()
        };
        prop_assert!(time(&more).unwrap().time <= time(&[0]).unwrap().time);
    }
}

/// Many runs at once give, in order, what single runs give.
#[test]
fn many_runs_are_single_runs() {
    let network = crate::support::template("ring", &["gpus=6"]);
    let program: Verified<Program> =
        crate::support::verified(crate::programs::ring_all_reduce(6, 1));
    let routed = Routed::new(&program, &network, Default::default()).unwrap();
    let prepared = Prepared::new(&routed);
    let sizes: Vec<Bytes> = (0..200).map(|it| Bytes::new(it * 1013)).collect();
    let simulations = sizes.iter().map(|it| Simulation::new(&prepared, *it)).collect();
    let many: Vec<_> = run_many(simulations);
    for (size, outcome) in sizes.iter().zip(&many) {
        assert_eq!(outcome, &run(&program, &network, *size, SimOptions::default()));
    }
    assert_eq!(many.len(), sizes.len());
}
