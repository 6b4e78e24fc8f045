//! Rows for spans that overlap: a viewer draws what overlaps on one row wrongly.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use motet_units::Instant;

/// The row of each span: the first row that is free when it starts. Spans are (start, end) in the order of
/// starts. There are no more rows than spans overlap at any time.
pub(super) fn rows(spans: impl IntoIterator<Item = (Instant, Instant)>) -> Vec<usize> {
    let mut busy: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    let mut free: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
    let mut count = 0;
    let row_of = |(start, end)| {
        while let Some(Reverse((until, row))) = busy.peek().copied()
            && until <= start
        {
            busy.pop();
            free.push(Reverse(row));
        }
        let row = free.pop().map_or(count, |Reverse(it)| it);
        count = count.max(row + 1);
        busy.push(Reverse((end, row)));
        row
    };
    spans.into_iter().map(row_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(spans: &[(u64, u64)]) -> Vec<usize> {
        rows(spans.iter().map(|(start, end)| (Instant::from_ps(*start), Instant::from_ps(*end))))
    }

    #[test]
    fn one_after_the_other_share_a_row() {
        assert_eq!(rows_of(&[(0, 5), (5, 5), (5, 9), (10, 11)]), [0, 0, 0, 0]);
    }

    #[test]
    fn the_first_free_row_is_taken() {
        assert_eq!(rows_of(&[(0, 9), (1, 3), (2, 8), (3, 4), (9, 10)]), [0, 1, 2, 1, 0]);
    }
}
