//! [`Group`]: ranks that have found each other, and what they run together.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration as Wall;

use mio::{Poll, Waker};
use motet_collective::formats::program_json;
use motet_collective::{
    Collective, CollectiveKind, Program, ProgramBuilder, Slot, Transfer, Verified,
};
use motet_units::{Duration, Rank};
use sha2::{Digest as _, Sha256};

use crate::element::{Element, Reduction};
use crate::engine::{Command, Engine, Settings, WAKER};
use crate::error::ExecError;
use crate::flow::Flow;
use crate::layout::Layout;
use crate::link::{Link, Look, look};
use crate::memory::{Foreign, Memory, host};
use crate::merged::Merged;
use crate::mesh::{AT_WORK, Failed, Mesh};
use crate::operation::Operation;
use crate::plan::Plan;
use crate::reach::{connect, resolve};
use crate::remote::Remote;
use crate::run::{Regions, Registered, stash};
use crate::seat::{self, Said};
use crate::store::{self, HANDSHAKE, Note, SharedClock, Store};
use crate::stream::Stream;
use crate::tls::Tls;
use crate::uses::Uses;
use crate::wire::payload::MAX_RANKS;
use crate::wire::{Join, Met, Registration, Roster};

/// How a rank joins a group and behaves in it. Start from [`Config::new`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Where the store is: host and port.
    pub store: String,
    /// Whether this rank serves the store there.
    pub serve_store: bool,
    /// Groups with different names do not meet.
    pub group: String,
    pub rank: u32,
    pub ranks: u32,
    /// A secret that all ranks and the store share. It may be empty on loopback addresses only.
    pub token: String,
    /// If set, all connections are encrypted, and both sides of each show certificates. Set it on all ranks and the store, or
    /// on none. Memory that ranks of one host share is not encrypted.
    pub tls: Option<Tls>,
    /// The address to listen on; by default the one from which the store is reached.
    pub bind: Option<IpAddr>,
    /// The port to listen on, 0 for any that is free.
    pub port: u16,
    /// Where others reach this rank, if that is not where it listens.
    pub advertise: Option<String>,
    /// TCP connections for data to each rank; one more is for everything else. With 0, a rank nearby gets one, and one that takes
    /// 2 ms or more to connect to gets sixteen, six of which carry data at a time. The same on all ranks.
    pub streams: u32,
    /// Connections in reserve beside `streams`, unless that is 0. They are tried one after the other, and carry data once they prove
    /// much faster than the others, as on a network path that the others miss. The same on all ranks.
    pub reserve: u32,
    /// Whether ranks of one host read each other's memory.
    pub shared_memory: bool,
    /// Whether data has a checksum.
    pub checksums: bool,
    /// About how many bytes of a chunk go at a time, as a slice. The same on all ranks.
    pub slice: usize,
    /// Bytes of data in a frame, at most.
    pub piece: usize,
    /// How long all ranks may take to come to the store, and then again to connect to one another.
    pub wait: Duration,
    /// When nothing was sent on a connection for this long, a sign of life is.
    pub heartbeat: Duration,
    /// When nothing was received on a connection for this long, the rank at its other end counts as lost.
    pub silence: Duration,
    /// The longest that a call may take.
    pub deadline: Duration,
    /// The most memory that a registered operation may need for data that comes before it can be written.
    pub stash: u64,
    /// Whether [`Group::survivors`] may go on with fewer than half of the ranks, or with half of them without the lowest. If only the
    /// network has failed, the others may go on too, at another store, and there are two groups. Set it on all ranks or on none.
    pub minority: bool,
}

impl Config {
    /// The usual settings for a rank that finds the others at `store`; rank 0 serves it.
    #[must_use]
    pub fn new(store: impl Into<String>, rank: u32, ranks: u32) -> Self {
        Self {
            store: store.into(),
            serve_store: rank == 0,
            group: "motet".to_owned(),
            rank,
            ranks,
            token: String::new(),
            tls: None,
            bind: None,
            port: 0,
            advertise: None,
            streams: 0,
            reserve: 0,
            shared_memory: true,
            checksums: false,
            slice: 512 << 10,
            piece: 256 << 10,
            wait: Duration::from_ms(60_000),
            heartbeat: Duration::from_ms(1_000),
            silence: Duration::from_ms(10_000),
            deadline: Duration::from_ms(300_000),
            stash: 1 << 30,
            minority: false,
        }
    }

