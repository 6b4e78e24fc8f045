//! The lists of a plan being written: channels between blocks, semaphores within a GPU, remote
//! buffers, and per threadblock the references into them.

use std::collections::{BTreeMap, BTreeSet};

use motet_units::Rank;

use super::Options;
use super::agenda::{Agenda, Take};
use super::model::{self, ChannelType, PlanOp};
use super::switch::SwitchGroup;
use super::switch_write;
use crate::program::{Buffer, LaneKind, Program};

/// One end of a channel: the GPU, the type and the index in the GPU's list of that type.
type End = (ChannelType, u32);

#[derive(Debug, Default)]
pub(super) struct Lists {
    ranks: Vec<Rank>,
    /// By rank and type: the peers.
    peers: BTreeMap<(Rank, ChannelType), Vec<u32>>,
    /// The end at the first block of the channel between two.
    between: BTreeMap<(usize, usize), End>,
    /// The ends of a port lane's channel: at the sender and at the receiver.
    ports: BTreeMap<usize, (u32, u32)>,
    /// By the block that releases and the one that acquires.
    semaphores: BTreeMap<(usize, usize), u32>,
    /// The groups that switch channels join, in the order that all GPUs keep.
    groups: Vec<SwitchGroup>,
    buffers: BTreeMap<Rank, Vec<(Rank, Buffer, BTreeSet<ChannelType>)>>,
    /// By block: what its operations refer to.
    channel_refs: Vec<BTreeMap<ChannelType, Vec<u32>>>,
    buffer_refs: Vec<BTreeMap<ChannelType, Vec<u32>>>,
}

impl Lists {
    pub(super) fn new(program: &Program, agenda: &Agenda, options: &Options) -> Self {
        let blocks = agenda.blocks.len();
        let mut lists = Self {
            ranks: agenda.blocks.iter().map(|it| it.rank).collect(),
            channel_refs: vec![BTreeMap::new(); blocks],
            buffer_refs: vec![BTreeMap::new(); blocks],
            groups: switch_write::all_groups(program),
            ..Self::default()
        };
        lists.port_channels(program);
        let mut pairs: BTreeSet<(Rank, Rank, usize, usize)> = BTreeSet::new();
        let mut within: BTreeMap<Rank, u32> = BTreeMap::new();
        for (to, block) in agenda.blocks.iter().enumerate() {
            let takes = block.items.iter().flat_map(|it| &it.takes);
            let takes =
                takes.filter_map(|it| if let Take::Block(from) = it { Some(from) } else { None });
            let call = [&block.call.greeted_by, &block.call.left_by, &block.call.confirmed_by];
            for from in takes.chain(call.into_iter().flatten()) {
                let (a, b) = ((lists.ranks[*from], *from), (lists.ranks[to], to));
                if a.0 == b.0 {
                    let count = within.entry(a.0).or_insert(0);
                    lists.semaphores.entry((*from, to)).or_insert_with(|| {
                        *count += 1;
                        *count - 1
                    });
                    continue;
                }
                let (low, high) = (a.min(b), a.max(b));
                pairs.insert((low.0, high.0, low.1, high.1));
            }
        }
        let (mut near, far) = reached(program);
        for (a, b, x, y) in pairs {
            let by_port =
                options.channel.by_port(a, b) || far.contains(&(a, b)) && !near.contains(&(a, b));
            let kind = if by_port { ChannelType::Port } else { ChannelType::Memory };
            let (end_a, end_b) = lists.connect(kind, a, b);
            lists.between.insert((x, y), (kind, end_a));
            lists.between.insert((y, x), (kind, end_b));
            if kind == ChannelType::Memory {
                near.remove(&(a, b));
            }
        }
        // Packets need no channel, but GPUs are connected by those there are.
        for (a, b) in near {
            lists.connect(ChannelType::Memory, a, b);
        }
        lists
    }

    /// Channels for what is posted come first, so that the n-th port lane between two ranks has
    /// the n-th channel between them.
    fn port_channels(&mut self, program: &Program) {
        let mut made: BTreeMap<(Rank, Rank, u32), (u32, u32)> = BTreeMap::new();
        for (index, lane) in program.lanes().iter().enumerate() {
            let LaneKind::Port { .. } = lane.kind else { continue };
            let Some(event) = lane.events.first() else { continue };
            let (a, b) = (lane.rank, program.transfer(event.transfer()).dst.rank);
            let (low, high) = (a.min(b), a.max(b));
            let ends = match made.get(&(low, high, lane.channel)) {
                Some(ends) => *ends,
                None => {
                    let ends = self.connect(ChannelType::Port, low, high);
                    made.insert((low, high, lane.channel), ends);
                    ends
                }
            };
            self.ports.insert(index, if a == low { ends } else { (ends.1, ends.0) });
        }
    }

    /// A new channel between two ranks.
    fn connect(&mut self, kind: ChannelType, a: Rank, b: Rank) -> (u32, u32) {
        let mut end = |from: Rank, to: Rank| {
            let peers = self.peers.entry((from, kind)).or_default();
            peers.push(to.0);
            peers.len() as u32 - 1
        };
        (end(a, b), end(b, a))
    }

    fn refer(list: &mut Vec<u32>, id: u32) -> u32 {
        let place = list.iter().position(|it| *it == id).unwrap_or_else(|| {
            list.push(id);
            list.len() - 1
        });
        place as u32
    }

