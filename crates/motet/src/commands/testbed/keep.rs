//! `motet testbed keep`, `guard` and `enter`: the processes that Motet starts of itself.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use motet_net::formats::cluster_toml;
use motet_testbed::linux::frr::Launch;
use motet_testbed::linux::keeper::Keeper;
use motet_testbed::linux::process;
use motet_testbed::state::State;
use motet_units::Instant;

use super::failure;
use super::place::Place;
use crate::args::testbed::{EnterArgs, GuardArgs, KeepArgs};
use crate::commands::scenario::Loaded;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

/// The keeper's real-time priority; ranks of a live run have 1.
const PRIORITY: u32 = 20;

pub(crate) fn run(args: &KeepArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let place = Place::at(&args.folder);
    let kept = keep(args, &place, printer);
    // Who has the lock has started this or takes it down, and removes the folder when this process is gone.
    if let Ok(_lock) = place.lock() {
        place.remove();
    }
    kept.map(|()| Status::Done)
}

fn keep(args: &KeepArgs, place: &Place, printer: &mut Printer) -> Result<(), Failure> {
    let loaded = Loaded::read(&args.up.scenario, &args.up.read, printer)?;
    let scenario = loaded.scenario(args.up.seed)?;
    // An interrupt is for whoever is at the terminal, and they tell the keeper.
    process::detach();
    // Before the ranks: a packet that is late counts as lost with them.
    process::hurry(PRIORITY);
    let cannot = |it: std::io::Error| Failure::unreadable(format!("cannot keep a testbed: {it}"));
    let mut enter = vec![std::env::current_exe().map_err(cannot)?.into_os_string()];
    let own = std::process::id().to_string();
    enter.extend(["testbed", "enter", "--keeper", &own, "--namespace"].map(Into::into));
    let launch = Launch { enter, folder: place.folder().to_owned() };
    let keeper = Keeper::new(&scenario, !args.when_told, &launch).map_err(|it| failure(&it))?;
    // Before anybody can enter a host.
    let _guard = Guard::start(&keeper)?;
    let control = UnixListener::bind(place.socket()).map_err(cannot)?;
    std::fs::write(place.cluster(), cluster_toml::write(&loaded.network)).map_err(cannot)?;
    let own = process::own().map_err(|it| failure(&it))?;
    let boot = process::boot().map_err(|it| failure(&it))?;
    let congestion = keeper.congestion().map_err(|it| failure(&it))?;
    let state = State::new(&args.up.scenario, own, &boot, keeper.hosts(), keeper.namespaces())
        .with_kernel_links(keeper.has_kernel_links())
        .with_congestion(congestion);
    let text = state.write().map_err(|it| failure(&it))?;
    std::fs::write(place.state_file(), text).map_err(cannot)?;
    let mut stdout = std::io::stdout();
    stdout.write_all(b"ready\n").and_then(|()| stdout.flush()).map_err(cannot)?;
    let parent = args.with_parent.then(|| std::io::stdin().as_fd().try_clone_to_owned());
    let parent = parent.transpose().map_err(cannot)?.map(|it: OwnedFd| std::fs::File::from(it));
    #[allow(clippy::disallowed_methods, reason = "the binary may read the clock")]
    let start = std::time::Instant::now();
    let clock = || {
        let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Instant::from_ps(ns.saturating_mul(1000))
    };
    keeper.run(&control, parent.as_ref(), &clock).map_err(|it| failure(&it))
}

/// Becomes another program in a host.
pub(crate) fn enter(args: &EnterArgs) -> Result<Status, Failure> {
    process::enter(args.keeper, args.namespace).map_err(|it| failure(&it))?;
    let Some((program, words)) = args.command.split_first() else {
        return Err(Failure::unreadable("no command to run"));
    };
    let error = Command::new(program).args(words).exec();
    Err(Failure::unreadable(format!("cannot run `{program}`: {error}")))
}

/// The process beside the keeper that ends what runs on hosts when the keeper is gone.
pub(crate) fn guard(args: &GuardArgs) -> Result<Status, Failure> {
    let ready = || {
        let mut stdout = std::io::stdout();
        stdout.write_all(b"ready\n").and_then(|()| stdout.flush())
    };
    let guarded = process::guard(args.keeper, &args.namespace, std::io::stdin().lock(), ready);
    guarded.map(|()| Status::Done).map_err(|it| failure(&it))
}

/// A guard of this keeper, which it outlives by no more than its work.
struct Guard(Child);

impl Guard {
    fn start(keeper: &Keeper<'_>) -> Result<Self, Failure> {
        let cannot =
            |it: std::io::Error| Failure::unreadable(format!("cannot guard a testbed: {it}"));
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.args(["testbed", "guard", "--keeper", &std::process::id().to_string()]);
        for it in keeper.held() {
            command.args(["--namespace", &it.to_string()]);
        }
        // Nobody is to wait for what it might say.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guard = Self(command.spawn().map_err(cannot)?);
        let mut said = String::new();
        if let Some(stdout) = guard.0.stdout.take() {
            BufReader::new(stdout).read_line(&mut said).map_err(cannot)?;
        }
        if said.starts_with("ready") {
            return Ok(guard);
        }
        Err(Failure::wrong("cannot guard a testbed: the process for that ended at once"))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // Whatever it had to do is done then.
        let _ = self.0.wait();
    }
}
