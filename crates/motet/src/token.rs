//! Tokens: what those who belong together know, and nobody else.

use std::hash::{BuildHasher as _, RandomState};

/// 128 bits that nobody can guess. The standard library keys its hash maps from the system's source
/// of randomness; the hashes of two numbers under such a key serve as well, without a dependency.
pub(crate) fn random() -> String {
    let key = RandomState::new();
    format!("{:016x}{:016x}", key.hash_one(0u64), key.hash_one(1u64))
}
