//! [`Printer`]: the only way in which commands print. Data goes to stdout, everything else to stderr; colour is
//! used only on a terminal, and not where `NO_COLOR` is set.

use std::io::{self, Write};
use std::process::ExitCode;

use anstyle::{AnsiColor, Style};
use motet_units::Duration;
use serde::Serialize;

use crate::args::Global;
use crate::failure::Failure;

const ERROR: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();
const STRONG: Style = Style::new().bold();

/// What the global options (`--json`, `--quiet`, `--verbose`) say about output.
#[derive(Debug)]
pub(crate) struct Printer {
    json: bool,
    quiet: bool,
    verbose: bool,
}

impl Printer {
    pub(crate) const fn new(global: &Global) -> Self {
        Self { json: global.json, quiet: global.quiet, verbose: global.verbose }
    }

    pub(crate) const fn is_json(&self) -> bool {
        self.json
    }

    pub(crate) const fn is_verbose(&self) -> bool {
        self.verbose
    }

    /// Whether notes are shown.
    pub(crate) const fn shows_notes(&self) -> bool {
        !self.quiet
    }

    /// Whether progress may be shown, if there is a terminal to show it on.
    pub(crate) const fn shows_progress(&self) -> bool {
        !self.quiet && !self.json
    }

    /// The result as one JSON object.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|it| Failure::unreadable(format!("the result has no JSON form: {it}")))?;
        self.out(&format!("{}\n", with_unit_twins(&text)))
    }

    /// Writes data to stdout as it is.
    pub(crate) fn out(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = anstream::AutoStream::auto(io::stdout().lock());
        match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
            // Whoever reads us has seen enough (`motet … | head`): not our failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(error) => Err(Failure::unreadable(format!("cannot write to stdout: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    /// A heading in the text output.
    pub(crate) fn strong(text: &str) -> String {
        format!("{STRONG}{text}{STRONG:#}")
    }

    /// Something the user should know about the input or the result; not data.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            err_line(&format!("{NOTE}note{NOTE:#}: {text}"));
        }
    }

    /// Something the user must know; printed even with `--quiet`.
    pub(crate) fn warning(&self, text: &str) {
        err_line(&format!("{ERROR}warning{ERROR:#}: {text}"));
    }

    /// Why the command stopped, and what to do about it.
    pub(crate) fn failure(&self, failure: &Failure) {
        let problem = shortened(&failure.to_string());
        err_line(&format!("{ERROR}error{ERROR:#}: {problem}"));
        if let Some(remedy) = &failure.remedy {
            err_line(&format!("\n{HINT}hint{HINT:#}: {}", shortened(remedy)));
        }
    }
}

/// A time to the nanosecond, in µs for as long as one can read that: a figure with ten digits before its point
/// hides that it is half an hour.
pub(crate) fn exact(time: Duration) -> String {
    let us = time.as_us_f64();
    if us < 1e6 { format!("{us:.3} µs") } else { format!("{:.6} s", us / 1e6) }
}

/// Longest line of an error. Errors repeat what they are about, and that may be megabytes of a file
/// without a line break.
const LONGEST_LINE: usize = 2000;

