//! A switch that speaks NETCONF: hello, both framings, the lock, `get`, `edit-config` and notifications.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use motet_net::formats::xml::{self, Document, Element};
use motet_switch::PortState;
use motet_switch::layout::Cross;
use motet_switch::netconf::framing::Framing;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Fake, Verdict};

const BASE: &str = "urn:ietf:params:xml:ns:netconf:base:1.0";
const SWITCH: &str = "http://www.polatis.com/yang/optical-switch";

/// Who has the lock.
type Lock = Arc<Mutex<Option<u64>>>;

pub async fn start(fake: Fake, chunks: bool) -> SocketAddr {
    let lock = Lock::default();
    let count = Arc::new(Mutex::new(0));
    super::serve(fake.switch.clone(), move |stream| {
        let mut count = count.lock().unwrap();
        *count += 1;
        talk(fake.clone(), stream, lock.clone(), *count, chunks)
    })
    .await
}

/// Gives the lock back when its session ends.
struct Release(Lock, u64);

impl Drop for Release {
    fn drop(&mut self) {
        let mut lock = self.0.lock().unwrap();
        if *lock == Some(self.1) {
            *lock = None;
        }
    }
}

async fn talk(fake: Fake, mut stream: TcpStream, lock: Lock, session: u64, chunks: bool) {
    let _release = Release(lock.clone(), session);
    let more =
        if chunks { "<capability>urn:ietf:params:netconf:base:1.1</capability>" } else { "" };
    let hello = format!(
        "<hello xmlns=\"{BASE}\"><capabilities><capability>urn:ietf:params:netconf:base:1.0</capability>{more}\
         <capability>{SWITCH}?module=optical-switch</capability></capabilities><session-id>{session}</session-id></hello>"
    );
    if stream.write_all(&Framing::EndMark.write(&hello).unwrap()).await.is_err() {
        return;
    }
    let mut framing = Framing::EndMark;
    let mut inbox = Vec::new();
    loop {
        let Some((text, length)) = framing.cut(&inbox).unwrap() else {
            match stream.read_buf(&mut inbox).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        inbox.drain(..length);
        let document = xml::parse(&text).unwrap();
        if document.root().name == "hello" {
            if chunks {
                framing = Framing::Chunks;
            }
            continue;
        }
        let number = document.root().get("message-id").unwrap().to_owned();
        let reply = {
            let answer = answer(&fake, &document, &lock, session);
            tokio::pin!(answer);
            tokio::select! {
                reply = &mut answer => reply,
                // Whoever does not wait for the answer has gone, and its lock with it.
                _ = stream.readable() => {
                    let mut byte = [0];
                    if matches!(stream.peek(&mut byte).await, Ok(0) | Err(_)) { return }
                    answer.await
                }
            }
        };
        let Some(reply) = reply else { return };
        let text =
            format!("<rpc-reply message-id=\"{number}\" xmlns=\"{BASE}\">{reply}</rpc-reply>");
        // In two chunks, as a server may.
        let bytes = match framing {
            Framing::EndMark => framing.write(&text).unwrap(),
            Framing::Chunks => {
                let (a, b) = text.split_at(9);
                format!("\n#{}\n{a}\n#{}\n{b}\n##\n", a.len(), b.len()).into_bytes()
            }
        };
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

fn error(tag: &str, words: &str) -> String {
    let words = xml::escape(words);
    format!(
        "<rpc-error><error-type>application</error-type><error-tag>{tag}</error-tag>\
         <error-severity>error</error-severity><error-message>{words}</error-message></rpc-error>"
    )
}

async fn answer(fake: &Fake, document: &Document, lock: &Lock, session: u64) -> Option<String> {
    let (_, request) = document.children(document.root()).next().unwrap();
    Some(match request.name.as_str() {
        "get" => format!("<data>{}</data>", data(fake)),
        "lock" => {
            let mut lock = lock.lock().unwrap();
            match *lock {
                None => {
                    *lock = Some(session);
                    "<ok/>".to_owned()
                }
                Some(by) => error("lock-denied", &format!("session {by} has it")),
            }
        }
        "unlock" => {
            *lock.lock().unwrap() = None;
            "<ok/>".to_owned()
        }
        "edit-config" if *lock.lock().unwrap() != Some(session) => error("in-use", "lock it first"),
        "edit-config" => match edit(fake, document).await {
            Verdict::Done => "<ok/>".to_owned(),
            Verdict::No(words) => error("operation-failed", &words),
            Verdict::Gone => return None,
        },
        other => error("operation-not-supported", other),
    })
}

fn data(fake: &Fake) -> String {
    let crosses = fake.switch.crosses();
    let pair = |it: &Cross| {
        format!("<pair><ingress>{}</ingress><egress>{}</egress></pair>", it.input, it.output)
    };
    let pairs: String = crosses.iter().map(pair).collect();
    let port = |port| {
        let status = match fake.state(port) {
            PortState::Up => "ENABLED",
            PortState::Disabled => "DISABLED",
            PortState::Failed => "FAILED",
        };
        format!("<port><port-id>{port}</port-id><status>{status}</status></port>")
    };
    let ports: String = (1..=fake.ports).map(port).collect();
    format!(
        "<cross-connects xmlns=\"{SWITCH}\">{pairs}</cross-connects><port-config xmlns=\"{SWITCH}\">{ports}</port-config>"
    )
}

async fn edit(fake: &Fake, document: &Document) -> Verdict {
    let (mut remove, mut add) = (Vec::new(), Vec::new());
    let number = |pair: &Element, name: &str| {
        let found = document.children(pair).find(|it| it.1.name == name)?;
        found.1.text.parse::<u32>().ok()
    };
    for pair in document.elements.iter().filter(|it| it.name == "pair") {
        let Some(input) = number(pair, "ingress") else {
            return Verdict::No("no ingress".to_owned());
        };
        let cross = Cross { input, output: number(pair, "egress").unwrap_or(0) };
        match pair.attributes.iter().find(|it| it.0.ends_with("operation")).map(|it| it.1.as_str())
        {
            Some("delete") => remove.push(cross),
            Some("create") => add.push(cross),
            other => return Verdict::No(format!("operation {other:?}")),
        }
    }
    fake.change(&remove, &add).await
}
