//! How many more files and sockets this process may have open. Each connection is one, and a rank has up to 17 to each
//! rank far away. They are counted beforehand for an error that says what to do: where the system refuses one in the middle
//! of a meeting, a rank can only wait and try again.

/// The process's limit of open files and sockets, and how many are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptors {
    limit: u64,
    open: u64,
}

/// Kept free for whatever else opens files meanwhile: handshakes of strangers, memory that is shared, the waker.
const SPARE: u64 = 16;

impl Descriptors {
    /// As it is now; `None` where the system does not say.
    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Option<Self> {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
        let open = std::fs::read_dir("/proc/self/fd").ok()?.count() as u64;
        Some(Self { limit, open })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn now() -> Option<Self> {
        None
    }

    /// If that many connections do not fit: a message with what is wrong and what to do.
    pub(crate) fn refuse(self, connections: u64) -> Option<String> {
        let Self { limit, open } = self;
        let wanted = open.saturating_add(connections).saturating_add(SPARE);
        (wanted > limit).then(|| {
            format!(
                "{connections} connections to the other ranks are more than this process may have: its limit is {limit} open \
                 files and sockets, and {open} are open; raise the limit (`ulimit -n {}`), or set fewer streams to each rank",
                wanted.next_power_of_two().max(1024)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_said_with_what_to_do() {
        let some = Descriptors { limit: 100, open: 20 };
        assert_eq!(some.refuse(64), None);
        let why = some.refuse(65).unwrap();
        assert!(why.contains("limit is 100") && why.contains("ulimit -n 1024"), "{why}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_system_says_what_is_open() {
        let before = Descriptors::now().unwrap();
        let _kept: Vec<_> = (0..300).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let after = Descriptors::now().unwrap();
        // Other tests open and close files meanwhile.
        assert!(after.limit == before.limit && after.open > before.open + 100, "{after:?}");
    }
}
