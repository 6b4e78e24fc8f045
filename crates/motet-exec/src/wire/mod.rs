//! What ranks say to each other and to the store: frames with a header of fixed length, and payloads
//! behind it. All numbers are big-endian; `docs/exec-wire.md` has the whole format.
//!
//! - [`header`]: the 40 bytes at the head of every frame;
//! - [`payload`]: what frames of handshakes, of meetings at the store and of registrations carry;
//! - [`proof`]: how two sides show each other that they know the token without saying it.

pub mod header;
pub mod payload;
pub mod proof;

pub use header::{FrameError, HEADER, Header, Kind, MAX_PAYLOAD, VERSION};
pub use payload::{Intro, Join, Member, Met, Registration, Roster};

/// Reads frames one behind the other, as far as they are frames, and their payloads, and checks that what was read is
/// written as the same bytes. For the fuzzer and its corpus: it panics where that is not so.
#[doc(hidden)]
pub fn replay(mut bytes: &[u8]) {
    while let Some((head, rest)) = bytes.split_first_chunk::<HEADER>() {
        let Ok(header) = Header::decode(head) else { return };
        assert_eq!(header.encode(), *head, "a header is written as it was read");
        let Some((payload, rest)) = rest.split_at_checked(header.length as usize) else { return };
        let again = match header.kind {
            Kind::Register => Registration::decode(payload).map(|it| it.encode()),
            Kind::Roster => Roster::decode(payload).map(|it| it.encode()),
            Kind::Met => Met::decode(payload).map(|it| it.encode()),
            // To a rank or to the store, behind the proof.
            Kind::Intro => {
                let said = payload.get(32..).unwrap_or_default();
                let to_rank = Intro::decode(said).map(|it| it.encode());
                to_rank.or_else(|_| Join::decode(said).map(|it| it.encode()))
            }
            _ => Err(payload::Malformed),
        };
        if let Ok(again) = again {
            let read = if header.kind == Kind::Intro { &payload[32..] } else { payload };
            assert_eq!(again, read, "a payload is written as it was read");
        }
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_read_and_written_again() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/exec_wire");
        let mut frames = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            replay(&bytes);
            let head = bytes.first_chunk::<HEADER>();
            frames += usize::from(head.is_some_and(|it| Header::decode(it).is_ok()));
        }
        assert!(frames >= 7, "the corpus has frames that are right");
    }
}
