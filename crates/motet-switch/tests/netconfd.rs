//! The NETCONF driver against a server that somebody else wrote: netconfd (yuma123) with Polatis' own modules, straight and over a real
//! `ssh` and `sshd`. Skipped where these are not installed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration as Time;

use motet_control::{Circuit, SwitchId};
use motet_switch::config::DriverKind;
use motet_switch::{Delta, Notice, Problem, SwitchConfig, Wiring};
use motet_units::Duration;

const ID: SwitchId = SwitchId(0);

fn delta(delete: &[(u32, u32)], create: &[(u32, u32)]) -> Delta {
    let all =
        |it: &[(u32, u32)]| it.iter().map(|(a, b)| Circuit::new(ID, *a, *b).unwrap()).collect();
    Delta { delete: all(delete), create: all(create) }
}

/// Ends what it has started.
struct Server {
    children: Vec<Child>,
    folder: tempfile::TempDir,
    port: u16,
    subsystem: PathBuf,
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn skip(why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: netconfd: {why}");
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let found = folders.map(|it| it.join(name)).find(|it| it.is_file());
    if found.is_none() {
        skip(&format!("`{name}` is not installed"));
    }
    found
}

/// Starts netconfd with Polatis' modules and waits until it can be spoken to.
fn server() -> Option<Server> {
    let (netconfd, subsystem) = (program("netconfd")?, program("netconf-subsystem")?);
    let folder = tempfile::tempdir().unwrap();
    for name in ["optical-switch.yang", "polatis-switch.yang"] {
        let text = motet_testdata::sample(&format!("ocs/{name}"))?;
        // netconfd cannot read ranges of decimal numbers that are not in quotes.
        let lines =
            text.lines().filter(|it| !it.contains("range 1260.0") && !it.contains("range -100.0"));
        std::fs::write(folder.path().join(name), lines.collect::<Vec<_>>().join("\n")).unwrap();
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let inside = |name: &str| folder.path().join(name).display().to_string();
    let child = Command::new(netconfd)
        .env("HOME", folder.path())
        .args([
            "--module=optical-switch",
            "--module=polatis-switch",
            "--no-startup",
            "--target=running",
        ])
        .args(["--access-control=off", "--log-level=info"])
        .args([
            format!("--modpath={}:/usr/share/yuma/modules", folder.path().display()),
            format!("--port={port}"),
        ])
        .args([
            format!("--ncxserver-sockname={}", inside("sock")),
            format!("--log={}", inside("log")),
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut server = Server { children: vec![child], folder, port, subsystem };
    for _ in 0..200 {
        if server.folder.path().join("sock").exists() {
            return Some(server);
        }
        if server.children[0].try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Time::from_millis(100));
    }
    let log = std::fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
    panic!("netconfd does not start: {log}");
}

impl Server {
    fn subsystem(&self) -> String {
        let sock = self.folder.path().join("sock");
        format!(
            "{} --ncxserver-sockname={}@{}",
            self.subsystem.display(),
            self.port,
            sock.display()
        )
    }

    /// What `sshd` would do: the subsystem, told by its environment who has come.
    fn straight(&self) -> Vec<String> {
        let place = format!("SSH_CONNECTION=127.0.0.1 1 127.0.0.1 {}", self.port);
        let user = format!("USER={}", std::env::var("USER").unwrap_or("root".to_owned()));
        let words = self.subsystem();
        ["env", &place, &user].into_iter().chain(words.split(' ')).map(str::to_owned).collect()
    }

    /// Starts `sshd` with the subsystem; gives the command that reaches it.
    fn ssh(&mut self) -> Option<Vec<String>> {
        let (sshd, keygen) = (program("sshd")?, program("ssh-keygen")?);
        let file = |name: &str| self.folder.path().join(name).display().to_string();
        for name in ["host", "key"] {
            let made = Command::new(&keygen)
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &file(name)])
                .status();
            assert!(made.unwrap().success());
        }
        let known = std::fs::read_to_string(file("host.pub")).unwrap();
        std::fs::write(file("known"), format!("[127.0.0.1]:{} {known}", self.port)).unwrap();
        let config = format!(
            "Port {}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nPidFile none\n\
             UsePAM no\nPasswordAuthentication no\nSubsystem netconf {}\n",
            self.port,
            file("host"),
            file("key.pub"),
            self.subsystem()
        );
        std::fs::write(file("sshd_config"), config).unwrap();
        // Debian's sshd wants this folder, which its service makes.
        let _ = std::fs::create_dir_all("/run/sshd");
        let log = std::fs::File::create(file("sshd.log")).unwrap();
        let child = Command::new(sshd)
            .args(["-D", "-e", "-f", &file("sshd_config")])
            .stderr(log)
            .stdout(Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                break;
            }
            std::thread::sleep(Time::from_millis(50));
        }
        if child.try_wait().unwrap().is_some() {
            skip(&format!(
                "sshd does not start: {}",
                std::fs::read_to_string(file("sshd.log")).unwrap_or_default()
            ));
            return None;
        }
        self.children.push(child);
        let port = self.port.to_string();
        let (key, known) = (file("key"), format!("UserKnownHostsFile={}", file("known")));
        let words = [
            "ssh",
            "-T",
            "-F",
            "none",
            "-p",
            &port,
            "-i",
            &key,
            "-o",
            &known,
            "-o",
            "BatchMode=yes",
            "-s",
            "127.0.0.1",
            "netconf",
        ];
        Some(words.map(str::to_owned).to_vec())
    }
}

fn config(command: Vec<String>, wiring: Wiring) -> SwitchConfig {
    let mut config = SwitchConfig::simulated("netconfd", 64);
    config.driver = DriverKind::Netconf;
    config.command = Some(command);
    config.wiring = wiring;
    // Nothing here may be found by looking from time to time.
    config.poll = Some(Duration::from_ms(3_600_000));
    config
}

