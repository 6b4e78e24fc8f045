//! Motet's own program file: everything a [`Program`] is, exactly, as JSON.
//!
//! ```json
//! {"motet_program": 1,
//!  "name": "ring",
//!  "collective": {"kind": "allgather", "ranks": 2, "chunks": 1},
//!  "forms": ["out-of-place"],
//!  "protocol": "Simple",
//!  "min_size": 0,
//!  "transfers": [
//!   ["c",0,"i",0,1,"o",0,1],
//!   ["c",1,"i",0,0,"o",1,1]],
//!  "waits": [[2,1]],
//!  "lanes": [{"rank": 0, "kind": "block", "channel": 0, "events": [0,3]}]}
//! ```
//!
//! A transfer is its action (`c`opy, `r`educe), source rank, buffer (`i`nput, `o`utput,
//! `s`cratch, s`w`itch) and offset, the same of its destination, its count and, if it has one, the index of
//! its path in `paths`. Events are numbers: twice the transfer's index, and one more for its
//! arrival. A wait is (event, awaited event). A port lane has the index of its block lane as
//! `kind`. `turns` has, for each link that does not carry transfers by their numbers, its number and
//! the transfers as it carries them: `[12, [3,0,1]]`. Fields with nothing to say are left out. Rows are arrays so that programs of millions
//! of transfers stay practical.
//!
//! Reading checks form and counts; whether the numbers make sense is the verifier's to say.

mod rows;
mod write;

use motet_net::formats::{Position, ReadError};
use motet_net::signature::Signature;
use motet_units::{Bytes, LinkId, Rank, brief, brief_to};
use serde::Deserialize;

use crate::collective::{Collective, CollectiveKind};
use crate::program::{
    Event, Forms, Hints, Lane, LaneKind, MadeFor, Program, ProgramBuilder, Protocol, TransferId,
    Turns,
};
use rows::TransferRow;
pub use write::write;

/// The key that says what the file is, with the version as its value.
pub(super) const KEY: &str = "motet_program";
const VERSION: u64 = 1;

