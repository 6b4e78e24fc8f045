//! The files of a plan, and where it comes from.

use std::fmt::Write as _;

use motet_tune::plan::files::ProgramFile;
use motet_tune::plan::folder::VERSION;
use motet_tune::plan::folder::{CHECKSUMS, MANIFEST, NETWORK, TABLE, TUNER};
use motet_tune::plan::{Plan, Runtime};
use motet_units::Bytes;

use super::{Report, counted, link};
use crate::plot::escaped;

impl Report<'_> {
    pub(super) fn origin(&self, programs: &[ProgramFile], out: &mut String) {
        self.files(programs, out);
        self.made(out);
        self.left_out(out);
    }

    fn files(&self, programs: &[ProgramFile], out: &mut String) {
        let any = |runtime: Runtime| programs.iter().any(|it| it.runtime == runtime);
        out.push_str("<section id=\"files\">\n<h2>Files</h2>\n<ul>\n");
        let mut file = |path: &str, about: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "<li>{}: {about}</li>", link(path, path));
        };
        file("nccl/env", "what to set for NCCL with Motet's plugin, or NVIDIA's example tuner");
        file(TUNER, "the table that it reads");
        if any(Runtime::Msccl) {
            file("msccl/env", "what to set for MSCCL's executor");
        }
        if any(Runtime::Mscclpp) {
            file("mscclpp/env", "what to set for MSCCL++");
        }
        file(TABLE, "what the run-time half (<code>motet-runtime</code>) looks up");
        file(MANIFEST, "every task with all that was found and compared");
        file(NETWORK, "the network that the plan is for");
        file("sketches/", "which links and peers programs were allowed");
        file(CHECKSUMS, "of every file; <code>motet plan check</code> proves them and the times");
        out.push_str("</ul>\n");
        if !programs.is_empty() {
            self.programs(programs, out);
        }
        out.push_str("</section>\n");
    }

    fn programs(&self, programs: &[ProgramFile], out: &mut String) {
        let _ = writeln!(
            out,
            "<details>\n<summary>{}</summary>\n<div class=\"scroll\" tabindex=\"0\" \
             role=\"region\" aria-label=\"programs\">\n<table>\n<thead><tr><th scope=\"col\" \
             class=\"text\">file</th><th scope=\"col\" class=\"text\">runtime</th>\
             <th scope=\"col\">from</th><th scope=\"col\">to</th><th scope=\"col\" \
             class=\"text\">made by</th></tr></thead>\n<tbody>",
            counted(programs.len(), "program")
        );
        for run in programs {
            let about = self.plan.candidate(&run.way).map_or("", |it| it.about.as_str());
            // The last byte before the next file's.
            let to = Bytes::new(run.most.get().saturating_add(1));
            let _ = writeln!(
                out,
                "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td>\
                 <td>below {to}</td><td class=\"text\">{}</td></tr>",
                link(&run.path(), &run.name),
                run.runtime.name(),
                run.least,
                escaped(about)
            );
        }
        out.push_str("</tbody>\n</table>\n</div>\n</details>\n");
    }

    fn made(&self, out: &mut String) {
        let Plan { signature, ranks, nodes, seed, margin_percent, most_blocks, setup, .. } =
            self.plan;
        let threads = setup.threads.map(|it| format!("NCCL_NTHREADS={it}"));
        let buffer = setup.buffer.map(|it| format!("NCCL_BUFFSIZE={}", it.get()));
        let set: Vec<String> = threads.into_iter().chain(buffer).collect();
        let set = match set.is_empty() {
            true => "NCCL's own threads and buffers".to_owned(),
            false => format!("<code>{}</code>, which the env files set", set.join(" ")),
        };
        out.push_str("<section id=\"origin\">\n<h2>Origin</h2>\n<dl>\n");
        let mut row = |name: &str, text: &str| {
            let _ = writeln!(out, "<dt>{name}</dt>\n<dd>{text}</dd>");
        };
        row("command", &format!("<code>{}</code>", escaped(&self.maker.command)));
        let motet = escaped(&self.maker.motet);
        row("versions", &format!("Motet {motet}; format {VERSION} of a plan's folder"));
        row("seed", &seed.to_string());
        let servers = counted(*nodes as usize, "node");
        let network = format!("<code>{signature}</code>, {ranks} ranks, {servers} as NCCL counts");
        row("network", &network);
        let margin = "a program must gain more over NCCL's best to be picked";
        row("margin", &format!("{margin_percent}%: {margin}"));
        row("thread blocks", &format!("at most {most_blocks} of a GPU's for a program"));
        row("communicator", &set);
        out.push_str("</dl>\n</section>\n");
    }

    fn left_out(&self, out: &mut String) {
        let all = &self.plan.left_out;
        if all.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "<details>\n<summary>Left out, and why: {}</summary>\n<ul>",
            counted(all.len(), "program")
        );
        for (name, why) in all {
            let _ = writeln!(out, "<li><code>{}</code>: {}</li>", escaped(name), escaped(why));
        }
        out.push_str("</ul>\n</details>\n");
    }
}
