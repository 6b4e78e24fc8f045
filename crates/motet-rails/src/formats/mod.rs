//! What is read from files: prices and powers of parts ([`prices_toml`]).

pub mod prices_toml;
