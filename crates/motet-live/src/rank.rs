//! [`serve`]: what one rank does, a step at a time, as the driver says.
//!
//! Times are the GPU's, by CUDA's events: of several calls in a row, after one that is not timed and brings the ranks
//! together. With CUDA graphs all calls are one launch, so that the time has no enqueueing in it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;

use motet_cuda::{Cuda, Graph, Memory, Queue};

use crate::LiveError;
use crate::call::{Call, CallText, Span};
use crate::control::ControlFile;
use crate::data;
use crate::library::{Communicator, Identity, Nccl};
use crate::mode::Mode;
use crate::step::{Answer, RankRequest};

/// Fills an output before a call that is checked, so that elements which the call leaves out show: it is no float of ours.
const POISON: u8 = 0xa5;
/// The most CUDA graphs that are kept for calls that come again.
const MOST_GRAPHS: usize = 64;

/// Who a rank is.
#[derive(Clone, Debug)]
pub struct Identified {
    pub rank: u32,
    pub ranks: u32,
    /// Its number on this host: with as many GPUs it has its own, with fewer they are shared.
    pub local_rank: u32,
    /// NCCL's library.
    pub library: String,
    /// The file that `MOTET_CONTROL` names; it is made here.
    pub control: PathBuf,
}

/// A rank's state. What is `None` has not been asked for yet.
struct Rank {
    who: Identified,
    control: ControlFile,
    queue: Option<Queue>,
    nccl: Option<Nccl>,
    communicator: Option<Communicator>,
    /// Input and output.
    room: Option<(Memory, Memory)>,
    graphs: Vec<((CallText, Mode, u32), Graph)>,
}

/// Answers the driver's steps until it hangs up. `token` shows the driver that we are one of its ranks.
///
/// # Errors
/// When the control file cannot be made, or the driver cannot be talked to. What goes wrong in a step the driver is told.
pub fn serve(who: Identified, token: &str, connection: TcpStream) -> Result<(), LiveError> {
    let lost = |error| LiveError::Io { what: "the driver cannot be reached".to_owned(), error };
    // Lines are short, and the other side waits for each.
    let _ = connection.set_nodelay(true);
    let mut writer = connection.try_clone().map_err(lost)?;
    writeln!(writer, "{token} {}", who.rank).map_err(lost)?;
    let control = ControlFile::create(&who.control)?;
    let mut rank = Rank {
        who,
        control,
        queue: None,
        nccl: None,
        communicator: None,
        room: None,
        graphs: Vec::new(),
    };
    for line in BufReader::new(connection).lines() {
        let line = line.map_err(lost)?;
        let step: Result<RankRequest, _> = serde_json::from_str(&line);
        let answer = match step {
            Ok(step) => rank.answer(&step),
            Err(error) => Answer::Failed { problem: format!("a step cannot be read: {error}") },
        };
        // Numbers and text are always JSON.
        let text = serde_json::to_string(&answer).unwrap_or_default();
        writeln!(writer, "{text}").map_err(lost)?;
    }
    Ok(())
}

impl Rank {
    fn answer(&mut self, step: &RankRequest) -> Answer {
        self.step(step).unwrap_or_else(|it| Answer::Failed { problem: it.to_string() })
    }

    fn step(&mut self, step: &RankRequest) -> Result<Answer, LiveError> {
        match step {
            RankRequest::About => self.about(),
            RankRequest::Identity => {
                let Identity(bytes) = self.nccl()?.identity()?;
                Ok(Answer::Identity { identity: hex(&bytes) })
            }
            RankRequest::Begin { identity } => {
                let identity = unhex(identity).ok_or(LiveError::TooEarly("an identity"))?;
                let Identified { rank, ranks, .. } = self.who;
                self.communicator = Some(self.nccl()?.begin(rank, ranks, identity)?);
                Ok(Answer::Done)
            }
            RankRequest::Room { bytes } => {
                self.graphs.clear();
                self.room = None;
                let queue = self.queue()?;
                let room = (queue.allocate(*bytes)?, queue.allocate(*bytes)?);
                // Not what lies there by chance: it may be no numbers, which GPUs add more slowly or faster.
                queue.fill(&room.0, 0)?;
                queue.fill(&room.1, 0)?;
                self.room = Some(room);
                Ok(Answer::Done)
            }
            RankRequest::Check { call, mode } => self.check(&read(call)?, *mode),
            RankRequest::Time { call, modes, calls, graphs } => {
                self.time(call, modes, *calls, *graphs)
            }
            RankRequest::End => {
                self.graphs.clear();
                self.communicator.take().map_or(Ok(()), Communicator::end)?;
                Ok(Answer::Done)
            }
        }
    }

    fn about(&mut self) -> Result<Answer, LiveError> {
        let cuda = Cuda::load()?;
        let gpus = cuda.gpus()?;
        let index =
            (self.who.local_rank as usize).checked_rem(gpus.len()).ok_or(LiveError::NoGpu)?;
        let name = gpus.get(index).map_or_else(String::new, |it| it.name.clone());
        self.queue = Some(cuda.queue(index)?);
        let nccl = Nccl::load(&self.who.library)?;
        self.nccl = Some(nccl);
        Ok(Answer::About { nccl: nccl.version()?, gpu: name })
    }

