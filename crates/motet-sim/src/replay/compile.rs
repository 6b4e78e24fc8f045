//! Compiles a routed program to [`Code`]: assigns slots to times and channels to (link, size)
//! pairs, and emits one step per transfer and per arrival that waits for more than its transfer.

use motet_collective::{Event, TransferId};
use motet_units::{Bytes, LinkId, Rounding};
use rustc_hash::FxHashMap;

use super::code::{Code, END, NOWHERE, Op, START, STORES};
use super::error::CompileError;
use super::flows::Assigned;
use super::waits::{NONE, Waits};
use super::{Channel, Replay};
use crate::event::Prepared;
use crate::group;
use crate::model::{Discipline, SimOptions};
use crate::route::Routed;

pub(super) fn compile(
    routed: &Routed<'_>,
    size: Bytes,
    options: &SimOptions,
) -> Result<Replay, CompileError> {
    if options.discipline != Discipline::ProgramOrder {
        return Err(CompileError::Discipline(options.discipline));
    }
    if let Some(turns) = routed.program().turns().first() {
        return Err(CompileError::Turns { link: turns.link });
    }
    if group::is_possible(routed.network())
        && let Some(transfer) = Prepared::new(routed).first_together()
    {
        return Err(CompileError::InNetwork { transfer });
    }
    let bytes = bytes(routed, size)?;
    let delays = delays(routed, &bytes, options)?;
    let first_link = |it: TransferId| routed.hops(it.index()).first().map(|it| it.link.0);
    let takes_time = |it: usize| delays.is_some() && bytes[it] > Bytes::ZERO;
    let waits = Waits::new(routed, takes_time, first_link);
    let mut compiler = Compiler::new(routed, &waits, Target::Links { bytes: &bytes });
    compiler.delays = delays.unwrap_or_default();
    compiler.events();
    let Compiler { code, links, channels, delays, .. } = compiler;
    let network = routed.network();
    let ranks = |it: &motet_collective::Transfer| (it.src.rank, it.dst.rank);
    Ok(Replay {
        code,
        latencies: links.used.iter().map(|it| network.link(*it).spec.latency.as_ps()).collect(),
        links: links.used,
        channels,
        delays: delays.times,
        launch: options.launch.as_ps(),
        network_links: network.links().len(),
        transfer_ranks: routed.program().transfers().iter().map(ranks).collect(),
        ranks: routed.program().collective().ranks(),
    })
}

/// The code of a program whose flows take routes that are given with each run. Transfers within a
/// rank take no time.
pub(super) fn with_flows(routed: &Routed<'_>, assigned: &Assigned) -> Code {
    let waits = Waits::new(routed, |_| false, |it| assigned.first_link(it));
    let mut compiler = Compiler::new(routed, &waits, Target::Flows(assigned));
    compiler.events();
    compiler.code
}

/// What each transfer carries.
fn bytes(routed: &Routed<'_>, size: Bytes) -> Result<Vec<Bytes>, CompileError> {
    let chunk = routed.program().collective().chunk_bytes(size);
    let transfers = routed.program().transfers().iter().enumerate();
    transfers
        .map(|(index, it)| {
            let transfer = TransferId::from_index(index);
            chunk.checked_mul(u64::from(it.count)).ok_or(CompileError::TooManyBytes { transfer })
        })
        .collect()
}

/// The times that transfers within ranks take, each once.
#[derive(Debug, Default)]
struct Delays {
    times: Vec<u64>,
    /// By bytes: the index in `times`.
    of: FxHashMap<Bytes, u32>,
}

/// The times of transfers within ranks; `None` if they take no time.
fn delays(
    routed: &Routed<'_>,
    bytes: &[Bytes],
    options: &SimOptions,
) -> Result<Option<Delays>, CompileError> {
    let Some(bandwidth) = options.local_bandwidth else { return Ok(None) };
    let mut delays = Delays::default();
    for (index, it) in bytes.iter().enumerate() {
        if !routed.hops(index).is_empty() || delays.of.contains_key(it) {
            continue;
        }
        let transfer = TransferId::from_index(index);
        let time = bandwidth.transfer_time(*it, Rounding::Up);
        let time = time.ok_or(CompileError::NoLocalBandwidth { transfer })?;
        delays.of.insert(*it, delays.times.len() as u32);
        delays.times.push(time.as_ps());
    }
    Ok(Some(delays))
}