/// An error with its lines cut, and without what would steer a terminal.
fn shortened(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let plain = |it: char| if it.is_control() && it != '\t' { '\u{fffd}' } else { it };
        let mut shown: String = line.chars().take(LONGEST_LINE).map(plain).collect();
        let left = line.chars().skip(LONGEST_LINE).count();
        if left > 0 {
            shown.push_str(&format!("… ({left} more characters)"));
        }
        shown
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Longest value of an option that an error repeats.
const LONGEST_VALUE: usize = 80;

/// What clap says of arguments that it cannot take, or the help that was asked for.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let given: Vec<String> =
        std::env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned()).collect();
    let is_long = |it: &String| it.chars().nth(LONGEST_VALUE).is_some();
    if error.use_stderr() && given.iter().any(is_long) {
        // Without clap's colours, which cutting would tear apart.
        err_line(without_long_values(&error.render().to_string(), &given).trim_end());
    } else {
        // If nobody reads it there is nobody to tell.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// An error of clap's with what it repeats of the command line cut. Both clap and our own parsers of values repeat it.
fn without_long_values(text: &str, given: &[String]) -> String {
    let mut text = text.to_owned();
    for argument in given {
        // `--size=VALUE` and `-sVALUE` are one argument, and the value alone is what is repeated.
        let joined = argument.split_once('=').map(|it| it.1);
        let short = argument.strip_prefix('-').and_then(|it| Some(it.split_at_checked(1)?.1));
        for value in [Some(argument.as_str()), joined, short].into_iter().flatten() {
            let left = value.chars().skip(LONGEST_VALUE).count();
            if left > 0 {
                let kept: String = value.chars().take(LONGEST_VALUE).collect();
                text = text.replace(value, &format!("{kept}… ({left} more characters)"));
            }
        }
    }
    shortened(&text)
}

/// A line on stderr. If stderr itself is gone there is nobody left to tell.
fn err_line(text: &str) {
    let mut stderr = anstream::AutoStream::auto(io::stderr().lock());
    let _ = writeln!(stderr, "{text}");
}

/// Pretty JSON with a field `…_gbytes_per_s` before every field `…_gbps`, of the same value.
///
/// `_gbps` has always been GB/s here and is Gbit/s nearly everywhere else. The name that cannot be
/// misread is added in this one place, so that no command forgets it; `_gbps` goes after 0.2.
fn with_unit_twins(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        // In pretty JSON every field has its line, and a line break never stands inside a string.
        let field = line.trim_start().strip_prefix('"').and_then(|it| it.split_once("\": "));
        if let Some((name, value)) = field
            && name.contains("_gbps")
            && !value.starts_with(['{', '['])
        {
            let indent = &line[..line.len() - line.trim_start().len()];
            let value = value.trim_end().trim_end_matches(',');
            let twin = name.replace("_gbps", "_gbytes_per_s");
            out.push_str(&format!("{indent}\"{twin}\": {value},\n"));
        }
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_have_a_name_that_says_bytes() {
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "algbw_gbps": 1.5,
            "cut": { "bandwidth_gbps": null, "what": "x_gbps\": 3" },
            "program_algbw_gbps_exact": "3/2",
        }));
        let twins = with_unit_twins(&text.unwrap());
        let read: serde_json::Value = serde_json::from_str(&twins).unwrap();
        let expected = serde_json::json!({
            "algbw_gbytes_per_s": 1.5,
            "algbw_gbps": 1.5,
            "cut": { "bandwidth_gbytes_per_s": null, "bandwidth_gbps": null, "what": "x_gbps\": 3" },
            "program_algbw_gbytes_per_s_exact": "3/2",
            "program_algbw_gbps_exact": "3/2",
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn times_can_be_read_however_long() {
        let of = |us| exact(Duration::from_us(us));
        assert_eq!(of(839), "839.000 µs");
        assert_eq!(of(999_999), "999999.000 µs");
        assert_eq!(of(1_536_010_006), "1536.010006 s");
        assert_eq!(exact(Duration::ZERO), "0.000 µs");
    }

    #[test]
    fn usage_errors_repeat_the_beginning_of_long_values() {
        let long = "é".repeat(100_000);
        let text = format!("invalid value '{long}' for '-c': `{long}` is not a collective");
        for given in [long.clone(), format!("-c{long}"), format!("--collective={long}")] {
            let short = without_long_values(&text, &[given]);
            let value = format!("{}… (99920 more characters)", "é".repeat(80));
            let expected =
                format!("invalid value '{value}' for '-c': `{value}` is not a collective");
            assert_eq!(short, expected);
        }
        let given = ["allreduec".to_owned()];
        assert_eq!(
            without_long_values("'allreduec'\n\nfor more", &given),
            "'allreduec'\n\nfor more"
        );
        // What a parser has changed before it repeats it is cut as lines are.
        let changed = without_long_values(&long, &[long.to_uppercase()]);
        assert!(changed.chars().count() < 2 * LONGEST_LINE, "{}", changed.len());
    }

    #[test]
    fn errors_do_not_echo_megabytes() {
        let long = format!("`{}` is wrong\nsecond \u{1b}[31m line", "é".repeat(1 << 20));
        let short = shortened(&long);
        assert!(short.len() < 3 * LONGEST_LINE, "{}", short.len());
        assert!(short.ends_with("more characters)\nsecond \u{fffd}[31m line"), "{short}");
        assert_eq!(shortened("as it is\n  twice"), "as it is\n  twice");
    }
}
