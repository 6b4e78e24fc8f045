//! [`Task`]: the input of synthesis: collective, size, network and its state; [`SynthError`]: why there may be no program.

use motet_collective::bound::bound;
use motet_collective::{Bound, BoundError, Collective, CollectiveError, CollectiveKind};
use motet_net::{LinkSpec, Network, NetworkBuilder, NetworkState};
use motet_sim::SimError;
use motet_units::{Bytes, Duration, LinkId, Rank};

use crate::limits::MAX_TRANSFERS;
use crate::watch::Watch;

/// A collective whose chunks are not yet chosen: how finely data is cut is the method's choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal(Collective);

impl Goal {
    /// A collective without a root, counts or peers.
    pub fn new(kind: CollectiveKind, ranks: u32) -> Result<Self, CollectiveError> {
        Collective::new(kind, ranks, 1).map(Self)
    }

    /// One with a root (which is ignored where the collective has none).
    pub fn rooted(kind: CollectiveKind, ranks: u32, root: Rank) -> Result<Self, CollectiveError> {
        Collective::rooted(kind, ranks, 1, root).map(Self)
    }

    /// AllToAllV: rank s has `counts[s * ranks + d]` units for rank d.
    pub fn all_to_all_v(ranks: u32, counts: Vec<u32>) -> Result<Self, CollectiveError> {
        Collective::all_to_all_v(ranks, counts).map(Self)
    }

    /// SendRecv: rank r sends to `peers[r]`, if to anyone.
    pub fn send_recv(peers: Vec<Option<Rank>>) -> Result<Self, CollectiveError> {
        Collective::send_recv(1, peers).map(Self)
    }

    /// The same collective with `chunks` chunks per part (per unit of an AllToAllV).
    pub fn collective(&self, chunks: u32) -> Result<Collective, CollectiveError> {
        self.0.refined(chunks)
    }

    #[must_use]
    pub const fn kind(&self) -> CollectiveKind {
        self.0.kind()
    }

    #[must_use]
    pub const fn ranks(&self) -> u32 {
        self.0.ranks()
    }

    #[must_use]
    pub const fn root(&self) -> Option<Rank> {
        self.0.root()
    }

    /// The units of an AllToAllV, source by source.
    #[must_use]
    pub fn counts(&self) -> Option<&[u32]> {
        self.0.counts()
    }
}

/// The input of synthesis: a collective of some size on a network in some state, with the links that may be used.
#[derive(Clone, Debug)]
pub struct Task<'a> {
    pub network: &'a Network,
    /// What every link can carry now.
    pub state: NetworkState,
    pub goal: Goal,
    /// In nccl-tests' sense: the bytes of the largest buffer of a rank.
    pub size: Bytes,
    /// Per link: whether a program may use it (a sketch forbids links so).
    pub allowed: Vec<bool>,
    /// Whether links may carry transfers in an order of their own ([`Program::turns`]) rather than by
    /// their numbers.
    ///
    /// [`Program::turns`]: motet_collective::Program::turns
    pub may_overtake: bool,
    /// Most transfers that a program should have, where the method can choose.
    pub most_transfers: u64,
    /// Whether parts should be cut into a power of two of chunks, where the method can choose: runtimes
    /// pass over a program whose chunks do not divide the call's count.
    pub even: bool,
    /// Whether a program may ask switches to copy and reduce ([`Buffer::Switch`]): off, because not every
    /// runtime can.
    ///
    /// [`Buffer::Switch`]: motet_collective::Buffer::Switch
    pub in_switch: bool,
    /// When methods should stop; [`synthesize`](crate::synthesize) sets it from its
    /// [`Effort`](crate::Effort).
    pub watch: Watch<'a>,
    /// A program that takes as long as this is of no use, because a faster one is known: methods may
    /// stop refining theirs as soon as they see that it will not become faster.
    pub to_beat: Option<Duration>,
    /// No program takes less than this, where that is known: a method whose program is as good as that
    /// need not look for a better one.
    pub at_least: Option<Duration>,
}

impl<'a> Task<'a> {
    /// On the network as it nominally is, with every link allowed.
    #[must_use]
    pub fn new(network: &'a Network, goal: Goal, size: Bytes) -> Self {
        let state = NetworkState::nominal(network);
        let allowed = vec![true; network.links().len()];
        Self {
            network,
            state,
            goal,
            size,
            allowed,
            may_overtake: true,
            most_transfers: MAX_TRANSFERS,
            even: false,
            in_switch: false,
            watch: Watch::default(),
            to_beat: None,
            at_least: None,
        }
    }