    fn check(&self) -> Result<(), ExecError> {
        let wrong = |why: String| Err(ExecError::Group(why));
        if self.ranks == 0 || self.ranks > MAX_RANKS || self.rank >= self.ranks {
            let (rank, ranks) = (self.rank, self.ranks);
            return wrong(format!("rank {rank} of {ranks}: a group has 1 to {MAX_RANKS} ranks"));
        }
        if self.streams.max(self.reserve) > 64 {
            return wrong(format!("{} streams are more than 64", self.streams.max(self.reserve)));
        }
        if self.heartbeat.saturating_mul(2) > self.silence || self.heartbeat.is_zero() {
            return wrong("the silence must be at least twice the heartbeat".to_owned());
        }
        Ok(())
    }
}

/// What a rank brings from the group before the one that it is about to join.
struct Before {
    generation: u32,
    meeting: u64,
    /// Ranks that this one knows it cannot reach.
    apart: Vec<u32>,
    /// A rank to which a connection broke, and which may be reachable again.
    broke: Option<u32>,
}

/// The digest by which ranks agree, at the end of a registration, that all have mapped the others' memory.
const MAPPED: [u8; 32] = [1; 32];

/// What a registered operation is called with, every time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub element: Element,
    /// Elements of a part: what the smaller of a rank's two buffers holds. See the table in
    /// [`motet_collective::collective`].
    pub elements: usize,
    pub reduction: Reduction,
    /// Whether input and output share memory, as NCCL defines it.
    pub in_place: bool,
}

impl Call {
    /// A call of `program` for a collective of `bytes` in nccl-tests' sense, or the next smaller that comes out whole; in place only
    /// where the program has no other form.
    #[must_use]
    pub fn of_size(program: &Program, bytes: u64, element: Element, reduction: Reduction) -> Self {
        let collective = program.collective();
        // AllToAllV counts in chunks; all others in parts of so many chunks.
        let per_part = if collective.counts().is_some() { 1 } else { collective.chunks() };
        let parts = u64::from(collective.size_chunks().div_ceil(per_part.max(1)).max(1));
        let elements = usize::try_from(bytes / parts / element.bytes() as u64);
        let in_place = !program.forms().out_of_place;
        Self { element, elements: elements.unwrap_or(usize::MAX), reduction, in_place }
    }
}

/// Ranks that have found each other. Leaves the group when dropped.
pub struct Group {
    config: Config,
    generation: u32,
    /// The number that the store has given the group.
    meeting: u64,
    /// A rank of this group to which a connection broke in the group before. If one breaks again, the rank counts as unreachable.
    broke: Option<u32>,
    rank: u32,
    ranks: u32,
    /// The number that each rank joined with.
    members: Vec<u32>,
    /// Ranks that share memory with this one.
    shared: Vec<bool>,
    remote: Remote,
    thread: Option<JoinHandle<()>>,
    registered: u32,
    barrier: Option<Operation>,
    store: Option<Store>,
    clock: SharedClock,
    note: Note,
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(rank {} of {} in `{}`)", self.rank, self.ranks, self.config.group)
    }
}

impl Group {
    /// Finds the other ranks and connects to them. `note` gets a line about every connection that was
    /// refused.
    pub fn join(config: &Config, clock: SharedClock, note: Note) -> Result<Self, ExecError> {
        Self::join_unless(config, clock, note, &|| false)
    }

