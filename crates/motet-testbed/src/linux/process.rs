//! Processes of a testbed: whether its keeper is there, entering its hosts, and ending what runs in them.

use std::os::fd::AsFd as _;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::TestbedError;
use crate::state::{ProcessId, State, started};

/// The id of the machine's present boot, which no other boot has.
pub fn boot() -> Result<String, TestbedError> {
    let path = "/proc/sys/kernel/random/boot_id";
    let read = std::fs::read_to_string(path);
    read.map(|it| it.trim().to_owned())
        .map_err(|it| TestbedError::system(format!("read {path}"), it))
}

fn started_of(pid: u32) -> Option<u64> {
    started(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// This process.
pub fn own() -> Result<ProcessId, TestbedError> {
    let pid = std::process::id();
    let unknown = || TestbedError::system("read /proc/self/stat", "it is not as expected");
    Ok(ProcessId { pid, started: started_of(pid).ok_or_else(unknown)? })
}

/// Whether the keeper of a testbed is still there.
pub fn is_there(state: &State) -> bool {
    boot().is_ok_and(|it| state.is_of(&it, started_of(state.keeper.pid)))
}

/// Moves this process, which must have one thread, into the namespace that the keeper holds open under a file descriptor. From then
/// on it is killed when its parent ends.
pub fn enter(keeper: u32, namespace: u32) -> Result<(), TestbedError> {
    let path = format!("/proc/{keeper}/fd/{namespace}");
    let file = open(path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|it| TestbedError::system(format!("open {path}"), it))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|it| TestbedError::system("enter a host's namespace", it))?;
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|it| TestbedError::system("tie a rank to its parent", it))
}

/// The guard of a testbed: waits until the keeper's end of `pipe` is closed, as it is however the keeper ends, and then ends
/// all processes in the namespaces that the keeper held under these file descriptors. A keeper that is killed cannot do that
/// itself. The guard opens the namespaces too, so that the kernel does not give their numbers to others meanwhile, and calls
/// `ready` when it has.
pub fn guard(
    keeper: u32,
    namespaces: &[i32],
    mut pipe: impl std::io::Read,
    ready: impl FnOnce() -> std::io::Result<()>,
) -> Result<(), TestbedError> {
    let held = namespaces.iter().map(|it| {
        let path = format!("/proc/{keeper}/fd/{it}");
        open(path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|it| TestbedError::system(format!("open {path}"), it))
    });
    let held = held.collect::<Result<Vec<_>, _>>()?;
    let failed = |it: std::io::Error| TestbedError::system("guard a testbed", it);
    ready().map_err(failed)?;
    std::io::copy(&mut pipe, &mut std::io::sink()).map_err(failed)?;
    let numbers: Vec<u64> = held.iter().filter_map(number).collect();
    // Again, for those that were started meanwhile, and until all have really ended.
    for _ in 0..ROUNDS {
        if end_all(&numbers) == 0 {
            break;
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

/// How many times the guard looks for processes, at most.
const ROUNDS: u32 = 1000;
/// How long it sleeps between.
const BETWEEN: std::time::Duration = std::time::Duration::from_millis(5);

/// Ends what a testbed whose keeper and guard are gone has left: processes that were started on its hosts, which have [`MARK`]
/// in their environment. The numbers of its namespaces would not do, since other namespaces may have them by now.
pub fn end_left(state: &State) -> usize {
    if boot().ok().as_ref() != Some(&state.boot) || is_there(state) {
        return 0;
    }
    let mark = format!("{MARK}={}", state.mark());
    let marked =
        |environment: &[u8]| environment.split(|it| *it == 0).any(|it| it == mark.as_bytes());
    let Ok(all) = std::fs::read_dir("/proc") else { return 0 };
    let pids = all.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
    let left = pids.filter(|it| {
        *it != std::process::id() as i32
            && std::fs::read(format!("/proc/{it}/environ")).is_ok_and(|it| marked(&it))
    });
    let kill = |it: i32| Pid::from_raw(it).is_some_and(|it| kill_process(it, Signal::KILL).is_ok());
    left.filter(|it| kill(*it)).count()
}

/// The environment variable by which all processes on a testbed's hosts are known.
pub const MARK: &str = "MOTET_TESTBED_KEEPER";

/// Lets a process live on by itself: in a session of its own.
pub fn detach() {
    // It fails only where the process leads a group already, and then it is apart.
    let _ = rustix::process::setsid();
}

/// Lets this process run before others, or whatever else the machine does would be measured too: with the highest ordinary
/// priority and, where util-linux's `chrt` is installed, this real-time priority. That it may not is no error, because only
/// measured times depend on it.
pub fn hurry(priority: u32) {
    let _ = rustix::process::setpriority_process(None, -20);
    let (priority, own) = (priority.to_string(), std::process::id().to_string());
    let mut chrt = std::process::Command::new("chrt");
    chrt.args(["--all-tasks", "--rr", "--pid", &priority, &own]);
    let _ = chrt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// The number of the namespace behind an open file.
pub(super) fn number(file: &impl std::os::fd::AsRawFd) -> Option<u64> {
    inside(
        &std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?.to_string_lossy(),
    )
}

/// `4026531840` of `net:[4026531840]`.
fn inside(name: &str) -> Option<u64> {
    name.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Ends every process in the namespaces with these numbers, and returns how many there were. Call it only while somebody holds
/// the namespaces open, because the kernel uses numbers again.
pub fn end_all(namespaces: &[u64]) -> usize {
    let mut ended = 0;
    let Ok(all) = std::fs::read_dir("/proc") else { return 0 };
    for entry in all.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<i32>().ok()) else {
            continue;
        };
        let link = std::fs::read_link(format!("/proc/{pid}/ns/net"));
        let here = link.ok().and_then(|it| inside(&it.to_string_lossy()));
        if here.is_some_and(|it| namespaces.contains(&it)) && pid != std::process::id() as i32 {
            let pid = Pid::from_raw(pid);
            ended += usize::from(pid.is_some_and(|it| kill_process(it, Signal::KILL).is_ok()));
        }
    }
    ended
}

/// Ends a keeper that does not answer.
pub fn end_keeper(state: &State) {
    if is_there(state)
        && let Some(pid) = i32::try_from(state.keeper.pid).ok().and_then(Pid::from_raw)
    {
        // If it has ended meanwhile, so much the better.
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself_and_not_another_with_its_number() {
        let own = own().unwrap();
        let state = |keeper| State::new("s", keeper, &boot().unwrap(), Vec::new(), Vec::new());
        assert!(is_there(&state(own)));
        assert!(!is_there(&state(ProcessId { started: own.started + 1, ..own })));
        assert_eq!(
            (inside("net:[12]"), inside("mnt:[12]"), inside("net:[x]")),
            (Some(12), None, None)
        );
    }
}
