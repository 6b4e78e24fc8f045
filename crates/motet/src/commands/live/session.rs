//! [`Session`]: ranks that are running, with a communicator and buffers, ready to be asked.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration as Wall;

use motet_live::launcher::{self, Place};
use motet_live::rendezvous::Meeting;
use motet_live::{Answer, Call, Launch, LiveError, Mode, RankRequest, Team, team};
use motet_units::Duration;

use super::{failure, follow};
use crate::args::live::LiveArgs;
use crate::failure::Failure;
use crate::token;

const PLUGIN: &str = "libmotet_nccl.so";

/// What a session is for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// To be started here; a launcher's ranks must be as many.
    pub(crate) ranks: u32,
    /// Whether NCCL must ask Motet's tuner.
    pub(crate) tuner: bool,
    /// The plan that decides.
    pub(crate) plan: Option<String>,
    /// Of the largest buffer.
    pub(crate) bytes: usize,
}

/// See the [module](self).
pub(crate) struct Session {
    wanted: Wanted,
    launch: Launch,
    place: Option<(Place, PathBuf)>,
    /// None while it is begun anew.
    team: Option<Team>,
    /// Such as `2.28.9`.
    pub(crate) nccl: String,
    pub(crate) gpu: String,
    /// Removed at the end, unless the user has named it.
    _logs: Option<tempfile::TempDir>,
}

/// What a check has shown, on all ranks together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    pub(crate) wrong: u64,
    pub(crate) refused: bool,
    pub(crate) own: Option<Mode>,
    pub(crate) shape: Option<(u32, u32)>,
}

impl Session {
    /// Starts ranks and makes a communicator. `None` in a process that a launcher has started beside the first: it has kept its
    /// rank running until the driver was done.
    pub(crate) fn start(args: &LiveArgs, wanted: Wanted) -> Result<Option<Self>, Failure> {
        let place = launcher::place(&|name| std::env::var(name).ok()).map_err(|it| failure(&it))?;
        let temporary = match &args.logs {
            Some(_) => None,
            None => Some(tempfile::tempdir().map_err(|it| unwritable("a temporary folder", &it))?),
        };
        let logs = match (&args.logs, &temporary) {
            (Some(named), _) => PathBuf::from(named),
            (None, Some(made)) => made.path().to_owned(),
            (None, None) => PathBuf::from("."),
        };
        std::fs::create_dir_all(&logs)
            .map_err(|it| unwritable(&logs.display().to_string(), &it))?;
        let launch = launch(args, &wanted, logs)?;
        let place = match place {
            None => None,
            Some(place) => Some((place, meeting(args, &place, wanted.ranks)?)),
        };
        if let Some((place, file)) = place.as_ref().filter(|it| it.0.rank > 0) {
            let with = |token: String| Launch { token, control: control(), ..launch.clone() };
            follow::follow(place, file, launch.limit, &with)?;
            return Ok(None);
        }
        let (nccl, gpu) = (String::new(), String::new());
        let mut session = Self { wanted, launch, place, team: None, nccl, gpu, _logs: temporary };
        session.begin().map_err(|it| failure(&it))?;
        Ok(Some(session))
    }

    pub(crate) const fn ranks(&self) -> u32 {
        self.wanted.ranks
    }

    /// Ends all ranks and starts them again, with a new communicator.
    pub(crate) fn begin(&mut self) -> Result<(), LiveError> {
        self.team = None;
        // Who waits for the old driver must not be let in.
        self.launch.token = token::random();
        self.launch.control = control();
        let mut team = match &self.place {
            None => Team::start(&self.launch, self.wanted.ranks)?,
            Some((place, file)) => gather(&self.launch, place, file)?,
        };
        for answer in team.ask(&RankRequest::About)? {
            if let Answer::About { nccl, gpu } = answer {
                (self.nccl, self.gpu) = (version(nccl), gpu);
            }
        }
        let Answer::Identity { identity } = team.ask_one(&RankRequest::Identity, 0)? else {
            return Err(LiveError::TooEarly("an identity"));
        };
        team.ask(&RankRequest::Begin { identity })?;
        team.ask(&RankRequest::Room { bytes: self.wanted.bytes })?;
        self.team = Some(team);
        Ok(())
    }

    fn team(&mut self) -> Result<&mut Team, LiveError> {
        self.team.as_mut().ok_or(LiveError::TooEarly("a rank"))
    }

    /// Runs a call once and compares every element.
    pub(crate) fn check(&mut self, call: Call, mode: Mode) -> Result<Checked, LiveError> {
        let tuner = self.wanted.tuner;
        let answers = self.team()?.ask(&RankRequest::Check { call: call.into(), mode })?;
        let mut all = Checked { wrong: 0, refused: false, own: None, shape: None };
        for answer in answers {
            let Answer::Checked { wrong, asked, refused, own, shape } = answer else {
                return Err(LiveError::TooEarly("a check"));
            };
            if tuner && mode != Mode::Plan && !asked {
                return Err(LiveError::Environment(format!(
                    "NCCL {} has not asked Motet's tuner ({}): it may be too old (2.21 and later have a \
                     tuner), or the library was not found",
                    self.nccl,
                    self.launch_plugin()
                )));
            }
            all.wrong += wrong;
            all.refused |= refused;
            all.own = all.own.or(own);
            all.shape = all.shape.or(shape);
        }
        Ok(all)
    }

    fn launch_plugin(&self) -> &str {
        let plugin = self.launch.environment.iter().find(|it| it.0 == "NCCL_TUNER_PLUGIN");
        plugin.map_or("none", |it| it.1.as_str())
    }

