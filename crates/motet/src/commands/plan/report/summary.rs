//! What a plan gains, told so that nobody is misled: over NCCL at the best that a tuner can make of it,
//! over all tasks, for each runtime by itself, and by which model.

use std::fmt::Write as _;

use motet_nccl::Basis;
use motet_tune::plan::{Pick, Plan, TunedTask};

use super::Report;

/// What a job does in every task on some runtime.
struct Served {
    name: &'static str,
    /// What a job sets for it.
    env: &'static str,
    /// The program that it has for a task, if it runs any.
    program: Option<fn(&TunedTask) -> Option<&Pick>>,
}

/// Where a runtime has no program for a task, NCCL does it, under a tuner.
const SERVED: [Served; 3] = [
    Served { name: "NCCL with a tuner", env: "nccl/env", program: None },
    Served {
        name: "MSCCL's executor",
        env: "msccl/env",
        program: Some(|it| Some(&it.pick).filter(|it| it.is_program())),
    },
    Served { name: "MSCCL++", env: "mscclpp/env", program: Some(|it| it.mscclpp.as_ref()) },
];

/// Gains over something, as many as there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub(super) least: f64,
    /// The geometric one.
    pub(super) mean: f64,
    pub(super) most: f64,
}

pub(super) fn span(gains: impl Iterator<Item = f64>) -> Option<Span> {
    let gains: Vec<f64> = gains.collect();
    let logs: f64 = gains.iter().map(|it| it.ln()).sum();
    let least = gains.iter().copied().reduce(f64::min)?;
    let most = gains.iter().copied().reduce(f64::max)?;
    Some(Span { least, mean: (logs / gains.len() as f64).exp(), most })
}

impl Served {
    fn program<'a>(&self, task: &'a TunedTask) -> Option<&'a Pick> {
        self.program.and_then(|of| of(task))
    }

    fn pick<'a>(&self, plan: &Plan, task: &'a TunedTask) -> Option<&'a Pick> {
        self.program(task).or_else(|| plan.kept(task))
    }

    /// Whether the plan has something for it.
    fn loads(&self, plan: &Plan) -> bool {
        self.program.is_none() || plan.tasks.iter().any(|it| self.program(it).is_some())
    }

    /// In how many tasks a program beats NCCL's best. The margin is what the plan picks programs by.
    fn wins(&self, plan: &Plan) -> usize {
        let won = |it: &&TunedTask| it.nccl_best.is_some() && self.program(it).is_some();
        plan.tasks.iter().filter(won).count()
    }

    fn gains(&self, plan: &Plan, over: fn(&TunedTask) -> Option<&Pick>) -> Option<Span> {
        span(plan.tasks.iter().filter_map(|task| {
            let (pick, over) = (self.pick(plan, task)?, over(task)?);
            (pick.time_ps > 0).then(|| over.time_ps as f64 / pick.time_ps as f64)
        }))
    }
}

