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
            // A file's owner and mode, which a user namespace changes nothing about.
            Self::System { what, why }
                if what.contains("open /dev/net/tun") && why.to_lowercase().contains("denied") =>
            {
                Some(
                    "this user may not open /dev/net/tun, and `unshare` does not help with that: run as root, or have root do `chmod 0666 /dev/net/tun`, as it is on most systems (it gives nobody a device outside of namespaces of their own)",
                )
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_own_remedy() {
        let remedy = |what: &str, why: &str| TestbedError::system(what, why).remedy().unwrap_or("");
        let denied = "Permission denied (os error 13)";
        let tun = remedy("open /dev/net/tun", denied);
        assert!(
            tun.contains("chmod 0666 /dev/net/tun") && !tun.contains("--map-root-user"),
            "{tun}"
        );
        assert!(remedy("make a network namespace", denied).contains("--map-root-user"));
        let may_not = "Operation not permitted (os error 1)";
        assert!(remedy("make a TUN device by /dev/net/tun", may_not).contains("--map-root-user"));
        assert!(remedy("open /dev/net/tun", "No such file or directory").contains("CONFIG_TUN"));
        assert_eq!(remedy("run FRR", "it ended"), "");
    }
}
