//! What the processes do that a launcher has started beside the first: each keeps one rank running for the driver, for as long as the
//! driver's rendezvous is there.
//!
//! The driver may begin anew (a setting hung, or a second look is due). Then its rendezvous changes, and the rank is started
//! again for the new one; a rank that hangs in NCCL does not notice by itself.

use std::path::Path;
use std::process::Child;
use std::time::Duration as Wall;

use motet_live::launcher::Place;
use motet_live::rendezvous::Meeting;
use motet_live::{Launch, team};

use super::failure;
use crate::failure::{Failure, Status};

const PAUSE: Wall = Wall::from_millis(100);

/// Keeps this process's rank running until the driver is done. `launch` gives how, for a driver's token.
pub(super) fn follow(
    place: &Place,
    file: &Path,
    limit: Wall,
    launch: &dyn Fn(String) -> Launch,
) -> Result<Status, Failure> {
    let mut met: Option<Meeting> = None;
    let mut running: Option<(Launch, Child)> = None;
    // Pauses since the driver was last there; counted, as a file system may show a change late.
    let mut alone: u128 = 0;
    loop {
        let meeting = Meeting::read(file);
        let ended =
            running.as_mut().is_none_or(|it| matches!(it.1.try_wait(), Ok(Some(_)) | Err(_)));
        if meeting.is_none() && met.is_some() {
            stop(place.rank, &mut running);
            return Ok(Status::Done);
        }
        if let Some(meeting) = meeting
            && let Some(address) = meeting.address()
            && (met.as_ref() != Some(&meeting) || ended)
        {
            stop(place.rank, &mut running);
            let launch = launch(meeting.token.clone());
            let who = (place.rank, place.ranks, place.local_rank);
            let child = team::child(&launch, address, who).map_err(|it| failure(&it))?;
            running = Some((launch, child));
            if met.as_ref() != Some(&meeting) {
                alone = 0;
            }
            met = Some(meeting);
        }
        alone = if ended { alone + 1 } else { 0 };
        if alone * PAUSE.as_millis() > limit.as_millis() {
            stop(place.rank, &mut running);
            let shown = file.display();
            let problem = format!("rank {} has found no driver through {shown}", place.rank);
            return Err(Failure::unreadable(problem)
                .with_remedy("give `--rendezvous` a file that all hosts of the job see"));
        }
        std::thread::sleep(PAUSE);
    }
}

fn stop(rank: u32, running: &mut Option<(Launch, Child)>) {
    if let Some((launch, child)) = running.take() {
        launch.end(rank, child);
    }
}
