//! Helpers shared by the tests of this crate.

use motet_net::Network;
use motet_net::builders::{Params, find};

use super::{NcclModel, NcclOptions};

/// The network of a template and `key=value` words.
pub(super) fn build(kind: &str, words: &[&str]) -> Network {
    let params = Params::from_words(words).unwrap();
    find(kind).unwrap().build(&params).unwrap()
}

pub(super) fn model(network: &Network) -> NcclModel {
    NcclModel::new(network, NcclOptions::default()).unwrap()
}
