//! [`Inbox`]: what has been read of a connection and not been looked at yet, in memory that is never cleared and hardly moved.

/// Several small frames fit into it.
const ROOM: usize = 8 << 10;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Box<[u8]>,
    /// What has been looked at ends here, what has been read there.
    begin: usize,
    end: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; ROOM].into_boxed_slice(), begin: 0, end: 0 }
    }

    /// What has not been looked at.
    pub(crate) fn unread(&self) -> &[u8] {
        self.bytes.get(self.begin..self.end).unwrap_or_default()
    }

    /// So many bytes of it have been looked at.
    pub(crate) fn looked_at(&mut self, count: usize) {
        self.begin = self.end.min(self.begin + count);
    }

    /// Where to read more, after moving what has not been looked at to the front.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.bytes.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// So many bytes have been read into the room.
    pub(crate) fn came(&mut self, count: usize) {
        self.end = self.bytes.len().min(self.end + count);
    }

    /// Whether a payload of so many bytes would not go through it whole.
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
