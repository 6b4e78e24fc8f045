//! `motet testbed up`: makes a testbed and leaves it.

use motet_testbed::Layout;

use super::place::Place;
use super::{failure, whose_links};
use crate::args::testbed::UpArgs;
use crate::commands::scenario::Loaded;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

pub(crate) fn run(args: &UpArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let loaded = Loaded::read(&args.scenario, &args.read, printer)?;
    // What is wrong with the scenario is said here, where its file is known, and not by the keeper.
    loaded.scenario(args.seed)?;
    let layout = Layout::new(&loaded.network).map_err(|it| failure(&it).in_file(&args.scenario))?;
    let place = Place::of(&args.scenario);
    let (state, started) = place.find_or_start(args, false, false)?;
    let was_up = started.is_none();
    if printer.is_json() {
        let hosts: Vec<_> = state
            .hosts
            .iter()
            .map(|it| serde_json::json!({ "name": it.name, "address": it.address.to_string() }))
            .collect();
        printer.json(&serde_json::json!({
            "keeper": state.keeper.pid,
            "was_up": was_up,
            "hosts": hosts,
            "routers": layout.routers.len(),
            "wan_links": layout.wires.len(),
            "links": state.links(),
            "congestion": state.congestion,
        }))?;
    } else {
        let word = if was_up { "is up already" } else { "is up" };
        printer.out(&format!(
            "{word}: {} ({}; TCP by {}); held by process {}\nmotet testbed down {} takes it down\n",
            layout.summary(),
            whose_links(&state),
            state.congestion,
            state.keeper.pid,
            args.scenario
        ))?;
    }
    Ok(Status::Done)
}
