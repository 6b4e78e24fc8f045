//! `motet testbed down`: ends all that runs in a testbed and takes it down.

use std::time::Duration;

use motet_testbed::linux::process;
use motet_testbed::order::Order;

use super::place::Place;
use crate::args::testbed::DownArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

/// How often it is looked whether the keeper is gone, and how long between.
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(50);

pub(crate) fn run(args: &DownArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let place = Place::of(&args.scenario);
    // What was killed has left its folder; and in one that is being made, nothing is up yet.
    let lock = if place.folder().exists() { Some(place.lock()?) } else { None };
    let Some(state) = place.find() else {
        if let Some(lock) = &lock {
            place.clear(lock);
        }
        if printer.is_json() {
            printer.json(&serde_json::json!({ "was_up": false }))?;
        } else {
            printer.out("nothing is up\n")?;
        }
        return Ok(Status::Done);
    };
    // A keeper that does not answer is ended, and what runs in its namespaces before it, while they are surely its own.
    let told = place.tell(&[Order::Stop]).is_ok();
    let gone = told
        && (0..LOOKS).any(|_| {
            let gone = !process::is_there(&state);
            if !gone {
                std::thread::sleep(BETWEEN);
            }
            gone
        });
    if !gone {
        process::end_all(&state.namespaces);
        process::end_keeper(&state);
    }
    place.remove();
    if printer.is_json() {
        printer.json(&serde_json::json!({ "was_up": true }))?;
    } else {
        printer.out("is down\n")?;
    }
    Ok(Status::Done)
}