async fn scenario(command: Vec<String>, wiring: Wiring, folder: &Path) {
    let driver = motet_switch::open(ID, &config(command.clone(), wiring)).unwrap();
    let all: Vec<(u32, u32)> = (0..32).map(|it| (it, 63 - it)).collect();
    let first = driver.read().await;
    let first = first
        .unwrap_or_else(|it| panic!("{it}; {:?}", std::fs::read_to_string(folder.join("log"))));
    driver.apply(&Delta { delete: first.circuits, create: Vec::new() }).await.unwrap();
    let began = tokio::time::Instant::now();
    let now = driver.apply(&delta(&[], &all)).await.unwrap();
    let took = began.elapsed();
    assert_eq!((now.circuits.len(), now.strays.len()), (32, 0));
    let _ =
        writeln!(std::io::stderr(), "{wiring:?}: 32 circuits created and read back in {took:?}");
    let now = driver.apply(&delta(&[(0, 63), (1, 62)], &[(0, 62), (1, 63)])).await.unwrap();
    assert_eq!(now.circuits.len(), 32);
    let taken = driver.apply(&delta(&[], &[(0, 1)])).await.unwrap_err();
    assert!(matches!(taken.error.problem, Problem::Taken { .. }), "{taken}");

    // Somebody else changes something: told by a notification, as nobody looks. The subscription takes a moment to be there, so
    // it is changed until it is told.
    let mut watch = driver.watch();
    let other = motet_switch::open(ID, &config(command, wiring)).unwrap();
    let (there, gone) = (delta(&[], &[(2, 61)]), delta(&[(2, 61)], &[]));
    let mut told = None;
    for change in [&gone, &there].into_iter().cycle().take(30) {
        other.apply(change).await.unwrap();
        told = tokio::time::timeout(Time::from_secs(2), watch.next()).await.ok().flatten();
        if told.is_some() {
            break;
        }
    }
    let Some(Notice::Circuits(now)) = told else { panic!("{told:?}") };
    assert!(matches!(now.circuits.len(), 31 | 32));
    drop(watch);
    other.apply(&gone).await.unwrap();

    // Both at once: the lock keeps their requests apart. Each is done, or says that somebody else has changed something.
    let (a, b) = (delta(&[(3, 60)], &[(3, 61)]), delta(&[(4, 59)], &[(4, 2)]));
    let (a, b) = tokio::join!(driver.apply(&a), other.apply(&b));
    for failure in [a, b].into_iter().filter_map(Result::err) {
        let Problem::NotDone(difference) = &failure.error.problem else { panic!("{failure}") };
        assert!(difference.missing.is_empty() && difference.left.is_empty(), "{failure}");
    }
    let now = driver.read().await.unwrap().circuits;
    assert!(
        [(3, 61), (2, 4)].iter().all(|it| now.contains(&Circuit::new(ID, it.0, it.1).unwrap())),
        "{now:?}"
    );
}

#[tokio::test]
async fn straight() {
    for wiring in [Wiring::Bidirectional, Wiring::Duplex] {
        let Some(server) = server() else { return };
        scenario(server.straight(), wiring, server.folder.path()).await;
    }
}

/// Why one-to-one is checked on our side: the server takes an output twice.
#[tokio::test]
async fn the_model_itself_takes_an_output_twice() {
    use motet_switch::device::{Device, Steps};
    let Some(server) = server() else { return };
    let transport = motet_switch::netconf::Transport::Program(server.straight());
    let device = motet_switch::netconf::Netconf { transport };
    let mut session = device.connect().await.unwrap();
    let cross = |input, output| motet_switch::Cross { input, output };
    let add = vec![cross(1, 9), cross(2, 9)];
    session.change(&Steps { remove: Vec::new(), add }).await.unwrap();
    assert_eq!(session.read().await.unwrap().crosses.len(), 2);
}

#[tokio::test]
async fn over_ssh() {
    let Some(mut server) = server() else { return };
    let Some(command) = server.ssh() else { return };
    scenario(command.clone(), Wiring::Duplex, server.folder.path()).await;

    // The server checks ports, and says so in words that are passed on.
    let mut beyond = config(command.clone(), Wiring::Bidirectional);
    beyond.first_port = Some(65_530);
    let driver = motet_switch::open(ID, &beyond).unwrap();
    let failure = driver.apply(&delta(&[], &[(0, 40)])).await.unwrap_err();
    assert!(
        matches!(&failure.error.problem, Problem::Rejected(words) if words.contains("range")),
        "{failure}"
    );
    assert_eq!(failure.now.unwrap().circuits, []);

    // A key that the server does not know.
    let stranger: Vec<String> =
        command.iter().filter(|it| !it.ends_with("/key") && *it != "-i").cloned().collect();
    let nobody: Vec<String> = stranger
        .into_iter()
        .flat_map(|it| match it.as_str() {
            "-T" => vec![it, "-o".to_owned(), "IdentitiesOnly=yes".to_owned()],
            _ => vec![it],
        })
        .collect();
    let driver = motet_switch::open(ID, &config(nobody, Wiring::Bidirectional)).unwrap();
    let error = driver.read().await.unwrap_err();
    assert!(matches!(error.problem, Problem::Login(_)), "{error}");

    // A server that is gone.
    let driver = motet_switch::open(ID, &config(command, Wiring::Bidirectional)).unwrap();
    driver.read().await.unwrap();
    drop(server);
    let error = driver.read().await.unwrap_err();
    assert!(matches!(error.problem, Problem::Unreachable(_)), "{error}");
}