/// The links that the program uses, numbered in the order in which they first occur.
#[derive(Debug)]
struct Links {
    number: Vec<u32>,
    used: Vec<LinkId>,
}

impl Links {
    fn new(links: usize) -> Self {
        Self { number: vec![NONE; links], used: Vec::new() }
    }

    fn number(&mut self, link: LinkId) -> u32 {
        let slot = &mut self.number[link.index()];
        if *slot == NONE {
            *slot = self.used.len() as u32;
            self.used.push(link);
        }
        *slot
    }
}

/// Where the links of transfers come from.
#[derive(Clone, Copy)]
enum Target<'a> {
    /// The routed program; `bytes` says what each transfer carries.
    Links { bytes: &'a [Bytes] },
    /// Routes that are given with each run.
    Flows(&'a Assigned),
}

struct Compiler<'a> {
    routed: &'a Routed<'a>,
    target: Target<'a>,
    delays: Delays,
    waits: &'a Waits,
    code: Code,
    /// By event: the slot that holds its time.
    slot: Vec<u32>,
    /// Slots whose time no later step needs.
    unused: Vec<u32>,
    links: Links,
    channels: Vec<Channel>,
    channel_of: FxHashMap<(u32, Bytes), u32>,
    /// By link: its channel that was used last, which is most often used next too.
    latest: Vec<u32>,
    /// The operands of the step in the making.
    operands: Vec<u32>,
}

impl<'a> Compiler<'a> {
    fn new(routed: &'a Routed<'a>, waits: &'a Waits, target: Target<'a>) -> Self {
        Self {
            routed,
            target,
            delays: Delays::default(),
            waits,
            code: Code::with_capacity(routed.graph().events() / 2),
            slot: vec![NOWHERE; routed.graph().events()],
            unused: Vec::new(),
            links: Links::new(routed.network().links().len()),
            channels: Vec::new(),
            channel_of: FxHashMap::default(),
            latest: Vec::new(),
            operands: Vec::new(),
        }
    }

    fn events(&mut self) {
        for (place, event) in self.routed.sequence().iter().enumerate() {
            self.event(place, *event);
        }
    }

    fn event(&mut self, place: usize, event: Event) {
        let transfer = event.transfer();
        let local = self.routed.hops(transfer.index()).is_empty();
        match (event.is_sent(), local) {
            (true, false) => self.over_links(place, transfer),
            (true, true) => self.within_rank(place, transfer),
            (false, _) if self.waits.joins(transfer.index()) => self.arrival(place, event, local),
            (false, _) => {}
        }
    }

    fn over_links(&mut self, place: usize, transfer: TransferId) {
        self.take_waits(place);
        let waits = self.operands.len();
        if let Target::Links { bytes } = self.target {
            for hop in self.routed.hops(transfer.index()) {
                let link = self.links.number(hop.link);
                let channel = self.channel(link, hop.link, transfer, bytes[transfer.index()]);
                let stores = if hop.starts_segment { STORES } else { 0 };
                self.operands.extend([link | stores, channel]);
            }
        }
        let sent = self.keep(transfer.sent(), NOWHERE);
        let arrived = if self.waits.joins(transfer.index()) {
            self.assign(transfer.arrived())
        } else {
            self.keep(transfer.arrived(), self.unawaited(transfer.arrived()))
        };
        let index = transfer.index();
        match (self.target, self.operands.as_slice(), waits, arrived) {
            (Target::Flows(assigned), ..) => {
                let (flow, size) = assigned.transfers[index];
                self.code.push(Op::Flow, index, &[waits as u32, flow, size, sent, arrived]);
                self.code.words.extend_from_slice(&self.operands);
            }
            // The first hop of a transfer always leaves a GPU.
            (_, &[link, channel], 0, out) | (_, &[_, link, channel], 1, out)
                if sent == NOWHERE && out != NOWHERE =>
            {
                let wait = if waits == 0 { START } else { self.operands[0] };
                let link = link & !STORES;
                match out {
                    END => self.code.push(Op::HopEnd, index, &[wait, link, channel]),
                    _ => self.code.push(Op::Hop, index, &[wait, link, channel, out]),
                }
            }
            _ => {
                let hops = (self.operands.len() - waits) / 2;
                self.code.push(Op::Path, index, &[waits as u32, hops as u32, sent, arrived]);
                self.code.words.extend_from_slice(&self.operands);
            }
        }
    }

