//! [`TestbedError`]: why a testbed could not be made or used.

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestbedError {
    /// The network cannot be made of namespaces.
    #[error("{0}")]
    Layout(String),
    /// The system refused something.
    #[error("cannot {what}: {why}")]
    System { what: String, why: String },
    /// The keeper or a rank did not do what it was told.
    #[error("{0}")]
    Peer(String),
    /// A file or a message that is not what it should be.
    #[error("{0}")]
    Unreadable(String),
}

impl TestbedError {
    /// The system refused `what`.
    pub fn system(what: impl Into<String>, why: impl std::fmt::Display) -> Self {
        Self::System { what: what.into(), why: why.to_string() }
    }

    /// What the user can do about it, where that is known.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            // Refused as not permitted, to root too, where the machine does not allow it to everybody.
            Self::System { what, .. } if what.contains("tcp_congestion_control") => Some(
                "the kernel must have this congestion control (net.ipv4.tcp_available_congestion_control) and allow it to all (`sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno cubic bbr\"`)",
            ),
            Self::System { why, .. } if why.contains("not permitted") || why.contains("denied") => {
                Some(
                    "a testbed needs root: run it as root, or within `unshare --user --map-root-user --net --mount --pid --fork --mount-proc`",
                )
            }
            Self::System { what, .. } if what.contains("/dev/net/tun") => Some(
                "the kernel needs TUN devices (CONFIG_TUN), and a container the device /dev/net/tun",
            ),
            _ => None,
        }
    }
}