    /// The same, but once `abandoned` says that nobody needs the group any more, this ends within seconds with
    /// [`ExecError::Abandoned`], however long the others might still take to come.
    pub fn join_unless(
        config: &Config,
        clock: SharedClock,
        note: Note,
        abandoned: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self, ExecError> {
        config.check()?;
        let store = if config.serve_store {
            let address = resolve(&config.store)?;
            let address = address.first().copied().ok_or(ExecError::Internal("no address"))?;
            let (tls, clock, note) = (config.tls.clone(), Arc::clone(&clock), Arc::clone(&note));
            Some(Store::serve_with(address, &config.token, tls, clock, note)?)
        } else {
            None
        };
        let before = Before { generation: 0, meeting: 0, apart: Vec::new(), broke: None };
        let met = Self::meet(config.clone(), before, 0, store, clock, note, abandoned);
        // What was under way when it was abandoned ends with errors of its own, which say nothing to anybody.
        met.map_err(|error| if abandoned() { ExecError::Abandoned } else { error })
    }

    /// After a failure: the same ranks as far as they are still there, numbered anew in the same order.
    /// All that are there must call this; who has not come within `grace` after the first is left out.
    /// Operations must be registered again, with programs for as many ranks as are left.
    ///
    /// Only ranks that all reach each other go on together, as many as possible; the others are told that they were left out, as is
    /// who comes too late. More than half of the ranks must be left, or half and the lowest, unless
    /// [`Config::minority`] says otherwise: so there never are two groups.
    pub fn survivors(mut self, grace: Duration) -> Result<Self, ExecError> {
        let touch = self.remote.health.failure().as_ref().and_then(ExecError::out_of_touch);
        // A connection that breaks each time is no better than one on which nothing arrives.
        let sure = touch.is_some_and(|it| it.1 || self.broke == Some(it.0));
        let before = Before {
            generation: self.generation + 1,
            meeting: self.meeting,
            apart: touch.filter(|_| sure).map(|it| it.0).into_iter().collect(),
            broke: touch.filter(|_| !sure).map(|it| it.0),
        };
        let config = self.config.clone();
        let (store, clock, note) =
            (self.store.take(), Arc::clone(&self.clock), Arc::clone(&self.note));
        let config = Config { rank: self.rank, ranks: self.ranks, ..config };
        drop(self);
        let grace = (grace.as_ps() / 1_000_000_000).max(1);
        Self::meet(config, before, grace, store, clock, note, &|| false)
    }

    /// The group as other threads may see it.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    fn meet(
        config: Config,
        before: Before,
        grace_ms: u64,
        store: Option<Store>,
        clock: SharedClock,
        note: Note,
        abandoned: &(dyn Fn() -> bool + Sync),
    ) -> Result<Self, ExecError> {
        let address =
            store.as_ref().map_or_else(|| config.store.clone(), |it| it.address().to_string());
        let until = clock.now() + config.wait;
        let reach = || connect("the store", &address, &*clock, until, abandoned).map(Link::new);
        let mut link = reach()?;
        let own = match config.bind {
            Some(address) => address,
            None => link.socket.local_addr().map_err(|it| ExecError::Group(it.to_string()))?.ip(),
        };
        let listener = store::listen(SocketAddr::new(own, config.port), &config.token)?;
        let listens = listener.local_addr().map_err(|it| ExecError::Group(it.to_string()))?;
        let host = if config.shared_memory { host().unwrap_or_default() } else { String::new() };
        let join = Join {
            group: config.group.clone(),
            generation: before.generation,
            meeting: before.meeting,
            rank: config.rank,
            ranks: config.ranks,
            address: config.advertise.clone().unwrap_or_else(|| listens.to_string()),
            host: host.clone(),
            wait_ms: config.wait.as_ps() / 1_000_000_000,
            grace_ms,
            minority: config.minority,
            apart: before.apart.clone(),
        };
        let secrets = (config.tls.as_ref(), &*config.token);
        let goes_on = || clock.now() < until && !abandoned();
        seat::join(&mut link, &reach, secrets, &join, &*clock, &goes_on)?;
        let meets = Meets {
            config: &config,
            generation: before.generation,
            clock: &clock,
            note: &note,
            abandoned,
        };
        let (roster, links) = meets.meet(&mut link, &listener)?;
        let rank = meets.place(&roster)?;
        drop(link);
        let shared: Vec<bool> =
            roster.members.iter().map(|it| !host.is_empty() && it.host == host).collect();
        let (remote, thread) = spawn(&config, rank as u32, links, &shared, &clock)?;
        Ok(Self {
            rank: rank as u32,
            ranks: roster.members.len() as u32,
            members: roster.members.iter().map(|it| it.rank).collect(),
            generation: before.generation,
            meeting: roster.meeting,
            broke: before
                .broke
                .and_then(|it| roster.members.iter().position(|member| member.rank == it))
                .map(|it| it as u32),
            config,
            shared,
            remote,
            thread: Some(thread),
            registered: 0,
            barrier: None,
            store,
            clock,
            note,
        })
    }

