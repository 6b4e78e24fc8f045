//! [`join`]: adds to rows of nccl-tests how NCCL ran them, from NCCL's log of the same run.

use std::collections::BTreeMap;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, Protocol};
use motet_net::formats::ReadError;
use motet_units::Bytes;

use super::super::nccl_tests::Log;
use super::call::NcclCall;
use super::log::NcclLog;

/// How a call was run: algorithm, protocol and channels.
type Ran = (Algorithm, Protocol, Option<u32>);

/// The timed calls of nccl-tests. A row gets the algorithm, protocol and channels that all calls of its collective
/// and size in `logs` agree on, and none where they differ or there is none. `kind` is what was run where
/// the rows do not say.
///
/// # Errors
/// If a row does not say which collective it is of, and neither does `kind`.
pub fn join(
    rows: &Log,
    kind: Option<CollectiveKind>,
    logs: &[&NcclLog],
) -> Result<Vec<NcclCall>, ReadError> {
    let ranks = rows.ranks.or_else(|| logs.iter().filter_map(|it| it.ranks).max());
    let mut ran: BTreeMap<(Option<CollectiveKind>, Bytes), Option<Ran>> = BTreeMap::new();
    for call in logs.iter().flat_map(|it| &it.calls) {
        let Some(size) = call.size(ranks) else { continue };
        let this = (call.algorithm, call.protocol, call.channels);
        let known = ran.entry((call.collective, size)).or_insert(Some(this));
        if *known != Some(this) {
            *known = None;
        }
    }
    let version = logs.iter().find_map(|it| it.version);
    let nodes = logs.iter().find(|it| it.ranks == ranks).and_then(|it| it.nodes);
    let mut calls = Vec::new();
    for row in &rows.calls {
        // nccl-tests times calls of nothing, too.
        let Some(micros) = row.out_of_place.or(row.in_place).filter(|_| !row.size.is_zero()) else {
            continue;
        };
        let Some(collective) = row.kind.or(kind) else {
            return Err(ReadError::new("the log does not say which collective was run")
                .at_line(row.line)
                .with_remedy("say it with `--collective`"));
        };
        // 2.22 logs calls without their collective.
        let found = ran.get(&(Some(collective), row.size)).or_else(|| ran.get(&(None, row.size)));
        let found = found.copied().flatten();
        calls.push(NcclCall {
            nccl: version,
            ranks,
            nodes,
            collective,
            size: row.size,
            algorithm: found.map(|it| it.0),
            protocol: found.map(|it| it.1),
            channels: found.and_then(|it| it.2),
            chunk: None,
            rounds: None,
            micros,
            least: None,
            most: None,
        });
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::super::super::nccl_tests;
    use super::super::log;
    use super::*;

    #[test]
    fn a_time_gets_its_algorithm() {
        let text = "NCCL version 2.28.9+cuda13.0\n\
            # Collective test starting: all_gather_perf\n\
            #  Rank  0 Group  0 Pid 1 on host device 0\n#  Rank  1 Group  0 Pid 2 on host device 0\n\
            h:1:1 [0] NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 2 localRanks 1\n\
            #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
            h:1:1 [0] NCCL INFO AllGather: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}\n\
            2048 256 float none -1 30.5 0.1 0.1 0 31.5 0.1 0.1 0\n\
            h:1:1 [0] NCCL INFO AllGather: 2048 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}\n\
            h:1:1 [0] NCCL INFO AllGather: 2048 Bytes -> Algo PAT proto SIMPLE channel{Lo..Hi}={0..1}\n\
            4096 512 float none -1 40.5 0.1 0.1 0 41.5 0.1 0.1 0\n";
        let (rows, log) = (nccl_tests::read(text).unwrap(), log::read(text).unwrap());
        let calls = join(&rows, None, &[&log]).unwrap();
        assert_eq!((calls[0].algorithm, calls[0].channels), (Some(Algorithm::Ring), Some(1)));
        assert_eq!((calls[0].micros, calls[0].ranks, calls[0].nodes), (30.5, Some(2), Some(2)));
        assert_eq!(calls[0].nccl.map(|it| it.to_string()).as_deref(), Some("2.28.9"));
        // Two calls of one size went two ways: nobody knows which was timed.
        assert_eq!(calls[1].algorithm, None);
        assert_eq!(join(&rows, None, &[]).unwrap()[0].algorithm, None);
    }
}
