//! [`LiveWorld`]: the world in which `motet_wan::run_in` makes its collectives when they are real ones on a testbed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use motet_collective::formats::program_json;
use motet_exec::SharedClock;
use motet_net::NetworkState;
use motet_units::{Duration, Instant, LinkId};
use motet_wan::built::{Bench, Built, RouteChoice};
use motet_wan::trigger::Costs;
use motet_wan::world::{Running, Simulated, Took};
use motet_wan::{Scenario, WanError, World};

use super::sight::{Belief, Sample, Seen, Sight};
use super::words::{FromRank, ToRank, read, write};
use crate::layout::Layout;
use crate::order::Order;

/// Sends the keeper orders and returns its answers, without their `ok`.
pub type Tell<'a> = Box<dyn FnMut(&[Order]) -> Result<Vec<String>, String> + 'a>;

/// How often the links' counters are read while a collective runs.
const LOOK: std::time::Duration = std::time::Duration::from_millis(4);
/// How long to wait for the ranks' answers. The executor ends calls long before.
const PATIENCE: Duration = Duration::from_ms(120_000);

/// The controller's end of a rank.
pub struct RankPipe {
    pub to: Box<dyn Write + Send>,
    pub from: Box<dyn Read + Send>,
}

impl std::fmt::Debug for RankPipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RankPipe")
    }
}

/// What a live run needs.
pub struct Setup<'a> {
    pub scenario: &'a Scenario<'a>,
    pub sight: Sight,
    pub tell: Tell<'a>,
    /// By rank.
    pub ranks: Vec<RankPipe>,
    pub clock: SharedClock,
    /// Where program files are put for ranks to read.
    pub folder: PathBuf,
    /// Called with the number of collectives done, after each.
    pub progress: Box<dyn Fn(u32) + 'a>,
}

impl std::fmt::Debug for Setup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Setup({} ranks)", self.ranks.len())
    }
}

/// Programs that ranks have registered, by their number; `None` where they were told to drop it. Each takes memory at the
/// ranks, for inputs and outputs.
struct Registered<T>(Vec<Option<Arc<T>>>);

impl<T> Registered<T> {
    fn number(&self, program: &Arc<T>) -> Option<u32> {
        let is = |it: &Option<Arc<T>>| it.as_ref().is_some_and(|it| Arc::ptr_eq(it, program));
        self.0.iter().position(is).map(|it| it as u32)
    }

    /// Forgets programs that nobody else holds: the hands choose among those that they hold, so such a program cannot come again. The one
    /// in force stays, because ranks run it until they switch.
    fn drop_unused(&mut self, in_force: Option<u32>) -> Vec<u32> {
        let mut dropped = Vec::new();
        for (number, program) in (0..).zip(&mut self.0) {
            let unused = program.as_ref().is_some_and(|it| Arc::strong_count(it) == 1);
            if unused && in_force != Some(number) {
                *program = None;
                dropped.push(number);
            }
        }
        dropped
    }
}

/// See the [module](self).
pub struct LiveWorld<'a> {
    setup: Setup<'a>,
    layout: Layout,
    /// The links' rates as the scenario has them vary, and the number of the state that was set last.
    truth: Simulated<'a>,
    truth_number: u64,
    /// The rates that the links are set to.
    rates: NetworkState,
    /// The rates that the controller believes in, if it measures.
    belief: Belief,
    /// The state that the run was last shown, and its number, which counts up with each change.
    shown: NetworkState,
    number: u64,
    answers: Receiver<(usize, Result<FromRank, String>)>,
    programs: Registered<Built>,
    in_force: Option<u32>,
    calls: u32,
    /// The links of each pair's route, where it was set.
    ways: BTreeMap<(u32, u32), Vec<LinkId>>,
    /// When the last collective was done.
    since: Instant,
}

impl std::fmt::Debug for LiveWorld<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveWorld({} calls)", self.calls)
    }
}

impl<'a> LiveWorld<'a> {
    /// Waits until all ranks have joined.
    pub fn new(mut setup: Setup<'a>) -> Result<Self, String> {
        let (sender, answers) = channel();
        for (rank, pipe) in setup.ranks.iter_mut().enumerate() {
            let from = std::mem::replace(&mut pipe.from, Box::new(std::io::empty()));
            let sender = sender.clone();
            std::thread::Builder::new()
                .name(format!("motet-rank-{rank}"))
                .spawn(move || listen(rank, from, &sender))
                .map_err(|it| format!("cannot listen to rank {rank}: {it}"))?;
        }
        let network = setup.scenario.network;
        let nominal = NetworkState::nominal(network);
        let mut world = Self {
            layout: Layout::new(network).map_err(|it| it.to_string())?,
            truth: Simulated::new(setup.scenario),
            truth_number: 0,
            rates: nominal.clone(),
            belief: Belief::new(network),
            shown: nominal,
            number: 0,
            answers,
            programs: Registered(Vec::new()),
            in_force: None,
            calls: 0,
            ways: BTreeMap::new(),
            since: setup.clock.now(),
            setup,
        };
        world.gather(|it| matches!(it, FromRank::Joined).then_some(()), None)?;
        // The links as they nominally are, whatever a run before this one has left.
        world.set_rates(None)?;
        world.since = world.setup.clock.now();
        Ok(world)
    }

