//! [`Rows`]: a list of lists, kept as two flat vectors.

use std::ops::Range;

/// Many short lists in two vectors ("compressed rows"): all items one row after the other, and
/// where each row starts. It takes one allocation where a vector of vectors takes one per row, and
/// walking it touches memory in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<T = u32> {
    /// Row `r` is `items[starts[r]..starts[r + 1]]`.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { starts: vec![0], items: Vec::new() }
    }
}

impl<T: Copy> Rows<T> {
    /// Sorts items into `count` rows; within a row they keep their order. The items are gone
    /// through twice. Fewer than 2³² of them, and every row number below `count`.
    pub fn group<I>(count: usize, items: I) -> Self
    where
        I: IntoIterator<Item = (usize, T)>,
        I::IntoIter: Clone,
    {
        let items = items.into_iter();
        let mut starts = vec![0u32; count + 1];
        for (row, _) in items.clone() {
            starts[row + 1] += 1;
        }
        for row in 0..count {
            starts[row + 1] += starts[row];
        }
        let Some((_, any)) = items.clone().next() else {
            return Self { starts, items: Vec::new() };
        };
        let mut next = starts.clone();
        let mut sorted = vec![any; starts[count] as usize];
        for (row, item) in items {
            sorted[next[row] as usize] = item;
            next[row] += 1;
        }
        Self { starts, items: sorted }
    }
}

impl<T> Rows<T> {
    /// No rows yet, with memory for so many rows and items.
    #[must_use]
    pub fn with_capacity(rows: usize, items: usize) -> Self {
        let mut starts = Vec::with_capacity(rows + 1);
        starts.push(0);
        Self { starts, items: Vec::with_capacity(items) }
    }

    /// How many rows there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// The items of a row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[T] {
        &self.items[self.range(row)]
    }

    /// Where the items of a row stand among [all items](Self::items).
    #[must_use]
    pub fn range(&self, row: usize) -> Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    /// Where each row starts among [all items](Self::items), and at the end how many items there are.
    #[must_use]
    pub fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// The items of all rows, one row after the other.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// Adds a row at the end.
    pub fn push_row(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
        self.starts.push(self.items.len() as u32);
    }

    /// The same for a chain of iterators, which is faster if it drives itself than if it is asked for one item after the other.
    pub fn push_chain(&mut self, items: impl Iterator<Item = T>) {
        items.for_each(|it| self.items.push(it));
        self.starts.push(self.items.len() as u32);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn groups_as_a_list_of_lists_would(items in prop::collection::vec((0usize..7, 0u32..99), 0..40)) {
            let mut expected = vec![Vec::new(); 7];
            for (row, item) in &items {
                expected[*row].push(*item);
            }
            let rows = Rows::group(7, items.iter().copied());
            prop_assert_eq!(rows.count(), 7);
            for (row, expected) in expected.iter().enumerate() {
                prop_assert_eq!(rows.row(row), expected.as_slice());
            }
            let (mut pushed, mut chained) = (Rows::default(), Rows::default());
            for row in expected {
                let (one, other) = row.split_at(row.len() / 2);
                chained.push_chain(one.iter().chain(other).copied());
                pushed.push_row(row);
            }
            prop_assert_eq!(&chained, &rows);
            prop_assert_eq!(pushed, rows);
        }
    }
}
