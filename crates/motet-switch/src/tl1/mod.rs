//! Polatis' TL1 commands over TCP. Calient's TL1 has other commands and is not spoken here.
//!
//! `ACT-USER` logs in, `RTRV-PATCH` and `RTRV-PORT-SHUTTER` read, `DLT-PATCH` and `ENT-PATCH` change. Each
//! command has a tag, by which its answer is distinguished from messages that the switch sends on its own.

pub mod text;

use std::ops::RangeInclusive;

use crate::device::{Device, Fault, Readout, Session, Steps};
use crate::driver::Pending;
use crate::error::Problem;
use crate::layout::{Layout, Wiring};
use crate::wire::{self, Line, start_of};
use text::{Answer, Message};

/// The TCP port of TL1.
pub const PORT: u16 = 3082;

/// The most cross-connections in one command.
const BATCH: usize = 64;

/// A switch that speaks TL1.
#[derive(Clone)]
pub struct Tl1 {
    pub host: String,
    pub port: u16,
    /// Name and password, each quoted as in a command.
    pub login: Option<(String, String)>,
    pub layout: Layout,
}

impl std::fmt::Debug for Tl1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let user = self.login.as_ref().map(|it| &it.0);
        f.debug_struct("Tl1")
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &user)
            .finish()
    }
}

struct Talk {
    line: Line,
    tag: u64,
    /// The ranges of the device's ports that we may use.
    ports: Vec<RangeInclusive<u32>>,
}

impl Device for Tl1 {
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>> {
        Box::pin(async {
            let line = Line::new(wire::tcp(&self.host, self.port).await?);
            let last = self.layout.ports.saturating_sub(1);
            let of =
                |port: fn(&Layout, u32) -> u32| port(&self.layout, 0)..=port(&self.layout, last);
            let mut ports = vec![of(Layout::input)];
            if self.layout.wiring == Wiring::Duplex {
                ports.push(of(Layout::output));
            }
            let mut talk = Talk { line, tag: 0, ports };
            if let Some((user, password)) = &self.login {
                let asked = format!("ACT-USER::{user}");
                let sent = |tag| format!("ACT-USER::{user}:{tag}::{password};");
                talk.command(&asked, sent).await.map_err(|it| match it.problem {
                    Problem::Rejected(words) => Fault::new(asked.as_str(), Problem::Login(words)),
                    _ => it,
                })?;
            }
            Ok(Box::new(talk) as Box<dyn Session>)
        })
    }
}

impl Talk {
    /// Sends a command and returns all lines of its answer.
    async fn command(
        &mut self,
        asked: &str,
        write: impl Fn(u64) -> String,
    ) -> Result<Vec<String>, Fault> {
        self.tag += 1;
        let tag = self.tag;
        self.line.send(asked, format!("{}\r\n", write(tag)).as_bytes()).await?;
        let mut lines = Vec::new();
        loop {
            let message = self.line.next(asked, text::cut).await?;
            let Message::Answer(Answer { tag: of, code, lines: some, words, more }) = message
            else {
                continue;
            };
            if of != tag.to_string() {
                let words = format!("an answer to the command {}", start_of(&of));
                return Err(Fault::new(asked, Problem::Garbled(words)));
            }
            lines.extend(some);
            match code.as_str() {
                "COMPLD" | "PRTL" | "RTRV" if more => {}
                "COMPLD" => return Ok(lines),
                _ => {
                    let words = format!("{code} {words} {}", lines.join(" "));
                    return Err(Fault::new(asked, Problem::Rejected(start_of(&words))));
                }
            }
        }
    }

    async fn read_in(&mut self) -> Result<Readout, Fault> {
        let garbled = |asked: &str, it: String| Fault::new(asked, Problem::Garbled(it));
        let lines = self.command("RTRV-PATCH", |tag| format!("RTRV-PATCH:::{tag}:;")).await?;
        let crosses = text::read_patches(&lines).map_err(|it| garbled("RTRV-PATCH", it))?;
        let mut ports = Vec::new();
        for range in self.ports.clone() {
            let asked = format!("RTRV-PORT-SHUTTER::{}&&{}", range.start(), range.end());
            let lines = self.command(&asked, |tag| format!("{asked}:{tag}:;")).await?;
            ports.extend(text::read_shutters(&lines).map_err(|it| garbled(&asked, it))?);
        }
        Ok(Readout { crosses, ports })
    }

    async fn change_in(&mut self, steps: &Steps) -> Result<(), Fault> {
        for some in steps.remove.chunks(BATCH) {
            let asked = format!("DLT-PATCH::{}", text::list(some.iter().map(|it| it.cross.input)));
            self.command(&asked, |tag| format!("{asked}:{tag}:;")).await?;
        }
        for some in steps.add.chunks(BATCH) {
            let inputs = text::list(some.iter().map(|it| it.input));
            let outputs = text::list(some.iter().map(|it| it.output));
            let asked = format!("ENT-PATCH::{inputs},{outputs}");
            self.command(&asked, |tag| format!("{asked}:{tag}:;")).await?;
        }
        Ok(())
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