    fn nccl(&self) -> Result<&Nccl, LiveError> {
        self.nccl.as_ref().ok_or(LiveError::TooEarly("a communicator"))
    }

    fn queue(&self) -> Result<&Queue, LiveError> {
        self.queue.as_ref().ok_or(LiveError::TooEarly("memory"))
    }

    fn room(&self) -> Result<&(Memory, Memory), LiveError> {
        self.room.as_ref().ok_or(LiveError::TooEarly("a call"))
    }

    fn span(&self, call: &Call) -> Span {
        call.span(self.who.rank, self.who.ranks)
    }

    fn force(&self, call: &Call, mode: Mode) -> Result<(), LiveError> {
        Ok(self.control.with(|it| it.force(call.collective, mode.forced()))??)
    }

    fn enqueue(&self, call: &Call, times: u32) -> Result<(), LiveError> {
        let communicator = self.communicator.as_ref();
        let communicator = communicator.ok_or(LiveError::TooEarly("a call"))?;
        let (source, target) = self.room()?;
        let source = if call.in_place { target } else { source };
        let (span, queue) = (self.span(call), self.queue()?);
        for _ in 0..times {
            communicator.enqueue(call.collective, (source, target), &span, queue)?;
        }
        Ok(())
    }

    fn check(&self, call: &Call, mode: Mode) -> Result<Answer, LiveError> {
        let Identified { rank, ranks, .. } = self.who;
        self.force(call, mode)?;
        let ((source, target), queue) = (self.room()?, self.queue()?);
        let span = self.span(call);
        queue.fill(target, POISON)?;
        let input = if call.in_place { target } else { source };
        queue.write(input, span.from, &data::input(call, rank, ranks))?;
        self.enqueue(call, 1)?;
        let mut output = vec![0; span.to_end() - span.to];
        queue.read(target, span.to, &mut output)?;
        let wrong = data::wrong(call, rank, ranks, &output);
        let noted = self.control.with(|it| {
            let own = it.own(call.collective).map(|(algorithm, protocol)| Mode::Forced {
                algorithm,
                protocol,
                channels: None,
                chunk: None,
            });
            (it.noted(call.collective), own, it.shape())
        })?;
        let ((applied, refused), own, shape) = noted;
        // NCCL may ask more than once for a call; one answer that it takes is enough.
        let (asked, refused) = (applied + refused > 0, applied == 0 && refused > 0);
        Ok(Answer::Checked { wrong, asked, refused, own, shape })
    }

    fn time(
        &mut self,
        text: &CallText,
        modes: &[Mode],
        calls: u32,
        graphs: bool,
    ) -> Result<Answer, LiveError> {
        let call = read(text)?;
        let calls = calls.max(1);
        let mut ps = Vec::with_capacity(modes.len());
        for mode in modes {
            self.force(&call, *mode)?;
            let time = if graphs {
                self.captured(text, *mode, calls)?;
                let queue = self.queue()?;
                let graph = self.graphs.iter().find(|it| it.0 == (text.clone(), *mode, calls));
                let graph = &graph.ok_or(LiveError::TooEarly("a graph"))?.1;
                queue.launch(graph)?;
                queue.timed(|| Ok::<_, LiveError>(queue.launch(graph)?))?
            } else {
                self.enqueue(&call, 1)?;
                self.queue()?.timed(|| self.enqueue(&call, calls))?
            };
            ps.push(time.as_ps() / u64::from(calls));
        }
        Ok(Answer::Timed { ps })
    }

    /// Captures calls under a mode as a CUDA graph, unless there is such a graph already.
    fn captured(&mut self, text: &CallText, mode: Mode, calls: u32) -> Result<(), LiveError> {
        let key = (text.clone(), mode, calls);
        if self.graphs.iter().any(|it| it.0 == key) {
            return Ok(());
        }
        if self.graphs.len() >= MOST_GRAPHS {
            self.graphs.clear();
        }
        let call = read(text)?;
        let graph = self.queue()?.capture(|| self.enqueue(&call, calls))?;
        self.graphs.push((key, graph));
        Ok(())
    }
}

fn read(call: &CallText) -> Result<Call, LiveError> {
    Call::try_from(call).map_err(LiveError::Environment)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

fn unhex(text: &str) -> Option<Identity> {
    let mut bytes = [0; 128];
    if text.len() != 2 * bytes.len() || !text.is_ascii() {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(Identity(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_goes_over_the_line() {
        let mut bytes = [7; 128];
        bytes[3] = 0xf0;
        assert_eq!(unhex(&hex(&bytes)).unwrap().0, bytes);
        assert!(unhex("00").is_none() && unhex(&"g".repeat(256)).is_none());
    }
}
