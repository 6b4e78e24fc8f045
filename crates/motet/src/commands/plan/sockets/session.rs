//! [`Session`]: one rank's side of the measurements.

use motet_collective::CollectiveKind;
use motet_exec::check::Data;
use motet_exec::{Call, Element, ExecError, Group, Operation, Reduction, SharedClock};
use motet_synth::{Goal, Method, for_sockets, unknown_network};
use motet_tune::measure::Race;
use motet_tune::sockets::{Candidate, Trial};
use motet_units::{Bytes, Duration, Instant, Seed};

use crate::commands::exec::{failure, run::call};
use crate::failure::Failure;

/// One rank of a group that measures. All ranks do the same, and decide by numbers that they have agreed on.
pub(super) struct Session {
    group: Group,
    /// The greatest of a number over all ranks.
    greatest: Operation,
    clock: SharedClock,
    begun: Instant,
    budget: Duration,
}

/// A candidate that was not timed.
pub(super) fn untried(candidate: &Candidate) -> Trial {
    Trial {
        method: candidate.method.clone(),
        simulated_ps: candidate.simulated.as_ps(),
        times_ps: Vec::new(),
        wrong: false,
    }
}

impl Session {
    pub(super) fn new(
        mut group: Group,
        clock: SharedClock,
        budget: Duration,
    ) -> Result<Self, Failure> {
        let ranks = group.ranks();
        let network = unknown_network(ranks).map_err(Failure::from)?;
        let wrong = |it: String| Failure::wrong(it);
        let goal =
            Goal::new(CollectiveKind::AllReduce, ranks).map_err(|it| wrong(it.to_string()))?;
        let (size, seed) = (Bytes::new(8), Seed::new(1));
        let made = for_sockets(&network, false, &goal, size, Method::Auto, seed);
        let program = made.map_err(|it| wrong(it.to_string()))?.program;
        let call = Call {
            element: Element::U64,
            elements: 1,
            reduction: Reduction::Max,
            in_place: program.forms().in_place,
        };
        let greatest = group.register(&program, call).map_err(|it| failure(&it))?;
        let begun = clock.now();
        Ok(Self { group, greatest, clock, begun, budget })
    }

    /// The greatest that any rank says.
    fn greatest(&mut self, number: u64) -> Result<u64, ExecError> {
        let input = self.greatest.input_mut().ok_or(ExecError::Busy)?;
        input.copy_from_slice(&number.to_ne_bytes());
        self.greatest.run()?;
        let output = self.greatest.output().ok_or(ExecError::Busy)?;
        let output = output.try_into().map_err(|_| ExecError::Internal("eight bytes"))?;
        Ok(u64::from_ne_bytes(output))
    }

    /// Whether the budget is spent, by the clock of the rank whose says so first.
    pub(super) fn is_spent(&mut self) -> Result<bool, ExecError> {
        let spent = self.clock.now().since(self.begun) >= self.budget;
        Ok(self.greatest(u64::from(spent))? > 0)
    }

    /// Times candidates by turns: which is to be taken, and what came of each.
    pub(super) fn race(
        &mut self,
        all: &[Candidate],
        size: Bytes,
        seed: Seed,
    ) -> Result<(usize, Vec<Trial>), ExecError> {
        let mut trials: Vec<Trial> = all.iter().map(untried).collect();
        let mut racing: Vec<(usize, Operation)> = Vec::new();
        for (place, (candidate, trial)) in all.iter().zip(&mut trials).enumerate() {
            let program = &candidate.program;
            let call = call(Element::F32, Reduction::Sum, program, size);
            let mut operation = self.group.register(program, call)?;
            let data = Data::new(program.collective(), call, seed);
            data.fill(self.group.rank(), operation.input_mut().ok_or(ExecError::Busy)?);
            operation.run()?;
            let output = operation.output().ok_or(ExecError::Busy)?;
            let (wrong, _) = data.wrong(self.group.rank(), output);
            trial.wrong = self.greatest(wrong)? > 0;
            if !trial.wrong {
                racing.push((place, operation));
            }
        }
        let mut race = Race::new(racing.len());
        while !racing.is_empty() {
            let mut times = Vec::new();
            for number in race.round() {
                times.push(self.timed(racing.get_mut(number).map(|it| &mut it.1))?);
            }
            race.add(&times);
            if race.is_over() || race.rounds() >= 2 && self.is_spent()? {
                break;
            }
        }
        for (number, (place, _)) in racing.iter().enumerate() {
            trials[*place].times_ps = race.times(number).iter().map(|it| it.as_ps()).collect();
        }
        let winner = race.winner().unwrap_or(0);
        // None is right: nobody has this number.
        let chosen = racing.get(winner).map_or(all.len(), |it| it.0);
        Ok((chosen, trials))
    }

    /// How long one call takes the slowest rank.
    fn timed(&mut self, operation: Option<&mut Operation>) -> Result<Duration, ExecError> {
        let operation = operation.ok_or(ExecError::Internal("no such candidate"))?;
        self.group.barrier()?;
        let start = self.clock.now();
        operation.run()?;
        let took = self.clock.now().since(start);
        Ok(Duration::from_ps(self.greatest(took.as_ps())?))
    }
}
