//! The payloads of frames that have fields: numbers big-endian, texts as two bytes of length and
//! UTF-8, lists as four bytes of count and the items.

/// The most ranks of a group: each has a connection to every other, and descriptors are limited.
pub const MAX_RANKS: u32 = 1024;
/// The longest text.
pub const MAX_TEXT: usize = 1024;
/// The most ranks that a rank may name as unreachable when it comes. The frame is read before its sender is trusted, so it is short.
pub const MAX_APART: u32 = 64;

/// Who connects to a rank, and for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Intro {
    pub group: String,
    /// How often the group has lost members and gone on.
    pub generation: u32,
    /// Which meeting this group comes from, and at which attempt; both as the store said in the [`Roster`].
    pub meeting: u64,
    pub round: u32,
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
    /// After a loss: what the first [`Roster`] of the group said. 0 at first.
    pub meeting: u64,
    /// Its number, and how many ranks there are: after a loss, in the group before that.
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
    /// Whether it goes on with half of the ranks or fewer, too.
    pub minority: bool,
    /// Ranks that it knows it does not reach, at most [`MAX_APART`].
    pub apart: Vec<u32>,
}

/// What a rank says after it has tried to connect to all others of a [`Roster`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// Which attempt it was.
    pub round: u32,
    /// The ranks that it did not reach, by the numbers that they came with; none if it has all. Its own: it gives up.
    pub missing: Vec<u32>,
    /// Why, for messages.
    pub why: String,
}

/// One rank of a group that is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The rank that it joined as.
    pub rank: u32,
    pub address: String,
    pub host: String,
}

/// Who is to connect to whom: all ranks of the group if it comes about, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    /// A number that no other group has, which it keeps when it goes on with fewer ranks.
    pub meeting: u64,
    /// From 1; one more each time that not all could connect and others try.
    pub round: u32,
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

/// The bytes are no payload of the expected kind.
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

/// The beginning of a text, of at most `most` bytes. No character is cut.
pub(crate) fn beginning(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

/// Appends a text, cut where it is too long.
fn text(to: &mut Vec<u8>, text: &str) {
    let text = beginning(text, MAX_TEXT);
    to.extend((text.len() as u16).to_be_bytes());
    to.extend(text.as_bytes());
}

fn numbers(to: &mut Vec<u8>, numbers: &[u32]) {
    numbers.iter().for_each(|it| to.extend(it.to_be_bytes()));
}

impl Intro {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        text(&mut to, &self.group);
        numbers(&mut to, &[self.generation]);
        to.extend(self.meeting.to_be_bytes());
        numbers(&mut to, &[self.round, self.rank, self.stream, self.streams]);
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let it = Self {
            group: from.text()?,
            generation: from.u32()?,
            meeting: from.u64()?,
            round: from.u32()?,
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
        numbers(&mut to, &[self.generation]);
        to.extend(self.meeting.to_be_bytes());
        numbers(&mut to, &[self.rank, self.ranks]);
        text(&mut to, &self.address);
        text(&mut to, &self.host);
        to.extend(self.wait_ms.to_be_bytes());
        to.extend(self.grace_ms.to_be_bytes());
        let apart = self.apart.get(..MAX_APART as usize).unwrap_or(&self.apart);
        numbers(&mut to, &[u32::from(self.minority), apart.len() as u32]);
        numbers(&mut to, apart);
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let it = Self {
            group: from.text()?,
            generation: from.u32()?,
            meeting: from.u64()?,
            rank: from.u32()?,
            ranks: from.u32()?,
            address: from.text()?,
            host: from.text()?,
            wait_ms: from.u64()?,
            grace_ms: from.u64()?,
            minority: match from.u32()? {
                0 => false,
                1 => true,
                _ => return Err(Malformed),
            },
            apart: from.list(MAX_APART, Fields::u32)?,
        };
        from.end(it)
    }
}

impl Met {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Vec::new();
        numbers(&mut to, &[self.round, self.missing.len() as u32]);
        numbers(&mut to, &self.missing);
        text(&mut to, &self.why);
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let it = Self {
            round: from.u32()?,
            missing: from.list(MAX_RANKS, Fields::u32)?,
            why: from.text()?,
        };
        from.end(it)
    }
}

impl Roster {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut to = self.meeting.to_be_bytes().to_vec();
        numbers(&mut to, &[self.round, self.members.len() as u32]);
        for member in &self.members {
            numbers(&mut to, &[member.rank]);
            text(&mut to, &member.address);
            text(&mut to, &member.host);
        }
        to
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut from = Fields(bytes);
        let (meeting, round) = (from.u64()?, from.u32()?);
        let members = from.list(MAX_RANKS, |from| {
            Ok(Member { rank: from.u32()?, address: from.text()?, host: from.text()? })
        })?;
        from.end(Self { meeting, round, members })
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
            meeting: 1 << 60,
            rank: 2,
            ranks: 3,
            address: "127.0.0.1:1".into(),
            host: "h".into(),
            wait_ms: 4,
            grace_ms: 5,
            minority: true,
            apart: vec![0, 1],
        }
    }

    #[test]
    fn payloads_come_back_whole_or_not_at_all() {
        let intro = Intro {
            group: "é".into(),
            generation: 1,
            meeting: 1 << 50,
            round: 5,
            rank: 2,
            stream: 3,
            streams: 4,
        };
        let met = Met { round: 1, missing: vec![4, 6], why: "it is not there".into() };
        let member = Member { rank: 1, address: "a:1".into(), host: "h".into() };
        let roster = Roster { meeting: 1 << 40, round: 2, members: vec![member.clone(), member] };
        let registration = Registration {
            digest: [7; 32],
            title: "t".into(),
            process: 9,
            memory: vec![(3, 1 << 40)],
        };
        assert_eq!(Intro::decode(&intro.encode()), Ok(intro.clone()));
        assert_eq!(Join::decode(&join().encode()), Ok(join()));
        assert_eq!(Roster::decode(&roster.encode()), Ok(roster.clone()));
        assert_eq!(Met::decode(&met.encode()), Ok(met.clone()));
        assert_eq!(Registration::decode(&registration.encode()), Ok(registration.clone()));
        let all =
            [intro.encode(), join().encode(), met.encode(), roster.encode(), registration.encode()];
        for bytes in all {
            for end in 0..bytes.len() {
                let cut = &bytes[..end];
                assert!(Intro::decode(cut).is_err() || bytes != intro.encode());
                assert!(Join::decode(cut).is_err());
                assert!(Met::decode(cut).is_err() || bytes != met.encode());
                assert!(Roster::decode(cut).is_err() || end != bytes.len() - 1);
                assert!(Registration::decode(cut).is_err());
            }
        }
        // A list that says it has more than any has takes no memory for them.
        let many = [&[0; 12][..], &u32::MAX.to_be_bytes()].concat();
        assert!(Roster::decode(&many).is_err() && Met::decode(&many[8..]).is_err());
        let long = Intro { group: "é".repeat(1000), ..intro };
        assert_eq!(Intro::decode(&long.encode()).map(|it| it.group.len()), Ok(1024));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(it) = Join::decode(&bytes) {
                prop_assert_eq!(it.encode(), bytes.clone());
            }
            if let Ok(it) = Met::decode(&bytes) {
                prop_assert_eq!(it.encode(), bytes.clone());
            }
            if let Ok(it) = Registration::decode(&bytes) {
                prop_assert_eq!(it.encode(), bytes);
            }
        }
    }
}
