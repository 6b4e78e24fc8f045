//! Training jobs: any text is a job or an error; a job is refused, or its step has the volumes of the
//! closed forms; never a panic, never a hang.

#![no_main]

use libfuzzer_sys::fuzz_target;
use motet_workload::formats::job_toml;

/// Micro-batches through layers: larger steps are right too, but slow to try.
const MOST_PASSES: u64 = 2000;

fuzz_target!(|text: &str| {
    let Ok(job) = job_toml::read(text).map(|it| it.check()) else { return };
    let Ok(job) = job else { return };
    let passes = u64::from(job.micro_batches()) * u64::from(job.model().layers);
    if passes <= MOST_PASSES
        && let Ok(step) = job.iteration(0)
    {
        for stage in 0..job.layout().pp {
            assert_eq!(step.volumes(job.layout(), stage), job.closed_form(stage, 0));
        }
    }
});
