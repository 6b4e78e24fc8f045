//! Tables come back as they were written, and nothing else is read.

use motet_units::{Bytes, Duration};
use proptest::prelude::*;

use super::write::sealed;
use super::*;
use crate::key::{Bucket, Collective, Signature};

/// An AllReduce entry with so many candidates, of 1000, 1001, … ps.
pub(crate) fn entry(signature: u128, ranks: u32, bucket: u8, candidates: u8) -> Entry {
    let candidate = |index: u8| Candidate {
        setting: Setting {
            method: Method::Nccl { algorithm: Algorithm::ALL.get(usize::from(index)).copied() },
            knobs: TableKnobs::default(),
        },
        expected: Duration::from_ps(1000 + u64::from(index)),
    };
    let key = Key {
        signature: Signature(signature),
        collective: Collective::AllReduce,
        ranks,
        bucket: Bucket::new(bucket).unwrap(),
    };
    Entry { key, candidates: (0..candidates).map(candidate).collect() }
}

fn any_candidate() -> impl Strategy<Value = Candidate> {
    let algorithm = prop::option::of(prop::sample::select(Algorithm::ALL));
    let method = prop_oneof![
        algorithm.prop_map(|algorithm| Method::Nccl { algorithm }),
        ("[a-z0-9][a-zA-Z0-9._-]{0,20}", any::<u64>()).prop_map(|(name, checksum)| {
            Method::Program { name: name.into(), checksum: Checksum(checksum) }
        }),
    ];
    let knobs = (
        prop::option::of(prop::sample::select(Protocol::ALL)),
        prop::option::of(1u32..=MOST_CHANNELS),
        prop::option::of((1u32..=MOST_THREADS / 32).prop_map(|it| it * 32)),
        prop::option::of((1u64..).prop_map(Bytes::new)),
        prop::option::of((1..=MOST_CHUNK).prop_map(Bytes::new)),
    );
    let knobs = knobs.prop_map(|(protocol, channels, threads, buffer, chunk)| TableKnobs {
        protocol,
        channels,
        threads,
        buffer,
        chunk,
    });
    (method, knobs, any::<u64>()).prop_map(|(method, knobs, time)| Candidate {
        setting: Setting { method, knobs },
        expected: Duration::from_ps(time),
    })
}

