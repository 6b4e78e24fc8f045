//! Arbitrary input for every part that takes input from others, for the fuzz targets (`fuzz/`) and the tests
//! that replay their corpora. Any bytes must be either understood or refused, and whatever they are, the
//! service must keep its promises, and other clients must not notice.
//!
//! - [`messages`]: one message of the gRPC API, as bytes;
//! - [`turns`]: many such messages in any order, to a controller whose switches are slow, refuse and vanish;
//! - [`frames`]: the frames that ranks send to their manager;
//! - [`requests`]: whole requests over gRPC and HTTP to a service without a socket.
//!
//! Each check returns whether the input was understood. An error means that a promise does not hold, which is
//! a bug.

pub mod frames;
pub mod messages;
pub mod requests;
pub mod turns;

use std::collections::BTreeSet;

use motet_control::{Circuit, Port};

/// Checks that no port is in two circuits.
fn one_to_one(circuits: impl IntoIterator<Item = Circuit>) -> Result<(), String> {
    let mut ports: BTreeSet<Port> = BTreeSet::new();
    for circuit in circuits {
        for port in circuit.ends() {
            if !ports.insert(port) {
                return Err(format!("{port} is in two circuits"));
            }
        }
    }
    Ok(())
}
