//! [`State`]: what this process knows of its job, made when it makes its first communicator.

#![allow(unsafe_code, reason = "NCCL's functions are C's")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration as Wall;

use motet_control::GroupId;
use motet_control::shim::Mode;
use motet_runtime::{Checksum, Communicator, own_file};
use motet_units::{Duration, Rank};

use crate::abi::{Comm, SUCCESS, Stream, UINT32};
use crate::cuda::Cuda;
use crate::flags::Flags;
use crate::job::Job;
use crate::link::Link;
use crate::log;
use crate::real::real;
use crate::recorder::Recorder;
use crate::shared::Shared;
use crate::worker::{Handed, Worker};

/// How long a call waits for the manager's word before it goes without; longer than the controller's own patience.
const PATIENCE: Duration = Duration::from_ms(30_000);
/// How long the end of the process waits for the worker to take leave of the manager.
const GOODBYE: Wall = Wall::from_millis(500);
/// The environment variables by which launchers say which rank a process is.
const RANKS: [&str; 5] =
    ["MOTET_SHIM_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"];

/// A communicator of this process.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Its number, in the order in which communicators were made.
    pub(crate) number: u32,
    pub(crate) size: u64,
    /// Which rank of the job each of its ranks is; empty if that could not be found out.
    members: Vec<u32>,
    group: Option<GroupId>,
}

#[derive(Default)]
struct Communicators {
    all: BTreeMap<usize, About>,
    made: u32,
    /// How many there were of the same ranks, so that each has an id of its own, the same on all ranks.
    alike: BTreeMap<Vec<u32>, u32>,
}

/// See the [module](self).
pub(crate) struct State {
    pub(crate) shared: Arc<Shared>,
    job: Job,
    rank: u32,
    /// Whether the manager or the trace needs to know which groups communicators are.
    asks: bool,
    communicators: Mutex<Communicators>,
}

static STATE: OnceLock<Option<State>> = OnceLock::new();

