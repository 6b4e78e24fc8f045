//! `motet testbed`: datacenters out of network namespaces, for programs and routes live.
//!
//! [`keep`] is the process that holds a testbed, and the one that guards it; [`up`], [`run`] and [`down`] start it, use it and end it. [`place`] is the folder by which they find each other.

#[cfg(target_os = "linux")]
pub(crate) mod down;
#[cfg(target_os = "linux")]
pub(crate) mod keep;
#[cfg(target_os = "linux")]
pub(crate) mod place;
#[cfg(target_os = "linux")]
pub(crate) mod rank;
#[cfg(target_os = "linux")]
pub(crate) mod run;
#[cfg(target_os = "linux")]
pub(crate) mod up;

use crate::args::testbed::TestbedCommand;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

#[cfg(target_os = "linux")]
pub(crate) fn dispatch(command: &TestbedCommand, printer: &mut Printer) -> Result<Status, Failure> {
    match command {
        TestbedCommand::Up(args) => up::run(args, printer),
        TestbedCommand::Run(args) => run::run(args, printer),
        TestbedCommand::Down(args) => down::run(args, printer),
        TestbedCommand::Keep(args) => keep::run(args, printer),
        TestbedCommand::Guard(args) => keep::guard(args),
        TestbedCommand::Enter(args) => keep::enter(args),
        TestbedCommand::Rank(args) => rank::run(args, printer),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn dispatch(_: &TestbedCommand, _: &mut Printer) -> Result<Status, Failure> {
    Err(no_linux())
}

/// Whose a testbed's WAN links are.
#[cfg(target_os = "linux")]
pub(crate) const fn whose_links(state: &motet_testbed::state::State) -> &'static str {
    if state.kernel_links { "the kernel's, by tbf and netem" } else { "the keeper's own" }
}

/// Says so where it was left open.
#[cfg(target_os = "linux")]
pub(crate) fn say_links(
    links: motet_wan::Links,
    state: &motet_testbed::state::State,
    printer: &Printer,
) {
    if links == motet_wan::Links::Auto {
        printer.note(&format!("WAN links are {}", whose_links(state)));
    }
}

/// What is said elsewhere.
#[cfg(not(target_os = "linux"))]
pub(crate) fn no_linux() -> Failure {
    Failure::unreadable(
        "a testbed is made of Linux's network namespaces, which this system does not have",
    )
    .with_remedy("run it on Linux; `motet wan` simulates the same scenario anywhere")
}

#[cfg(target_os = "linux")]
pub(crate) fn failure(error: &motet_testbed::TestbedError) -> Failure {
    let failure = Failure::wrong(error.to_string());
    match error.remedy() {
        Some(remedy) => failure.with_remedy(remedy),
        None => failure,
    }
}