    fn within_rank(&mut self, place: usize, transfer: TransferId) {
        let delay = match self.target {
            Target::Links { bytes } => self.delays.of.get(&bytes[transfer.index()]).copied(),
            Target::Flows(_) => None,
        };
        let delay = delay.filter(|it| self.delays.times[*it as usize] > 0);
        self.take_waits(place);
        // At once, after nothing: the time of the launch, which nothing waits for.
        if delay.is_none() && self.operands.is_empty() {
            return;
        }
        // Its arrival shares its time unless that waits for more.
        let awaited = self.waits.joins(transfer.index()) || self.awaited(transfer.arrived());
        let out = self.keep(transfer.sent(), if awaited { NOWHERE } else { END });
        let waits = self.operands.len() as u32;
        match delay {
            Some(delay) => self.code.push(Op::Local, transfer.index(), &[waits, delay, out]),
            None => self.code.push(Op::Join, transfer.index(), &[waits, out]),
        }
        self.code.words.extend_from_slice(&self.operands);
    }

    /// Emits the arrival of a transfer that waits for more than the transfer itself.
    fn arrival(&mut self, place: usize, event: Event, local: bool) {
        // A transfer within a rank is among its waits.
        let reached = self.slot[event.index()];
        self.take_waits(place);
        if !local {
            self.operands.push(reached);
            self.unused.push(reached);
        }
        let out = self.keep(event, self.unawaited(event));
        let head = [self.operands.len() as u32, out];
        self.code.push(Op::Join, event.transfer().index(), &head);
        self.code.words.extend_from_slice(&self.operands);
    }

    /// Puts the slots that the event at `place` waits for into `operands`, and frees those that no later step
    /// reads. They may be assigned again at once: a step reads all its waits before it writes.
    fn take_waits(&mut self, place: usize) {
        self.operands.clear();
        for awaited in self.waits.at(place) {
            let slot = self.slot[*awaited as usize];
            self.operands.push(slot);
            if self.waits.last_use[*awaited as usize] == place as u32 {
                self.unused.push(slot);
            }
        }
    }

    /// A slot for the event if something waits for it, `otherwise` if nothing does.
    fn keep(&mut self, event: Event, otherwise: u32) -> u32 {
        match self.waits.last_use[event.index()] {
            NONE => otherwise,
            _ => self.assign(event),
        }
    }

    fn assign(&mut self, event: Event) -> u32 {
        let slot = self.unused.pop().unwrap_or_else(|| {
            self.code.slots += 1;
            self.code.slots as u32 - 1
        });
        self.slot[event.index()] = slot;
        slot
    }

    fn awaited(&self, event: Event) -> bool {
        self.waits.awaited[event.index()]
    }

    /// The operand for the time of an event that no step reads: [`END`] if it may be the end of the program.
    fn unawaited(&self, event: Event) -> u32 {
        // What something waits for in the program is not the end, even if that wait is implied.
        if self.awaited(event) { NOWHERE } else { END }
    }

    fn channel(&mut self, number: u32, link: LinkId, transfer: TransferId, bytes: Bytes) -> u32 {
        if self.latest.len() <= number as usize {
            self.latest.push(NONE);
        }
        let latest = &mut self.latest[number as usize];
        if self.channels.get(*latest as usize).is_none_or(|it| it.bytes != bytes) {
            let channels = &mut self.channels;
            *latest = *self.channel_of.entry((number, bytes)).or_insert_with(|| {
                channels.push(Channel { link, bytes, first: transfer });
                channels.len() as u32 - 1
            });
        }
        *latest
    }
}