impl State {
    /// `None` until there is a communicator, or where the shim has nothing to do.
    pub(crate) fn get() -> Option<&'static Self> {
        STATE.get()?.as_ref()
    }

    fn start() -> Option<&'static Self> {
        STATE.get_or_init(Self::new).as_ref()
    }

    fn new() -> Option<Self> {
        let path = |name| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        let (socket, trace) = (path("MOTET_SHIM_SOCKET"), path("MOTET_SHIM_TRACE"));
        if socket.is_none() && trace.is_none() {
            log::info(|| {
                "neither MOTET_SHIM_SOCKET nor MOTET_SHIM_TRACE is set; calls pass".into()
            });
            return None;
        }
        let rank = RANKS.iter().find_map(|it| std::env::var(it).ok()?.parse::<u32>().ok());
        let Some(rank) = rank else {
            log::warn("no variable says which rank this is; set MOTET_SHIM_RANK. Calls pass");
            return None;
        };
        let cuda = Cuda::load().filter(Cuda::has_context);
        let Some(flags) = cuda.and_then(Flags::new) else {
            log::warn(
                "CUDA's driver is not there or too old for stream memory operations (CUDA 12); calls pass",
            );
            return None;
        };
        let job = path("MOTET_SHIM_JOB").map_or(Ok(Job::default()), |it| Job::read(&it));
        let job = job.map_err(|it| log::warn(&format!("{it}; calls pass"))).ok()?;
        let link = socket.and_then(|it| {
            // Ranks with a manager each, as on one host that plays several, have the same variables.
            let own = it.to_string_lossy().replace("%r", &rank.to_string());
            let link = Link::connect(Path::new(&own), job.id(), Rank(rank));
            link.map_err(|it| log::warn(&format!("{it}; calls pass"))).ok()
        });
        let (link, mode) = link.map_or((None, Mode::Observe), |(link, mode)| (Some(link), mode));
        let recorder =
            trace.and_then(|it| Recorder::new(own_file(&it, Some(rank), std::process::id())));
        let patience =
            std::env::var("MOTET_SHIM_PATIENCE").ok().and_then(|it| it.parse::<u64>().ok());
        let patience = patience.map_or(PATIENCE, |it| Duration::from_ms(it.saturating_mul(1000)));
        let shared = Arc::new(Shared::new(flags, mode != Mode::Observe, patience));
        let asks = link.is_some() || recorder.is_some();
        let worker = Worker::new(Arc::clone(&shared), link, mode, recorder);
        let thread = std::thread::Builder::new().name("motet-shim".to_owned());
        if let Err(error) = thread.spawn(move || worker.run()) {
            log::warn(&format!("cannot start a thread: {error}; calls pass"));
            return None;
        }
        // SAFETY: the function takes nothing and does not unwind.
        unsafe { libc::atexit(goodbye) };
        log::info(|| format!("rank {rank}: {mode:?}"));
        Some(Self { shared, job, rank, asks, communicators: Mutex::default() })
    }

    fn communicators(&self) -> std::sync::MutexGuard<'_, Communicators> {
        self.communicators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn about(&self, comm: Comm) -> Option<About> {
        self.communicators().all.get(&(comm as usize)).cloned()
    }

    /// The group of a call: for messages the pair, if the job has such a group.
    pub(crate) fn group(&self, about: &About, peer: Option<c_int>) -> Option<GroupId> {
        let other = peer.and_then(|it| about.members.get(usize::try_from(it).ok()?));
        let pair = other.and_then(|it| self.job.group(&BTreeSet::from([self.rank, *it])));
        pair.map(|it| it.0).or(about.group)
    }

    /// A communicator was made, and is ready.
    pub(crate) fn made(comm: Comm) {
        let Some(state) = Self::start().filter(|it| it.asks && !comm.is_null()) else { return };
        let (mut size, mut place): (c_int, c_int) = (0, 0);
        let counted = real!(c"ncclCommCount", fn(Comm, *mut c_int), (comm, &raw mut size));
        let placed = real!(c"ncclCommUserRank", fn(Comm, *mut c_int), (comm, &raw mut place));
        let (Ok(size), Ok(place)) = (usize::try_from(size), u32::try_from(place)) else { return };
        if counted != SUCCESS || placed != SUCCESS || place as usize >= size {
            return;
        }
        let members = state.exchange(comm, size, place as usize).unwrap_or_default();
        if members.is_empty() {
            log::warn("which ranks a communicator has could not be found out; its calls pass");
        }
        let found = state.job.group(&members.iter().copied().collect());
        let (group, name) = found.map_or((None, ""), |it| (Some(it.0), it.1));
        let mut communicators = state.communicators();
        let alike = communicators.alike.entry(members.clone()).or_default();
        *alike += 1;
        let numbers = members.iter().copied().chain([*alike]);
        let id = Checksum::of(&numbers.flat_map(u32::to_le_bytes).collect::<Vec<_>>()).0;
        let number = communicators.made;
        communicators.made += 1;
        let ranks = u32::try_from(size).unwrap_or(u32::MAX);
        let told = Communicator { id, rank: place, ranks, nodes: ranks, name: name.to_owned() };
        // Under the lock, so that numbers are in the order in which they are handed over.
        state.shared.hand(Handed::Communicator(told));
        let about = About { number, size: size as u64, members, group };
        communicators.all.insert(comm as usize, about);
    }

    /// Asks all ranks of a communicator which ranks of the job they are, by an AllGather of its own. All of them make it at
    /// the same point, just behind the communicator itself.
    fn exchange(&self, comm: Comm, size: usize, place: usize) -> Option<Vec<u32>> {
        let mut numbers = vec![0; size];
        *numbers.get_mut(place)? = self.rank;
        self.shared.flags.cuda().with_numbers(&numbers, |at| {
            let own = at + (place * size_of::<u32>()) as u64;
            let status = real!(
                c"ncclAllGather",
                fn(u64, u64, usize, c_int, Comm, Stream),
                (own, at, 1, UINT32, comm, std::ptr::null_mut())
            );
            status == SUCCESS
        })
    }

    /// A communicator is about to go; its address may come again for another.
    pub(crate) fn gone(comm: Comm) {
        if let Some(state) = Self::get() {
            state.communicators().all.remove(&(comm as usize));
        }
    }
}

/// Runs at the end of the process.
extern "C" fn goodbye() {
    static ONCE: AtomicBool = AtomicBool::new(false);
    if let Some(state) = State::get().filter(|_| !ONCE.swap(true, Ordering::AcqRel)) {
        state.shared.end(GOODBYE);
    }
}
