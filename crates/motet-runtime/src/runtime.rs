//! [`Runtime`]: what one communicator of one process asks before every collective.
//!
//! Two kinds of threads use it. The **calling thread** begins an operation and decides: one atomic
//! increment, two atomic loads of one cache line and a lookup; it takes no lock, allocates nothing
//! and never waits for a writer. **Control threads** record times, make reports and change what is
//! in use; they may lock, among themselves.
//!
//! What is in use is one immutable [`ActiveTables`], replaced whole: a decision sees one plan or another,
//! never parts of two. A calling thread keeps the plans that it [saw](Seen) last and only compares
//! whether the one in use is among them, so that it touches no reference count and nothing else that
//! control threads write, but for that one line. How the ranks agree on a replacement is in
//! [`agreement`](crate::agreement); the fence it needs is explained at [`Runtime::raise_fence`].

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use motet_units::{Duration, Rank};

use crate::checksum::Checksum;
use crate::key::Signature;
use crate::reason::Reason;
use crate::report::{Measured, Report};
use crate::table::Setting;
use crate::view::{Call, View};

/// The number of an operation of a communicator, counted from 0. As all ranks call the same
/// collectives in the same order, an operation has the same number on all of them.
pub type Operation = u64;

const NO_FENCE: Operation = Operation::MAX;

/// What decides about calls.
#[derive(Clone, Debug)]
pub(crate) enum Active {
    Table(Arc<View>),
    /// The library, with the reason, and the network of the table that was in use before, if one was.
    Library(Reason, Option<Signature>),
}

impl Active {
    fn planned(&self) -> Option<Signature> {
        match self {
            Self::Table(view) => Some(view.signature()),
            Self::Library(_, planned) => *planned,
        }
    }
}

/// What decides now, and from an agreed operation on. Aligned for the same reason as a [`View`].
#[derive(Debug)]
#[repr(align(128))]
struct ActiveTables {
    now: Active,
    next: Option<Next>,
}

/// What decides from an agreed operation on.
#[derive(Clone, Debug)]
struct Next {
    at: Operation,
    active: Active,
    /// For a trial: the operation from which on what was in use before decides again.
    until: Option<Operation>,
}

impl ActiveTables {
    /// A number that identifies a plan for as long as it is kept: the address of its table if no switch is
    /// to come, so that plans which decide alike have the same one, and otherwise the address of the plan.
    fn identity(self: &Arc<Self>) -> usize {
        match self.as_ref() {
            Self { now: Active::Table(view), next: None } => Arc::as_ptr(view).addr(),
            _ => Arc::as_ptr(self).addr(),
        }
    }

    fn at(&self, operation: Operation) -> &Active {
        match &self.next {
            Some(Next { at, active, until })
                if operation >= *at && until.is_none_or(|it| operation < it) =>
            {
                active
            }
            _ => &self.now,
        }
    }

    /// What decides once all that was agreed on has happened.
    const fn last(&self) -> &Active {
        match &self.next {
            Some(Next { active, until: None, .. }) => active,
            _ => &self.now,
        }
    }

    fn find(&self, operation: Operation, call: &Call) -> Result<u32, Reason> {
        match self.at(operation) {
            Active::Table(view) => view.find(call),
            Active::Library(reason, _) => Err(*reason),
        }
    }

    fn views(&self) -> impl Iterator<Item = &Arc<View>> {
        let next = self.next.as_ref().map(|it| &it.active);
        [Some(&self.now), next].into_iter().flatten().filter_map(|it| match it {
            Active::Table(view) => Some(view),
            Active::Library(..) => None,
        })
    }
}

/// The run-time state of one communicator in one process.
#[derive(Debug)]
pub struct Runtime {
    /// How many operations have begun: the number of the next.
    begun: Apart<AtomicU64>,
    watched: Apart<Watched>,
    plan: Apart<ArcSwap<ActiveTables>>,
    control: Apart<Control>,
}

/// What the calling thread reads in every operation; written only when the plan or the fence changes.
#[derive(Debug)]
struct Watched {
    /// Operations from here on must not be decided yet.
    fence: AtomicU64,
    /// The [identity](ActiveTables::identity) of the plan, by which calling threads find out whether they
    /// have it already.
    identity: AtomicUsize,
}