    /// This rank's number.
    #[must_use]
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// How many ranks there are.
    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The number that each rank joined with: after [`survivors`](Self::survivors), the one that it had in the group
    /// before.
    #[must_use]
    pub fn members(&self) -> &[u32] {
        &self.members
    }

    /// Where this rank serves the store, if it does.
    #[must_use]
    pub fn store_address(&self) -> Option<SocketAddr> {
        self.store.as_ref().map(Store::address)
    }

    /// Makes a program ready to be called many times. All ranks register the same operations in the same
    /// order; each waits until all have, and learns if one has registered something else, which harms
    /// neither the group nor what was registered before.
    pub fn register(
        &mut self,
        program: &Verified<Program>,
        call: Call,
    ) -> Result<Operation, ExecError> {
        let collective = program.collective();
        if collective.ranks() != self.ranks {
            return Err(ExecError::Ranks { program: collective.ranks(), group: self.ranks });
        }
        let kind = collective.kind();
        let (plan, layout, uses, memory) = match self.prepare(program, call) {
            Ok(prepared) => prepared,
            Err(error) => {
                // The others must not wait for this rank.
                let _ = self.agree([0; 32], format!("nothing, because {error}"), Vec::new());
                return Err(error);
            }
        };
        let descriptors = memory.iter().map(Memory::descriptor).collect();
        let all = self.agree(self.digest(program, call), title(program, call), descriptors)?;
        let mut foreign = BTreeMap::new();
        for (rank, theirs) in (0..).zip(&all) {
            let here = self.shared.get(rank as usize).copied().unwrap_or(false);
            if rank == self.rank || !here || !plan.receives_from(Rank(rank)) {
                continue;
            }
            let maps = theirs.memory.iter().map(|it| Foreign::open(theirs.process, *it));
            match maps.collect::<Result<Vec<Foreign>, String>>() {
                Ok(maps) => foreign.insert(rank, (self.layout(program, rank, call)?, maps)),
                Err(why) => return Err(self.cannot_share(rank, &why)),
            };
        }
        // A rank that is done with the operation before others have mapped its memory would take it away.
        self.agree(MAPPED, "memory that is mapped".to_owned(), Vec::new())?;
        let registered = Registered {
            number: self.registered,
            merged: Merged::new(&plan, &layout),
            plan,
            layout,
            uses,
            element: call.element,
            reduction: call.reduction,
            output_is_sum: match kind {
                CollectiveKind::Reduce => collective.root() == Some(Rank(self.rank)),
                _ => kind.reduces(),
            },
            ranks: self.ranks,
            foreign,
        };
        let Remote { commands, waker, .. } = self.remote();
        Ok(Operation::new(Arc::new(registered), memory, commands, waker))
    }

    /// Waits until all ranks have called this. The first time it registers an operation, so all ranks must
    /// call it at the same place among their registrations.
    pub fn barrier(&mut self) -> Result<(), ExecError> {
        let mut operation = match self.barrier.take() {
            Some(operation) => operation,
            None => {
                let call = Call {
                    element: Element::U8,
                    elements: 1,
                    reduction: Reduction::Sum,
                    in_place: false,
                };
                self.register(&everyone_to_everyone(self.ranks)?, call)?
            }
        };
        let ended = operation.run();
        self.barrier = Some(operation);
        ended
    }

    fn layout(&self, program: &Program, rank: u32, call: Call) -> Result<Layout, ExecError> {
        let Call { element, elements, in_place, .. } = call;
        Layout::new(program, Rank(rank), element, elements, in_place, self.config.slice)
    }

