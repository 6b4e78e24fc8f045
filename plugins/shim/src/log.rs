//! What the shim says of itself, on stderr: a warning where something keeps it from its work, and with
//! `MOTET_SHIM_LOG=info` what it does.

use std::io::Write as _;
use std::sync::OnceLock;

fn is_info() -> bool {
    static INFO: OnceLock<bool> = OnceLock::new();
    *INFO.get_or_init(|| std::env::var("MOTET_SHIM_LOG").is_ok_and(|it| it == "info"))
}

fn say(text: &str) {
    // One write, so that lines of several ranks do not mix. A job without stderr goes on.
    let _ = std::io::stderr().write_all(format!("motet-shim: {text}\n").as_bytes());
}

pub(crate) fn warn(text: &str) {
    say(text);
}

pub(crate) fn info(text: impl FnOnce() -> String) {
    if is_info() {
        say(&text());
    }
}
