//! [`Communicator`]: ranks that call collectives on buffers of their own.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use motet_exec::{Element, Input, Note, Output, SharedClock, Store, Tls};
use motet_units::{Duration, Instant};

use crate::cache::Cache;
use crate::call::{Call, Kind};
use crate::completion::{Completion, Handle};
use crate::error::CommError;
use crate::finisher;
use crate::options::Options;
use crate::programs::Programs;
use crate::signals::block_broken_pipes;
use crate::standing::{Belongs, Standing};
use crate::starter::{Job, Place, Request, Starter};

/// Ranks that call collectives. Calls return at once; all ranks make the same ones in the same order. Dropped, it leaves
/// the group, and what is still under way ends with an error.
#[derive(Debug)]
pub struct Communicator {
    options: Options,
    place: Arc<Mutex<Place>>,
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    standing: Arc<Standing>,
    copied: Arc<AtomicU64>,
    /// Sends between two ranks are calls of a group of these two, so that no other rank need call: by sender, receiver and tag.
    pairs: Mutex<BTreeMap<(u32, u32, u32), Communicator>>,
    store: Option<Arc<Store>>,
}

/// A clock that counts from when it was made.
pub(crate) fn clock() -> SharedClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "a program's whole in a library may read the clock"
    )]
    let start = std::time::Instant::now();
    Arc::new(move || {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ps(ns.saturating_mul(1000))
    })
}

/// Writes notes to stderr where the environment asks for them (`MOTET_NOTES`).
pub(crate) fn note() -> Note {
    let shown = std::env::var_os("MOTET_NOTES").is_some();
    Arc::new(move |line: &str| {
        if shown {
            let mut stderr = std::io::stderr().lock();
            // If stderr itself is gone there is nobody left to tell.
            let _ = std::io::Write::write_fmt(&mut stderr, format_args!("motet: {line}\n"));
        }
    })
}

/// Serves a store at an address of this host, for groups that find it by [`Store::address`].
pub fn serve(address: &str, token: &str, tls: Option<Tls>) -> Result<Store, CommError> {
    let unknown = |why: String| CommError::invalid(format!("`{address}`: {why}"));
    let mut found = address.to_socket_addrs().map_err(|it| unknown(it.to_string()))?;
    let first = found.next().ok_or_else(|| unknown("no such address".to_owned()))?;
    Ok(Store::serve_with(first, token, tls, clock(), note())?)
}

impl Communicator {
    /// Joins the group: finds the other ranks, and waits for them.
    pub fn join(mut options: Options) -> Result<Self, CommError> {
        let mut store = None;
        if options.rank == 0 && !options.store_apart {
            let served = serve(&options.store, &options.token, options.tls.clone())?;
            options.store = served.address().to_string();
            store = Some(Arc::new(served));
        }
        let (joined, answer) = channel();
        let this = Self::begin(options, store, Some(joined), None)?;
        answer.recv().map_err(|_| CommError::fault("a thread has ended"))??;
        Ok(this)
    }

