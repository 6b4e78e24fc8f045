//! The payloads of frames that have fields: numbers big-endian, texts as two bytes of length and
//! UTF-8, lists as four bytes of count and the items.

/// The most ranks of a group: each has a connection to every other, and descriptors are limited.
pub const MAX_RANKS: u32 = 1024;
/// The longest text.
pub const MAX_TEXT: usize = 1024;

/// Who connects to a rank, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    pub group: String,
    /// How often the group has lost members and gone on.
    pub generation: u32,
    pub rank: u32,
    /// Which of the streams between the two ranks this is.
    pub stream: u32,
    /// How many there are; both sides must say the same.
    pub streams: u32,
}

/// A rank that comes to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    pub group: String,
    pub generation: u32,
    pub rank: u32,
    pub ranks: u32,
    /// Where it listens.
    pub address: String,
    /// Ranks with the same text share memory.
    pub host: String,
    /// How long it waits for all to come.
    pub wait_ms: u64,
    /// After so long, counted from the first that came, the group is complete with those that are
    /// there; 0 if all must come.
    pub grace_ms: u64,
}

/// One rank of a group that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The rank that it joined as.
    pub rank: u32,
    pub address: String,
    pub host: String,
}

/// All ranks of a group that is complete, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    pub members: Vec<Member>,
}

/// What a rank registers: what all must have alike, and where its memory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// SHA-256 over the program and everything else that ranks must agree on.
    pub digest: [u8; 32],
    /// What it is, for messages about ranks that registered something else.
    pub title: String,
    /// The process whose files the numbers below are; 0 if its memory cannot be shared.
    pub process: u32,
    /// Descriptor and length of each piece of memory that ranks of the host may read.
    pub memory: Vec<(u32, u64)>,
}

/// Bytes that are not such a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_be_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_be_bytes(self.take()?))
    }

    fn text(&mut self) -> Result<String, Malformed> {
        let length = usize::from(u16::from_be_bytes(self.take()?));
        if length > MAX_TEXT {
            return Err(Malformed);
        }
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(std::str::from_utf8(taken).map_err(|_| Malformed)?.to_owned())
    }

    fn list<T>(
        &mut self,
        most: u32,
        mut item: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32()?;
        if count > most {
            return Err(Malformed);
        }
        (0..count).map(|_| item(self)).collect()
    }

    /// All of it must have been read.
    fn end<T>(&self, value: T) -> Result<T, Malformed> {
        if self.0.is_empty() { Ok(value) } else { Err(Malformed) }
    }
}

/// Appends a text, cut where it is too long.
fn text(to: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    to.extend((end as u16).to_be_bytes());
    to.extend(&text.as_bytes()[..end]);
}

fn numbers(to: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|it| to.extend(it.to_be_bytes()));
}

impl Intro {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        text(&mut to, &self.group);
        numbers(&mut to, &[self.generation, self.rank, self.stream, self.streams]);
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let it = Self {
            group: from.text()?,
            generation: from.u32()?,
            rank: from.u32()?,
            stream: from.u32()?,
            streams: from.u32()?,
        };
        from.end(it)
    }
}

impl Join {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        text(&mut to, &self.group);
        numbers(&mut to, &[self.generation, self.rank, self.ranks]);
        text(&mut to, &self.address);
        text(&mut to, &self.host);
        to.extend(self.wait_ms.to_be_bytes());
        to.extend(self.grace_ms.to_be_bytes());
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let it = Self {
            group: from.text()?,
            generation: from.u32()?,
            rank: from.u32()?,
            ranks: from.u32()?,
            address: from.text()?,
            host: from.text()?,
            wait_ms: from.u64()?,
            grace_ms: from.u64()?,
        };
        from.end(it)
    }
}

impl Roster {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        numbers(&mut to, &[self.members.len() as u32]);
        for member in &self.members {
            numbers(&mut to, &[member.rank]);
            text(&mut to, &member.address);
            text(&mut to, &member.host);
        }
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let members = from.list(MAX_RANKS, |from| {
            Ok(Member { rank: from.u32()?, address: from.text()?, host: from.text()? })
        })?;
        from.end(Self { members })
    }
}

impl Registration {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        to.extend(self.digest);
        text(&mut to, &self.title);
        numbers(&mut to, &[self.process, self.memory.len() as u32]);
        for (descriptor, length) in &self.memory {
            numbers(&mut to, &[*descriptor]);
            to.extend(length.to_be_bytes());
        }
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let it = Self {
            digest: from.take()?,
            title: from.text()?,
            process: from.u32()?,
            memory: from.list(8, |from| Ok((from.u32()?, from.u64()?)))?,
        };
        from.end(it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join() -> Join {
        Join {
            group: "g".into(),
            generation: 1,
            rank: 2,
            ranks: 3,
            address: "127.0.0.1:1".into(),
            host: "h".into(),
            wait_ms: 4,
            grace_ms: 5,
        }
    }

    #[test]
    fn payloads_come_back_whole_or_not_at_all() {
        let intro = Intro { group: "é".into(), generation: 1, rank: 2, stream: 3, streams: 4 };
        let member = Member { rank: 1, address: "a:1".into(), host: "h".into() };
        let roster = Roster { members: vec![member.clone(), member] };
        let registration = Registration {
            digest: [7; 32],
            title: "t".into(),
            process: 9,
            memory: vec![(3, 1 << 40)],
        };
        assert_eq!(Intro::decode(&intro.encode()), Ok(intro.clone()));
        assert_eq!(Join::decode(&join().encode()), Ok(join()));
        assert_eq!(Roster::decode(&roster.encode()), Ok(roster.clone()));
        assert_eq!(Registration::decode(&registration.encode()), Ok(registration.clone()));
        for bytes in [intro.encode(), join().encode(), roster.encode(), registration.encode()] {
            for end in 0..bytes.len() {
                let cut = &bytes[..end];
                assert!(Intro::decode(cut).is_err() || bytes != intro.encode());
                assert!(Join::decode(cut).is_err());
                assert!(Roster::decode(cut).is_err() || end != bytes.len() - 1);
                assert!(Registration::decode(cut).is_err());
            }
        }
        // A list that says it has more than any has takes no memory for them.
        assert!(Roster::decode(&u32::MAX.to_be_bytes()).is_err());
        let long = Intro { group: "é".repeat(1000), ..intro };
        assert_eq!(Intro::decode(&long.encode()).map(|it| it.group.len()), Ok(1024));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(it) = Join::decode(&bytes) {
                prop_assert_eq!(it.encode(), bytes.clone());
            }
            if let Ok(it) = Registration::decode(&bytes) {
                prop_assert_eq!(it.encode(), bytes);
            }
        }
    }
}
