//! Polatis' SCPI commands over TCP: a line for each question, a line for each answer.
//!
//! Commands have no answer of their own. So each is sent with `*opc?`, which is answered when the command is
//! done, and the switch is then asked for its errors.

pub mod text;

use crate::device::{Device, Fault, Readout, Session, Steps};
use crate::driver::Pending;
use crate::error::Problem;
use crate::layout::Cross;
use crate::wire::{self, Line};

/// The TCP port of SCPI.
pub const PORT: u16 = 5025;

/// The most cross-connections in one command, so that lines are short enough for small devices.
const BATCH: usize = 64;

/// A switch that speaks SCPI.
#[derive(Clone, Debug)]
pub struct Scpi {
    pub host: String,
    pub port: u16,
}

struct Talk {
    line: Line,
}

impl Device for Scpi {
    fn connect(&self) -> Pending<'_, Result<Box<dyn Session>, Fault>> {
        Box::pin(async {
            let line = Line::new(wire::tcp(&self.host, self.port).await?);
            let mut talk = Talk { line };
            talk.ask("*idn?").await?;
            Ok(Box::new(talk) as Box<dyn Session>)
        })
    }
}

/// Takes the first line off the received bytes.
fn cut(inbox: &[u8]) -> Result<Option<(String, usize)>, String> {
    let Some(end) = inbox.iter().position(|it| *it == b'\n') else { return Ok(None) };
    let line = inbox.get(..end).unwrap_or_default();
    Ok(Some((String::from_utf8_lossy(line).trim().to_owned(), end + 1)))
}

impl Talk {
    async fn ask(&mut self, question: &str) -> Result<String, Fault> {
        self.line.send(question, format!("{question}\n").as_bytes()).await?;
        self.line.next(question, cut).await
    }

    async fn command(&mut self, command: &str) -> Result<(), Fault> {
        let done = self.ask(&format!("{command};*opc?")).await?;
        if done != "1" {
            let words = format!("`{}` instead of `1`", wire::start_of(&done));
            return Err(Fault::new(command, Problem::Garbled(words)));
        }
        let answer = self.ask(":syst:err?").await?;
        match text::read_error(&answer) {
            Ok(None) => Ok(()),
            Ok(Some(words)) => Err(Fault::new(command, Problem::Rejected(words))),
            Err(it) => Err(Fault::new(command, Problem::Garbled(it))),
        }
    }

    async fn read_in(&mut self) -> Result<Readout, Fault> {
        const CROSSES: &str = ":oxc:swit:conn:stat?";
        const PORTS: &str = ":oxc:swit:port:stat?";
        let answer = self.ask(CROSSES).await?;
        let crosses =
            text::read_crosses(&answer).map_err(|it| Fault::new(CROSSES, Problem::Garbled(it)))?;
        let answer = self.ask(PORTS).await?;
        let ports =
            text::read_states(&answer).map_err(|it| Fault::new(PORTS, Problem::Garbled(it)))?;
        Ok(Readout { crosses, ports })
    }

    async fn change_in(&mut self, steps: &Steps) -> Result<(), Fault> {
        // Clear errors of earlier commands, which are not ours.
        self.line.send("*cls", b"*cls\n").await?;
        let remove: Vec<Cross> = steps.remove.iter().map(|it| it.cross).collect();
        for some in remove.chunks(BATCH) {
            self.command(&format!(":oxc:swit:conn:sub {}", text::write_crosses(some))).await?;
        }
        for some in steps.add.chunks(BATCH) {
            self.command(&format!(":oxc:swit:conn:add {}", text::write_crosses(some))).await?;
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
