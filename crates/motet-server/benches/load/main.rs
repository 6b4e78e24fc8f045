//! Load over gRPC: how many circuit requests a second, how long each waits, and what a registered rank costs in memory.
//! `cargo bench -p motet-server --bench load`
//!
//! A *request* is a member's ask that is answered by a grant after circuits were really changed: pairs of members go back
//! and forth between two groups that want the same ports, so every grant needs a change in two phases on the
//! (simulated) switch, and every change is written to the store. Time is from the moment when the last member of the group has
//! asked, at the client, to the moment when the client has the grant.
//!
//! Without arguments service and clients are one process. As two, each can have cores of its own (the program is
//! `target/release/deps/load-…` and needs nothing beside it):
//!
//! ```sh
//! taskset -c 0,1 load serve 127.0.0.1:7400 &         # until SIGTERM
//! taskset -c 2-15 load drive 127.0.0.1:7400          # all rates; or: CONNECTIONS FOURS RATE SECONDS
//! ```
//!
//! The store is in a folder of its own under `MOTET_LOAD_FOLDER`, or where temporary files are.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measurement may fail, and prints"
)]

mod driver;
mod memory;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use motet_server::Config;
use motet_server::client::{Address, Client};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use driver::{Driver, job};

/// What is asked of the service.
#[derive(Clone, Copy)]
struct Load {
    /// Connections, each with a job of its own.
    clients: u32,
    /// Fours of members of each.
    quads: u32,
    /// Asks a second over all members, or as many as there can be.
    rate: Option<f64>,
    seconds: u64,
}

/// With which rates there are figures in `BENCHMARKS.md`.
fn usual() -> Vec<Load> {
    let few = |rate| Load { clients: 4, quads: 16, rate, seconds: 10 };
    let many = Load { clients: 64, quads: 4, rate: Some(11_000.0), seconds: 10 };
    vec![few(Some(2_000.0)), few(Some(11_000.0)), few(Some(20_000.0)), few(None), many]
}

fn config(listen: &str, folder: &Path, switches: u32, ports: u32) -> Config {
    let switches: String =
        (0..switches).map(|it| format!("[[switch]]\nname = 's{it}'\nports = {ports}\n")).collect();
    let store = folder.join("load.redb");
    let text = format!("listen = '{listen}'\nstore = '{}'\n{switches}", store.display());
    Config::parse(&text, Path::new("")).unwrap()
}

/// The service's own figures, by name.
struct Figures(String);

impl Figures {
    async fn of(service: SocketAddr) -> Self {
        let mut stream = tokio::net::TcpStream::connect(service).await.unwrap();
        let ask = "GET /metrics HTTP/1.1\r\nHost: load\r\nConnection: close\r\n\r\n";
        stream.write_all(ask.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        Self(text)
    }

    fn value(&self, name: &str) -> f64 {
        let line = self.0.lines().find_map(|it| it.strip_prefix(name));
        line.and_then(|it| it.trim().parse().ok()).unwrap_or(0.0)
    }

    /// How many changes of circuits and commits there were, and how long the latter took together.
    fn done(&self) -> [f64; 3] {
        let names = [
            "motet_changes_total{kind=\"done\"}",
            "motet_commit_seconds_count",
            "motet_commit_seconds_sum",
        ];
        names.map(|it| self.value(it))
    }
}

async fn drive(service: SocketAddr, load: Load) {
    let Load { clients, quads, rate, seconds } = load;
    let url = format!("http://{service}");
    let members = clients * 4 * quads;
    let pace = rate.map(|it| Duration::from_secs_f64(f64::from(members) / it));
    let begin = Instant::now() + Duration::from_secs(1);
    let end = begin + Duration::from_secs(seconds);
    let before = Figures::of(service).await.done();
    let (mut all, mut tasks) = (Vec::new(), Vec::new());
    for number in 0..clients {
        let client = Client::new(&Address { url: url.clone(), ..Address::default() }).unwrap();
        let offset = f64::from(number) / f64::from(clients * quads);
        let driver = Driver::connect(&client, job(u64::from(number), quads, number), offset).await;
        tasks.push(tokio::spawn(driver.run(pace, begin, end)));
        all.push(client);
    }
    let (mut times, mut refused) = (Vec::new(), 0);
    for task in tasks {
        let (these, more) = task.await.unwrap();
        times.extend(these);
        refused += more;
    }
    let after = Figures::of(service).await.done();
    for (number, client) in (0..).zip(&all) {
        Driver::leave(client, number).await;
    }
    let [changes, commits, spent] = [0, 1, 2].map(|it| after[it] - before[it]);
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    let asked = rate.map_or("as many as go".to_owned(), |it| format!("{it:.0}/s asked"));
    println!(
        "{clients} connections, {members} members, {asked}: {:.0} requests/s granted in {seconds} s, {refused} refused, \
         p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms; {changes} changes, {commits} commits of {:.3} ms",
        times.len() as f64 / seconds as f64,
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0),
        1e3 * spent / commits
    );
}

/// Service and clients in one process.
async fn together(folder: &Path, load: Load) {
    let folder = tempfile::tempdir_in(folder).unwrap();
    let config = config("127.0.0.1:0", folder.path(), load.clients, 4 * load.quads);
    let running = motet_server::start(&config).await.unwrap();
    drive(running.address, load).await;
    running.stop().await;
}

/// `CONNECTIONS FOURS RATE SECONDS`, of which any number may be left out; rate 0 is as many as go.
fn loads(words: &[String]) -> Vec<Load> {
    let numbers: Vec<u64> = words.iter().map(|it| it.parse().expect("a number")).collect();
    let Some(clients) = numbers.first() else { return usual() };
    let number = |at: usize, usual: u64| numbers.get(at).copied().unwrap_or(usual);
    let rate = Some(number(2, 11_000) as f64).filter(|it| *it > 0.0);
    vec![Load {
        clients: *clients as u32,
        quads: number(1, 4) as u32,
        rate,
        seconds: number(3, 10),
    }]
}

fn main() {
    let folder = std::env::var_os("MOTET_LOAD_FOLDER").map_or_else(std::env::temp_dir, Into::into);
    // Cargo adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    if let [first, address] = &words[..]
        && first == "serve"
    {
        let folder = tempfile::tempdir_in(folder).unwrap();
        let config = config(address, folder.path(), 64, 64);
        motet_server::run::serve(&config, |it| println!("listening on {it}")).unwrap();
        return;
    }
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        if let [first, address, rest @ ..] = &words[..]
            && first == "drive"
        {
            for it in loads(rest) {
                drive(address.parse().expect("HOST:PORT"), it).await;
            }
            return;
        }
        if words.is_empty() {
            memory::memory().await;
        }
        for it in loads(&words) {
            together(&folder, it).await;
        }
    });
}
