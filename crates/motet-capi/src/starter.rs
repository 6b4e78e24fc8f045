//! [`Starter`]: the thread that starts calls, one after the other: finds an operation or registers one, lends it the buffers (or copies the
//! input in), and goes on.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use motet_exec::{
    Call as Registration, Config, ExecError, Group, Input, Operation, Output, Reduction,
};
use motet_units::Duration;

use crate::cache::{Cache, Choice};
use crate::call::Call;
use crate::communicator::{clock, note};
use crate::completion::Completion;
use crate::error::CommError;
use crate::finisher::{Flight, Landed};
use crate::programs::Programs;
use crate::standing::{Belongs, Standing};

/// A call as it was asked for.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) completion: Completion,
}

/// What the thread is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    Call(Request),
    Survivors { grace: Duration, reply: Sender<Result<(), CommError>> },
}

/// Which rank of how many this is; it changes when the group goes on with fewer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    /// The number that each rank had when the group began.
    pub(crate) first: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Starter {
    /// `None` before it is joined, and once it cannot go on.
    pub(crate) group: Option<Group>,
    pub(crate) place: Arc<Mutex<Place>>,
    pub(crate) programs: Programs,
    pub(crate) cache: Cache,
    /// Calls that were started, for the finisher.
    pub(crate) flights: Sender<Flight>,
    /// Operations whose calls have ended, from the finisher.
    pub(crate) landed: Receiver<Landed>,
    /// How many operations the finisher has.
    pub(crate) under_way: usize,
    /// Why no call is started any more.
    pub(crate) failed: Option<CommError>,
    pub(crate) standing: Arc<Standing>,
}

impl Starter {
    /// Joins the group, unless the communicator is left before, or nobody will come to the pair that this is.
    pub(crate) fn join(
        &mut self,
        config: &Config,
        belongs: Option<&Belongs>,
    ) -> Result<(), CommError> {
        let standing = Arc::clone(&self.standing);
        let lost = || belongs.and_then(Belongs::lost);
        let abandoned = || standing.is_leaving() || lost().is_some();
        match Group::join_unless(config, clock(), note(), &abandoned) {
            Ok(group) => {
                standing.joined(&group);
                self.group = Some(group);
                Ok(())
            }
            Err(error) => {
                // The group that the pair belongs to knows who is gone, and why.
                let error = lost().unwrap_or_else(|| match error {
                    ExecError::Abandoned => CommError::left(),
                    error => error.into(),
                });
                standing.over(&error);
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Serves until the communicator is dropped.
    pub(crate) fn run(mut self, jobs: &Receiver<Job>) {
        for job in jobs {
            if self.standing.is_leaving() {
                // Dropping the job's completion reports that the group was left.
                continue;
            }
            match job {
                Job::Call(request) => self.serve(request),
                Job::Survivors { grace, reply } => {
                    // Who asked may have gone.
                    let _ = reply.send(self.survivors(grace));
                }
            }
        }
    }

    fn serve(&mut self, request: Request) {
        while let Ok(landed) = self.landed.try_recv() {
            self.land(landed);
        }
        let Request { call, input, output, completion } = request;
        match self.start(&call, input, output) {
            Ok((at, operation)) => {
                self.under_way += 1;
                let flight = Flight { call, at, operation, completion };
                // The finisher ends only after this thread has, so it is there.
                let _ = self.flights.send(flight);
            }
            Err(error) => {
                if error.fatal && self.failed.is_none() {
                    self.failed = Some(error.clone());
                }
                completion.end(Err(error));
            }
        }
    }

    fn start(
        &mut self,
        call: &Call,
        input: Input,
        output: Output,
    ) -> Result<(usize, Operation), CommError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let at = match self.cache.choose(call) {
            Choice::Known(at) => at,
            Choice::New => self.register(call)?,
        };
        let mut operation = loop {
            if let Some(operation) = self.cache.take(call, at) {
                break operation;
            }
            self.wait_for_one()?;
        };
        if let Err(error) = operation.start_on(input, output) {
            // It is not under way.
            self.cache.give_back(call, at, operation);
            return Err(error.into());
        }
        Ok((at, operation))
    }

    /// Registers an operation for a call, and returns its number among those of its sort.
    fn register(&mut self, call: &Call) -> Result<usize, CommError> {
        let ranks = self.ranks();
        let bytes = (call.part() as u64).saturating_mul(u64::from(ranks));
        while let Some(old) = self.cache.too_many(bytes) {
            while self.cache.is_under_way(&old) {
                self.wait_for_one()?;
            }
            self.cache.remove(&old);
        }
        let program = match self.cache.program(call) {
            Some(program) => program.clone(),
            None => self.programs.choose(call)?,
        };
        let registration = Registration {
            element: call.element,
            elements: call.count,
            reduction: call.kind.reduction().unwrap_or(Reduction::Sum),
            in_place: Call::in_place(&program),
        };
        let group = self.group.as_mut().ok_or_else(CommError::left)?;
        let operation = group.register(&program, registration)?;
        Ok(self.cache.add(*call, program, bytes, operation))
    }

    fn ranks(&self) -> u32 {
        self.group.as_ref().map_or(0, Group::ranks)
    }

    /// Waits until one more call has ended; an error if none can be started any more.
    fn wait_for_one(&mut self) -> Result<(), CommError> {
        let landed = self.landed.recv().map_err(|_| CommError::fault("a thread has ended"))?;
        self.land(landed);
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Takes back the operation of a call that has ended.
    fn land(&mut self, landed: Landed) {
        self.under_way -= 1;
        if self.failed.is_none() {
            self.failed = landed.failed.filter(|it| it.fatal);
        }
        self.cache.give_back(&landed.call, landed.at, landed.operation);
    }

    /// Goes on with those that are left.
    fn survivors(&mut self, grace: Duration) -> Result<(), CommError> {
        let group = self.group.take().ok_or_else(CommError::left)?;
        // Joins the others anew; calls that are under way end with an error.
        let group = group.survivors(grace).map_err(|error| {
            let error = CommError::from(error);
            self.standing.over(&error);
            error
        })?;
        self.standing.joined(&group);
        while self.under_way > 0 {
            let landed = self.landed.recv().map_err(|_| CommError::fault("a thread has ended"))?;
            self.land(landed);
        }
        self.cache.clear();
        self.programs.keep(group.members())?;
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |it: &u32| place.first.get(*it as usize).copied();
        let first = group.members().iter().filter_map(of).collect();
        *place = Place { rank: group.rank(), ranks: group.ranks(), first };
        drop(place);
        self.group = Some(group);
        self.failed = None;
        Ok(())
    }
}
