//! Every driver against whatever may be at an address that is not its switch: nobody, somebody who hangs up, who says nothing, who says
//! something else, who never stops. It ends with an error that says so, in the time that it was given.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail, and say so")]

use std::time::Duration as Time;

use motet_control::SwitchId;
use motet_switch::config::DriverKind;
use motet_switch::managed::Manner;
use motet_switch::{Driver, Error, Layout, Managed, Problem, SwitchConfig, netconf};
use motet_units::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

const KINDS: [DriverKind; 5] = [
    DriverKind::Gnmi,
    DriverKind::Netconf,
    DriverKind::Restconf,
    DriverKind::Scpi,
    DriverKind::Tl1,
];

fn driver(kind: DriverKind, port: u16) -> Box<dyn Driver> {
    let timeout = Duration::from_ms(2_000);
    if kind == DriverKind::Netconf {
        let manner = Manner {
            id: SwitchId(0),
            name: "stranger".to_owned(),
            address: format!("netconf://127.0.0.1:{port}"),
            layout: Layout::bidirectional(8),
            timeout,
            settle: Duration::from_ms(10),
            poll: Duration::from_ms(1_000),
        };
        let transport = netconf::Transport::Tcp { host: "127.0.0.1".to_owned(), port };
        return Box::new(Managed::new(manner, Box::new(netconf::Netconf { transport })));
    }
    let mut config = SwitchConfig::simulated("stranger", 8);
    config.driver = kind;
    config.address = Some(format!("127.0.0.1:{port}"));
    config.timeout = Some(timeout);
    motet_switch::open(SwitchId(0), &config).unwrap()
}

/// Somebody who does the same with everyone who comes: sends this, then this again and again, then hangs up or not.
async fn stranger(first: Vec<u8>, again: Option<Vec<u8>>, stays: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (first, again) = (first.clone(), again.clone());
            tokio::spawn(async move {
                let _ = stream.write_all(&first).await;
                while let Some(again) = &again
                    && stream.write_all(again).await.is_ok()
                {}
                if stays {
                    std::future::pending::<()>().await;
                }
            });
        }
    });
    port
}

/// What each driver says of somebody.
async fn each(first: &[u8], again: Option<&[u8]>, stays: bool) -> Vec<(DriverKind, Error)> {
    let mut asked = Vec::new();
    for kind in KINDS {
        let port = stranger(first.to_vec(), again.map(<[u8]>::to_vec), stays).await;
        asked.push((kind, tokio::spawn(async move { driver(kind, port).read().await })));
    }
    let mut all = Vec::new();
    for (kind, answer) in asked {
        let answer = tokio::time::timeout(Time::from_secs(60), answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("{kind:?} does not end"));
        match answer.unwrap() {
            Ok(read) => panic!("{kind:?} has read something: {read:?}"),
            Err(error) => all.push((kind, error)),
        }
    }
    all
}

#[tokio::test]
async fn nobody_is_there() {
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for kind in KINDS {
        let error = driver(kind, port).read().await.unwrap_err();
        assert!(matches!(error.problem, Problem::Unreachable(_)), "{kind:?}: {error}");
        let words = error.to_string();
        assert!(
            words.contains("switch `stranger` at") && words.contains("Check that it is on"),
            "{words}"
        );
    }
}

#[tokio::test]
async fn somebody_hangs_up() {
    for (kind, error) in each(b"", None, false).await {
        assert!(matches!(error.problem, Problem::Unreachable(_)), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn somebody_says_nothing() {
    for (kind, error) in each(b"", None, true).await {
        assert!(matches!(error.problem, Problem::TimedOut(_)), "{kind:?}: {error}");
    }
}

#[tokio::test]
async fn somebody_says_something_else() {
    let text = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\nno]]>]]>\r\n\r\n;\n(x\n";
    for (kind, error) in each(text, None, true).await {
        assert!(
            error.problem.leaves_doubt() || matches!(error.problem, Problem::Rejected(_)),
            "{kind:?}: {error}"
        );
    }
}

/// Rather an error than all of the memory.
#[tokio::test]
async fn somebody_never_stops() {
    let piece = vec![b'x'; 1 << 16];
    for (kind, error) in each(b"HTTP/1.1 200 OK\r\n\r\n", Some(&piece), true).await {
        let ended = error.problem.leaves_doubt();
        assert!(ended, "{kind:?}: {error}");
    }
}
