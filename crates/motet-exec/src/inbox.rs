//! [`Inbox`]: bytes that were read from a connection and are not parsed yet, in a buffer of fixed size. It is never cleared, and
//! only what is not parsed is moved to its front, which costs little.

/// Bytes of the buffer: several small frames fit, so that one read gets them all.
const ROOM: usize = 8 << 10;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    /// Bytes before `begin` have been parsed, those from there to `end` have been read only.
    begin: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; ROOM].into_boxed_slice(), begin: 0, end: 0 }
    }

    /// What was read and is not parsed yet.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.begin..self.end).unwrap_or_default()
    }

    /// So many bytes of [`unread`](Self::unread) have been parsed.
    pub(crate) fn looked_at(&mut self, count: usize) {
        self.begin = self.end.min(self.begin + count);
    }

    /// Where to read more, after moving what is not parsed to the front.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// So many bytes have been read into [`room`](Self::room).
    pub(crate) fn came(&mut self, count: usize) {
        self.end = self.bytes.len().min(self.end + count);
    }

    /// Whether a payload of so many bytes is larger than the whole inbox.
    pub(crate) fn is_exceeded_by(&self, bytes: usize) -> bool {
        bytes > self.bytes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_read_comes_out_in_order() {
        let mut inbox = Inbox::new();
        let (mut read, mut looked_at) = (0_u32, 0_u32);
        // Reads and looks of sizes that do not divide its own: everything moves to the front many times.
        for turn in 0..10_000_usize {
            let room = inbox.room();
            let count = room.len().min(turn % 977);
            for byte in &mut room[..count] {
                *byte = (read % 251) as u8;
                read += 1;
            }
            inbox.came(count);
            let take = inbox.unread().len().min(turn % 1009);
            for byte in &inbox.unread()[..take] {
                assert_eq!(*byte, (looked_at % 251) as u8);
                looked_at += 1;
            }
            inbox.looked_at(take);
        }
        assert_eq!((inbox.unread().len() as u32, read > 1_000_000), (read - looked_at, true));
    }
}
