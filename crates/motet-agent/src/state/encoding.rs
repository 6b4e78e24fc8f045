//! How a [`State`] becomes numbers: one row of [`LENGTH`] values from 0 to 1, each with a name.
//!
//! | kind of feature | what it becomes |
//! | --- | --- |
//! | category | one-hot: 1 for the category that it is, 0 for the others; all 0 if there is none |
//! | yes or no | 1 or 0 |
//! | count, size, interval | log₂(1 + x) ÷ log₂ of the feature's maximum; larger values are 1 |
//! | parameters | log₁₀(1 + x) ÷ 15 |
//! | share | itself |
//! | score from 0 upwards | x ÷ (1 + x); infinity and NaN are 1 |
//!
//! The values of a row depend on nothing but the state, and logarithms are `libm`'s and not the platform's,
//! so that two ranks on different machines have the same bits. Sizes above 2²⁴ that differ by less than one
//! part in a million may share a value; no policy needs to tell them apart.
//!
//! **Version.** Policies are trained on one encoding. Whoever changes names, their order or a scale raises
//! [`VERSION`]; a test holds the names to their checksum.

use motet_runtime::Checksum;

use super::State;

/// The version of the encoding.
pub const VERSION: u32 = 1;

/// Values of a row.
pub const LENGTH: usize = 124;

/// A row that is being filled, with the names of its values if they are asked for.
#[derive(Clone, Debug)]
pub(super) struct Row {
    values: [f32; LENGTH],
    names: Option<Vec<String>>,
    next: usize,
}

impl Row {
    /// Fills the next value. `label` follows the name after `=`.
    fn put(&mut self, name: &str, label: Option<&str>, value: f64) {
        if let Some(slot) = self.values.get_mut(self.next) {
            // Values stay within bounds whatever comes in; NaN counts as the most.
            *slot = if value.is_nan() { 1.0 } else { value.clamp(0.0, 1.0) as f32 };
        }
        self.next += 1;
        if let Some(names) = &mut self.names {
            names.push(match label {
                Some(label) => format!("{name}={label}"),
                None => name.to_owned(),
            });
        }
    }

    /// One value for each of `all`; an index beyond them leaves all at 0.
    pub(super) fn one_hot<T>(
        &mut self,
        name: &str,
        index: usize,
        all: &[T],
        label: impl Fn(&T) -> &'static str,
    ) {
        for (at, value) in all.iter().enumerate() {
            self.put(name, Some(label(value)), if at == index { 1.0 } else { 0.0 });
        }
    }

    pub(super) fn flag(&mut self, name: &str, value: bool) {
        self.put(name, None, if value { 1.0 } else { 0.0 });
    }

    pub(super) fn share(&mut self, name: &str, value: f64) {
        self.put(name, None, value);
    }

    pub(super) fn share_of(&mut self, name: &str, label: &str, value: f64) {
        self.put(name, Some(label), value);
    }

    pub(super) fn log2(&mut self, name: &str, value: u64, most_log2: u32) {
        self.put(name, None, libm::log2(1.0 + value as f64) / f64::from(most_log2));
    }

    pub(super) fn log10(&mut self, name: &str, value: u64, most_log10: u32) {
        self.put(name, None, libm::log10(1.0 + value as f64) / f64::from(most_log10));
    }

    pub(super) fn squashed(&mut self, name: &str, value: f64) {
        let value = if value.is_finite() { value.max(0.0) } else { f64::INFINITY };
        self.put(name, None, if value.is_finite() { value / (1.0 + value) } else { 1.0 });
    }
}

fn fill(state: &State, names: Option<Vec<String>>) -> Row {
    let mut row = Row { values: [0.0; LENGTH], names, next: 0 };
    state.topology.encode(&mut row);
    state.workload.encode(&mut row);
    state.scheduler.encode(&mut row);
    state.model.encode(&mut row);
    state.call.encode(&mut row);
    state.anomaly.encode(&mut row);
    row
}

impl State {
    /// The state as a row of numbers.
    #[must_use]
    pub fn encode(&self) -> [f32; LENGTH] {
        fill(self, None).values
    }
}

/// The names of a row's values, in order.
#[must_use]
pub fn names() -> Vec<String> {
    fill(&State::BLANK, Some(Vec::with_capacity(LENGTH))).names.unwrap_or_default()
}

/// Identifies the encoding: a hash of its version and of the names of its values.
#[must_use]
pub fn checksum() -> Checksum {
    Checksum::of(format!("{VERSION}\n{}\n", names().join("\n")).as_bytes())
}

#[cfg(test)]
mod tests;
