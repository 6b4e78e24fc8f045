//! Traces of PyTorch's profiler (Kineto), one JSON file per rank, read into a [`RankLog`].
//!
//! A collective is a kernel whose name begins with `nccl`. Its arguments say what it does or, where the
//! profiler left them out, those of the call `record_param_comms` that launched it (the same `External id`).
//! Pitfalls that are handled here:
//!
//! - Kernels of AllToAll are named SendRecv; only `Collective name` distinguishes them from messages. A batch
//!   of messages in one kernel says neither partner nor size; the host's part of the trace does
//!   ([`batches`]). Where that is missing, the batch's time is kept and its bytes are zero.
//! - Lists of a group's ranks are truncated beyond 30. Then they are taken from the job's table of groups
//!   (`distributedInfo`), or from the first rank and the stride, or found when the ranks' logs are joined.
//! - Older traces count time from 1970, newer ones from `baseTimeNanoseconds`. Each host has its own clock.
//! - Rank 0 of a group is not rank 0 of the job: partners of messages are given as ranks of the group where
//!   `Src Rank` and `Dst Rank` are missing.
//!
//! All other kernels are compute. Steps are the spans `ProfilerStep#`, on the GPU where the trace has them.

mod batches;
mod json;

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_net::formats::ReadError;
use motet_units::{Bytes, Rank, brief};
use serde_json::value::RawValue;

use self::batches::Batches;
use self::json::{Args, Event, File, Key};
use super::pytorch::{Told, element_bytes, told};
use crate::recording::{LoggedCall, LoggedGroup, LoggedSpan, RankLog};

/// Reads the trace of one rank.
pub fn read(text: &str) -> Result<RankLog, ReadError> {
    let file = json::parse(text)?;
    let rank = file.distributed.as_ref().and_then(|it| json::number(it.rank?));
    let rank = rank.ok_or_else(|| {
        ReadError::new(
            "the trace does not say of which rank it is (`distributedInfo` has no `rank`)",
        )
        .with_remedy("start the profiler after torch.distributed is initialized")
    })?;
    let world = file.distributed.as_ref().and_then(|it| json::number(it.world_size?));
    let reader = Reader::new(&file, rank, world);
    let log = reader.log(&file)?;
    if log.calls.is_empty() {
        let problem = "the trace has no communication: none of its kernels is NCCL's";
        return Err(ReadError::new(problem).with_remedy(
            "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] in a job with several ranks",
        ));
    }
    Ok(log)
}

struct Reader<'a> {
    rank: u32,
    base: i64,
    /// Arguments of the calls that launch communication, by `External id`.
    launches: BTreeMap<i64, &'a Args<'a>>,
    batches: Batches<'a>,
    /// Ranks of groups by name, from the job's table of groups.
    config: BTreeMap<String, Vec<u32>>,
    log: RankLog,
    /// The index of each group in the log.
    groups: BTreeMap<(String, Option<Vec<Rank>>), usize>,
    /// The same by what calls say of their groups, for faster lookup.
    said: BTreeMap<Said<'a>, usize>,
    /// Messages without partner or size.
    silent: usize,
    /// How many more members lists of groups may have in all, because a first rank and a stride of a few
    /// characters could otherwise make lists of any length.
    room: u32,
    /// Types of numbers that are not known, with how many calls had them.
    strange: BTreeMap<String, usize>,
}

impl<'a> Reader<'a> {
    fn new(file: &'a File<'a>, rank: u32, world: Option<u32>) -> Self {
        let mut launches = BTreeMap::new();
        for event in file.events.iter().filter(|it| it.name() == "record_param_comms") {
            if let Some(args) = &event.args
                && let Some(id) = args.number::<i64>(Key::ExternalId)
            {
                launches.insert(id, args);
            }
        }
        let mut config = BTreeMap::new();
        for group in file.distributed.iter().flat_map(|it| &it.pg_config) {
            let name = group.pg_name.map(|it| json::text(it).into_owned());
            if let (Some(name), Some(ranks)) = (name, group.ranks.and_then(json::ranks)) {
                config.insert(name, ranks);
            }
        }
        Self {
            rank,
            base: file.base.and_then(json::number).unwrap_or(0),
            launches,
            batches: Batches::new(file),
            config,
            log: RankLog { rank, world, ..RankLog::default() },
            groups: BTreeMap::new(),
            said: BTreeMap::new(),
            silent: 0,
            room: 1 << 20,
            strange: BTreeMap::new(),
        }
    }

