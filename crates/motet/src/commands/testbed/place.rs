//! [`Place`]: the folder of a testbed, with its state, the socket for orders and the cluster.

use std::fs::{File, TryLockError};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use motet_testbed::linux::process;
use motet_testbed::order::Order;
use motet_testbed::state::State;

use crate::args::testbed::UpArgs;
use crate::failure::Failure;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct Place(PathBuf);

impl Place {
    /// Of a scenario: the same for the same file, wherever it is named from.
    pub(crate) fn of(scenario: &str) -> Self {
        let root = std::env::var_os("MOTET_TESTBED_DIR");
        let root = root.map_or_else(|| PathBuf::from("/run/motet-testbed"), PathBuf::from);
        let full = std::fs::canonicalize(scenario).unwrap_or_else(|_| PathBuf::from(scenario));
        let stem = Path::new(scenario).file_stem().unwrap_or_default().to_string_lossy();
        let safe = |it: char| if it.is_ascii_alphanumeric() { it } else { '-' };
        let stem: String = stem.chars().take(24).map(safe).collect();
        // FNV-1a: names must differ, nobody needs to be kept from making two alike.
        let hash = full.to_string_lossy().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(root.join(format!("{stem}-{:08x}", hash as u32)))
    }

    pub(crate) fn at(folder: &str) -> Self {
        Self(PathBuf::from(folder))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.0
    }

    pub(crate) fn state_file(&self) -> PathBuf {
        self.0.join("state.json")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("orders")
    }

    pub(crate) fn cluster(&self) -> PathBuf {
        self.0.join("cluster.toml")
    }

    fn cannot_make(&self, why: &std::io::Error) -> Failure {
        Failure::unreadable(format!("cannot be made: {why}"))
            .in_file(&self.0.to_string_lossy())
            .with_remedy("a testbed needs root, or a folder of your own in MOTET_TESTBED_DIR")
    }

