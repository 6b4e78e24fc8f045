//! [`Space`]: a finite set of points to search, some thousands of them.
//!
//! A point has one value index per [`Dimension`]. Dimensions are categorical (values are alike or
//! not) or ordinal (values lie on a line); some cost a restart of the communicator when they
//! change. A constraint says once which points there are at all, so that no searcher ever
//! proposes another: searchers speak of points by their number among those, and enumerate
//! them rather than sample.
//!
//! [`knobs`] makes the space of a collective's knobs, alone or together with its programs.

pub mod knobs;

use motet_units::Seed;

pub use knobs::{KnobLimits, KnobProfile, KnobSpace};

/// The most points before the constraint: a search enumerates them in memory.
pub const MOST_POINTS: usize = 1 << 20;

/// How the values of a dimension relate to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Nothing: two values are the same or not.
    Categorical { values: usize },
    /// They lie on a line, at these rising positions from 0 to 1.
    Ordinal { positions: Vec<f64> },
}

/// One axis of a space.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    pub name: &'static str,
    pub kind: Kind,
    /// Whether another value needs another communicator, which takes long to make.
    pub restarts: bool,
}

impl Dimension {
    #[must_use]
    pub const fn categorical(name: &'static str, values: usize) -> Self {
        Self { name, kind: Kind::Categorical { values }, restarts: false }
    }

    /// Ordinal values at the logarithms of these rising positive numbers: a knob that doubles
    /// goes as far as one that doubles again.
    #[must_use]
    pub fn logarithmic(name: &'static str, values: impl IntoIterator<Item = u64>) -> Self {
        let logs: Vec<f64> = values.into_iter().map(|it| libm::log2(it.max(1) as f64)).collect();
        let (first, width) = match (logs.first(), logs.last()) {
            (Some(first), Some(last)) => (*first, (last - first).max(f64::MIN_POSITIVE)),
            _ => (0.0, 1.0),
        };
        let positions = logs.iter().map(|it| (it - first) / width).collect();
        Self { name, kind: Kind::Ordinal { positions }, restarts: false }
    }

    #[must_use]
    pub const fn with_restarts(mut self) -> Self {
        self.restarts = true;
        self
    }

    /// How many values it has.
    #[must_use]
    pub const fn values(&self) -> usize {
        match &self.kind {
            Kind::Categorical { values } => *values,
            Kind::Ordinal { positions } => positions.len(),
        }
    }
}

/// Why there is no such space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpaceError {
    #[error("a space of more than {MOST_POINTS} points cannot be enumerated; use fewer values")]
    TooLarge,
    #[error("no point of the space is possible; allow more values or loosen its constraint")]
    Empty,
}

/// A finite set of points, numbered.
#[derive(Clone, Debug)]
pub struct Space {
    dimensions: Vec<Dimension>,
    /// Value indices of every point, one point after the other, in rising order.
    points: Vec<u16>,
    /// By code (value indices read as digits): the number of the point, if there is one.
    numbers: Vec<u32>,
    /// By point: which setting of the restarting dimensions it has.
    groups: Vec<u32>,
}

const NO_POINT: u32 = u32::MAX;

impl Space {
    /// All points of the dimensions that `possible` allows.
    pub fn new(
        dimensions: Vec<Dimension>,
        mut possible: impl FnMut(&[u16]) -> bool,
    ) -> Result<Self, SpaceError> {
        let mut codes = 1_usize;
        for dimension in &dimensions {
            let values = dimension.values();
            codes = codes
                .checked_mul(values)
                .filter(|it| *it <= MOST_POINTS)
                .ok_or(SpaceError::TooLarge)?;
            if values > usize::from(u16::MAX) {
                return Err(SpaceError::TooLarge);
            }
        }
        let mut space = Self {
            dimensions,
            points: Vec::new(),
            numbers: vec![NO_POINT; codes],
            groups: Vec::new(),
        };
        let mut point = vec![0_u16; space.dimensions.len()];
        for code in 0..codes {
            space.decode(code, &mut point);
            if possible(&point) {
                space.numbers[code] = space.groups.len() as u32;
                space.points.extend_from_slice(&point);
                space.groups.push(space.group_of(&point));
            }
        }
        if space.is_empty() { Err(SpaceError::Empty) } else { Ok(space) }
    }

    fn decode(&self, mut code: usize, point: &mut [u16]) {
        for (value, dimension) in point.iter_mut().zip(&self.dimensions).rev() {
            *value = (code % dimension.values()) as u16;
            code /= dimension.values();
        }
    }