    fn log(mut self, file: &'a File<'a>) -> Result<RankLog, ReadError> {
        let (mut steps, mut gpu_steps) = (Vec::new(), Vec::new());
        for event in &file.events {
            let is_kernel = event.is("kernel");
            let is_step = event.name().starts_with("ProfilerStep#");
            if !is_kernel && !is_step {
                continue;
            }
            let is_call = is_kernel && event.name().starts_with("nccl");
            let Some(span) = event.span(self.base) else {
                if is_call {
                    let problem = format!("kernel `{}` has no time", brief(event.name()));
                    return Err(ReadError::new(problem).with_remedy("record the trace again"));
                }
                continue;
            };
            if is_step {
                let gpu = event.is("gpu_user_annotation");
                if gpu { &mut gpu_steps } else { &mut steps }.push(span);
            } else if is_call {
                self.calls(event, span)?;
            } else {
                self.log.compute.push(span);
            }
        }
        self.log.steps = if gpu_steps.len() == steps.len() { gpu_steps } else { steps };
        self.log.steps.sort_unstable();
        if self.silent > 0 {
            self.log.notes.push(format!(
                "rank {}: {} kernels of messages say neither partner nor size (batched); their bytes count as 0",
                self.rank, self.silent
            ));
        }
        for (name, calls) in &self.strange {
            let name = brief(name);
            self.log.notes.push(format!(
                "rank {}: {calls} calls are of the unknown type `{name}`; their bytes count as 0",
                self.rank
            ));
        }
        Ok(self.log)
    }

    /// Adds a kernel's call to the log, or the messages of its batch.
    fn calls(&mut self, event: &Event<'a>, span: LoggedSpan) -> Result<(), ReadError> {
        let none = Args::default();
        let own = event.args.as_ref().unwrap_or(&none);
        let launch =
            own.number(Key::ExternalId).and_then(|it: i64| self.launches.get(&it).copied());
        let batch = if batches::is_batch(event) { self.batches.of(own) } else { None };
        match batch.map(<[_]>::to_vec) {
            Some(messages) => messages
                .into_iter()
                .try_for_each(|it| self.call(event, span, &Both { own, launch: Some(it) })),
            None => self.call(event, span, &Both { own, launch }),
        }
    }

    fn call(
        &mut self,
        event: &Event<'a>,
        span: LoggedSpan,
        both: &Both<'a, '_>,
    ) -> Result<(), ReadError> {
        let name = both.text(Key::Collective);
        let what = name.as_deref().and_then(told).or_else(|| told(event.name()));
        let Some(what) = what else {
            return Err(ReadError::new(format!(
                "kernel `{}` is no known collective",
                brief(event.name())
            ))
            .with_remedy("read it with a newer Motet, or leave its events out"));
        };
        let group = self.group(both);
        let (kind, ends) = match what {
            Told::Collective(kind) => (kind, None),
            Told::Send => (CollectiveKind::SendRecv, self.partner(both, group, true)),
            Told::Receive => (CollectiveKind::SendRecv, self.partner(both, group, false)),
        };
        let members = self.log.groups[group].size.unwrap_or(0);
        let bytes = self.bytes(both, kind, members);
        let is_alone = kind == CollectiveKind::SendRecv && ends.is_none();
        self.silent += usize::from(is_alone);
        let stream = both.own.number(Key::Stream);
        self.log.calls.push(LoggedCall {
            group,
            kind,
            bytes: if is_alone { Bytes::ZERO } else { bytes },
            span,
            stream: stream.or(event.tid.and_then(json::number)).unwrap_or(0),
            sequence: both.number(Key::Sequence),
            ends,
        });
        Ok(())
    }

    /// Sender and receiver of a message, if the trace says which rank is at the other end.
    fn partner(&self, args: &Both<'a, '_>, group: usize, sends: bool) -> Option<(Rank, Rank)> {
        let other: Option<u32> = args.number(if sends { Key::To } else { Key::From });
        let other = other.map(Rank).or_else(|| {
            let place: usize = args.number(Key::Rank)?;
            self.log.groups[group].members.as_ref()?.get(place).copied()
        });
        let (here, other) = (Rank(self.rank), other?);
        (here != other).then_some(if sends { (here, other) } else { (other, here) })
    }

