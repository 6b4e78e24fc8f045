//! One scenario over every driver: a simulated switch behind each protocol, in both wirings, told to fail in every way it can. Whatever a
//! driver says must be what the switch has.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

mod fake;

use std::sync::Arc;

use fake::Fake;
use motet_control::{Circuit, SwitchId};
use motet_switch::config::{DriverKind, TlsConfig};
use motet_switch::managed::Manner;
use motet_switch::sim::{Mishap, SimConfig, Simulated, Switch};
use motet_switch::{
    Delta, Driver, Failure, Layout, Managed, Notice, PortState, Problem, Snapshot, SwitchConfig,
    Wiring, netconf,
};
use motet_units::{Duration, Seed};
use rand::RngExt;

const ID: SwitchId = SwitchId(1);
const PORTS: u32 = 8;
const LOGIN: (&str, &str) = ("admin", "se:cret;1");

fn circuit(a: u32, b: u32) -> Circuit {
    Circuit::new(ID, a, b).unwrap()
}

fn delta(delete: &[(u32, u32)], create: &[(u32, u32)]) -> Delta {
    let all = |it: &[(u32, u32)]| it.iter().map(|(a, b)| circuit(*a, *b)).collect();
    Delta { delete: all(delete), create: all(create) }
}

/// A driver, the switch behind it, and what must live as long.
struct Bench {
    driver: Box<dyn Driver>,
    switch: Arc<Switch>,
    layout: Layout,
    /// A change is several requests, for each of its cross-connections one.
    pieces: bool,
    _files: Option<tempfile::TempDir>,
}

fn layout(wiring: Wiring) -> Layout {
    match wiring {
        Wiring::Bidirectional => Layout::bidirectional(PORTS),
        Wiring::Duplex => Layout::duplex(PORTS),
    }
}

fn fake(switch: &Arc<Switch>, wiring: Wiring) -> Fake {
    let (ports, inputs) = match wiring {
        Wiring::Bidirectional => (PORTS, None),
        Wiring::Duplex => (2 * PORTS, Some(PORTS)),
    };
    Fake { switch: switch.clone(), ports, inputs, login: None }
}

fn manner(layout: Layout) -> Manner {
    Manner {
        id: ID,
        name: "bench".to_owned(),
        address: "test".to_owned(),
        layout,
        timeout: Duration::from_ms(3_000),
        settle: Duration::from_ms(20),
        poll: Duration::from_ms(50),
    }
}

/// Puts a simulated switch behind a protocol and a driver before it. Where the protocol has logins and TLS, they are used.
async fn bench(kind: DriverKind, wiring: Wiring) -> Bench {
    let switch = Switch::new(&SimConfig::default()).unwrap();
    let layout = layout(wiring);
    let mut fake = fake(&switch, wiring);
    let folder = tempfile::tempdir().unwrap();
    let mut config = SwitchConfig::simulated("bench", PORTS);
    config.driver = kind;
    config.wiring = wiring;
    config.timeout = Some(Duration::from_ms(3_000));
    config.settle = Some(Duration::from_ms(20));
    config.poll = Some(Duration::from_ms(50));
    let (acceptor, tls) = certificates(folder.path());
    if matches!(kind, DriverKind::Gnmi | DriverKind::Restconf | DriverKind::Tl1) {
        fake.login = Some(LOGIN);
        config.user = Some(LOGIN.0.to_owned());
        let file = folder.path().join("password");
        std::fs::write(&file, format!("{}\n", LOGIN.1)).unwrap();
        config.password_file = Some(file);
    }
    let acceptor = (wiring == Wiring::Duplex).then_some(acceptor);
    let address = match kind {
        DriverKind::Sim => {
            let driver =
                Box::new(Managed::new(manner(layout), Box::new(Simulated(switch.clone()))));
            return Bench { driver, switch, layout, pieces: false, _files: None };
        }
        DriverKind::Netconf => {
            let address = fake::netconf::start(fake, wiring == Wiring::Duplex).await;
            let transport =
                netconf::Transport::Tcp { host: "127.0.0.1".to_owned(), port: address.port() };
            let device = Box::new(netconf::Netconf { transport });
            return Bench {
                driver: Box::new(Managed::new(manner(layout), device)),
                switch,
                layout,
                pieces: false,
                _files: None,
            };
        }
        DriverKind::Scpi => fake::scpi::start(fake).await,
        DriverKind::Tl1 => fake::tl1::start(fake).await,
        DriverKind::Restconf => {
            config.tls = acceptor.is_some().then_some(tls);
            fake::restconf::start(fake, acceptor).await
        }
        DriverKind::Gnmi => {
            config.tls = acceptor.is_some().then_some(tls);
            fake::gnmi::start(fake, acceptor).await
        }
    };
    config.address = Some(address.to_string());
    let driver = motet_switch::open(ID, &config).unwrap();
    {
        let pieces = kind == DriverKind::Restconf && wiring == Wiring::Duplex;
        Bench { driver, switch, layout, pieces, _files: Some(folder) }
    }
}

