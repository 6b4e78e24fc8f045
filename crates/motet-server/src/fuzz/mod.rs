//! What anybody may send, given to the parts that take it, for the fuzz targets (`fuzz/`) and the tests that replay their
//! corpora: any bytes are understood or refused, and whatever they are, the service stays sound and others do not notice.
//!
//! - [`messages`]: one message of the gRPC API, as bytes;
//! - [`turns`]: many of them in any order, to a controller whose switches are slow, refuse and vanish;
//! - [`frames`]: what ranks send to their manager;
//! - [`requests`]: whole requests over gRPC and HTTP to a service without a socket.
//!
//! Each says whether the input was understood. An error is a mistake of ours: something was promised and does not hold.

pub mod frames;
pub mod messages;
pub mod requests;
pub mod turns;

use std::collections::BTreeSet;

use motet_control::{Circuit, Port};

/// No port is in two circuits.
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