/// What only control threads touch.
#[derive(Debug)]
struct Control {
    /// The last plans that were replaced, kept so that a calling thread which was just reading one
    /// does not have to free a table. Its lock also makes writers take turns.
    retired: Mutex<[Option<Arc<ActiveTables>>; 2]>,
    /// Plans that calling threads no longer keep, to be freed by control threads for the same reason.
    returned: Mutex<[Option<Arc<ActiveTables>>; 4]>,
    observed: ArcSwapOption<Signature>,
    /// Whether a verdict that operations wait for will not come.
    hopeless: AtomicBool,
}

/// A value on cache lines of its own (128 bytes, as processors fetch them in pairs), so that writes to
/// neighbouring values do not slow down its readers (false sharing).
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// The ranks may switch tables at this operation or before, and this rank does not know the verdict
/// yet: send what [`Member::poll`](crate::Member::poll) gives, and decide again when the control thread
/// has handled a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("operation {0} waits for the verdict on a new table; ask the leader or any rank")]
pub struct InDoubt(pub Operation);

/// The network is not the one that was planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the plan is for network {planned}, and the network is now {observed}; plan again")]
pub struct Retuning {
    pub planned: Signature,
    pub observed: Signature,
}

impl Default for Runtime {
    fn default() -> Self {
        Self::new(Reason::NoTable)
    }
}

impl Runtime {
    /// A runtime that leaves every call to the library, until it is given a table.
    #[must_use]
    pub fn new(reason: Reason) -> Self {
        let plan = Arc::new(ActiveTables { now: Active::Library(reason, None), next: None });
        Self {
            begun: Apart(AtomicU64::new(0)),
            watched: Apart(Watched {
                fence: AtomicU64::new(NO_FENCE),
                identity: AtomicUsize::new(plan.identity()),
            }),
            plan: Apart(ArcSwap::new(plan)),
            control: Apart(Control {
                retired: Mutex::default(),
                returned: Mutex::default(),
                observed: ArcSwapOption::empty(),
                hopeless: AtomicBool::new(false),
            }),
        }
    }

    /// Begins the next operation. The operations of a communicator begin and are decided one after
    /// the other, as NCCL demands of its calls.
    pub fn begin(&self) -> Operation {
        self.begun.0.fetch_add(1, SeqCst)
    }

    /// The number of the next operation.
    #[must_use]
    pub fn position(&self) -> Operation {
        self.begun.0.load(SeqCst)
    }