    /// This rank's half of a program, the layout of its memory, what the program does with that memory, and the memory itself.
    fn prepare(
        &self,
        program: &Program,
        call: Call,
    ) -> Result<(Plan, Layout, Uses, Regions), ExecError> {
        let (forms, kind) = (program.forms(), program.collective().kind());
        match call.in_place {
            true if !forms.in_place => return Err(ExecError::Form { kind, form: "in-place" }),
            false if !forms.out_of_place => {
                return Err(ExecError::Form { kind, form: "out-of-place" });
            }
            _ => {}
        }
        let layout = self.layout(program, self.rank, call)?;
        let plan = Plan::new(program, Rank(self.rank));
        let wanted = stash(&plan, &layout);
        if wanted > self.config.stash {
            return Err(ExecError::Stash { wanted, limit: self.config.stash });
        }
        let part = call.elements * call.element.bytes();
        let uses = Uses::new(program, &plan, &layout, &self.shared, part);
        let region = |it: usize| match uses.shown[it] {
            true => Memory::new(layout.regions[it]),
            false => Memory::private(layout.regions[it]),
        };
        let memory = [region(0)?, region(1)?, region(2)?];
        Ok((plan, layout, uses, memory))
    }

    /// Everything that ranks must agree on.
    fn digest(&self, program: &Program, call: Call) -> [u8; 32] {
        let Call { element, elements, reduction, in_place } = call;
        let mut digest = Sha256::new();
        digest.update(program_json::write(program));
        digest.update(format!(
            "\0{element}\0{elements}\0{reduction}\0{in_place}\0{}",
            self.config.slice
        ));
        digest.finalize().into()
    }

    /// Tells all ranks what is registered here, and hears what they register.
    fn agree(
        &mut self,
        digest: [u8; 32],
        title: String,
        memory: Vec<(u32, u64)>,
    ) -> Result<Vec<Registration>, ExecError> {
        let registration = Registration { digest, title, process: std::process::id(), memory };
        let (reply, answer) = channel();
        self.command(Command::Register { registration, reply })?;
        // The number is used up on all ranks, whatever comes of it.
        self.registered += 1;
        answer.recv().map_err(|_| ExecError::Ended)?
    }

    /// The error when memory of `rank` cannot be mapped. It tells the others, which would wait for this rank otherwise.
    fn cannot_share(&mut self, rank: u32, why: &str) -> ExecError {
        let why =
            format!("the memory of rank {rank} cannot be read: {why}; run without shared memory");
        let _ = self.agree([0; 32], format!("nothing, because {why}"), Vec::new());
        ExecError::Group(why)
    }

    fn command(&self, command: Command) -> Result<(), ExecError> {
        self.remote.commands.send(command).map_err(|_| ExecError::Ended)?;
        self.remote
            .waker
            .wake()
            .map_err(|it| ExecError::Group(format!("cannot wake the engine: {it}")))
    }
}

/// A rank on its way into a group: from the store's first roster until all ranks are connected.
struct Meets<'a> {
    config: &'a Config,
    generation: u32,
    clock: &'a SharedClock,
    note: &'a Note,
    /// Whether nobody needs the group any more.
    abandoned: &'a (dyn Fn() -> bool + Sync),
}

impl Meets<'_> {
    /// Where this rank stands in a roster.
    fn place(&self, roster: &Roster) -> Result<usize, ExecError> {
        let place = roster.members.iter().position(|it| it.rank == self.config.rank);
        place.ok_or_else(|| ExecError::Group("the group does not have this rank".into()))
    }

    /// Connects to the ranks of each roster that the store sends, until the store says that all ranks have connected.
    fn meet(
        &self,
        link: &mut Link,
        listener: &TcpListener,
    ) -> Result<(Roster, Vec<Vec<Link>>), ExecError> {
        let clock = &**self.clock;
        let hear = |link: &mut Link| seat::hear(link, clock, self.config.wait, self.abandoned);
        let mut said = hear(link)?;
        loop {
            let Said::Roster(roster) = said else {
                return Err(ExecError::Group("the store said go before all had met".into()));
            };
            let mut met = Met { round: roster.round, missing: Vec::new(), why: String::new() };
            match self.mesh(&roster, &link.socket, listener) {
                Ok(links) => {
                    seat::tell(link, clock, &met)?;
                    said = hear(link)?;
                    if matches!(said, Said::Go) {
                        return Ok((roster, links));
                    }
                    continue;
                }
                Err(Failed::CalledOff) => {}
                Err(Failed::Missing(places, error)) => {
                    let number = |it: &usize| roster.members.get(*it).map(|it| it.rank);
                    met.missing = places.iter().filter_map(number).collect();
                    met.why = error.to_string();
                    let told = seat::tell(link, clock, &met);
                    // At first all are needed. Later, there may be a group without those.
                    if self.generation == 0 || told.is_err() {
                        return Err(error);
                    }
                }
                Err(Failed::Own(error)) => {
                    met.missing = vec![self.config.rank];
                    met.why = error.to_string();
                    // It ends here either way.
                    let _ = seat::tell(link, clock, &met);
                    return Err(error);
                }
            }
            said = hear(link)?;
        }
    }

    fn mesh(
        &self,
        roster: &Roster,
        store: &TcpStream,
        listener: &TcpListener,
    ) -> Result<Vec<Vec<Link>>, Failed> {
        let Config { group, token, tls, streams, reserve, wait, silence, .. } = self.config;
        let mesh = Mesh {
            group,
            generation: self.generation,
            rank: self.place(roster).map_err(Failed::Own)?,
            roster,
            token,
            tls: tls.as_ref(),
            streams: (*streams > 0).then_some(streams + reserve + 1),
            clock: &**self.clock,
            note: self.note,
            // The time until all had come does not count: the last may have come at its end.
            until: self.clock.now() + *wait,
            patience: if self.generation == 0 { *wait } else { (*silence).max(HANDSHAKE) },
            called_off: &|| (self.abandoned)() || look(store, Wall::ZERO) != Look::Nothing,
        };
        mesh.connect(listener)
    }
}