#[derive(Deserialize)]
struct Versioned {
    motet_program: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[expect(dead_code, reason = "read as Versioned; here so that it is a known field")]
    motet_program: u64,
    name: String,
    collective: CollectiveRow,
    forms: Vec<FormName>,
    protocol: String,
    min_size: u64,
    #[serde(default)]
    max_size: Option<u64>,
    #[serde(default)]
    scratch: Vec<u32>,
    #[serde(default)]
    switch: Vec<u32>,
    #[serde(default)]
    network: Option<Signature>,
    #[serde(default)]
    made_for: Option<MadeForRow>,
    #[serde(default)]
    paths: Vec<Vec<u32>>,
    transfers: Vec<TransferRow>,
    #[serde(default)]
    waits: Vec<(u32, u32)>,
    #[serde(default)]
    lanes: Vec<LaneRow>,
    #[serde(default)]
    turns: Vec<TurnsRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CollectiveRow {
    kind: String,
    ranks: u32,
    #[serde(default)]
    chunks: Option<u32>,
    #[serde(default)]
    root: Option<u32>,
    #[serde(default)]
    counts: Option<Vec<u32>>,
    #[serde(default)]
    peers: Option<Vec<Option<u32>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MadeForRow {
    cluster: String,
    size_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FormName {
    InPlace,
    OutOfPlace,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaneRow {
    rank: u32,
    kind: KindRow,
    #[serde(default)]
    channel: u32,
    events: Vec<u32>,
}

/// A link, and transfers as it carries them.
#[derive(Deserialize)]
struct TurnsRow(u32, Vec<u32>);

#[derive(Deserialize)]
#[serde(untagged)]
enum KindRow {
    Port(u32),
    Named(KindName),
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum KindName {
    Block,
}

/// Reads a program file.
pub fn read(text: &str) -> Result<Program, ReadError> {
    let version: Versioned = serde_json::from_str(text).map_err(|it| broken(&it))?;
    match version.motet_program {
        Some(VERSION) => {}
        Some(other) => {
            return Err(ReadError::new(format!("the file has version {other} of the format"))
                .with_remedy(format!("this Motet reads version {VERSION}; use a newer one")));
        }
        None => return Err(ReadError::new(format!("there is no `{KEY}` key"))),
    }
    let file: File = serde_json::from_str(text).map_err(|it| broken(&it))?;
    build(file)
}

/// Most characters of what the JSON reader says: it repeats keys and words of the file.
const MESSAGE: usize = 300;

fn broken(error: &serde_json::Error) -> ReadError {
    let mut read = ReadError::new(brief_to(&error.to_string(), MESSAGE));
    if error.line() > 0 {
        // The text of the error ends with its place, which the position says again.
        let text = error.to_string();
        let end = text.rfind(" at line ").unwrap_or(text.len());
        read.problem = brief_to(&text[..end], MESSAGE).into_owned();
        read.at = Some(Position { line: error.line(), column: error.column().max(1) });
    }
    read
}

fn build(file: File) -> Result<Program, ReadError> {
    let collective = collective(file.collective)?;
    let protocol = Protocol::ALL.into_iter().find(|it| it.name() == file.protocol);
    let protocol = protocol.ok_or_else(|| {
        ReadError::new(format!("unknown protocol `{}`", brief(&file.protocol)))
            .with_remedy("protocol is Simple, LL or LL128")
    })?;
    let ranks = collective.ranks() as usize;
    for (key, given) in [("scratch", file.scratch.len()), ("switch", file.switch.len())] {
        if given != 0 && given != ranks {
            return Err(ReadError::new(format!("`{key}` has {given} numbers for {ranks} ranks")));
        }
    }
    let mut builder = ProgramBuilder::new(file.name, collective)
        .forms(Forms {
            in_place: file.forms.contains(&FormName::InPlace),
            out_of_place: file.forms.contains(&FormName::OutOfPlace),
        })
        .hints(Hints {
            protocol,
            min_size: Bytes::new(file.min_size),
            max_size: file.max_size.map(Bytes::new),
        });
    for (rank, chunks) in file.scratch.into_iter().enumerate() {
        builder.set_scratch(Rank::from_index(rank), chunks);
    }
    for (rank, chunks) in file.switch.into_iter().enumerate() {
        builder.set_switch(Rank::from_index(rank), chunks);
    }
    builder.set_network(file.network);
    builder.set_made_for(
        file.made_for.map(|it| MadeFor { cluster: it.cluster, size: Bytes::new(it.size_bytes) }),
    );
    for path in file.paths {
        builder.add_path(path.into_iter().map(LinkId).collect());
    }
    let events = file.transfers.len() * 2;
    for TransferRow(transfer) in file.transfers {
        builder.add(transfer);
    }
    let event = |it: u32| Event::from_index(it as usize);
    for (waiting, awaited) in file.waits {
        if waiting as usize >= events {
            return Err(ReadError::new(format!(
                "`waits` has event {waiting}, but there are {events} events"
            )));
        }
        builder.wait(event(waiting), event(awaited));
    }
    for lane in file.lanes {
        builder.add_lane(Lane {
            rank: Rank(lane.rank),
            kind: match lane.kind {
                KindRow::Port(block) => LaneKind::Port { block },
                KindRow::Named(KindName::Block) => LaneKind::Block,
            },
            channel: lane.channel,
            events: lane.events.into_iter().map(event).collect(),
        });
    }
    let turns = file.turns.into_iter().map(|TurnsRow(link, transfers)| Turns {
        link: LinkId(link),
        transfers: transfers.into_iter().map(TransferId).collect(),
    });
    builder.set_turns(turns.collect());
    Ok(builder.build())
}

fn collective(row: CollectiveRow) -> Result<Collective, ReadError> {
    let kind: CollectiveKind = row
        .kind
        .parse()
        .map_err(|it: motet_net::node::UnknownName| ReadError::new(it.to_string()))?;
    let needed = |name: &str| ReadError::new(format!("{kind} needs `{name}` in `collective`"));
    let foreign = |name: &str| Err(ReadError::new(format!("{kind} has no `{name}`")));
    if row.root.is_some() && !kind.has_root() {
        return foreign("root");
    }
    if row.counts.is_some() && kind != CollectiveKind::AllToAllV {
        return foreign("counts");
    }
    if row.peers.is_some() && kind != CollectiveKind::SendRecv {
        return foreign("peers");
    }
    let made = match kind {
        CollectiveKind::AllToAllV => {
            Collective::all_to_all_v(row.ranks, row.counts.ok_or_else(|| needed("counts"))?)
        }
        CollectiveKind::SendRecv => {
            let peers = row.peers.ok_or_else(|| needed("peers"))?;
            if peers.len() != row.ranks as usize {
                let (given, ranks) = (peers.len(), row.ranks);
                return Err(ReadError::new(format!("`peers` has {given} of {ranks} ranks")));
            }
            let chunks = row.chunks.ok_or_else(|| needed("chunks"))?;
            Collective::send_recv(chunks, peers.into_iter().map(|it| it.map(Rank)).collect())
        }
        _ => {
            let chunks = row.chunks.ok_or_else(|| needed("chunks"))?;
            match kind.has_root() {
                true => {
                    let root = Rank(row.root.ok_or_else(|| needed("root"))?);
                    Collective::rooted(kind, row.ranks, chunks, root)
                }
                false => Collective::new(kind, row.ranks, chunks),
            }
        }
    };
    made.map_err(|error| ReadError::new(error.to_string()))
}