    /// What to do for an operation. All ranks get the same answer: it depends on the operation's
    /// number, the call, and what the ranks have agreed on.
    ///
    /// # Errors
    /// When the ranks may be switching at this operation and this rank does not know yet.
    pub fn decide(&self, operation: Operation, call: &Call) -> Result<Decision<'static>, InDoubt> {
        if operation >= self.watched.0.fence.load(SeqCst) {
            return Err(InDoubt(operation));
        }
        let plan = self.plan.0.load();
        let place = plan.find(operation, call);
        Ok(Decision { plan: Held::Guarded(plan), operation, place })
    }

    /// The same, and faster, for a thread that keeps what it has [seen](Seen): until something
    /// changes it writes nothing that other threads read, and reads nothing that they write.
    ///
    /// While a table is being put in use the two may differ for a moment in which of the tables
    /// decides; a thread uses one of them.
    ///
    /// # Errors
    /// As for [`decide`](Self::decide).
    pub fn decide_with<'a>(
        &self,
        seen: &'a mut Seen,
        operation: Operation,
        call: &Call,
    ) -> Result<Decision<'a>, InDoubt> {
        if operation >= self.watched.0.fence.load(SeqCst) {
            return Err(InDoubt(operation));
        }
        let identity = self.watched.0.identity.load(SeqCst);
        if seen.plans[0].0 != identity {
            seen.turn_to(identity, self);
        }
        let plan = &seen.plans[0].1;
        let place = plan.find(operation, call);
        Ok(Decision { plan: Held::Seen(plan), operation, place })
    }

    /// Records how long a decided collective took, on this rank. Says whether it counted: the time
    /// of a table that is no longer in use does not.
    pub fn record(&self, ticket: Ticket, time: Duration) -> bool {
        let plan = self.plan.0.load();
        let view = plan.views().find(|it| it.table().checksum() == ticket.table);
        let recent = view.and_then(|it| it.recent(ticket.entry, ticket.candidate));
        recent.map(|it| it.push(time)).is_some()
    }

    /// To be called when nobody who knows the awaited verdict can be reached. Operations stay [`InDoubt`], and the
    /// embedder should end them with an error, because guessing the verdict could make ranks differ.
    pub fn despair(&self) {
        self.control.0.hopeless.store(true, SeqCst);
    }

    /// Whether [`despair`](Self::despair) was called: waiting for the verdict is pointless.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        self.control.0.hopeless.load(SeqCst)
    }

    /// What this rank has measured under the table in use, for [`agree`](crate::agree()).
    #[must_use]
    pub fn report(&self, rank: Rank) -> Report {
        let plan = self.plan.0.load();
        match plan.at(self.position()) {
            Active::Table(view) => self.report_of(view, rank),
            Active::Library(..) => {
                Report { rank, table: None, retuning: self.wants_retuning(), times: Vec::new() }
            }
        }
    }

    /// The same, followed by reports about other tables of the plan, such as one that was tried: calls under it may
    /// end after the trial.
    #[must_use]
    pub fn reports(&self, rank: Rank) -> Vec<Report> {
        let first = self.report(rank);
        let plan = self.plan.0.load();
        let others = plan.views().filter(|it| Some(it.table().checksum()) != first.table);
        let others: Vec<Report> =
            others.map(|it| self.report_of(it, rank)).filter(|it| !it.times.is_empty()).collect();
        std::iter::once(first).chain(others).collect()
    }

    fn report_of(&self, view: &View, rank: Rank) -> Report {
        let mut times = Vec::new();
        for entry in view.own_entries() {
            let candidates = view.table().entries()[entry as usize].candidates.len() as u32;
            times.extend((0..candidates).filter_map(|candidate| {
                let (samples, median) = view.recent(entry, candidate)?.median()?;
                Some(Measured { entry, candidate, samples, median })
            }));
        }
        let table = Some(view.table().checksum());
        Report { rank, table, retuning: self.wants_retuning(), times }
    }

    /// The table in use, if one is.
    #[must_use]
    pub fn table(&self) -> Option<Arc<View>> {
        match self.plan.0.load().at(self.position()) {
            Active::Table(view) => Some(Arc::clone(view)),
            Active::Library(..) => None,
        }
    }

    /// Tells the runtime what the network is now, as this rank sees it.
    ///
    /// Decisions stay as they are: ranks see a change at different moments, and those that acted on
    /// it alone would hang the others. [`wants_retuning`](Self::wants_retuning) and the report say
    /// that the network changed, this rank refuses tables for the old one, and the leader has the
    /// ranks leave the table together ([`Target::Library`](crate::Target)).
    pub fn observe_signature(&self, signature: Signature) {
        self.control.0.observed.store(Some(Arc::new(signature)));
    }

    /// Whether the network has become another than the plan is for.
    #[must_use]
    pub fn wants_retuning(&self) -> Option<Retuning> {
        let planned = self.plan.0.load().at(self.position()).planned()?;
        let observed = self.observed()?;
        (planned != observed).then_some(Retuning { planned, observed })
    }

    pub(crate) fn observed(&self) -> Option<Signature> {
        self.control.0.observed.load().as_deref().copied()
    }

    /// Uses a table at once, on this rank alone: before the first operation, when every rank was
    /// given the same plan, or at a point where all ranks meet anyway. While operations run,
    /// [`Member`](crate::Member) does it on all ranks at the same operation.
    pub fn install(&self, view: Arc<View>) {
        self.replace(|_| ActiveTables { now: Active::Table(view), next: None });
    }

    /// Leaves every call to the library at once, on this rank alone; as for
    /// [`install`](Self::install).
    pub fn uninstall(&self, reason: Reason) {
        let position = self.position();
        self.replace(|old| {
            let planned = old.at(position).planned();
            ActiveTables { now: Active::Library(reason, planned), next: None }
        });
    }

    fn replace(&self, make: impl FnOnce(&ActiveTables) -> ActiveTables) {
        let mut retired = self.control.0.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let new = Arc::new(make(&self.plan.0.load()));
        // Before the plan itself: who has seen the new plan never finds the old identity again.
        self.watched.0.identity.store(new.identity(), SeqCst);
        retired.rotate_right(1);
        retired[0] = Some(self.plan.0.swap(new));
        let mut returned = self.control.0.returned.lock().unwrap_or_else(PoisonError::into_inner);
        let unused = std::mem::take(&mut *returned);
        drop(returned);
        drop(unused);
    }

    /// Leaves a plan to a control thread to free, unless the lock is taken or there is no room.
    fn give_back(&self, plan: Arc<ActiveTables>) {
        if let Ok(mut returned) = self.control.0.returned.try_lock()
            && let Some(free) = returned.iter_mut().find(|it| it.is_none())
        {
            *free = Some(plan);
        }
    }

    /// The target of leaving the table in use: the library decides, and the table's network is remembered.
    pub(crate) fn leaving(&self) -> Active {
        Active::Library(Reason::Left, self.plan.0.load().at(self.position()).planned())
    }

    /// Whether a switch is agreed on and still to come, or a trial to end.
    pub(crate) fn switch_ahead(&self) -> bool {
        let plan = self.plan.0.load();
        plan.next.as_ref().is_some_and(|it| self.position() <= it.until.unwrap_or(it.at))
    }

    /// Keeps operations from `at` on undecided, or says the position if `at` has begun already.
    ///
    /// The calling thread counts, then looks at the fence; this puts up the fence, then looks at
    /// the count; all four in the one order of sequentially consistent accesses. So if the count
    /// read here is still at most `at`, the thread that begins operation `at` sees the fence.
    pub(crate) fn raise_fence(&self, at: Operation) -> Result<(), Operation> {
        self.watched.0.fence.store(at, SeqCst);
        let position = self.position();
        if position > at {
            self.lower_fence();
            return Err(position);
        }
        Ok(())
    }

    pub(crate) fn lower_fence(&self) {
        self.watched.0.fence.store(NO_FENCE, SeqCst);
    }

    /// Lets `active` decide from the fence on (for a trial, until operation `until`), and lowers the fence. No
    /// earlier switch is still to come, so what was agreed on last decides before the fence.
    pub(crate) fn switch_at_fence(&self, at: Operation, until: Option<Operation>, active: Active) {
        self.replace(|old| {
            let now = old.last().clone();
            ActiveTables { now, next: Some(Next { at, active, until }) }
        });
        self.lower_fence();
    }
}