/// A certificate for this machine, and the files of whoever trusts it.
fn certificates(folder: &std::path::Path) -> (tokio_rustls::TlsAcceptor, TlsConfig) {
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::{ServerConfig, crypto};
    let rcgen::CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(vec!["switch.test".to_owned()]).unwrap();
    let ca = folder.join("ca.pem");
    std::fs::write(&ca, cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let mut config =
        ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server_name = Some("switch.test".to_owned());
    let tls = TlsConfig { ca: Some(ca), server_name, ..TlsConfig::default() };
    (tokio_rustls::TlsAcceptor::from(Arc::new(config)), tls)
}

impl Bench {
    /// Circuits that the switch really has, looked at from behind.
    fn real(&self) -> Vec<Circuit> {
        let crosses = self.switch.crosses();
        let has = |it: &motet_switch::Cross| {
            let it = self.layout.canonical(*it);
            crosses.iter().any(|cross| self.layout.canonical(*cross) == it)
        };
        let whole = |it: &Circuit| self.layout.crosses(it).all(|it| has(&it));
        let all = (0..PORTS).flat_map(|a| (a + 1..PORTS).map(move |b| circuit(a, b)));
        all.filter(whole).collect()
    }

    /// Applies, and holds whatever is said against the switch.
    async fn apply(&self, delta: &Delta) -> Result<Snapshot, Failure> {
        let answer = self.driver.apply(delta).await;
        let real = self.real();
        match &answer {
            Ok(now) => {
                assert_eq!(now.circuits, real);
                assert!(
                    delta.create.iter().all(|it| real.contains(it)),
                    "done, but not there: {delta:?}"
                );
                let gone = delta.delete.iter().filter(|it| !delta.create.contains(it));
                assert!(
                    gone.clone().all(|it| !real.contains(it)),
                    "done, but still there: {delta:?}"
                );
            }
            Err(Failure { now: Some(now), .. }) => assert_eq!(now.circuits, real, "{answer:?}"),
            Err(_) => {}
        }
        answer
    }
}

/// What goes well, and what is refused before anything is sent.
async fn quiet(bench: &Bench) {
    assert_eq!(bench.driver.read().await.unwrap().circuits, []);
    bench.apply(&delta(&[], &[(0, 1), (2, 3)])).await.unwrap();
    let changes = bench.switch.changes();
    bench.apply(&delta(&[(4, 5)], &[(0, 1)])).await.unwrap();
    assert_eq!(bench.switch.changes(), changes, "what is there already was sent again");
    bench.apply(&delta(&[(0, 1)], &[(1, 4), (0, 6)])).await.unwrap();
    assert_eq!(bench.real(), [circuit(0, 6), circuit(1, 4), circuit(2, 3)]);
    let changes = bench.switch.changes();
    let problem = |it: Result<Snapshot, Failure>| it.unwrap_err().error.problem;
    let taken = problem(bench.apply(&delta(&[], &[(3, 5)])).await);
    assert!(matches!(taken, Problem::Taken { number: 3, .. }), "{taken:?}");
    assert_eq!(problem(bench.apply(&delta(&[], &[(5, 7), (7, 2)])).await), Problem::Twice(7));
    let beyond = Problem::NoSuchPort { number: 8, ports: 8 };
    assert_eq!(problem(bench.apply(&delta(&[], &[(5, 8)])).await), beyond);
    bench.switch.set_port(bench.layout.input(5), PortState::Failed);
    let failed = Problem::Port { number: 5, state: PortState::Failed };
    assert_eq!(problem(bench.apply(&delta(&[], &[(5, 7)])).await), failed);
    bench.switch.set_port(bench.layout.output(5), PortState::Up);
    bench.switch.set_port(bench.layout.input(5), PortState::Disabled);
    let disabled = Problem::Port { number: 5, state: PortState::Disabled };
    assert_eq!(bench.driver.prepare(&delta(&[], &[(5, 7)])).await.unwrap_err().problem, disabled);
    bench.switch.set_port(bench.layout.input(5), PortState::Up);
    bench.driver.prepare(&delta(&[], &[(5, 7)])).await.unwrap();
    assert_eq!(bench.switch.changes(), changes, "something was sent that should have been refused");
}

/// Every way to fail, one after the other.
async fn failing(bench: &Bench) {
    bench.switch.expect(Mishap::Refuses);
    let failure = bench.apply(&delta(&[(2, 3)], &[(5, 7)])).await.unwrap_err();
    assert!(matches!(failure.error.problem, Problem::Rejected(_)), "{failure}");
    assert!(failure.to_string().contains("not now"), "{failure}");
    bench.switch.expect(Mishap::DoesHalf);
    let all = delta(&[(0, 6), (1, 4), (2, 3)], &[(0, 1), (2, 4), (3, 7)]);
    let failure = bench.apply(&all).await.unwrap_err();
    assert!(failure.now.is_some() && failure.to_string().contains("gave up"), "{failure}");
    // Asked again, it is finished: what is left over is in nobody's way.
    bench.apply(&all).await.unwrap();
    bench.switch.expect(Mishap::Ignores);
    let failure = bench.apply(&delta(&[(0, 1)], &[])).await.unwrap_err();
    assert!(matches!(failure.error.problem, Problem::TimedOut(_)), "{failure}");
    assert!(failure.now.is_some());
    bench.switch.expect(Mishap::DoesInSilence);
    let done = bench.apply(&delta(&[(0, 1)], &[])).await;
    if bench.pieces {
        // It is asked pair by pair: the first was done, the second was never sent.
        assert!(matches!(done.unwrap_err().error.problem, Problem::TimedOut(_)));
        bench.apply(&delta(&[(0, 1)], &[])).await.unwrap();
    } else {
        assert!(done.is_ok(), "{done:?}");
    }
    bench.switch.expect(Mishap::LosesPower);
    let failure = bench.apply(&delta(&[(2, 4)], &[(2, 5)])).await.unwrap_err();
    assert_eq!(failure.now.unwrap().circuits, [], "{}", failure.error);
    bench.switch.power(false);
    let failure = bench.apply(&delta(&[], &[(0, 1)])).await.unwrap_err();
    assert!(failure.now.is_none() && failure.error.problem.leaves_doubt(), "{failure}");
    bench.switch.power(true);
    bench.apply(&delta(&[], &[(0, 1)])).await.unwrap();
    bench.switch.expect(Mishap::PortFails);
    bench.apply(&delta(&[], &[(2, 3)])).await.unwrap_err();
    let failure = bench.apply(&delta(&[], &[(2, 3)])).await.unwrap_err();
    assert!(matches!(failure.error.problem, Problem::Port { .. }), "{failure}");
    for port in 1..=2 * PORTS {
        bench.switch.set_port(port, PortState::Up);
    }
}

/// What others do is told, what we do is not.
async fn watching(bench: &Bench) {
    bench.switch.set_port(bench.layout.input(7), PortState::Failed);
    bench.driver.read().await.unwrap();
    let mut watch = bench.driver.watch();
    assert_eq!(watch.next().await, Some(Notice::Port(7, PortState::Failed)));
    bench.apply(&delta(&[], &[(2, 3)])).await.unwrap();
    bench.switch.meddle(bench.layout.input(2), None);
    let notice = watch.next().await.unwrap();
    assert!(
        matches!(&notice, Notice::Circuits(now) if !now.circuits.contains(&circuit(2, 3))),
        "{notice:?}"
    );
    bench.switch.set_port(bench.layout.input(7), PortState::Up);
    assert_eq!(watch.next().await, Some(Notice::Port(7, PortState::Up)));
    bench.switch.power(false);
    let notice = watch.next().await.unwrap();
    assert!(matches!(notice, Notice::Lost(_)), "{notice:?}");
    bench.switch.power(true);
    let notice = watch.next().await.unwrap();
    assert!(matches!(&notice, Notice::Back(now) if now.circuits.is_empty()), "{notice:?}");
}

/// Random changes with random mishaps that answer; silence costs seconds each.
async fn random(bench: &Bench, seed: u64) {
    let mut stream = Seed::new(seed).stream("changes");
    for _ in 0..60 {
        match stream.random_range(0..12) {
            0 => bench.switch.expect(Mishap::Refuses),
            1 => bench.switch.expect(Mishap::DoesHalf),
            2 => bench.switch.expect(Mishap::LosesPower),
            _ => {}
        }
        let now = bench.real();
        let delete: Vec<Circuit> =
            now.iter().filter(|_| stream.random_range(0..2) == 0).copied().collect();
        let mut free: Vec<u32> = (0..PORTS).collect();
        for circuit in now.iter().filter(|it| !delete.contains(it)) {
            free.retain(|it| !circuit.numbers().contains(it));
        }
        let mut create = Vec::new();
        while free.len() > 1 && stream.random_range(0..3) > 0 {
            let a = free.swap_remove(stream.random_range(0..free.len()));
            let b = free.swap_remove(stream.random_range(0..free.len()));
            create.push(circuit(a, b));
        }
        let _ = bench.apply(&Delta { delete, create }).await;
    }
    // Mishaps that were not used up must not spoil the end.
    for _ in 0..100 {
        let clear = Delta {
            delete: bench.driver.read().await.unwrap().circuits,
            create: vec![circuit(0, 1)],
        };
        if bench.apply(&clear).await.is_ok() {
            return;
        }
    }
    panic!("it never came to rest");
}

async fn scenario(kind: DriverKind, wiring: Wiring) {
    let bench = bench(kind, wiring).await;
    quiet(&bench).await;
    failing(&bench).await;
    let bench = self::bench(kind, wiring).await;
    watching(&bench).await;
    let bench = self::bench(kind, wiring).await;
    random(&bench, 7).await;
}

/// All at once, because most of their time is waiting for switches that do not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_driver_says_what_is_so() {
    let mut all = Vec::new();
    for kind in [
        DriverKind::Sim,
        DriverKind::Gnmi,
        DriverKind::Netconf,
        DriverKind::Restconf,
        DriverKind::Scpi,
        DriverKind::Tl1,
    ] {
        for wiring in [Wiring::Bidirectional, Wiring::Duplex] {
            all.push((kind, wiring, tokio::spawn(scenario(kind, wiring))));
        }
    }
    let mut failed = Vec::new();
    for (kind, wiring, task) in all {
        if let Err(error) = task.await {
            failed.push(format!("{kind:?}, {wiring:?}: {error}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// A wrong password is a wrong password, in whatever words.
#[tokio::test]
async fn a_wrong_password_is_said_to_be_one() {
    for kind in [DriverKind::Gnmi, DriverKind::Restconf, DriverKind::Tl1] {
        let switch = Switch::new(&SimConfig::default()).unwrap();
        let fake = Fake { login: Some(("admin", "other")), ..fake(&switch, Wiring::Bidirectional) };
        let address = match kind {
            DriverKind::Gnmi => fake::gnmi::start(fake, None).await,
            DriverKind::Restconf => fake::restconf::start(fake, None).await,
            _ => fake::tl1::start(fake).await,
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "wrong\n").unwrap();
        let mut config = SwitchConfig::simulated("bench", PORTS);
        config.driver = kind;
        config.address = Some(address.to_string());
        config.user = Some("admin".to_owned());
        config.password_file = Some(file);
        let driver = motet_switch::open(ID, &config).unwrap();
        let error = driver.read().await.unwrap_err();
        assert!(matches!(error.problem, Problem::Login(_)), "{error}");
        assert!(
            error.to_string().contains("switch `bench` at")
                && error.to_string().contains("password"),
            "{error}"
        );
        assert!(!error.to_string().contains("wrong\n"), "{error}");
    }
}

/// A certificate of somebody else is refused.
#[tokio::test]
async fn a_certificate_that_nobody_signed_is_refused() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (acceptor, _) = certificates(folder.path());
    let (_, tls) = certificates(other.path());
    let switch = Switch::new(&SimConfig::default()).unwrap();
    for kind in [DriverKind::Gnmi, DriverKind::Restconf] {
        let fake = fake(&switch, Wiring::Bidirectional);
        let address = match kind {
            DriverKind::Gnmi => fake::gnmi::start(fake, Some(acceptor.clone())).await,
            _ => fake::restconf::start(fake, Some(acceptor.clone())).await,
        };
        let mut config = SwitchConfig::simulated("bench", PORTS);
        config.driver = kind;
        config.address = Some(address.to_string());
        config.tls = Some(tls.clone());
        let error = motet_switch::open(ID, &config).unwrap().read().await.unwrap_err();
        assert!(error.problem.leaves_doubt(), "{error}");
    }
}

/// In OCP's model a connection over a port that fails is `FAILED`: no circuit any more, and in nobody's way.
#[tokio::test]
async fn a_connection_that_has_failed_is_no_circuit() {
    let bench = bench(DriverKind::Gnmi, Wiring::Bidirectional).await;
    bench.apply(&delta(&[], &[(0, 1), (2, 3)])).await.unwrap();
    bench.switch.set_port(1, PortState::Failed);
    let now = bench.driver.read().await.unwrap();
    assert_eq!((now.circuits, now.ports[0]), (vec![circuit(2, 3)], PortState::Failed));
    assert!(now.strays[0].why.contains("FAILED: a port has failed"), "{:?}", now.strays);
    let now = bench.driver.apply(&delta(&[], &[(1, 4)])).await.unwrap();
    assert_eq!(now.circuits, [circuit(1, 4), circuit(2, 3)]);
    assert_eq!(bench.switch.crosses().len(), 2);
}

/// Takes TLS off connections and passes them on.
async fn tls_front(
    acceptor: tokio_rustls::TlsAcceptor,
    behind: std::net::SocketAddr,
) -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(stream).await else { return };
                let mut inner = tokio::net::TcpStream::connect(behind).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    address
}

/// Switches that want to know who we are: with our certificate they let us in, without it they do not.
#[tokio::test]
async fn switches_may_ask_for_our_certificate() {
    use tokio_rustls::rustls::pki_types::PrivateKeyDer;
    use tokio_rustls::rustls::server::WebPkiClientVerifier;
    use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let (server, ours) = (named("switch.test"), named("us.test"));
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let tls = TlsConfig {
        ca: file("ca.pem", server.cert.pem()),
        certificate: file("us.pem", ours.cert.pem()),
        key: file("us.key", ours.signing_key.serialize_pem()),
        server_name: Some("switch.test".to_owned()),
    };
    let mut roots = RootCertStore::empty();
    roots.add(ours.cert.der().clone()).unwrap();
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .unwrap();
    let mut accept = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![server.cert.der().clone()],
            PrivateKeyDer::try_from(server.signing_key.serialize_der()).unwrap(),
        )
        .unwrap();
    accept.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(accept));
    for kind in [DriverKind::Gnmi, DriverKind::Restconf, DriverKind::Netconf] {
        let switch = Switch::new(&SimConfig::default()).unwrap();
        let fake = fake(&switch, Wiring::Bidirectional);
        let behind = match kind {
            DriverKind::Gnmi => fake::gnmi::start(fake, None).await,
            DriverKind::Restconf => fake::restconf::start(fake, None).await,
            _ => fake::netconf::start(fake, true).await,
        };
        let mut config = SwitchConfig::simulated("bench", PORTS);
        config.driver = kind;
        config.address = Some(tls_front(acceptor.clone(), behind).await.to_string());
        config.tls = Some(tls.clone());
        let driver = motet_switch::open(ID, &config).unwrap();
        driver.apply(&delta(&[], &[(0, 1)])).await.unwrap();
        assert_eq!(driver.read().await.unwrap().circuits, [circuit(0, 1)]);
        config.tls = Some(TlsConfig { certificate: None, key: None, ..tls.clone() });
        let error = motet_switch::open(ID, &config).unwrap().read().await.unwrap_err();
        assert!(error.problem.leaves_doubt(), "{error}");
    }
}

/// What others do is told by the switch itself, where its protocol can: nobody looks here for an hour.
#[tokio::test]
async fn some_switches_tell_by_themselves() {
    for kind in [DriverKind::Sim, DriverKind::Gnmi] {
        let switch = Switch::new(&SimConfig::default()).unwrap();
        let layout = Layout::bidirectional(PORTS);
        let hour = Duration::from_ms(3_600_000);
        let driver: Box<dyn Driver> = if kind == DriverKind::Sim {
            let manner = Manner { poll: hour, ..manner(layout) };
            Box::new(Managed::new(manner, Box::new(Simulated(switch.clone()))))
        } else {
            let mut config = SwitchConfig::simulated("bench", PORTS);
            config.driver = kind;
            config.poll = Some(hour);
            let address = fake::gnmi::start(fake(&switch, Wiring::Bidirectional), None).await;
            config.address = Some(address.to_string());
            motet_switch::open(ID, &config).unwrap()
        };
        driver.read().await.unwrap();
        let mut watch = driver.watch();
        // A watch has to be there before it can be told: until then, somebody does it again and again.
        let meddler = switch.clone();
        let meddling = tokio::spawn(async move {
            for output in [2, 3].into_iter().cycle() {
                tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                meddler.meddle(1, Some(output));
            }
        });
        let notice = tokio::time::timeout(std::time::Duration::from_secs(60), watch.next()).await;
        meddling.abort();
        assert!(matches!(notice, Ok(Some(Notice::Circuits(_)))), "{kind:?}: {notice:?}");
    }
}
