//! [`Team`]: the driver's side of all ranks: start them, ask all of them the same, and notice who fails or falls silent.
//!
//! Ranks are processes, each with a connection of its own to the driver. A rank that fails leaves the others waiting in
//! NCCL for ever, so the first failure ends all of them.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration as Wall;

use crate::LiveError;
use crate::step::{Answer, RankRequest};

/// How many bytes of a rank's log an error shows, at most.
const LOG_TAIL: u64 = 2048;
/// And how many lines.
const LOG_LINES: usize = 6;
/// How long to wait for a connection to say which rank it is.
const HELLO: Wall = Wall::from_secs(10);
/// The most bytes of a line of a rank that are read; all that ranks say is shorter.
const MOST_LINE: u64 = 1 << 20;

/// How ranks are started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The program that runs a rank ([`rank::serve`](crate::rank::serve)), and its arguments.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// For every rank; `%r` in a value is its number.
    pub environment: Vec<(String, String)>,
    /// What ranks print goes to `rank-N.log` there.
    pub logs: PathBuf,
    /// How long a rank may take for one request without being heard of.
    pub limit: Wall,
    /// A secret that ranks must know to be let in.
    pub token: String,
    /// The path of each rank's control file, without the rank's number at its end.
    pub control: PathBuf,
}

impl Launch {
    fn control(&self, rank: u32) -> PathBuf {
        let mut name = self.control.clone().into_os_string();
        name.push(format!("-{rank}"));
        name.into()
    }

    /// Ends a rank that was started here; what it leaves behind goes too.
    pub fn end(&self, rank: u32, mut child: Child) {
        // One that has ended cannot be killed, and has removed its file.
        let _ = child.kill();
        let _ = child.wait();
        let _ = std::fs::remove_file(self.control(rank));
    }
}

/// What comes from a rank's connection.
enum Heard {
    Answer(Answer),
    Lost(String),
}

/// All ranks of a communicator. When dropped, it ends those that it has started.
#[derive(Debug)]
pub struct Team {
    writers: Vec<TcpStream>,
    heard: Receiver<(u32, Heard)>,
    children: Vec<(u32, Child)>,
    launch: Launch,
}

impl std::fmt::Debug for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Answer(it) => it.fmt(f),
            Self::Lost(why) => f.write_str(why),
        }
    }
}

impl Team {
    /// Starts `ranks` ranks on this machine.
    ///
    /// # Errors
    /// When they cannot be started, or do not all report.
    pub fn start(launch: &Launch, ranks: u32) -> Result<Self, LiveError> {
        let listener = listen(IpAddr::V4(Ipv4Addr::LOCALHOST))?;
        let address = listener.local_addr().map_err(|it| io("an address", it))?;
        let mut children = Vec::new();
        for rank in 0..ranks {
            match child(launch, address, (rank, ranks, rank)) {
                Ok(child) => children.push((rank, child)),
                Err(error) => {
                    end(launch, &mut children);
                    return Err(error);
                }
            }
        }
        Self::gather(launch, &listener, ranks, children)
    }

    /// Waits for all ranks to report to `listener`; `children` are those that were started here.
    ///
    /// # Errors
    /// When they do not all report within the limit.
    pub fn gather(
        launch: &Launch,
        listener: &TcpListener,
        ranks: u32,
        mut children: Vec<(u32, Child)>,
    ) -> Result<Self, LiveError> {
        let (sender, heard) = channel();
        match accept(launch, listener, ranks, &mut children, &sender) {
            Ok(writers) => Ok(Self { writers, heard, children, launch: launch.clone() }),
            Err(error) => {
                end(launch, &mut children);
                Err(error)
            }
        }
    }

    #[must_use]
    pub fn ranks(&self) -> u32 {
        // As many as were started, which was a `u32`.
        self.writers.len() as u32
    }

    /// Asks all ranks, and waits for all answers.
    ///
    /// # Errors
    /// When one fails, is lost or falls silent. All ranks are ended then.
    pub fn ask(&mut self, step: &RankRequest) -> Result<Vec<Answer>, LiveError> {
        self.ask_some(step, 0..self.ranks())
    }

