//! What a controller tells a rank, and what the rank answers: a line of JSON each.
//!
//! Programs change at a call number: a rank that is told to *switch* goes on with what it has until that call. All ranks are told the same number before any of them is told to make the call, so
//! that they change together.

use serde::{Deserialize, Serialize};

/// To a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum ToRank {
    /// Make a program ready, with all others: its file, the collective's bytes in nccl-tests' sense, and the number by which it will be called.
    Register { number: u32, file: String, bytes: u64 },
    /// From call `at` on, the program of this number.
    Switch { at: u32, number: u32 },
    /// The program of this number, which is not in force, will not be called again: its memory may go.
    Drop { number: u32 },
    /// Make this call.
    Call { call: u32 },
}

/// From a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum FromRank {
    /// The rank has joined the others.
    Joined,
    Registered {
        number: u32,
    },
    /// The call was made, by which program, in how many nanoseconds; how many elements were wrong, where they were checked.
    Called {
        call: u32,
        number: u32,
        ns: u64,
        wrong: u64,
    },
    Failed {
        why: String,
    },
}

/// Reads a line.
pub fn read<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line)
        .map_err(|it| format!("`{}` is not understood: {it}", motet_units::brief(line.trim_end())))
}

/// A line, with its end.
#[must_use]
pub fn write(word: &impl Serialize) -> String {
    // What is written here can always be written: it has strings and numbers only.
    serde_json::to_string(word).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back() {
        let all = [
            ToRank::Register { number: 2, file: "/x \"y\"".into(), bytes: 1 << 20 },
            ToRank::Switch { at: 7, number: 2 },
            ToRank::Drop { number: 1 },
            ToRank::Call { call: 7 },
        ];
        for word in all {
            assert_eq!(read::<ToRank>(&write(&word)), Ok(word));
        }
        let called = FromRank::Called { call: 1, number: 0, ns: 12, wrong: 0 };
        assert_eq!(read::<FromRank>(&write(&called)), Ok(called));
        assert!(read::<FromRank>("").is_err() && read::<ToRank>("{\"call\":{}}").is_err());
    }
}