    /// Sets links to `rates`: those that differ from what they were `before`, or all.
    fn set_rates(&mut self, before: Option<&NetworkState>) -> Result<(), String> {
        let links = self.setup.scenario.network.link_ids();
        let wan = links.filter(|it| self.layout.wire_of(*it).is_some());
        let orders: Vec<Order> = wan
            .filter(|it| {
                before.is_none_or(|before| self.rates.bandwidth(*it) != before.bandwidth(*it))
            })
            .map(|it| Order::Rate(it, self.rates.bandwidth(it)))
            .collect();
        if !orders.is_empty() {
            (self.setup.tell)(&orders)?;
        }
        Ok(())
    }

    fn say(&mut self, word: &ToRank) -> Result<(), String> {
        let line = write(word);
        for (rank, pipe) in self.setup.ranks.iter_mut().enumerate() {
            pipe.to
                .write_all(line.as_bytes())
                .and_then(|()| pipe.to.flush())
                .map_err(|it| format!("rank {rank} is gone: {it}"))?;
        }
        Ok(())
    }

    /// Waits for an answer of every rank; what links carry meanwhile goes into `samples`.
    fn gather<T>(
        &mut self,
        wanted: impl Fn(&FromRank) -> Option<T>,
        mut samples: Option<&mut Vec<Sample>>,
    ) -> Result<Vec<T>, String> {
        let mut all = Vec::new();
        let until = self.setup.clock.now() + PATIENCE;
        while all.len() < self.setup.ranks.len() {
            match self.answers.recv_timeout(LOOK) {
                Ok((rank, Ok(FromRank::Failed { why }))) => {
                    return Err(format!("rank {rank}: {why}"));
                }
                Ok((rank, Ok(word))) => match wanted(&word) {
                    Some(it) => all.push(it),
                    None => {
                        return Err(format!("rank {rank} says {word:?}, which nobody asked for"));
                    }
                },
                Ok((rank, Err(why))) => return Err(format!("rank {rank}: {why}")),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("all ranks are gone".to_owned()),
            }
            if let Some(samples) = samples.as_deref_mut() {
                samples.push(self.sample()?);
            }
            if self.setup.clock.now() > until {
                return Err(format!("ranks have said nothing for {PATIENCE}"));
            }
        }
        Ok(all)
    }

    fn sample(&mut self) -> Result<Sample, String> {
        let answers = (self.setup.tell)(&[Order::Carried])?;
        let numbers = answers.first().map_or("", String::as_str).split_ascii_whitespace();
        let numbers: Vec<u64> = numbers.filter_map(|it| it.parse().ok()).collect();
        let links = numbers.chunks_exact(3);
        let links =
            links.map(|it| Seen { link: LinkId(it[0] as u32), sent: it[1], waiting: it[2] });
        Ok(Sample { at: self.setup.clock.now(), links: links.collect() })
    }

    /// Puts the routes of a program's flows in force; true if any changed.
    fn set_routes(&mut self, built: &Built, routes: &RouteChoice) -> Result<bool, String> {
        let mut orders = Vec::new();
        for flow in built.movable() {
            let (from, to) = (built.flows()[*flow].from.0, built.flows()[*flow].to.0);
            let links: Vec<LinkId> = built.route(routes, *flow).links().collect();
            let links: Vec<LinkId> =
                links.into_iter().filter(|it| self.layout.wire_of(*it).is_some()).collect();
            if self.ways.get(&(from, to)) != Some(&links) {
                orders.push(Order::Way(from, to, links.clone()));
                self.ways.insert((from, to), links);
            }
        }
        if orders.is_empty() {
            return Ok(false);
        }
        (self.setup.tell)(&orders)?;
        Ok(true)
    }

    /// Has all ranks go over to a program with the next call; true if another was in force.
    fn set_program(&mut self, built: &Arc<Built>) -> Result<bool, String> {
        let number = match self.programs.number(built) {
            Some(number) => number,
            None => self.register(built)?,
        };
        if self.in_force == Some(number) {
            return Ok(false);
        }
        self.say(&ToRank::Switch { at: self.calls, number })?;
        self.in_force = Some(number);
        Ok(true)
    }

    fn register(&mut self, built: &Arc<Built>) -> Result<u32, String> {
        for number in self.programs.drop_unused(self.in_force) {
            self.say(&ToRank::Drop { number })?;
            // Ranks have read it, and the folder goes with the testbed anyway.
            let _ = std::fs::remove_file(self.file(number));
        }
        let number = self.programs.0.len() as u32;
        let file = self.file(number);
        let name = file.to_string_lossy().into_owned();
        std::fs::write(&file, program_json::write(&built.program))
            .map_err(|it| format!("{name}: {it}"))?;
        self.say(&ToRank::Register { number, file: name, bytes: built.size.get() })?;
        self.gather(
            |it| matches!(it, FromRank::Registered { number: its } if *its == number).then_some(()),
            None,
        )?;
        self.programs.0.push(Some(Arc::clone(built)));
        Ok(number)
    }

