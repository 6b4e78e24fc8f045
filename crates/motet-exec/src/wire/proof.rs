//! How two sides of a connection show each other that they know the token, without saying it: each
//! sends random bytes, and each returns a keyed hash (HMAC-SHA-256) of both sides' bytes and of what
//! it says about itself. Whoever listens learns nothing to use later. What comes after is not
//! protected by this: who can change packets on the way can change data.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// Random bytes of one side.
pub type Nonce = [u8; 16];
/// A keyed hash.
pub type Proof = [u8; 32];

/// Which side proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Connecting,
    Accepting,
}

/// Random bytes from the system.
pub fn nonce() -> Result<Nonce, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn hash(token: &str, side: Side, nonces: [&Nonce; 2], said: &[u8]) -> Option<Hmac<Sha256>> {
    // Keys of any length are taken, so there always is one.
    let mut mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).ok()?;
    mac.update(match side {
        Side::Connecting => b"motet-exec connecting",
        Side::Accepting => b"motet-exec accepting ",
    });
    nonces.iter().for_each(|it| mac.update(*it));
    mac.update(said);
    Some(mac)
}

/// What `side` sends; `nonces` are those of the connecting and the accepting side.
#[must_use]
pub fn prove(token: &str, side: Side, nonces: [&Nonce; 2], said: &[u8]) -> Proof {
    hash(token, side, nonces, said).map_or([0; 32], |it| it.finalize().into_bytes().into())
}

/// Whether the other side knows the token; takes as long for every wrong proof.
#[must_use]
pub fn holds(token: &str, side: Side, nonces: [&Nonce; 2], said: &[u8], proof: &Proof) -> bool {
    hash(token, side, nonces, said).is_some_and(|it| it.verify_slice(proof).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_token_side_connection_and_saying() {
        let nonces = [[1; 16], [2; 16]];
        let both = [&nonces[0], &nonces[1]];
        let proof = prove("secret", Side::Connecting, both, b"rank 1");
        assert!(holds("secret", Side::Connecting, both, b"rank 1", &proof));
        assert!(!holds("other", Side::Connecting, both, b"rank 1", &proof));
        assert!(!holds("secret", Side::Accepting, both, b"rank 1", &proof));
        assert!(!holds("secret", Side::Connecting, [both[1], both[0]], b"rank 1", &proof));
        assert!(!holds("secret", Side::Connecting, both, b"rank 2", &proof));
        assert_ne!(nonce(), nonce());
    }
}