fn any_table() -> impl Strategy<Value = Table> {
    let collective = prop::sample::select(Collective::ALL);
    let key = (any::<u128>(), collective, 1..=MOST_RANKS, 0u8..64);
    let key = key.prop_map(|(signature, collective, ranks, bucket)| Key {
        signature: Signature(signature),
        collective,
        ranks,
        bucket: Bucket::new(bucket).unwrap(),
    });
    let candidates = prop::collection::vec(any_candidate(), 1..4);
    prop::collection::btree_map(key, candidates, 0..6).prop_map(|it| {
        let entries = it.into_iter().map(|(key, candidates)| Entry { key, candidates });
        // Order does not matter.
        Table::new(entries.rev().collect()).unwrap()
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(table in any_table()) {
        let text = table.write();
        prop_assert_eq!(Table::read(&text), Ok(table));
    }

    #[test]
    fn any_cut_is_refused(table in any_table(), at in any::<prop::sample::Index>()) {
        let text = table.write();
        let error = Table::read(&text[..at.index(text.len())]).unwrap_err();
        prop_assert_eq!(error.kind, TableErrorKind::Truncated, "{}", error);
    }

    #[test]
    fn any_changed_byte_is_refused(
        table in any_table(),
        at in any::<prop::sample::Index>(),
        byte in 0u8..128,
    ) {
        let mut text = table.write().into_bytes();
        let at = at.index(text.len());
        prop_assume!(text[at] != byte);
        text[at] = byte;
        prop_assert!(Table::read(std::str::from_utf8(&text).unwrap()).is_err());
    }

    #[test]
    fn any_text_is_read_or_refused(body in "(motet-table 1\n)?(entry |nccl |time=|[ -~\n]){0,40}") {
        for text in [sealed(&body), body] {
            if let Ok(table) = Table::read(&text) {
                prop_assert_eq!(table.write(), text);
            }
        }
    }
}

/// Every byte of one table, to every other value that is still text.
#[test]
fn no_changed_byte_passes() {
    let table = Table::new(vec![entry(7, 8, 10, 2), entry(7, 8, 12, 1)]).unwrap();
    let text = table.write();
    for at in 0..text.len() {
        for byte in (0..128).filter(|it| *it != text.as_bytes()[at]) {
            let mut changed = text.clone().into_bytes();
            changed[at] = byte;
            assert!(Table::read(str::from_utf8(&changed).unwrap()).is_err(), "{byte} at {at}");
        }
    }
}

const ENTRY: &str = "entry 000000000000000000000000000000a1 allreduce 16 20\n";

/// What is wrong inside a table that is otherwise sound.
fn refusal(lines: &str) -> String {
    let error = Table::read(&sealed(&format!("motet-table 1\n{lines}"))).unwrap_err();
    assert_eq!(error.kind, TableErrorKind::Malformed);
    assert!(error.to_string().ends_with(TableErrorKind::Malformed.remedy()));
    format!("{}: {}", error.line.unwrap(), error.problem)
}

#[test]
fn says_what_is_wrong_and_where() {
    let good = format!("{ENTRY}nccl time=5 algorithm=ring\n");
    assert!(Table::read(&sealed(&format!("motet-table 1\n{good}"))).is_ok());
    for (lines, expected) in [
        ("nccl time=5\n".to_owned(), "2: `nccl` before the first `entry`"),
        (ENTRY.to_owned(), "2: it has no candidate"),
        (format!("{ENTRY}{good}"), "2: it has no candidate"),
        (format!("{good}{good}"), "4: the entry is not in the order of keys"),
        (format!("{ENTRY}nccl\n"), "3: `time=…` is missing here"),
        (format!("{ENTRY}nccl time=05\n"), "3: `05` is not a time in picoseconds"),
        (
            format!("{ENTRY}nccl time=5 speed=9\n"),
            "3: `speed=9` is unknown, repeated, or out of order",
        ),
        (
            format!("{ENTRY}nccl time=5  channels=9\n"),
            "3: `` is unknown, repeated, or out of order",
        ),
        (format!("{ENTRY}nccl time=5\r\n"), "3: `5\r` is not a time in picoseconds"),
        (format!("{ENTRY}nccl time=5 algorithm=Ring\n"), "3: `Ring` is not an algorithm"),
        (
            format!("{ENTRY}nccl time=5 threads=100\n"),
            "3: 100 threads are not a multiple of 32 between 32 and 1024",
        ),
        (format!("{ENTRY}nccl time=5 channels=0\n"), "3: 0 channels are not between 1 and 1024"),
        (format!("{ENTRY}nccl time=5 buffer=0\n"), "3: a buffer of 0 bytes holds nothing"),
        (
            format!("{ENTRY}nccl time=5 chunk=4294967296\n"),
            "3: a chunk of 4294967296 bytes is not between 1 and 4294967295",
        ),
        (
            format!("{ENTRY}program time=5 name=../x checksum=0123456789abcdef\n"),
            "3: `../x` is not a program name: up to 100 letters, digits, `.`, `_`, `-`, \
             and a letter or digit first",
        ),
        (format!("{ENTRY}program time=5 name=x checksum=12\n"), "3: `12` is not a checksum"),
        (format!("{good}{}", "nccl time=5\n".repeat(16)), "19: more than 16 candidates"),
        (ENTRY.replace("16 20", "16 64"), "2: `64` is not a size bucket from 0 to 63"),
        (ENTRY.replace("16 20", "0 20"), "2: 0 ranks are not between 1 and 131072"),
        (ENTRY.replace("16 20", "99999999999 20"), "2: `99999999999` is not a number of ranks"),
        (ENTRY.replace(" 16 20", ""), "2: the number of ranks is missing"),
        (ENTRY.replace("allreduce", "gossip"), "2: `gossip` is not a collective"),
        (
            ENTRY.replace("entry", "entries"),
            "2: `entries 000000000000000000000000000000a1 allreduce 16 20` is not an entry or a candidate",
        ),
        ("\n".to_owned(), "2: `` is not an entry or a candidate"),
    ] {
        assert_eq!(refusal(&lines), expected, "{lines}");
    }
}

#[test]
fn kinds_of_refusal_are_told_apart() {
    let kind = |text: &str| Table::read(text).unwrap_err().kind;
    let text = Table::new(vec![entry(7, 8, 10, 2)]).unwrap().write();
    assert_eq!(kind("<xml>\n"), TableErrorKind::NotATable);
    assert_eq!(kind("motet-table x\n"), TableErrorKind::NotATable);
    assert_eq!(kind("motet-table 0\n"), TableErrorKind::NotATable);
    // Whatever the rest of a newer file is.
    assert_eq!(kind("motet-table 2\nentries in binary\n"), TableErrorKind::NewerVersion);
    assert_eq!(kind(""), TableErrorKind::Truncated);
    assert_eq!(kind("motet-table 1\n"), TableErrorKind::Truncated);
    assert_eq!(kind(&text.replace("ring", "tree")), TableErrorKind::Corrupt);
    let error = Table::read(&text.replace("1001", "1000")).unwrap_err().to_string();
    assert!(error.starts_with("line 5: the contents have checksum "), "{error}");
    assert!(error.ends_with("tables are not edited by hand"), "{error}");
}

#[test]
fn what_cannot_be_written_cannot_be_made() {
    let two = Table::new(vec![entry(7, 8, 10, 1), entry(7, 8, 10, 2)]).unwrap_err();
    assert!(two.problem.starts_with("two entries have the key"), "{two}");
    for wrong in [entry(7, 8, 10, 0), entry(7, 8, 10, 17), entry(7, 0, 10, 1)] {
        assert_eq!(Table::new(vec![wrong]).unwrap_err().kind, TableErrorKind::Malformed);
    }
    let mut named = entry(7, 8, 10, 1);
    let checksum = Checksum(1);
    named.candidates[0].setting.method = Method::Program { name: "a b".into(), checksum };
    assert!(Table::new(vec![named]).is_err());
}