    /// Asks one rank.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ask_one(&mut self, step: &RankRequest, rank: u32) -> Result<Answer, LiveError> {
        let mut answers = self.ask_some(step, rank..rank + 1)?;
        answers.pop().ok_or(LiveError::TooEarly("an answer"))
    }

    fn ask_some(
        &mut self,
        step: &RankRequest,
        asked: std::ops::Range<u32>,
    ) -> Result<Vec<Answer>, LiveError> {
        let outcome = self.exchange(step, asked);
        if outcome.is_err() {
            end(&self.launch, &mut self.children);
        }
        outcome
    }

    fn exchange(
        &mut self,
        step: &RankRequest,
        asked: std::ops::Range<u32>,
    ) -> Result<Vec<Answer>, LiveError> {
        // Numbers and text are always JSON.
        let line = serde_json::to_string(step).unwrap_or_default() + "\n";
        for rank in asked.clone() {
            let wrote = self.writers[rank as usize].write_all(line.as_bytes());
            wrote.map_err(|it| self.failed(rank, format!("cannot be told what to do: {it}")))?;
        }
        let limit = self.launch.limit.saturating_mul(step.limits());
        let mut answers: Vec<Option<Answer>> = vec![None; asked.len()];
        while let Some(missing) = answers.iter().position(Option::is_none) {
            // No more than were asked.
            let missing = asked.start + missing as u32;
            let (rank, heard) = self.heard.recv_timeout(limit).map_err(|it| match it {
                RecvTimeoutError::Timeout => self.silent(missing, step, limit),
                RecvTimeoutError::Disconnected => self.failed(missing, "is gone".to_owned()),
            })?;
            match heard {
                Heard::Answer(Answer::Failed { problem }) => {
                    return Err(self.failed(rank, problem));
                }
                Heard::Lost(why) => return Err(self.failed(rank, why)),
                Heard::Answer(answer) => {
                    let place =
                        rank.checked_sub(asked.start).and_then(|it| answers.get_mut(it as usize));
                    if let Some(place) = place {
                        *place = Some(answer);
                    }
                }
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn failed(&self, rank: u32, problem: String) -> LiveError {
        LiveError::Rank { rank, problem, log: tail(&self.launch.logs, rank) }
    }

    fn silent(&self, rank: u32, step: &RankRequest, limit: Wall) -> LiveError {
        let (seconds, during) = (limit.as_secs(), step.text());
        LiveError::Silent { rank, seconds, during, log: tail(&self.launch.logs, rank) }
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        // Ranks end when the driver hangs up; those that wait in NCCL do not notice.
        end(&self.launch, &mut self.children);
    }
}

/// A listener for ranks to report to.
///
/// # Errors
/// When there is none.
pub fn listen(address: IpAddr) -> Result<TcpListener, LiveError> {
    TcpListener::bind(SocketAddr::new(address, 0)).map_err(|it| io("a port for ranks", it))
}

/// Starts a rank as a process of this machine. The three numbers are its rank, how many ranks there are, and its rank on this host.
///
/// # Errors
/// When it cannot be started.
pub fn child(
    launch: &Launch,
    driver: SocketAddr,
    (rank, ranks, local): (u32, u32, u32),
) -> Result<Child, LiveError> {
    let log = launch.logs.join(format!("rank-{rank}.log"));
    let unwritable = |it| io(&format!("{} cannot be written", log.display()), it);
    let output = File::create(&log).map_err(unwritable)?;
    let errors = output.try_clone().map_err(unwritable)?;
    let mut command = Command::new(&launch.program);
    command.args(&launch.arguments);
    for (name, value) in [
        ("MOTET_RANK", rank.to_string()),
        ("MOTET_RANKS", ranks.to_string()),
        ("MOTET_LOCAL_RANK", local.to_string()),
        ("MOTET_DRIVER", driver.to_string()),
        ("MOTET_TOKEN", launch.token.clone()),
    ] {
        command.env(name, value);
    }
    command.env("MOTET_CONTROL", launch.control(rank));
    for (name, value) in &launch.environment {
        command.env(name, value.replace("%r", &rank.to_string()));
    }
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let program = launch.program.display();
    command.spawn().map_err(|it| io(&format!("{program} cannot be started"), it))
}

/// Lets ranks in until all are there.
fn accept(
    launch: &Launch,
    listener: &TcpListener,
    ranks: u32,
    children: &mut [(u32, Child)],
    sender: &Sender<(u32, Heard)>,
) -> Result<Vec<TcpStream>, LiveError> {
    const PAUSE: Wall = Wall::from_millis(20);
    listener.set_nonblocking(true).map_err(|it| io("the port for ranks", it))?;
    let mut there: Vec<Option<TcpStream>> = (0..ranks).map(|_| None).collect();
    // Pauses are counted, not timed: a little more than the limit at most.
    let mut pauses = launch.limit.as_millis() / PAUSE.as_millis();
    while let Some(missing) = there.iter().position(Option::is_none) {
        // No more than there are ranks.
        let missing = missing as u32;
        let connection = match listener.accept() {
            Ok((connection, _)) => connection,
            Err(_) if pauses > 0 => {
                pauses -= 1;
                for (rank, child) in children.iter_mut() {
                    if let Ok(Some(status)) = child.try_wait() {
                        let log = tail(&launch.logs, *rank);
                        let problem = format!("has ended ({status}) before it began");
                        return Err(LiveError::Rank { rank: *rank, problem, log });
                    }
                }
                thread::sleep(PAUSE);
                continue;
            }
            Err(_) => {
                let (seconds, during) = (launch.limit.as_secs(), "ranks were started".to_owned());
                let log = tail(&launch.logs, missing);
                return Err(LiveError::Silent { rank: missing, seconds, during, log });
            }
        };
        // Whoever does not say who it is, is none of ours.
        if let Some((rank, reader, writer)) = greet(connection, &launch.token)
            && let Some(place) = there.get_mut(rank as usize).filter(|it| it.is_none())
        {
            *place = Some(writer);
            let sender = sender.clone();
            thread::spawn(move || hear(rank, reader, &sender));
        }
    }
    Ok(there.into_iter().flatten().collect())
}

/// A rank's first line: the token and its number.
fn greet(connection: TcpStream, token: &str) -> Option<(u32, BufReader<TcpStream>, TcpStream)> {
    connection.set_nonblocking(false).ok()?;
    connection.set_nodelay(true).ok()?;
    connection.set_read_timeout(Some(HELLO)).ok()?;
    let writer = connection.try_clone().ok()?;
    let mut reader = BufReader::new(connection);
    let mut line = String::new();
    (&mut reader).take(256).read_line(&mut line).ok()?;
    let (said, rank) = line.trim_end().rsplit_once(' ')?;
    (said == token).then_some(())?;
    reader.get_ref().set_read_timeout(None).ok()?;
    Some((rank.parse().ok()?, reader, writer))
}

/// Hands on what a rank says, until it hangs up.
fn hear(rank: u32, mut reader: BufReader<TcpStream>, sender: &Sender<(u32, Heard)>) {
    loop {
        let mut line = String::new();
        let heard = match (&mut reader).take(MOST_LINE).read_line(&mut line) {
            Ok(0) => Heard::Lost("has ended".to_owned()),
            Ok(_) => match serde_json::from_str(&line) {
                Ok(answer) => Heard::Answer(answer),
                Err(error) => Heard::Lost(format!("says what cannot be read: {error}")),
            },
            Err(error) => Heard::Lost(format!("is lost: {error}")),
        };
        let last = matches!(heard, Heard::Lost(_));
        // Nobody listens any more when the team is gone.
        if sender.send((rank, heard)).is_err() || last {
            return;
        }
    }
}

/// Ends all ranks that were started here: all are killed before any is waited for.
fn end(launch: &Launch, children: &mut Vec<(u32, Child)>) {
    for (_, child) in children.iter_mut() {
        let _ = child.kill();
    }
    children.drain(..).for_each(|(rank, child)| launch.end(rank, child));
}

/// The last lines of a rank's log, as part of an error.
fn tail(logs: &Path, rank: u32) -> String {
    let path = logs.join(format!("rank-{rank}.log"));
    let read = || {
        let mut file = File::open(&path).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL))).ok()?;
        let mut bytes = Vec::new();
        file.take(LOG_TAIL).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    if last.is_empty() {
        return String::new();
    }
    format!("\n  the end of its log ({}):\n    {}\n ", path.display(), last.join("\n    "))
}

fn io(what: &str, error: std::io::Error) -> LiveError {
    LiveError::Io { what: what.to_owned(), error }
}