/// The two plans that a calling thread used last, which it keeps alive. A `Seen` may be used by one thread
/// after the other, and for one runtime after the other.
#[derive(Debug)]
pub struct Seen {
    /// The plans with their [identities](ActiveTables::identity), the one in use first.
    plans: [(usize, Arc<ActiveTables>); 2],
}

impl Seen {
    #[must_use]
    pub fn new(runtime: &Runtime) -> Self {
        let plan = runtime.plan.0.load_full();
        Self { plans: [0; 2].map(|_| (plan.identity(), Arc::clone(&plan))) }
    }

    /// Turns to the plan with this identity, because the one in use has changed.
    #[cold]
    fn turn_to(&mut self, identity: usize, runtime: &Runtime) {
        self.plans.swap(0, 1);
        if self.plans[0].0 != identity {
            let plan = runtime.plan.0.load_full();
            let old = std::mem::replace(&mut self.plans[0], (plan.identity(), plan));
            runtime.give_back(old.1);
        }
    }
}

#[derive(Debug)]
enum Held<'a> {
    Guarded(Guard<Arc<ActiveTables>>),
    Seen(&'a ActiveTables),
}

/// The decision for an operation; keeps the table that it comes from alive.
#[derive(Debug)]
pub struct Decision<'a> {
    plan: Held<'a>,
    operation: Operation,
    place: Result<u32, Reason>,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    Setting(&'a Setting),
    LibraryDefault(Reason),
}

/// Says which candidate of which table a completion time belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub table: Checksum,
    /// The index of the table's entry, and of the entry's candidate.
    pub entry: u32,
    pub candidate: u32,
}

impl Decision<'_> {
    #[must_use]
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    #[must_use]
    pub fn choice(&self) -> Choice<'_> {
        match self.found() {
            Ok((view, entry)) => Choice::Setting(view.best(entry)),
            Err(reason) => Choice::LibraryDefault(reason),
        }
    }

    /// The ticket for [`Runtime::record`]; `None` if the library decides.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        let (view, entry) = self.found().ok()?;
        Some(Ticket { table: view.table().checksum(), entry, candidate: 0 })
    }

    fn found(&self) -> Result<(&View, u32), Reason> {
        let entry = self.place?;
        let plan = match &self.plan {
            Held::Guarded(plan) => plan,
            Held::Seen(plan) => *plan,
        };
        match plan.at(self.operation) {
            Active::Table(view) => Ok((view, entry)),
            Active::Library(reason, _) => Err(*reason),
        }
    }
}

#[cfg(test)]
mod tests;