    /// For executors in which every link carries transfers in the order of their numbers: links get no order of their own.
    #[must_use]
    pub const fn by_numbers(mut self) -> Self {
        self.may_overtake = false;
        self
    }

    /// For programs that may ask switches to copy and reduce.
    #[must_use]
    pub const fn with_switches(mut self) -> Self {
        self.in_switch = true;
        self
    }

    /// In another state of the network.
    #[must_use]
    pub fn in_state(mut self, state: NetworkState) -> Self {
        self.state = state;
        self
    }

    /// The network cut down to what may be used now, with links at what they carry now; links
    /// are numbered anew. Bounds are taken on it.
    #[must_use]
    pub fn usable_network(&self) -> Option<Network> {
        let mut builder = NetworkBuilder::new(self.network.name());
        for node in self.network.nodes() {
            builder.add_node(node.clone()).ok()?;
        }
        for (id, link) in self.network.link_ids().zip(self.network.links()) {
            if self.usable(id) {
                let spec = LinkSpec { bandwidth: self.state.bandwidth(id), ..link.spec };
                builder.add_link(link.from, link.to, spec).ok()?;
            }
        }
        builder.build().ok()
    }

    /// The least time any program could take over what may be used now. On failure the error
    /// holds the cut, in nodes and links of [`usable_network`](Self::usable_network).
    pub fn bound(&self) -> Result<Bound, SynthError> {
        let (ranks, gpus) = (self.goal.ranks(), self.network.ranks().len());
        if ranks as usize > gpus {
            return Err(SynthError::Ranks { ranks, gpus });
        }
        let collective = self.goal.collective(1)?;
        let nominal = NetworkState::nominal(self.network);
        if self.state == nominal && self.allowed.iter().all(|it| *it) {
            return Ok(bound(self.network, &collective)?);
        }
        match self.usable_network() {
            Some(network) => Ok(bound(&network, &collective)?),
            None => Ok(bound(self.network, &collective)?),
        }
    }

    /// Whether a program may use the link: it is allowed, up, and carries something.
    #[must_use]
    pub fn usable(&self, link: LinkId) -> bool {
        let allowed = self.allowed.get(link.index()).copied().unwrap_or(false);
        allowed && self.state.bandwidth(link).bits_per_s() > 0
    }
}

/// Why there is no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    #[error("the task has {ranks} ranks and the network {gpus} GPUs; ask for at most as many")]
    Ranks { ranks: u32, gpus: usize },
    /// No program can exist: the bound's own error holds the cut that proves it.
    #[error(transparent)]
    Impossible(#[from] BoundError),
    #[error(transparent)]
    Collective(#[from] CollectiveError),
    /// The bound alone is beyond what times count.
    #[error(
        "any program takes at least 2⁶⁴ ps (213 days), which is as far as time reaches here; use a \
         smaller size or faster links"
    )]
    TooLong,
    /// The method's program is right but cannot be run on this network, or for too long.
    #[error("the program of method {method} cannot be timed: {why}")]
    NotTimed { method: &'static str, why: SimError },
    /// A time that no program can reach: a fault of Motet's own.
    #[error(
        "method {method} made a program ({program}) that would take {time}, less than the {bound} \
         that any takes, which is a fault in Motet"
    )]
    BelowBound { method: &'static str, program: String, time: Duration, bound: Duration },
    /// A method made a program that is not right: a fault of Motet's own.
    #[error(
        "method {method} made a program that is not right, which is a fault in Motet:\n{report}"
    )]
    Wrong { method: &'static str, report: String },
    /// The method had found nothing yet when it had to stop.
    #[error("method {method} found nothing in the time it had; give it more, or use `auto`")]
    OutOfTime { method: &'static str },
    /// This method cannot do the task, though another may.
    #[error("method {method} does not do this: {why}")]
    NotForMethod { method: &'static str, why: String },
}

impl SynthError {
    #[must_use]
    pub fn not_for(method: &'static str, why: impl Into<String>) -> Self {
        Self::NotForMethod { method, why: why.into() }
    }
}
