//! Tests over all methods.

mod closed_forms;
mod everywhere;
mod near_the_bound;
mod random_networks;
