//! The same over TLS: right results, strangers of several sorts, and connections that break.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration as Wall;

use motet_collective::Verified;
use motet_exec::{Call, Config, Element, ExecError, Group, Reduction, Store, Tls, TlsFiles};
use motet_units::Duration;

use crate::certificates::{files, make};
use crate::programs;
use crate::proxy::relay;
use crate::ranks::{Notes, clock, config, notes, on_all_with, silent};
use crate::right::{Case, cases, run_all};
use crate::strangers::visit;

fn load(files: &TlsFiles) -> Tls {
    files.load().unwrap().unwrap()
}

/// TLS of a group that has a folder of its own.
fn group_tls(folder: &Path) -> Tls {
    make(folder, "ca", &["motet"]);
    load(&files(folder, "ca", "motet"))
}

#[test]
fn every_collective_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let tls = group_tls(folder.path());
    for (ranks, streams, checksums) in [(2, 1, true), (3, 3, false)] {
        let cases = cases(ranks);
        let change = |it| Config {
            shared_memory: false,
            checksums,
            streams,
            slice: 4 << 10,
            piece: 1 << 10,
            ..it
        };
        let tls = Some(tls.clone());
        on_all_with(tls, ranks, change, |group| run_all(&mut group.unwrap(), &cases));
    }
}

/// More than sockets hold, in both directions at once, over several connections; and with shared memory, where only
/// small frames are encrypted.
#[test]
fn much_data_over_tls() {
    let folder = tempfile::tempdir().unwrap();
    let tls = group_tls(folder.path());
    let call = Call {
        element: Element::F32,
        elements: (4 << 20) + 3,
        reduction: Reduction::Sum,
        in_place: false,
    };
    let gather = Verified::new(programs::ring_all_gather(3, 2), None).unwrap();
    let reduce = Verified::new(programs::ring_all_reduce(3, 2), None).unwrap();
    let cases = [
        Case { program: gather, call, seed: 1 },
        Case { program: reduce, call: Call { in_place: true, ..call }, seed: 2 },
    ];
    for shared_memory in [false, true] {
        let change = |it| Config { shared_memory, streams: 3, ..it };
        on_all_with(Some(tls.clone()), 3, change, |group| run_all(&mut group.unwrap(), &cases));
    }
}

fn joins(store: &Store, tls: Option<Tls>) -> String {
    let config = Config { tls, token: "secret".to_owned(), ..config(store, 0, 1) };
    match Group::join(&config, clock(), silent()) {
        Ok(group) => format!("joined {}", group.ranks()),
        Err(error) => error.to_string(),
    }
}

fn said(notes: &Notes, part: &str) {
    // What was refused is noted after the other side knows of it.
    for _ in 0..3000 {
        if notes.lock().unwrap().iter().any(|it| it.contains(part)) {
            return;
        }
        std::thread::sleep(Wall::from_millis(10));
    }
    panic!("{part}: {:?}", notes.lock().unwrap());
}

/// Comes with TLS and trusts everybody, but has no certificate; what it hears.
fn without_certificate(address: SocketAddr, ca: &Path) -> String {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let client = builder.with_root_certificates(roots).with_no_client_auth();
    let name = "motet".try_into().unwrap();
    let mut connection = rustls::ClientConnection::new(Arc::new(client), name).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Wall::from_secs(30))).unwrap();
    let mut stream = rustls::Stream::new(&mut connection, &mut socket);
    stream.read(&mut [0; 40]).unwrap_err().to_string()
}

