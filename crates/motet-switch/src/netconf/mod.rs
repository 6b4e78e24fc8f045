//! Polatis' model over NETCONF (RFC 6241), by SSH (RFC 6242) or TLS (RFC 7589).
//!
//! SSH is the machine's `ssh` program, because it uses the keys, known hosts and jump hosts that an operator
//! has already set up; an SSH of our own would be more work than the rest of this crate. A change takes the
//! lock on the running configuration, deletes, creates, and gives the lock back. A session that has broken
//! loses its lock, so no earlier order can take effect in between.

pub mod framing;
pub mod message;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use motet_net::formats::xml::Document;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::device::{Device, Fault, Readout, Session, Steps};
use crate::driver::Pending;
use crate::error::Problem;
use crate::layout::Cross;
use crate::wire::{Line, start_of};
use framing::Framing;
use message::{Incoming, RpcError};
pub use transport::{Ssh, Transport};

/// The most cross-connections in one request.
const BATCH: usize = 256;
/// How many times the lock is asked for while somebody else has it.
const LOCK_TRIES: u32 = 10;
/// The pause between two such attempts.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// The pause between our hello and the first request in chunks. A server that receives both at once may wait
/// for ever: netconfd 2.13 did in 4 of 10 runs without this pause, and in none of 12 with it.
const HELLO_PAUSE: Duration = Duration::from_millis(200);

/// A switch that speaks NETCONF.
#[derive(Clone, Debug)]
pub struct Netconf {
    pub transport: Transport,
}

struct Talk {
    line: Line,
    framing: Framing,
    number: u64,
    capabilities: Vec<String>,
    /// Dropped with the session: it ends the `ssh` that carries it.
    carrier: transport::Carrier,
}

impl Device for Netconf {
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>> {
        Box::pin(async { Ok(Box::new(Talk::open(&self.transport).await?) as Box<dyn Session>) })
    }

    fn listen(&self, nudge: Arc<Notify>) -> Option<Pending<'static, Fault>> {
        let transport = self.transport.clone();
        Some(Box::pin(async move {
            match Talk::open(&transport).await {
                Ok(talk) => talk.listen(&nudge).await,
                Err(fault) => fault,
            }
        }))
    }
}

impl Talk {
    async fn open(transport: &Transport) -> Result<Self, Fault> {
        const ASKED: &str = "NETCONF hello";
        let (line, carrier) = transport.open().await?;
        let mut talk =
            Self { line, framing: Framing::EndMark, number: 0, capabilities: Vec::new(), carrier };
        let greeted = async {
            talk.send(ASKED, &message::hello()).await?;
            talk.receive(ASKED).await
        };
        let hello = match greeted.await {
            Ok(hello) => hello,
            Err(fault) => return Err(talk.carrier.explain(fault).await),
        };
        let garbled = |it| Fault::new(ASKED, Problem::Garbled(it));
        talk.capabilities = message::read_hello(&hello).map_err(garbled)?;
        if talk.can(message::CHUNKS) {
            talk.framing = Framing::Chunks;
            sleep(HELLO_PAUSE).await;
        }
        Ok(talk)
    }

    fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|it| it == capability)
    }

    async fn send(&mut self, asked: &str, text: &str) -> Result<(), Fault> {
        let bytes =
            self.framing.write(text).map_err(|it| Fault::new(asked, Problem::Garbled(it)))?;
        self.line.send(asked, &bytes).await
    }

    async fn receive(&mut self, asked: &str) -> Result<String, Fault> {
        let framing = self.framing;
        self.line.next(asked, |it| framing.cut(it)).await
    }

    /// Sends a request and waits for its answer. Notifications in between are ignored.
    async fn ask(
        &mut self,
        asked: &str,
        inside: &str,
    ) -> Result<Result<Document, RpcError>, Fault> {
        self.number += 1;
        let text = message::rpc(self.number, inside);
        self.send(asked, &text).await?;
        loop {
            let text = self.receive(asked).await?;
            let garbled = |it| Fault::new(asked, Problem::Garbled(it));
            match message::read(&text).map_err(garbled)? {
                Incoming::Notification => {}
                Incoming::Reply { number, answer } if number == Some(self.number) => {
                    return Ok(answer);
                }
                // RFC 6241: an answer to something that could not be read has no number.
                Incoming::Reply { number: None, answer: Err(error) } => return Ok(Err(error)),
                Incoming::Reply { number, .. } => {
                    return Err(garbled(format!(
                        "an answer to request {number:?}, not {}",
                        self.number
                    )));
                }
            }
        }
    }

    async fn must(&mut self, asked: &str, inside: &str) -> Result<Document, Fault> {
        let answer = self.ask(asked, inside).await?;
        answer.map_err(|it| Fault::new(asked, Problem::Rejected(start_of(&it.to_string()))))
    }

    /// Takes the lock on the running configuration, trying again while somebody else has it. Returns whether
    /// there is a lock to give back; a switch that does not support locks is changed without.
    async fn lock(&mut self) -> Result<bool, Fault> {
        const ASKED: &str = "lock of the running configuration";
        for _ in 1..LOCK_TRIES {
            match self.ask(ASKED, &message::lock("lock")).await? {
                Ok(_) => return Ok(true),
                Err(error) if error.tag == "operation-not-supported" => return Ok(false),
                Err(error) if error.tag == "lock-denied" => sleep(LOCK_PAUSE).await,
                Err(error) => return Err(Fault::new(ASKED, Problem::Rejected(error.to_string()))),
            }
        }
        self.must(ASKED, &message::lock("lock")).await.map(|_| true)
    }

    async fn edit(&mut self, steps: &Steps) -> Result<(), Fault> {
        let remove: Vec<Cross> = steps.remove.iter().map(|it| it.cross).collect();
        for (operation, crosses) in [("delete", remove.as_slice()), ("create", &steps.add)] {
            for some in crosses.chunks(BATCH) {
                let asked = format!("edit-config, {operation} {} pairs", some.len());
                self.must(&asked, &message::edit(operation, some)).await?;
            }
        }
        Ok(())
    }

    async fn change_in(&mut self, steps: &Steps) -> Result<(), Fault> {
        let locked = self.lock().await?;
        let edited = self.edit(steps).await;
        let doubt = edited.as_ref().is_err_and(|it| it.problem.leaves_doubt());
        if locked && !doubt {
            self.must("unlock of the running configuration", &message::lock("unlock")).await?;
        }
        edited
    }

    async fn read_in(&mut self) -> Result<Readout, Fault> {
        const ASKED: &str = "get of cross-connects and port-config";
        let document = self.must(ASKED, &message::get()).await?;
        message::read_data(&document).map_err(|it| Fault::new(ASKED, Problem::Garbled(it)))
    }

    /// Nudges at every notification until the connection breaks.
    async fn listen(mut self, nudge: &Notify) -> Fault {
        const ASKED: &str = "create-subscription";
        if !self.can(message::NOTIFICATION) {
            // There will be no notifications, so the watch has to read at intervals.
            return std::future::pending().await;
        }
        // Polatis has a stream of its own; others have the default one.
        for stream in [Some("Polatis"), None] {
            match self.ask(ASKED, &message::subscribe(stream)).await {
                Ok(Ok(_)) => break,
                Ok(Err(error)) if stream.is_none() => {
                    return Fault::new(ASKED, Problem::Rejected(error.to_string()));
                }
                Ok(Err(_)) => {}
                Err(fault) => return fault,
            }
        }
        loop {
            match self.receive("notifications").await {
                Ok(_) => nudge.notify_one(),
                Err(fault) => return fault,
            }
        }
    }
}

impl Session for Talk {
    fn read(&mut self) -> Pending<'_, Result<Readout, Fault>> {
        Box::pin(self.read_in())
    }

    fn change<'a>(&'a mut self, steps: &'a Steps) -> Pending<'a, Result<(), Fault>> {
        Box::pin(self.change_in(steps))
    }
}
