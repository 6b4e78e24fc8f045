//! From what each rank measured to a table that all agree on: [`Report`], [`agree`],
//! [`Amendment`].
//!
//! Times differ between ranks, so no rank may act on its own. Each sends its report to the leader,
//! who works out the amendment, a pure function of the table and the reports, and has the ranks
//! switch to the amended table as to any other. Between switches the choice is fixed: the first
//! candidate of the entry.

use std::collections::BTreeMap;

use motet_units::{Duration, Rank};

use crate::checksum::Checksum;
use crate::runtime::Retuning;
use crate::table::{Entry, Table, TableError};

/// What one rank measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub rank: Rank,
    /// The checksum of the table that `times` are about; `None` if the library decides.
    pub table: Option<Checksum>,
    /// Set when this rank sees another network than the plan's.
    pub retuning: Option<Retuning>,
    pub times: Vec<Measured>,
}

/// The recent times of one candidate on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The index of the table's entry, and of the entry's candidate.
    pub entry: u32,
    pub candidate: u32,
    pub samples: u64,
    pub median: Duration,
}

/// What the ranks' measurements say about a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Amendment {
    /// The checksum of the table that it amends.
    pub table: Checksum,
    pub changes: Vec<Change>,
}

/// What an amendment says about one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The index of the table's entry.
    pub entry: u32,
    /// The candidate to prefer; 0 is the one in use.
    pub preferred: u32,
    /// By candidate: the measured time, or the expected one if it was not measured.
    pub times: Vec<Duration>,
}

/// A candidate must be faster by this many percent to replace the one in use. Smaller differences are within
/// the variation of the same collective, and switching for them would be pointless.
pub const DEFAULT_MARGIN: u32 = 5;

/// The amendment of `table` that `reports` suggest. Reports about other tables do not count.
///
/// A collective is done when its slowest rank is, so a candidate's time is the greatest of the
/// ranks' medians; one that no rank has measured has its expected time. The candidate with the shortest
/// time is preferred if the one in use takes more than `margin` percent longer.
#[must_use]
pub fn agree(table: &Table, reports: &[Report], margin: u32) -> Amendment {
    let mut measured: BTreeMap<(u32, u32), Duration> = BTreeMap::new();
    for report in reports.iter().filter(|it| it.table == Some(table.checksum())) {
        for it in &report.times {
            let time = measured.entry((it.entry, it.candidate)).or_default();
            *time = it.median.max(*time);
        }
    }
    let mut entries: Vec<u32> = measured.keys().map(|it| it.0).collect();
    entries.dedup();
    let change = |entry: u32| {
        let candidates = &table.entries().get(entry as usize)?.candidates;
        let time = |index: u32, expected| *measured.get(&(entry, index)).unwrap_or(&expected);
        let times = (0..).zip(candidates).map(|(index, it)| time(index, it.expected));
        let times: Vec<Duration> = times.collect();
        let (preferred, best) = (0..).zip(&times).min_by_key(|it| it.1)?;
        let with_margin = u128::from(best.as_ps()) * (100 + u128::from(margin));
        let wins = with_margin < u128::from(times[0].as_ps()) * 100;
        Some(Change { entry, preferred: if wins { preferred } else { 0 }, times })
    };
    let changes = entries.into_iter().filter_map(change).collect();
    Amendment { table: table.checksum(), changes }
}

