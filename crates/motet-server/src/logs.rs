//! Logs: one line for each event on stderr, as text or as JSON.

use tracing::Level;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::layer;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Sets up logging. With `details` our own debug messages are included; of libraries only warnings and errors
/// are. Does nothing if logging is set up already.
pub fn begin(json: bool, details: bool) {
    let level = if details { Level::DEBUG } else { Level::INFO };
    let targets = Targets::new().with_default(Level::WARN).with_target("motet_server", level);
    let registry = tracing_subscriber::registry().with(targets);
    let lines = layer().with_writer(std::io::stderr).with_target(false).with_ansi(false);
    let begun = if json {
        registry.with(lines.json().flatten_event(true)).try_init()
    } else {
        registry.with(lines).try_init()
    };
    // This fails only if logging is set up already.
    drop(begun);
}