    /// Where ranks find a program.
    fn file(&self, number: u32) -> PathBuf {
        self.setup.folder.join(format!("program-{number}.json"))
    }

    /// Makes one collective: puts routes and program in force, has all ranks make the call, and measures what each of that took.
    fn call(&mut self, built: &Arc<Built>, routes: &RouteChoice) -> Result<Took, String> {
        let clock = Arc::clone(&self.setup.clock);
        let start = clock.now();
        let moved = self.set_routes(built, routes)?;
        let moved = self.set_program(built)? || moved;
        let pause = if moved { clock.now().since(start) } else { Duration::ZERO };
        let (call, number) = (self.calls, self.in_force);
        self.calls += 1;
        let mut samples = Vec::new();
        let measures = self.setup.sight == Sight::Measured;
        if measures {
            samples.push(self.sample()?);
        }
        self.say(&ToRank::Call { call })?;
        let ends = |word: &FromRank| match word {
            FromRank::Called { call: its, number: by, ns, wrong } if *its == call => {
                Some((*by, *ns, *wrong))
            }
            _ => None,
        };
        let all = self.gather(ends, measures.then_some(&mut samples))?;
        if all.iter().any(|it| Some(it.0) != number) {
            return Err(format!("ranks ran call {call} by different programs"));
        }
        if all.iter().any(|it| it.2 > 0) {
            return Err(format!("call {call} gave wrong elements"));
        }
        self.belief.learn(&samples);
        let slowest = all.iter().map(|it| it.1).max().unwrap_or(0);
        let time = Duration::from_ns(slowest);
        let gap = self.setup.scenario.gap;
        if !gap.is_zero() {
            std::thread::sleep(std::time::Duration::from_nanos(gap.as_ps() / 1000));
        }
        let now = clock.now();
        let elapsed = now.since(self.since).as_ps();
        self.since = now;
        let rest = elapsed.saturating_sub(time.as_ps()).saturating_sub(pause.as_ps());
        Ok(Took { time, pause, gap: Duration::from_ps(rest) })
    }
}

impl World for LiveWorld<'_> {
    fn state(&mut self, index: u32, now: Instant) -> Result<(&NetworkState, u64), WanError> {
        let failed = |problem| WanError::Failed { index, problem };
        let (truth, number) = self.truth.state(index, now)?;
        if number != self.truth_number {
            self.truth_number = number;
            let before = std::mem::replace(&mut self.rates, truth.clone());
            self.set_rates(Some(&before)).map_err(failed)?;
        }
        let seen = match self.setup.sight {
            Sight::Told => &self.rates,
            Sight::Measured => self.belief.state(),
        };
        if *seen != self.shown || self.number == 0 {
            self.shown = seen.clone();
            self.number += 1;
        }
        Ok((&self.shown, self.number))
    }

    fn next_change(&self, now: Instant) -> Option<Instant> {
        self.truth.next_change(now)
    }

    fn run(&mut self, running: Running<'_>, _: &mut Bench) -> Result<Option<Took>, WanError> {
        let took = self.call(running.built, running.routes);
        (self.setup.progress)(running.index + 1);
        let problem = |problem| WanError::Failed { index: running.index, problem };
        took.map(Some).map_err(problem)
    }

    /// No cost is charged for moves: what they take is measured.
    fn pause(&self, _: Costs) -> Duration {
        Duration::ZERO
    }

    fn is_ideal(&self) -> bool {
        false
    }
}

/// Reads what a rank says until it is gone.
fn listen(
    rank: usize,
    from: Box<dyn Read + Send>,
    sender: &Sender<(usize, Result<FromRank, String>)>,
) {
    for line in BufReader::new(from).lines() {
        let word = line.map_err(|it| it.to_string()).and_then(|it| read(&it));
        if sender.send((rank, word)).is_err() {
            return;
        }
    }
    // The controller may be done with it; then nobody hears this.
    let _ = sender.send((rank, Err("it has ended".to_owned())));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_nobody_has_are_dropped_and_numbers_stay() {
        let mut all: Vec<Arc<u8>> = (0..4).map(Arc::new).collect();
        let mut programs = Registered(all.iter().cloned().map(Some).collect());
        assert!(programs.drop_unused(Some(3)).is_empty());
        let last = all.pop().map(|it| Arc::downgrade(&it));
        all.remove(1);
        // The last is in force although nobody chooses among it any more.
        assert_eq!(programs.drop_unused(Some(3)), [1]);
        assert!(last.is_some_and(|it| it.upgrade().is_some()));
        assert_eq!((programs.number(&all[0]), programs.number(&all[1])), (Some(0), Some(2)));
        assert_eq!(programs.drop_unused(Some(0)), [3]);
        assert!(programs.drop_unused(None).is_empty() && programs.0.len() == 4);
    }
}
