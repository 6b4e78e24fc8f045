//! What `motet --help` prints: the commands in groups, in the order in which a newcomer needs them.
//!
//! clap lists subcommands in one piece, so the list is written here, from clap's own descriptions of the
//! commands, and put into the template of the help text.

use std::fmt::Write as _;

use clap::CommandFactory as _;

use super::Cli;

/// Headings, and the commands below each. A test checks that every command is here.
const GROUPS: [(&str, &[&str]); 5] = [
    ("From a cluster to a plan", &["net", "bound", "plan", "bench", "calibrate", "trace", "agent"]),
    ("Training jobs and optical rails", &["workload", "rails", "serve", "manager"]),
    ("One program at a time", &["synth", "verify", "sim", "export"]),
    ("Between hosts and datacenters", &["probe", "wan", "exec", "testbed"]),
    ("Everything else", &["reproduce", "completions", "man", "help"]),
];

/// The command line with its help text.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let style = *command.get_styles().get_header();
    let mut text = String::from("{about-with-newline}\n{usage-heading} {usage}\n");
    for (heading, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{style}{heading}:{style:#}");
        for name in names {
            let found = command.get_subcommands().find(|it| it.get_name() == *name);
            if found.is_none() && *name != "help" {
                // Left out of this build.
                continue;
            }
            let about = found.and_then(clap::Command::get_about).map(ToString::to_string);
            let about = about.unwrap_or_else(|| "Print this, or the help of a command".to_owned());
            let _ = writeln!(text, "  {name:11}  {about}");
        }
    }
    let _ = writeln!(text, "\n{style}Options:{style:#}\n{{options}}{{after-help}}");
    command.help_template(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let shown = command.get_subcommands().filter(|it| !it.is_hide_set());
        let mut known: Vec<&str> = shown.map(clap::Command::get_name).collect();
        known.push("help");
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|it| it.1).copied().collect();
        if cfg!(not(feature = "server")) {
            grouped.retain(|it| !["serve", "manager"].contains(it));
        }
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
    }
}
