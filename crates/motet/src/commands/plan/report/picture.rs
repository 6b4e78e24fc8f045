//! The network of a plan, drawn with what its links do.

use std::fmt::Write as _;

use motet_net::formats::svg;
use motet_tune::plan::{Pick, TunedTask};
use motet_units::Bytes;

use super::Report;
use crate::commands::plan::show::setting;

impl Report<'_> {
    /// The network under the largest task that a program of ours does best.
    pub(super) fn picture(&self, out: &mut String) {
        let found = self.plan.tasks.iter().rev().filter_map(|task| {
            let pick = Some(&task.pick).filter(|it| it.is_program())?;
            let layout =
                self.plan.candidate(&pick.way)?.family.find(pick.instances, pick.packed)?;
            let links = layout.laid.usage(task.size(), &pick.knobs(&self.plan.setup));
            Some((task, pick, links))
        });
        let largest = found.max_by_key(|it| it.0.size_bytes);
        let (class, picture) = match largest {
            None => ("picture", svg::write(self.network)),
            Some((task, pick, links)) => {
                let caption = caption(task, pick);
                let traffic = |id: motet_units::LinkId| svg::Traffic {
                    utilization: links[id.index()].busy.as_ps() as f64 / pick.time_ps.max(1) as f64,
                    bytes: links[id.index()].bytes,
                };
                ("picture traffic", svg::write_utilization(self.network, &caption, traffic))
            }
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<section id=\"network\">\n<h2>Network</h2>\n<div class=\"scroll\" tabindex=\"0\" \
             role=\"region\" aria-label=\"picture of the network\">\n<div class=\"{class}\">\n\
             {picture}</div>\n</div>\n</section>"
        );
    }
}

fn caption(task: &TunedTask, pick: &Pick) -> String {
    let (size, time) = (Bytes::new(task.size_bytes), pick.time().as_us_f64());
    format!(
        "{} of {size} in {time:.3} µs by kernels as modelled: {}",
        task.collective,
        setting(pick)
    )
}