    /// How long a call takes under each mode: the slowest rank's time.
    pub(crate) fn time(
        &mut self,
        call: Call,
        modes: &[Mode],
        calls: u32,
        graphs: bool,
    ) -> Result<Vec<Duration>, LiveError> {
        let step = RankRequest::Time { call: call.into(), modes: modes.to_vec(), calls, graphs };
        let mut slowest = vec![0; modes.len()];
        for answer in self.team()?.ask(&step)? {
            let Answer::Timed { ps } = answer else { return Err(LiveError::TooEarly("a time")) };
            slowest.iter_mut().zip(ps).for_each(|(most, it)| *most = it.max(*most));
        }
        Ok(slowest.into_iter().map(Duration::from_ps).collect())
    }

    /// Gives the communicator back.
    pub(crate) fn end(mut self) -> Result<(), Failure> {
        self.team().and_then(|it| it.ask(&RankRequest::End)).map_err(|it| failure(&it))?;
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Ranks of other hosts end when this is gone.
        if let Some((_, file)) = &self.place {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// How ranks are started, but for the token.
fn launch(args: &LiveArgs, wanted: &Wanted, logs: PathBuf) -> Result<Launch, Failure> {
    let program = std::env::current_exe()
        .map_err(|it| Failure::unreadable(format!("this program cannot be found again: {it}")))?;
    let mut environment = Vec::new();
    let mut set = |name: &str, value: String| environment.push((name.to_owned(), value));
    if wanted.tuner {
        set("NCCL_TUNER_PLUGIN", plugin(args, &program)?);
    }
    set("MOTET_PLAN", wanted.plan.clone().unwrap_or_default());
    environment.extend(args.env.iter().cloned());
    let arguments = ["--quiet", "nccl-rank", "--nccl-lib", &args.nccl_lib].map(str::to_owned);
    Ok(Launch {
        program,
        arguments: arguments.to_vec(),
        environment,
        logs,
        limit: Wall::from_secs(args.limit),
        token: String::new(),
        control: control(),
    })
}

/// Where control files go, under a name that no other run has.
fn control() -> PathBuf {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("motet-control-{}", token::random()))
}

/// Where the plugin is, whole: NCCL looks in its own places for anything else.
fn plugin(args: &LiveArgs, program: &Path) -> Result<String, Failure> {
    let beside = || program.parent().map(|it| it.join(PLUGIN));
    let lib = || Some(program.parent()?.parent()?.join("lib").join(PLUGIN));
    let found = match &args.plugin {
        Some(given) => Some(PathBuf::from(given)).filter(|it| it.is_file()),
        None => [beside(), lib()].into_iter().flatten().find(|it| it.is_file()),
    };
    let whole = found.as_deref().and_then(|it| it.canonicalize().ok());
    match whole.as_deref().and_then(Path::to_str) {
        Some(path) => Ok(path.to_owned()),
        None => {
            let given = args.plugin.as_deref().unwrap_or(PLUGIN);
            Err(Failure::unreadable("is not there: Motet's plugin, through which NCCL's settings are set")
                .in_file(given)
                .with_remedy("build it with `cargo build --release -p motet-nccl-plugin`, or say where it is with `--plugin`"))
        }
    }
}

/// The file through which a launcher's ranks find the driver.
fn meeting(args: &LiveArgs, place: &Place, ranks: u32) -> Result<PathBuf, Failure> {
    if place.ranks != ranks {
        let problem =
            format!("{} has started {} ranks, and {ranks} are wanted", place.launcher, place.ranks);
        return Err(Failure::unreadable(problem)
            .with_remedy("start as many as the cluster has GPUs, one for each"));
    }
    match &args.rendezvous {
        Some(file) => Ok(file.into()),
        None => Err(Failure::unreadable(format!(
            "this is rank {} of {} that {} has started, and ranks must find one another",
            place.rank, place.ranks, place.launcher
        ))
        .with_remedy("give `--rendezvous FILE`, a file in a folder that all hosts of the job see")),
    }
}

/// The driver's side where a launcher has started the ranks: this process has one of them beside it.
fn gather(launch: &Launch, place: &Place, file: &Path) -> Result<Team, LiveError> {
    let listener = team::listen(IpAddr::V4(Ipv4Addr::UNSPECIFIED))?;
    let unknown = |error| LiveError::Io { what: "an address for ranks".to_owned(), error };
    let mut address = listener.local_addr().map_err(unknown)?;
    let meeting = Meeting { host: host(), port: address.port(), token: launch.token.clone() };
    meeting.write(file)?;
    address.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let child = team::child(launch, address, (place.rank, place.ranks, place.local_rank))?;
    Team::gather(launch, &listener, place.ranks, vec![(place.rank, child)])
}

/// The name by which other hosts know this one.
fn host() -> String {
    let named = ["MASTER_ADDR", "SLURMD_NODENAME", "HOSTNAME"];
    let set = named.into_iter().find_map(|it| std::env::var(it).ok().filter(|it| !it.is_empty()));
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    set.or_else(kernel).map_or_else(|| "localhost".to_owned(), |it| it.trim().to_owned())
}

/// NCCL's number of a version as people write it.
fn version(number: i32) -> String {
    // From 2.9 on two digits for the minor version.
    let major = if number >= 10_000 { 10_000 } else { 1000 };
    format!("{}.{}.{}", number / major, number % major / 100, number % 100)
}

fn unwritable(what: &str, error: &std::io::Error) -> Failure {
    Failure::unreadable(format!("cannot be written: {error}")).in_file(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_as_people_write_them() {
        let all = [(22_809, "2.28.9"), (23_203, "2.32.3"), (2_804, "2.8.4")];
        for (number, text) in all {
            assert_eq!(version(number), text);
        }
    }
}
