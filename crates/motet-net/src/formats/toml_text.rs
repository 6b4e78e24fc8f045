//! The size of TOML that is read at all.
//!
//! The parser keeps every token and its place, which takes up to 47 times the size of the text
//! (measured on a file of newlines). So the text is bounded before it is parsed: what is larger
//! would take the machine's memory before anything could be said about it.

use motet_units::Bytes;

use super::ReadError;

/// Most bytes of a TOML text. A cluster of 200,000 links, each written out, fits.
pub const MAX_TOML: Bytes = Bytes::mib(32);

/// Refuses a text that is too large to be parsed.
pub fn check_toml_size(text: &str) -> Result<(), ReadError> {
    if text.len() as u64 <= MAX_TOML.get() {
        return Ok(());
    }
    let (size, most) = (text.len(), MAX_TOML);
    Err(ReadError::new(format!("the file has {size} bytes, and at most {most} of TOML are read"))
        .with_remedy("describe a large cluster with [[server]] and [[fabric]] tables"))
}
