//! [`Options`]: what a rank says when it joins.

use motet_synth::Method;

/// How a rank joins the others. Start from [`Options::new`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Where ranks meet: host and port.
    pub store: String,
    /// Whether another process serves the store; otherwise rank 0 does.
    pub store_apart: bool,
    pub rank: u32,
    pub ranks: u32,
    /// A secret that all ranks and the store share; it may be empty on loopback addresses only.
    pub token: String,
    /// If set, all connections are encrypted, and both sides of each show certificates. Set it on all ranks and the store, or on none.
    pub tls: Option<motet_exec::Tls>,
    /// Groups with different names do not meet.
    pub group: String,
    /// The cluster file that programs are made for; without one, all ranks are taken to be connected alike.
    pub cluster: Option<String>,
    /// Which ranks of the cluster these are, in their order; empty is all of them.
    pub members: Vec<u32>,
    pub method: Method,
    pub seed: u64,
    /// The address to listen on; by default the one from which the store is reached.
    pub bind: Option<std::net::IpAddr>,
    /// TCP connections for data to each rank; 0 lets the executor choose.
    pub streams: u32,
    pub shared_memory: bool,
    pub checksums: bool,
    pub wait_seconds: u64,
    pub silence_seconds: u64,
    pub deadline_seconds: u64,
    /// The most bytes of operations that are kept for later calls of the same sort.
    pub cache_bytes: u64,
}

impl Options {
    #[must_use]
    pub fn new(store: impl Into<String>, rank: u32, ranks: u32) -> Self {
        Self {
            store: store.into(),
            store_apart: false,
            rank,
            ranks,
            token: String::new(),
            tls: None,
            group: "motet".to_owned(),
            cluster: None,
            members: Vec::new(),
            method: Method::Auto,
            seed: 1,
            bind: None,
            streams: 0,
            shared_memory: true,
            checksums: false,
            wait_seconds: 60,
            silence_seconds: 10,
            deadline_seconds: 300,
            cache_bytes: 4 << 30,
        }
    }

    pub(crate) fn config(&self) -> motet_exec::Config {
        use motet_units::Duration;
        let seconds = |it: u64| Duration::from_ms(it.clamp(1, 1_000_000).saturating_mul(1000));
        let silence = seconds(self.silence_seconds);
        motet_exec::Config {
            serve_store: false,
            group: self.group.clone(),
            token: self.token.clone(),
            tls: self.tls.clone(),
            bind: self.bind,
            streams: self.streams,
            shared_memory: self.shared_memory,
            checksums: self.checksums,
            wait: seconds(self.wait_seconds),
            heartbeat: Duration::from_ps(silence.as_ps() / 5).min(seconds(1)),
            silence,
            deadline: seconds(self.deadline_seconds),
            ..motet_exec::Config::new(self.store.clone(), self.rank, self.ranks)
        }
    }
}