    fn group_of(&self, point: &[u16]) -> u32 {
        let restarting = self.dimensions.iter().zip(point).filter(|(it, _)| it.restarts);
        restarting.fold(0, |group, (it, value)| group * it.values() as u32 + u32::from(*value))
    }

    #[must_use]
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The value indices of a point.
    #[must_use]
    pub fn point(&self, number: usize) -> &[u16] {
        let width = self.dimensions.len();
        &self.points[number * width..(number + 1) * width]
    }

    /// The number of the point with these value indices, if it is one of the space.
    #[must_use]
    pub fn number(&self, point: &[u16]) -> Option<usize> {
        if point.len() != self.dimensions.len() {
            return None;
        }
        let mut code = 0;
        for (value, dimension) in point.iter().zip(&self.dimensions) {
            if usize::from(*value) >= dimension.values() {
                return None;
            }
            code = code * dimension.values() + usize::from(*value);
        }
        Some(self.numbers[code]).filter(|it| *it != NO_POINT).map(|it| it as usize)
    }

    /// Points with the same group need no restart between them.
    #[must_use]
    pub fn group(&self, number: usize) -> u32 {
        self.groups[number]
    }

    /// Tells spaces apart, so that a search is not resumed in another one.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut seed = Seed::new(self.len() as u64);
        for dimension in &self.dimensions {
            seed = seed.named(dimension.name).numbered(dimension.values() as u64);
        }
        self.points.iter().fold(seed, |seed, it| seed.numbered(u64::from(*it))).get()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space(sizes: &[usize], modulus: u16) -> Result<Space, SpaceError> {
        let dimensions = sizes.iter().enumerate().map(|(at, values)| match at % 2 {
            0 => Dimension::categorical("a", *values),
            _ => Dimension::logarithmic("b", 1..=*values as u64).with_restarts(),
        });
        Space::new(dimensions.collect(), |it| it.iter().sum::<u16>().is_multiple_of(modulus))
    }

    #[test]
    fn spaces_that_cannot_be() {
        assert_eq!(space(&[1 << 15, 1 << 15], 1).unwrap_err(), SpaceError::TooLarge);
        assert_eq!(space(&[usize::MAX, 2], 1).unwrap_err(), SpaceError::TooLarge);
        assert_eq!(space(&[3, 0], 1).unwrap_err(), SpaceError::Empty);
        let none = Space::new(vec![Dimension::categorical("a", 2)], |_| false);
        assert_eq!(none.unwrap_err(), SpaceError::Empty);
    }

    #[test]
    fn positions_are_logarithms() {
        let Kind::Ordinal { positions } = Dimension::logarithmic("n", [1, 2, 4, 16]).kind else {
            panic!("ordinal")
        };
        assert_eq!(positions, [0.0, 0.25, 0.5, 1.0]);
        assert_eq!(Dimension::logarithmic("n", [8]).kind, Kind::Ordinal { positions: vec![0.0] });
    }

    #[test]
    fn fingerprints_differ() {
        let of = |sizes: &[usize], modulus| space(sizes, modulus).unwrap().fingerprint();
        assert_eq!(of(&[3, 4], 2), of(&[3, 4], 2));
        assert_ne!(of(&[3, 4], 2), of(&[3, 4], 3));
        assert_ne!(of(&[3, 4], 1), of(&[4, 3], 1));
    }

    proptest! {
        #[test]
        fn numbers_and_points_agree(
            sizes in prop::collection::vec(1_usize..6, 1..5),
            modulus in 1_u16..4,
        ) {
            let Ok(space) = space(&sizes, modulus) else { return Ok(()) };
            for number in 0..space.len() {
                let point = space.point(number).to_vec();
                prop_assert!(point.iter().sum::<u16>().is_multiple_of(modulus));
                prop_assert_eq!(space.number(&point), Some(number));
                for other in 0..space.len() {
                    let same = point.iter().zip(space.point(other)).enumerate();
                    let same = same.filter(|(at, _)| at % 2 == 1).all(|(_, (a, b))| a == b);
                    prop_assert_eq!(space.group(number) == space.group(other), same);
                }
                let mut outside = point.clone();
                outside[0] = sizes[0] as u16;
                prop_assert_eq!(space.number(&outside), None);
            }
            let all: usize = sizes.iter().product();
            prop_assert!(space.len() <= all && (modulus > 1 || space.len() == all));
        }
    }
}