/// Why an amendment does not fit a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmendmentError {
    #[error("the amendment is of table {amended}, not of {given}; amend that one")]
    OtherTable { amended: Checksum, given: Checksum },
    #[error("the amendment changes entry {entry} in a way it does not have; compute it again")]
    NoSuchCandidate { entry: u32 },
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Amendment {
    /// How many entries get another candidate; if none does, a switch is not worth it.
    #[must_use]
    pub fn switches(&self) -> usize {
        self.changes.iter().filter(|it| it.preferred != 0).count()
    }

    /// The table with the preferred candidates first. Measured times become expected ones, so that the time
    /// of a candidate is still known when it is no longer in use.
    ///
    /// # Errors
    /// When the amendment is not of this table.
    pub fn apply(&self, table: &Table) -> Result<Table, AmendmentError> {
        let (amended, given) = (self.table, table.checksum());
        if amended != given {
            return Err(AmendmentError::OtherTable { amended, given });
        }
        let mut entries: Vec<Entry> = table.entries().to_vec();
        for Change { entry, preferred, times } in &self.changes {
            let fits = |it: &&mut Entry| {
                it.candidates.len() == times.len() && (*preferred as usize) < times.len()
            };
            let Some(changed) = entries.get_mut(*entry as usize).filter(fits) else {
                return Err(AmendmentError::NoSuchCandidate { entry: *entry });
            };
            for (candidate, time) in changed.candidates.iter_mut().zip(times) {
                candidate.expected = *time;
            }
            changed.candidates[..=*preferred as usize].rotate_right(1);
        }
        Ok(Table::new(entries)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::entry;
    use proptest::prelude::*;

    fn report(rank: u32, table: &Table, times: &[(u32, u32, u64)]) -> Report {
        let measured = |(entry, candidate, ps): &(u32, u32, u64)| Measured {
            entry: *entry,
            candidate: *candidate,
            samples: 7,
            median: Duration::from_ps(*ps),
        };
        let times = times.iter().map(measured).collect();
        Report { rank: Rank(rank), table: Some(table.checksum()), retuning: None, times }
    }

    /// Three candidates, of 1000, 1001 and 1002 ps.
    fn table() -> Table {
        Table::new(vec![entry(7, 8, 10, 3), entry(7, 8, 11, 3)]).unwrap()
    }

    fn preferred(reports: &[Report]) -> Vec<(u32, u32)> {
        let amendment = agree(&table(), reports, DEFAULT_MARGIN);
        amendment.changes.iter().map(|it| (it.entry, it.preferred)).collect()
    }

    #[test]
    fn the_slowest_rank_counts() {
        let fast = report(0, &table(), &[(0, 0, 900), (1, 0, 900)]);
        assert_eq!(preferred(std::slice::from_ref(&fast)), [(0, 0), (1, 0)]);
        let slow = report(1, &table(), &[(1, 0, 2000)]);
        assert_eq!(preferred(&[fast, slow]), [(0, 0), (1, 1)]);
    }

    #[test]
    fn little_gain_is_no_reason() {
        assert_eq!(preferred(&[report(0, &table(), &[(0, 0, 1051)])]), [(0, 0)]);
        assert_eq!(preferred(&[report(0, &table(), &[(0, 0, 1052)])]), [(0, 1)]);
    }

    #[test]
    fn other_tables_and_entries_do_not_count() {
        let mut other = report(0, &table(), &[(0, 0, 5000)]);
        other.table = None;
        assert_eq!(preferred(&[other, report(1, &table(), &[(9, 0, 5000)])]), []);
    }

    #[test]
    fn an_amended_table_remembers_what_was_measured() {
        let table = table();
        let amendment = agree(&table, &[report(0, &table, &[(0, 0, 3000)])], DEFAULT_MARGIN);
        assert_eq!(amendment.switches(), 1);
        let amended = amendment.apply(&table).unwrap();
        let times = |it: &Table| -> Vec<u64> {
            it.entries()[0].candidates.iter().map(|it| it.expected.as_ps()).collect()
        };
        assert_eq!(times(&amended), [1001, 3000, 1002]);
        assert_eq!(amended.entries()[1], table.entries()[1]);
        let again = amendment.apply(&amended).unwrap_err();
        assert!(matches!(again, AmendmentError::OtherTable { .. }));
        // Measured again and found slow too: the third is next.
        let reports = [report(0, &amended, &[(0, 0, 2500)])];
        let third = agree(&amended, &reports, DEFAULT_MARGIN).apply(&amended).unwrap();
        assert_eq!(times(&third), [1002, 2500, 3000]);
    }

    #[test]
    fn an_amendment_that_does_not_fit_is_refused() {
        let table = table();
        for (entry, preferred, times) in [(2, 0, 3), (0, 3, 3), (0, 0, 2)] {
            let times = vec![Duration::ZERO; times];
            let changes = vec![Change { entry, preferred, times }];
            let amendment = Amendment { table: table.checksum(), changes };
            let error = amendment.apply(&table).unwrap_err();
            assert_eq!(error, AmendmentError::NoSuchCandidate { entry });
        }
    }

    proptest! {
        #[test]
        fn the_order_of_reports_does_not_matter(
            times in prop::collection::vec((0u32..2, 0u32..3, 1u64..5000), 1..20),
            split in any::<prop::sample::Index>(),
        ) {
            let table = table();
            let (left, right) = times.split_at(split.index(times.len()));
            let (left, right) = (report(0, &table, left), report(1, &table, right));
            let one = agree(&table, &[left.clone(), right.clone()], DEFAULT_MARGIN);
            prop_assert_eq!(one, agree(&table, &[right, left], DEFAULT_MARGIN));
        }
    }
}