    /// Begins to join, on a thread of its own. `joined` is sent the outcome; calls that are made before wait for it. Joining is given
    /// up when the communicator is left, and for a pair when nobody will come, however long ranks may take to come.
    fn begin(
        options: Options,
        store: Option<Arc<Store>>,
        joined: Option<Sender<Result<(), CommError>>>,
        belongs: Option<Belongs>,
    ) -> Result<Self, CommError> {
        let programs = Programs::new(&options)?;
        let first: Vec<u32> = (0..options.ranks).collect();
        let place = Place { rank: options.rank, ranks: options.ranks, first };
        let place = Arc::new(Mutex::new(place));
        let standing = Arc::new(Standing::default());
        let (jobs, asked) = channel();
        let (flights, started) = channel();
        let (back, landed) = channel();
        let mut starter = Starter {
            group: None,
            place: Arc::clone(&place),
            programs,
            cache: Cache::new(options.cache_bytes),
            flights,
            landed,
            under_way: 0,
            failed: None,
            standing: Arc::clone(&standing),
        };
        let config = options.config();
        let start = move || {
            // The engine's thread is started by this one, and inherits its signal mask.
            block_broken_pipes();
            let told = starter.join(&config, belongs.as_ref());
            if let Some(joined) = joined {
                // Who began it may have gone.
                let _ = joined.send(told);
            }
            starter.run(&asked);
        };
        let copied = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&copied);
        let threads = vec![
            spawn("motet-start", start)?,
            spawn("motet-finish", move || finisher::run(&started, &back, &counted))?,
        ];
        let pairs = Mutex::new(BTreeMap::new());
        Ok(Self { options, place, jobs: Some(jobs), threads, standing, copied, pairs, store })
    }

    fn place(&self) -> Place {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This rank's number.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.place().rank
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.place().ranks
    }

    /// The number that each rank had when the group began.
    #[must_use]
    pub fn first_ranks(&self) -> Vec<u32> {
        self.place().first
    }

    /// Where the store is.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.options.store
    }

    /// How many bytes calls have copied so far because the engine could not work in the caller's buffers; without sends and receives.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied.load(Ordering::Relaxed)
    }

    /// Starts a call. It may be called from any thread, and never waits.
    pub fn start(&self, call: Call, input: Input, output: Output) -> Result<Handle, CommError> {
        let Place { rank, ranks, .. } = self.place();
        if let Some(root) = call.kind.root().filter(|it| *it >= ranks) {
            return Err(CommError::invalid(format!("root {root} is not one of {ranks} ranks")));
        }
        let (gives, gets) = call.bytes(rank, ranks);
        check("input", input.bytes(), gives, input.is_missing())?;
        // The root of a broadcast may give no output: its input is the result.
        let has = output.bytes() == 0 && call.kind == Kind::Broadcast(rank);
        check("output", output.bytes(), if has { 0 } else { gets }, output.is_missing())?;
        let completion = Completion::default();
        let handle = completion.handle();
        if call.count == 0 {
            completion.end(Ok(()));
            return Ok(handle);
        }
        let jobs = self.jobs.as_ref().ok_or_else(CommError::left)?;
        let job = Job::Call(Request { call, input, output, completion });
        jobs.send(job).map_err(|_| CommError::left())?;
        Ok(handle)
    }

    /// Starts sending to another rank; only the two of them call. With the same tag, sends are received in their order; sends with
    /// different tags are independent.
    pub fn send(&self, to: u32, tag: u32, input: Input) -> Result<Handle, CommError> {
        let bytes = input.bytes();
        self.between(self.rank(), to, tag, bytes, input, Output::none())
    }

    /// Starts receiving from another rank.
    pub fn receive(&self, from: u32, tag: u32, output: Output) -> Result<Handle, CommError> {
        let bytes = output.bytes();
        self.between(from, self.rank(), tag, bytes, Input::none(), output)
    }

    fn between(
        &self,
        from: u32,
        to: u32,
        tag: u32,
        bytes: usize,
        input: Input,
        output: Output,
    ) -> Result<Handle, CommError> {
        let Place { rank, ranks, .. } = self.place();
        if from >= ranks || to >= ranks || from == to {
            return Err(CommError::invalid(format!(
                "rank {from} cannot send to rank {to} among {ranks} ranks"
            )));
        }
        let call = Call::new(Kind::Send, Element::U8, bytes)?;
        let mut pairs = self.pairs.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = match pairs.entry((from, to, tag)) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                let options = Options {
                    group: format!("{}/{from}-{to}/{tag}", self.options.group),
                    rank: u32::from(rank == to),
                    ranks: 2,
                    cluster: None,
                    members: Vec::new(),
                    ..self.options.clone()
                };
                let other = if rank == to { from } else { to };
                let belongs = Belongs { to: Arc::clone(&self.standing), other };
                place.insert(Self::begin(options, self.store.clone(), None, Some(belongs))?)
            }
        };
        pair.start(call, input, output)
    }

    /// After a loss: goes on with the ranks that are left, numbered anew in the same order. All of them must call this; who
    /// has not within `grace_ms` after the first is left out.
    pub fn survivors(&self, grace_ms: u64) -> Result<(), CommError> {
        // Sending goes on between new numbers.
        self.end_pairs();
        let (reply, answer): (_, Receiver<Result<(), CommError>>) = channel();
        let jobs = self.jobs.as_ref().ok_or_else(CommError::left)?;
        let job = Job::Survivors { grace: Duration::from_ms(grace_ms), reply };
        jobs.send(job).map_err(|_| CommError::left())?;
        answer.recv().map_err(|_| CommError::left())?
    }
}

impl Communicator {
    /// Leaves all groups of two.
    fn end_pairs(&self) {
        let pairs = std::mem::take(&mut *self.pairs.lock().unwrap_or_else(PoisonError::into_inner));
        // All at once, because each takes a moment to end.
        pairs.values().for_each(|it| it.standing.leave());
    }
}

fn check(what: &str, given: usize, wanted: usize, missing: bool) -> Result<(), CommError> {
    if given != wanted {
        return Err(CommError::invalid(format!(
            "the {what} must hold {wanted} bytes and holds {given}"
        )));
    }
    if missing {
        return Err(CommError::invalid(format!("the {what} is a null pointer")));
    }
    Ok(())
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, CommError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|it| CommError::fault(format!("cannot start a thread: {it}")))
}

impl Drop for Communicator {
    fn drop(&mut self) {
        self.end_pairs();
        self.standing.leave();
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // One that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}