impl Report<'_> {
    pub(super) fn summary(&self, out: &mut String) {
        out.push_str("<section id=\"summary\">\n<h2>Summary</h2>\n");
        self.headline(out);
        out.push_str(
            "<p class=\"caution\"><strong>No time here is measured.</strong> All are a model's, made of \
             NCCL's own constants, and of terms fitted on an H200 for MSCCL++ (<a href=\"#how-sure\">how \
             sure they are</a>).</p>\n",
        );
        self.by_runtime(out);
        self.how_sure(out);
        out.push_str("</section>\n");
    }

    fn headline(&self, out: &mut String) {
        let Plan { tasks, margin_percent, .. } = self.plan;
        let compared = tasks.iter().filter(|it| it.nccl_best.is_some()).count();
        if compared == 0 {
            out.push_str(
                "<p class=\"lead\">NCCL has nothing of its own for these tasks on this network, so there \
                 is nothing to compare the plan's programs with.</p>\n",
            );
            return;
        }
        let [_, msccl, plus] = &SERVED;
        let mean = |it: &Served| {
            let span = it.gains(self.plan, |it| it.nccl_best.as_ref());
            span.map_or(1.0, |it| it.mean)
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "<p class=\"lead\">A program beats NCCL at its best setting by more than {margin_percent}% in \
             <strong>{} of {compared} tasks</strong> on MSCCL's executor and in <strong>{} of \
             {compared}</strong> on MSCCL++. Over all tasks, the rest left to NCCL, that is \
             <strong>{:.2} times</strong> as fast as NCCL at its best on MSCCL's executor, and \
             <strong>{:.2} times</strong> on MSCCL++ (geometric means).</p>",
            msccl.wins(self.plan),
            plus.wins(self.plan),
            mean(msccl),
            mean(plus)
        );
        if compared < tasks.len() {
            let _ = writeln!(
                out,
                "<p>NCCL has nothing of its own for {} of {} tasks; they are in no comparison.</p>",
                tasks.len() - compared,
                tasks.len()
            );
        }
    }

    fn by_runtime(&self, out: &mut String) {
        let plan = self.plan;
        let _ = writeln!(
            out,
            "<p>How many times as fast over all tasks, as the geometric mean (least to most):</p>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"gains by runtime\">\n<table>\n\
             <thead><tr><th scope=\"col\" class=\"text\">on</th><th scope=\"col\">a program beats NCCL's \
             best in</th><th scope=\"col\">× NCCL at its best</th><th scope=\"col\">× NCCL by \
             itself</th><th scope=\"col\">× MSCCL's default</th><th scope=\"col\" class=\"text\">to \
             load</th></tr></thead>\n<tbody>"
        );
        for served in &SERVED {
            let load = match served.loads(plan) {
                true => super::link(served.env, &format!("source {}", served.env)),
                false => "no program".to_owned(),
            };
            let wins = match served.program {
                Some(_) => super::counted(served.wins(plan), "task"),
                None => "–".to_owned(),
            };
            let _ = writeln!(
                out,
                "<tr><th scope=\"row\" class=\"text\">{}</th><td>{wins}</td><td>{}</td><td>{}</td>\
                 <td>{}</td><td class=\"text\">{load}</td></tr>",
                served.name,
                words(served.gains(plan, |it| it.nccl_best.as_ref())),
                words(served.gains(plan, |it| it.nccl.as_ref())),
                words(served.gains(plan, |it| it.msccl.as_ref()))
            );
        }
        let _ = writeln!(
            out,
            "</tbody>\n</table>\n</div>\n<p class=\"soft\"><em>NCCL at its best setting</em> is the best \
             algorithm, protocol and number of channels that a tuner can choose for the call. Where it \
             gains no more than {}% over NCCL's own choice, that choice is kept, so a gain can be a \
             little below 1.</p>",
            plan.margin_percent
        );
    }

    fn how_sure(&self, out: &mut String) {
        let tasks = &self.plan.tasks;
        let run = tasks.iter().filter(|it| it.pick.basis == Basis::Kernels).count();
        let of = |pick: fn(&TunedTask) -> Option<&Pick>| {
            tasks.iter().filter_map(pick).filter(|it| it.basis == Basis::Belief).count()
        };
        let (picked, best) = (of(|it| Some(&it.pick)), of(|it| it.nccl_best.as_ref()));
        let plus = tasks.iter().filter(|it| it.mscclpp.is_some()).count();
        out.push_str("<h3 id=\"how-sure\">How sure the times are</h3>\n<dl>\n");
        let measured = tasks.iter().filter(|it| it.is_measured()).count();
        if measured > 0 {
            let _ = writeln!(
                out,
                "<dt><span class=\"tag\">measured</span> {measured} of {} picks</dt>\n<dd>NCCL itself on the \
                 GPUs of this cluster; all measurements are in nccl/measured.csv.</dd>",
                tasks.len()
            );
        }
        let _ = writeln!(
            out,
            "<dt><span class=\"tag\">run</span> {run} of {} picks</dt>\n\
             <dd>The program as it is laid out on thread blocks, or NCCL's ring or tree, run on the \
             network by NCCL's constants. An estimate: NCCL's own rings and trees come out within 15% \
             of NCCL's own model.</dd>\n\
             <dt><span class=\"tag\">belief</span> {picked} of {} picks, {best} of NCCL's best</dt>\n\
             <dd>What NCCL's own model expects of itself (NVLS, CollNet), and at least what its traffic \
             takes on the links.</dd>\n\
             <dt><span class=\"tag\">H200</span> {plus} MSCCL++ picks</dt>\n\
             <dd>The plan run with terms that were measured on one H200; links by their data sheets. \
             Less sure on any other GPU.</dd>\n\
             <dt>bound</dt>\n<dd>The least time anything could take on these links, proved; no runtime's \
             overhead is in it, so at small sizes nothing comes near.</dd>\n</dl>",
            tasks.len(),
            tasks.len()
        );
    }
}

fn words(span: Option<Span>) -> String {
    span.map_or_else(
        || "–".to_owned(),
        |it| format!("<strong>{:.2}</strong> ({:.2} to {:.2})", it.mean, it.least, it.most),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_geometric() {
        let found = span([0.5, 2.0, 8.0].into_iter()).unwrap();
        assert_eq!((found.least, found.most), (0.5, 8.0));
        assert!((found.mean - 2.0).abs() < 1e-12);
        assert_eq!(span(std::iter::empty()), None);
    }
}
