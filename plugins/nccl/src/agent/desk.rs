//! [`Desk`]: a listener at which other ranks ask those of this process what has become of a switch, once they have lost the leader.

use std::net::{Ipv6Addr, TcpListener};
use std::time::{Duration, Instant};

use motet_runtime::Frame;

use super::client::Client;
use super::link::Link;

/// The most visitors at a time.
const MOST_VISITORS: usize = 4096;
/// How long a visitor may be silent.
const SILENCE: Duration = Duration::from_secs(60);

pub(super) struct Desk {
    listener: TcpListener,
    port: u16,
    visitors: Vec<Visitor>,
}

struct Visitor {
    link: Link,
    heard: Instant,
    /// The communicator that it asks about, once it has said so.
    about: Option<u64>,
}

impl Desk {
    /// Listens on a free port; `None` if there is none, and then nobody can ask here.
    pub(super) fn open() -> Option<Self> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind(("0.0.0.0", 0)))
            .ok()?;
        listener.set_nonblocking(true).ok()?;
        let port = listener.local_addr().ok()?.port();
        Some(Self { listener, port, visitors: Vec::new() })
    }

    pub(super) const fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.visitors.iter().map(|it| &it.link)
    }

    pub(super) const fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// Answers who asks; whoever says anything else has to go.
    pub(super) fn step(&mut self, token: &str, clients: &mut [Client], now: Instant) {
        while self.visitors.len() < MOST_VISITORS {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if let Ok(link) = Link::new(stream) {
                self.visitors.push(Visitor { link, heard: now, about: None });
            }
        }
        self.visitors.retain_mut(|it| it.serve(token, clients, now));
    }
}

impl Visitor {
    /// Answers what the visitor has asked; false if it has gone or must go.
    fn serve(&mut self, token: &str, clients: &mut [Client], now: Instant) -> bool {
        let Ok(frames) = self.link.receive() else { return false };
        if !frames.is_empty() {
            self.heard = now;
        }
        for frame in frames {
            match (frame, self.about) {
                (Frame::Hello(hello), None) if hello.token == token => {
                    self.about = Some(hello.communicator);
                }
                (Frame::Agreement(message), Some(about)) => {
                    let asked = clients.iter_mut().find(|it| it.is_about(about));
                    if let Some(answer) = asked.and_then(|it| it.answer(message))
                        && self.link.send(&Frame::Agreement(answer)).is_err()
                    {
                        return false;
                    }
                }
                _ => return false,
            }
        }
        self.link.flush().is_ok() && now - self.heard < SILENCE
    }
}