/// The program of a barrier: an AllGather by direct copies.
fn everyone_to_everyone(ranks: u32) -> Result<Verified<Program>, ExecError> {
    let wrong = |_| ExecError::Internal("no barrier");
    let collective = Collective::new(CollectiveKind::AllGather, ranks, 1).map_err(wrong)?;
    let mut builder = ProgramBuilder::new("barrier", collective);
    for from in (0..ranks).map(Rank) {
        for to in (0..ranks).map(Rank) {
            builder.add(Transfer::copy(Slot::input(from, 0), Slot::output(to, from.0), 1));
        }
    }
    Verified::new(builder.build(), None).map_err(|_| ExecError::Internal("no barrier"))
}

/// A registration in words, for messages.
fn title(program: &Program, call: Call) -> String {
    let Call { element, elements, reduction, in_place } = call;
    let kind = program.collective().kind();
    let form = if in_place { "in place" } else { "out of place" };
    let name = motet_units::brief(program.name());
    format!("{kind} of {elements} {element} a part, {reduction}, {form}, by program `{name}`")
}

impl Drop for Group {
    fn drop(&mut self) {
        // An engine that has ended needs no telling.
        let _ = self.command(Command::Leave);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Starts the engine, on a thread of its own.
fn spawn(
    config: &Config,
    rank: u32,
    links: Vec<Vec<Link>>,
    shared: &[bool],
    clock: &SharedClock,
) -> Result<(Remote, JoinHandle<()>), ExecError> {
    let failed =
        |error: std::io::Error| ExecError::Group(format!("cannot start the engine: {error}"));
    let poll = Poll::new().map_err(failed)?;
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).map_err(failed)?);
    let (commands, receiver) = channel();
    let mut flow = Flow::new(rank, links.len() as u32, config.piece);
    for (line, shared) in flow.lines.iter_mut().zip(shared) {
        line.shared = *shared;
    }
    let now = clock.now();
    let mut streams = Vec::new();
    for (peer, links) in links.into_iter().enumerate() {
        let mut of_peer = Vec::new();
        for link in links {
            let socket = link.into_socket().map_err(failed)?;
            of_peer.push(Stream::new(socket, peer as u32, config.checksums, now));
        }
        streams.push(of_peer);
    }
    let settings = Settings {
        heartbeat: config.heartbeat,
        silence: config.silence,
        deadline: config.deadline,
        at_work: if config.streams == 0 { AT_WORK } else { config.streams as usize },
    };
    let engine = Engine::new(rank, poll, receiver, Arc::clone(clock), settings, flow, streams);
    let engine = engine.map_err(failed)?;
    let health = engine.health.clone();
    let thread = std::thread::Builder::new()
        .name(format!("motet-exec-{rank}"))
        .spawn(move || engine.run())
        .map_err(failed)?;
    Ok((Remote { health, commands, waker }, thread))
}