    /// What `block` calls the channel between it and `other`.
    pub(super) fn channel(&mut self, block: usize, other: usize) -> (ChannelType, u32) {
        let (kind, id) =
            self.between.get(&(block, other)).copied().unwrap_or((ChannelType::Memory, 0));
        (kind, Self::refer(self.channel_refs[block].entry(kind).or_default(), id))
    }

    /// What `block` calls the channel that it posts to port lane `lane` through.
    pub(super) fn sending(&mut self, block: usize, lane: usize) -> u32 {
        let (id, _) = self.ports.get(&lane).copied().unwrap_or_default();
        Self::refer(self.channel_refs[block].entry(ChannelType::Port).or_default(), id)
    }

    /// What `block` calls the channel whose other end port lane `lane` posts to.
    pub(super) fn receiving(&mut self, block: usize, lane: usize) -> u32 {
        let (_, id) = self.ports.get(&lane).copied().unwrap_or_default();
        Self::refer(self.channel_refs[block].entry(ChannelType::Port).or_default(), id)
    }

    /// What `block` calls the switch channel of a group.
    pub(super) fn switch(&mut self, block: usize, group: Option<&SwitchGroup>) -> u32 {
        let rank = self.ranks[block];
        let mut of_rank = self.groups.iter().filter(|it| it.ranks.contains(&rank));
        let id = of_rank.position(|it| Some(it) == group).unwrap_or(0) as u32;
        Self::refer(self.channel_refs[block].entry(ChannelType::Switch).or_default(), id)
    }

    pub(super) fn semaphore(&self, from: usize, to: usize) -> u32 {
        self.semaphores.get(&(from, to)).copied().unwrap_or(0)
    }

    /// What `block` calls a buffer of another GPU.
    pub(super) fn buffer(
        &mut self,
        block: usize,
        kind: ChannelType,
        rank: Rank,
        buffer: Buffer,
    ) -> u32 {
        let list = self.buffers.entry(self.ranks[block]).or_default();
        let id = list.iter().position(|it| (it.0, it.1) == (rank, buffer)).unwrap_or_else(|| {
            list.push((rank, buffer, BTreeSet::new()));
            list.len() - 1
        });
        list[id].2.insert(kind);
        Self::refer(self.buffer_refs[block].entry(kind).or_default(), id as u32)
    }

    /// The threadblock with these operations, after which it refers to nothing more.
    pub(super) fn threadblock(
        &self,
        block: usize,
        id: u32,
        ops: Vec<PlanOp>,
    ) -> model::Threadblock {
        let channels = self.channel_refs[block].iter();
        let buffers = self.buffer_refs[block].iter();
        model::Threadblock {
            id,
            ops,
            channels: channels
                .map(|(kind, ids)| model::ChannelRefs {
                    channel_type: *kind,
                    channel_ids: ids.clone(),
                })
                .collect(),
            remote_buffer_refs: buffers
                .map(|(kind, ids)| model::BufferRefs {
                    access_channel_type: *kind,
                    remote_buffer_ids: ids.clone(),
                })
                .collect(),
        }
    }

    pub(super) fn gpu(
        &self,
        program: &Program,
        rank: Rank,
        threadblocks: Vec<model::Threadblock>,
    ) -> model::PlanGpu {
        let channel = |kind| {
            let peers = self.peers.get(&(rank, kind))?;
            Some(model::PlanChannel {
                channel_type: kind,
                connected_to: peers.clone(),
                buffer_type: None,
                rank_groups: Vec::new(),
            })
        };
        let switches = self.groups.iter().filter(|it| it.ranks.contains(&rank)).map(|group| {
            let ranks: Vec<u32> = group.ranks.iter().map(|it| it.0).collect();
            model::PlanChannel {
                channel_type: ChannelType::Switch,
                connected_to: Vec::new(),
                buffer_type: Some(group.buffer.into()),
                rank_groups: vec![model::RankGroup { size: ranks.len() as u32, ranks }],
            }
        });
        let buffers = self.buffers.get(&rank).into_iter().flatten();
        let semaphores = self.semaphores.keys().filter(|it| self.ranks[it.0] == rank).count();
        let collective = program.collective();
        model::PlanGpu {
            id: rank.0,
            input_chunks: collective.input_chunks(rank),
            output_chunks: collective.output_chunks(rank),
            scratch_chunks: program.scratch_chunks(rank),
            threadblocks,
            channels: [ChannelType::Memory, ChannelType::Port]
                .into_iter()
                .filter_map(channel)
                .chain(switches)
                .collect(),
            remote_buffers: buffers
                .map(|(rank, buffer, access)| model::RemoteBuffer {
                    rank: rank.0,
                    buffer: (*buffer).into(),
                    access_channel_types: access.iter().copied().collect(),
                })
                .collect(),
            semaphores: vec![model::Semaphore { init_value: 0 }; semaphores],
        }
    }
}

/// Pairs of ranks, the lower first.
type Pairs = BTreeSet<(Rank, Rank)>;

/// Those whose threads reach the other's memory, and those that ports join.
fn reached(program: &Program) -> (Pairs, Pairs) {
    let (mut near, mut far) = (Pairs::new(), Pairs::new());
    for lane in program.lanes() {
        let pairs = if lane.kind == LaneKind::Block { &mut near } else { &mut far };
        for event in lane.events.iter().filter(|it| it.is_sent()) {
            let transfer = program.transfer(event.transfer());
            let (a, b) = (transfer.src.rank, transfer.dst.rank);
            if a != b {
                pairs.insert((a.min(b), a.max(b)));
            }
        }
    }
    (near, far)
}
