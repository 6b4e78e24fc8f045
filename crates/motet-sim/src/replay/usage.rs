//! [`Usage`]: what every link and rank did in one run.

use motet_net::NetworkState;
use motet_units::{Duration, LinkId, Rank};

use super::error::RunError;
use super::kernel::{Crossed, Memory, Observer, execute};
use super::{Replay, finite};

/// One run, link by link and rank by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// When the program ends.
    pub end: Duration,
    /// When each rank has sent and received everything; the launch time if it has nothing to do.
    pub ranks: Vec<Duration>,
    /// How long each link of the network was occupied: the sum of transmission times.
    pub busy: Vec<Duration>,
}

impl Usage {
    /// How long a link was occupied.
    #[must_use]
    pub fn busy(&self, link: LinkId) -> Duration {
        self.busy[link.index()]
    }

    /// The link that was occupied longest, the first of several; `None` if none was used.
    #[must_use]
    pub fn busiest(&self) -> Option<LinkId> {
        let links = self.busy.iter().enumerate().rev().filter(|(_, time)| !time.is_zero());
        links.max_by_key(|(_, time)| **time).map(|(link, _)| LinkId::from_index(link))
    }
}

impl Replay {
    /// Runs the program in one state and reports what links and ranks did. Several times slower
    /// than [`run`](Self::run).
    pub fn usage(&self, state: &NetworkState) -> Result<Usage, RunError> {
        let (table, [refused]) = self.table::<u64, 1>(std::slice::from_ref(state));
        if let Some(error) = refused {
            return Err(error);
        }
        let mut meter = Meter {
            replay: self,
            ranks: vec![self.launch; self.ranks as usize],
            busy: vec![0; self.links.len()],
            transfer: (Rank(0), Rank(0)),
            first: true,
        };
        let [end] = execute(&self.code, &table, &[], &mut Memory::new(), &mut meter);
        let mut busy = vec![Duration::ZERO; self.network_links];
        for (link, time) in self.links.iter().zip(meter.busy) {
            busy[link.index()] = Duration::from_ps(time);
        }
        let ranks = meter.ranks.into_iter().map(Duration::from_ps).collect();
        Ok(Usage { end: finite(end)?, ranks, busy })
    }
}

/// Adds up the busy times of links, and notes when ranks were done.
struct Meter<'a> {
    replay: &'a Replay,
    ranks: Vec<u64>,
    busy: Vec<u64>,
    /// The ranks of the step's transfer.
    transfer: (Rank, Rank),
    /// Whether the next link is the transfer's first.
    first: bool,
}

impl Meter<'_> {
    fn at(&mut self, rank: Rank, time: u64) {
        let slot = &mut self.ranks[rank.index()];
        *slot = time.max(*slot);
    }
}

impl Observer<u64, 1> for Meter<'_> {
    fn begin(&mut self, step: usize) {
        self.transfer = self.replay.transfer_ranks[self.replay.code.transfers[step] as usize];
        self.first = true;
    }

    fn pass(&mut self, it: &Crossed<u64, 1>) {
        let slot = &mut self.busy[it.link as usize];
        *slot = slot.saturating_add(it.passage.streamed[0] - it.passage.start[0]);
        if self.first {
            self.at(self.transfer.0, it.passage.left[0]);
            self.first = false;
        }
    }

    fn done(&mut self, _: u32, time: [u64; 1]) {
        self.at(self.transfer.1, time[0]);
    }
}