    /// Keeps all other processes from starting a testbed here or taking one down, as long as the lock lives. Without it each of
    /// two that start would take the other's half-made folder for what a killed one has left.
    pub(crate) fn lock(&self) -> Result<Lock, Failure> {
        let path = self.0.with_extension("lock");
        let cannot = |it: std::io::Error| self.cannot_make(&it);
        if let Some(root) = path.parent() {
            std::fs::create_dir_all(root).map_err(cannot)?;
        }
        loop {
            let file = File::options().create(true).append(true).open(&path).map_err(cannot)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::wrong(
                        "another process is just starting this scenario's testbed, or taking it down",
                    )
                    .with_remedy("try again in a moment"));
                }
                Err(TryLockError::Error(error)) => return Err(cannot(error)),
            }
            // Who had it before may have removed it between our two steps. Then the next process would lock another file.
            let number = |it: std::fs::Metadata| (it.dev(), it.ino());
            let held = file.metadata().map(number).map_err(cannot)?;
            if std::fs::metadata(&path).is_ok_and(|it| number(it) == held) {
                return Ok(Lock { path, _file: file });
            }
        }
    }

    /// Removes the folder.
    pub(crate) fn remove(&self) {
        // What is not there need not be removed.
        let _ = std::fs::remove_dir_all(&self.0);
    }

    fn known(&self) -> Option<State> {
        State::read(&std::fs::read_to_string(self.state_file()).ok()?).ok()
    }

    /// The testbed that is up here.
    pub(crate) fn find(&self) -> Option<State> {
        self.known().filter(process::is_there)
    }

    /// Ends and removes what a testbed that was killed has left, if there is something and none is up.
    pub(crate) fn clear(&self, _lock: &Lock) {
        if self.find().is_none() {
            if let Some(gone) = self.known() {
                process::end_left(&gone);
            }
            self.remove();
        }
    }

    /// The testbed that is up here. If there is none, one is started, and comes with who holds it.
    pub(crate) fn find_or_start(
        &self,
        up: &UpArgs,
        hold: bool,
        when_told: bool,
    ) -> Result<(State, Option<Held>), Failure> {
        if let Some(state) = self.find() {
            return Ok((state, None));
        }
        let lock = self.lock()?;
        // Another process may have been faster.
        if let Some(state) = self.find() {
            return Ok((state, None));
        }
        self.clear(&lock);
        std::fs::create_dir_all(&self.0).map_err(|it| self.cannot_make(&it))?;
        let started = self.start(up, hold, when_told);
        if started.is_err() {
            self.remove();
        }
        // What holds it may want the lock to clear up, when an error drops it.
        drop(lock);
        let held = started?;
        let state = self.find().ok_or_else(|| Failure::wrong("the keeper ended at once"))?;
        Ok((state, Some(held)))
    }

    /// Starts a keeper and waits until all is made. With `hold`, the keeper ends when the pipe that is its standard input does.
    fn start(&self, up: &UpArgs, hold: bool, when_told: bool) -> Result<Held, Failure> {
        let cannot =
            |it: std::io::Error| Failure::unreadable(format!("cannot start the keeper: {it}"));
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.args(["testbed", "keep", &up.scenario, "--folder"]).arg(&self.0);
        if let Some(seed) = up.seed {
            command.args(["--seed", &seed.to_string()]);
        }
        let read = &up.read;
        let bandwidths = [
            ("--wan-bandwidth", read.wan_bandwidth),
            ("--nvlink", read.nvlink),
            ("--pcie", read.pcie),
        ];
        for (name, value) in bandwidths.into_iter().filter_map(|(name, it)| Some((name, it?))) {
            command.args([name, &format!("{} bit/s", value.bits_per_s())]);
        }
        if hold {
            command.arg("--with-parent").stdin(Stdio::piped());
        } else {
            command.stdin(Stdio::null());
        }
        if when_told {
            command.arg("--when-told");
        }
        // A keeper that lives on must not keep whoever reads our stderr waiting.
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(cannot)?;
        let (mut said, mut problem) = (String::new(), String::new());
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut said).map_err(cannot)?;
        }
        let stderr = child.stderr.take();
        let held = Held { child: Some(child), place: self.clone(), hold };
        if said.starts_with("ready") && self.find().is_some() {
            return Ok(held);
        }
        // It has ended, so that this ends too.
        if let Some(mut stderr) = stderr {
            stderr.read_to_string(&mut problem).map_err(cannot)?;
        }
        let problem = problem.trim().trim_start_matches("error: ");
        Err(Failure::wrong(format!("the testbed could not be made: {problem}")))
    }

    /// Gives orders; the answers without their `ok`.
    pub(crate) fn tell(&self, orders: &[Order]) -> Result<Vec<String>, Failure> {
        Orders::open(self)?.tell(orders)
    }
}

/// A connection to a keeper.
pub(crate) struct Orders(BufReader<UnixStream>);

impl Orders {
    pub(crate) fn open(place: &Place) -> Result<Self, Failure> {
        let stream = UnixStream::connect(place.socket());
        let failed = |it| Failure::wrong(format!("the testbed does not answer: {it}"));
        Ok(Self(BufReader::new(stream.map_err(failed)?)))
    }

    pub(crate) fn tell(&mut self, orders: &[Order]) -> Result<Vec<String>, Failure> {
        let failed =
            |it: std::io::Error| Failure::wrong(format!("the testbed does not answer: {it}"));
        let text: String = orders.iter().map(|it| format!("{it}\n")).collect();
        self.0.get_mut().write_all(text.as_bytes()).map_err(failed)?;
        let mut answers = Vec::new();
        for order in orders {
            let mut line = String::new();
            self.0.read_line(&mut line).map_err(failed)?;
            match line.trim_end().strip_prefix("ok") {
                Some(rest) => answers.push(rest.trim().to_owned()),
                None => {
                    let why = line.trim_end().trim_start_matches("no ");
                    return Err(Failure::wrong(format!("the testbed refuses `{order}`: {why}")));
                }
            }
        }
        Ok(answers)
    }
}

/// See [`Place::lock`].
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is unlocked, which closing it does.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A keeper that was started here. One that is held ends with this.
pub(crate) struct Held {
    child: Option<Child>,
    place: Place,
    hold: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        if self.hold {
            // The end of its standard input tells it to stop; it ends what runs in its namespaces and goes.
            drop(child.stdin.take());
            let _ = child.wait();
            // Who has the lock instead clears up as well.
            if let Ok(lock) = self.place.lock() {
                self.place.clear(&lock);
            }
        }
    }
}