    /// The index of a call's group in the log, to which it is added if it is new.
    fn group(&mut self, args: &Both<'a, '_>) -> usize {
        let name = args.text(Key::GroupName).or_else(|| args.text(Key::GroupId));
        let said = Said {
            name: name.unwrap_or_default().into_owned(),
            size: args.number(Key::GroupSize),
            ranks: args.get(Key::GroupRanks).map(RawValue::get),
            start: args.number(Key::RankStart),
            stride: args.number(Key::RankStride),
        };
        if let Some(place) = self.said.get(&said) {
            return *place;
        }
        let members = self.members(args, &said);
        let log = &mut self.log;
        let place = *self.groups.entry((said.name.clone(), members)).or_insert_with_key(|key| {
            let description = args.text(Key::GroupDescription).unwrap_or_default().into_owned();
            let (name, members) = key.clone();
            let size = said.size.or(members.as_ref().map(|it| it.len() as u32));
            log.groups.push(LoggedGroup { name, description, size, members });
            log.groups.len() - 1
        });
        self.said.insert(said, place);
        place
    }

    /// The members of a group, from the first source that has all of them.
    fn members(&mut self, args: &Both<'a, '_>, said: &Said<'a>) -> Option<Vec<Rank>> {
        let fits = |it: &Vec<u32>| {
            it.contains(&self.rank) && said.size.is_none_or(|size| it.len() == size as usize)
        };
        let listed = args.get(Key::GroupRanks).and_then(json::ranks).filter(fits);
        let configured = || self.config.get(&said.name).cloned().filter(fits);
        let strided = || said.strided(self.room).filter(fits);
        let mut ranks = listed.or_else(configured).or_else(strided)?;
        self.room = self.room.saturating_sub(ranks.len() as u32);
        ranks.sort_unstable();
        ranks.dedup();
        Some(ranks.into_iter().map(Rank).collect())
    }

    /// The call's size in nccl-tests' sense.
    fn bytes(&mut self, args: &Both<'a, '_>, kind: CollectiveKind, members: u32) -> Bytes {
        let (input, output): (u64, u64) =
            (args.number(Key::InElements).unwrap_or(0), args.number(Key::OutElements).unwrap_or(0));
        let all = |one: u64| one.saturating_mul(u64::from(members));
        let elements = match kind {
            CollectiveKind::AllGather => output.max(all(input)),
            CollectiveKind::ReduceScatter => input.max(all(output)),
            CollectiveKind::Gather => all(input),
            CollectiveKind::Scatter => all(output),
            _ if input == 0 => output,
            _ => input,
        };
        let dtype = args.text(Key::Dtype).unwrap_or_default();
        match element_bytes(&dtype) {
            Some(each) => Bytes::new(elements.saturating_mul(each)),
            None if elements == 0 => Bytes::ZERO,
            None => {
                *self.strange.entry(dtype.into_owned()).or_default() += 1;
                Bytes::ZERO
            }
        }
    }
}

/// A kernel's own arguments, and those of its launch, which are used where the kernel lacks one.
struct Both<'a, 'b> {
    own: &'b Args<'a>,
    launch: Option<&'b Args<'a>>,
}

impl<'a> Both<'a, '_> {
    fn text(&self, key: Key) -> Option<std::borrow::Cow<'a, str>> {
        self.own.text(key).or_else(|| self.launch?.text(key))
    }

    fn number<T: TryFrom<i64>>(&self, key: Key) -> Option<T> {
        self.own.number(key).or_else(|| self.launch?.number(key))
    }

    fn get(&self, key: Key) -> Option<&'a RawValue> {
        self.own.get(key).or_else(|| self.launch?.get(key))
    }
}

/// Everything that a call says of its group.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Said<'a> {
    name: String,
    size: Option<u32>,
    ranks: Option<&'a str>,
    start: Option<u32>,
    stride: Option<u32>,
}

impl Said<'_> {
    /// The ranks by the first one and the distance between neighbours; `None` if there are more than `most`.
    fn strided(&self, most: u32) -> Option<Vec<u32>> {
        let (start, stride) = (self.start?, self.stride.filter(|it| *it > 0)?);
        let size = self.size.filter(|it| *it <= most)?;
        (0..size).map(|it| it.checked_mul(stride)?.checked_add(start)).collect()
    }
}