#[test]
fn strangers_are_told_what_is_wrong_and_the_group_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    make(at, "ca", &["motet", "elsewhere"]);
    make(at, "other", &["motet"]);
    let file = |it: &str| std::fs::read_to_string(at.join(it)).unwrap();
    std::fs::write(at.join("both.pem"), file("ca.pem") + &file("other.pem")).unwrap();
    let right = load(&files(at, "ca", "motet"));
    let (heard, note) = notes();
    let address = "127.0.0.1:0".parse().unwrap();
    let store = Store::serve_with(address, "secret", Some(right.clone()), clock(), note).unwrap();
    let strangers = visit(store.address());
    // One that begins with TLS, and stops in the middle of a word.
    let mut slow = TcpStream::connect(store.address()).unwrap();
    slow.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).unwrap();
    // One without TLS.
    let told = joins(&store, None);
    assert!(told.contains("the group speaks TLS and this side does not"), "{told}");
    said(&heard, "it speaks no TLS, and this group does");
    // One with a certificate of another CA, which trusts the group's.
    let both = TlsFiles { ca: Some(at.join("both.pem")), ..files(at, "other", "motet") };
    let told = joins(&store, Some(load(&both)));
    assert!(told.contains("it does not take the certificate of this side"), "{told}");
    said(&heard, "its certificate was not signed by the CA given here");
    // One that does not trust the group's.
    let told = joins(&store, Some(load(&files(at, "other", "motet"))));
    assert!(told.contains("its certificate was not signed by the CA given here"), "{told}");
    said(&heard, "it does not take the certificate of this side");
    // One that asks for another name.
    let told = joins(&store, Some(load(&files(at, "ca", "elsewhere"))));
    assert!(told.contains("its certificate is for another name"), "{told}");
    // One without a certificate.
    let told = without_certificate(store.address(), &at.join("ca.pem"));
    assert!(told.contains("CertificateRequired"), "{told}");
    said(&heard, "it shows no certificate");
    // One with TLS and another token.
    let config =
        Config { tls: Some(right.clone()), token: "guess".to_owned(), ..config(&store, 0, 1) };
    let told = Group::join(&config, clock(), silent()).map(|_| ()).unwrap_err().to_string();
    assert!(told.contains("token"), "{told}");
    assert_eq!(joins(&store, Some(right.clone())), "joined 1");
    // And one with TLS where there is none.
    let (heard_first, (heard, note)) = (heard, notes());
    let plain = Store::serve("127.0.0.1:0".parse().unwrap(), "secret", clock(), note).unwrap();
    let told = joins(&plain, Some(right));
    assert!(told.contains("if it has no TLS"), "{told}");
    said(&heard, "it speaks TLS, and this group does not");
    said(
        &heard_first,
        &format!("{}: refused by the store: it did not say in time", slow.local_addr().unwrap()),
    );
    drop(strangers);
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    make(at, "ca", &["motet", "elsewhere"]);
    make(at, "other", &[]);
    std::fs::write(at.join("empty.pem"), "").unwrap();
    let right = files(at, "ca", "motet");
    assert!(TlsFiles::default().load().unwrap().is_none());
    let file = |it: &str| Some(at.join(it));
    for (wrong, parts) in [
        (TlsFiles { key: None, ..right.clone() }, ["its key", "all three files, or none"]),
        (
            TlsFiles { certificate: None, ca: None, key: None, ..right.clone() },
            ["a certificate", "the CA"],
        ),
        (TlsFiles { key: file("none.key"), ..right.clone() }, ["none.key", "private key in PEM"]),
        (TlsFiles { ca: file("empty.pem"), ..right.clone() }, ["empty.pem", "certificates in PEM"]),
        (
            TlsFiles { ca: file("other.pem"), ..right.clone() },
            ["ca-motet.pem", "other.pem has signed it"],
        ),
        (
            TlsFiles { key: file("ca-elsewhere.key"), ..right.clone() },
            ["ca-elsewhere.key", "not the key"],
        ),
        (
            TlsFiles { name: Some("elsewhere".into()), ..right.clone() },
            ["ca-motet.pem", "`elsewhere`"],
        ),
        (TlsFiles { name: Some("no name".into()), ..right.clone() }, ["`no name`", "DNS name"]),
    ] {
        let error = wrong.load().unwrap_err();
        assert!(matches!(error, ExecError::Tls(_)));
        let error = error.to_string();
        assert!(parts.iter().all(|it| error.contains(it)), "{error}");
    }
    // What is not given comes from the environment.
    let variables = TlsFiles::default().or(|it| match it {
        "MOTET_EXEC_TLS_CERTIFICATE" => Some(at.join("ca-motet.pem").display().to_string()),
        "MOTET_EXEC_TLS_KEY" => Some(at.join("ca-motet.key").display().to_string()),
        "MOTET_EXEC_TLS_CA" => Some(at.join("ca.pem").display().to_string()),
        _ => None,
    });
    assert_eq!(format!("{:?}", load(&variables)), "Tls(motet)");
}

/// What happens to a connection on the way, from when the test says so.
const NOTHING: u8 = 0;
const CUT: u8 = 1;
const FLIP: u8 = 2;
const GARBAGE: u8 = 3;
const SILENCE: u8 = 4;

/// Passes bytes on until its fault is set.
fn pass(mut from: TcpStream, mut to: TcpStream, fault: &AtomicU8) {
    let _ = to.set_nodelay(true);
    let mut room = [0; 8192];
    loop {
        let count = match from.read(&mut room) {
            Ok(count @ 1..) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            _ => break,
        };
        let bytes = &mut room[..count];
        match fault.load(Ordering::Acquire) {
            CUT => {
                let _ = to.write_all(&bytes[..count / 2]);
                break;
            }
            FLIP => bytes[count / 2] ^= 1,
            GARBAGE => bytes.fill(0x55),
            SILENCE => continue,
            _ => {}
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// Three ranks, of which rank 0 is reached through a proxy; after the first call something happens to all that comes.
/// How each ended.
fn with(strikes: u8, tls: &Tls) -> Vec<String> {
    let program = Verified::new(programs::ring_all_reduce(3, 1), None).unwrap();
    let call =
        Call { element: Element::F32, elements: 30_000, reduction: Reduction::Sum, in_place: true };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let fault = Arc::new(AtomicU8::new(NOTHING));
    let said = Arc::clone(&fault);
    let target = SocketAddr::from(([127, 0, 0, 1], port));
    let address = relay(target, move |from, to| pass(from, to, &said));
    let change = |it: Config| {
        let (port, advertise) =
            if it.rank == 0 { (port, Some(address.to_string())) } else { (0, None) };
        let silence = Duration::from_ms(3_000);
        let heartbeat = Duration::from_ms(200);
        Config { shared_memory: false, heartbeat, silence, port, advertise, ..it }
    };
    let met = Barrier::new(3);
    on_all_with(Some(tls.clone()), 3, change, |group| {
        let mut group = group.unwrap();
        let mut operation = group.register(&program, call).unwrap();
        operation.run().unwrap();
        met.wait();
        if group.rank() == 0 {
            fault.store(strikes, Ordering::Release);
        }
        loop {
            if let Err(error) = operation.run() {
                return error.to_string();
            }
        }
    })
}

#[test]
fn what_breaks_on_the_way_ends_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let tls = group_tls(folder.path());
    for (fault, part) in [
        (CUT, "closed the connection"),
        (FLIP, "TLS: "),
        (GARBAGE, "TLS: "),
        (SILENCE, "nothing was heard from it for 3.0 s"),
    ] {
        let clock = clock();
        let start = clock.now();
        let errors = with(fault, &tls);
        assert!(clock.now().since(start) < Duration::from_ms(40_000), "{errors:?}");
        assert!(errors.iter().any(|it| it.contains(part)), "{fault}: {errors:?}");
        assert!(errors.iter().all(|it| it.contains("rank")), "{fault}: {errors:?}");
    }
}
