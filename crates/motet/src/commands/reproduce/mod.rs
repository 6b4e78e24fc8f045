//! `motet reproduce`: tables and figures of the papers that Motet builds on, ours beside what was
//! published. `docs/papers.md` says what each paper proposes and what came out.
//!
//! An experiment is a row of [`EXPERIMENTS`]; each has a file of its own.

mod claims;
mod opus;
mod report;
mod tuccl;
mod wan;

use crate::args::reproduce::ReproduceArgs;
use crate::failure::{Failure, Status};
use crate::printer::Printer;

/// Something published that can be run again.
struct Experiment {
    name: &'static str,
    about: &'static str,
    run: fn(&ReproduceArgs, &mut Printer) -> Result<Status, Failure>,
}

const EXPERIMENTS: [Experiment; 18] = [
    Experiment {
        name: "wan-fig4a",
        about: "Xiong et al., figure 4a: AllGather on 8 GPUs over two regions, by chunk size",
        run: |args, printer| wan::figure(&wan::FIG_4A, args, printer),
    },
    Experiment {
        name: "wan-fig4b",
        about: "Xiong et al., figure 4b: the same by WAN delay",
        run: |args, printer| wan::figure(&wan::FIG_4B, args, printer),
    },
    Experiment {
        name: "wan-fig5a",
        about: "Xiong et al., figure 5a: AllGather on 16 GPUs over two regions, by chunk size",
        run: |args, printer| wan::figure(&wan::FIG_5A, args, printer),
    },
    Experiment {
        name: "wan-fig5b",
        about: "Xiong et al., figure 5b: the same by WAN delay",
        run: |args, printer| wan::figure(&wan::FIG_5B, args, printer),
    },
    Experiment {
        name: "wan-sensitivity",
        about: "Xiong et al.: for which of the assumptions that the paper leaves open its results come out",
        run: wan::sensitivity,
    },
    Experiment {
        name: "tuccl-fig3",
        about: "TuCCL, figure 3: plans over MSCCL and NCCL on 1 to 3 V100 servers, by size",
        run: |args, printer| tuccl::gains(&tuccl::FIG_3, args, printer),
    },
    Experiment {
        name: "tuccl-fig4",
        about: "TuCCL, figure 4: the same on A100 servers",
        run: |args, printer| tuccl::gains(&tuccl::FIG_4, args, printer),
    },
    Experiment {
        name: "tuccl-others",
        about: "the same for ReduceScatter, Broadcast, Reduce and AllToAll on all of these servers",
        run: |args, printer| tuccl::gains(&tuccl::OTHERS, args, printer),
    },
    Experiment {
        name: "tuccl-table2",
        about: "TuCCL, table II and figure 5a: how busy links are, by default and under the plan",
        run: tuccl::links,
    },
    Experiment {
        name: "tuccl-fig5b",
        about: "TuCCL, figure 5b: what a search costs against the grid, by cluster",
        run: tuccl::cost,
    },
    Experiment {
        name: "tuccl-fig6",
        about: "TuCCL, figure 6: program alone, knobs alone and both on V100 servers",
        run: |args, printer| tuccl::ablation(&tuccl::FIG_6, args, printer),
    },
    Experiment {
        name: "tuccl-fig7",
        about: "TuCCL, figure 7: the same on A100 servers",
        run: |args, printer| tuccl::ablation(&tuccl::FIG_7, args, printer),
    },
    Experiment {
        name: "tuccl-fig8",
        about: "TuCCL, figures 8 and 9: training throughput of three models",
        run: tuccl::training,
    },
    Experiment {
        name: "opus-fig3",
        about: "Opus, figure 3: who communicates when on a rail, for two and three stages",
        run: opus::fig3,
    },
    Experiment {
        name: "opus-fig4",
        about: "Opus, figure 4: windows between parallelisms, and how many a 405B step has",
        run: opus::fig4,
    },
    Experiment {
        name: "opus-fig7",
        about: "Opus, figure 7: dollars and watts of DGX H200 clusters, by network",
        run: opus::fig7,
    },
    Experiment {
        name: "opus-fig8",
        about: "Opus, figure 8: the step over the switching delay, with and without provisioning",
        run: opus::fig8,
    },
    Experiment {
        name: "opus-table3",
        about: "Opus, table 3: how many GPUs optical switches of each technology reach",
        run: opus::table3,
    },
];

pub(crate) fn run(args: &ReproduceArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let names = || EXPERIMENTS.iter().map(|it| it.name).collect::<Vec<_>>();
    let Some(name) = &args.name else {
        if printer.is_json() {
            printer.json(&names())?;
        } else {
            let line = |it: &Experiment| format!("{:16} {}\n", it.name, it.about);
            printer.out(&EXPERIMENTS.iter().map(line).collect::<String>())?;
        }
        return Ok(Status::Done);
    };
    match EXPERIMENTS.iter().find(|it| it.name == name) {
        Some(experiment) => (experiment.run)(args, printer),
        None => Err(Failure::unreadable(format!("there is no experiment `{name}`"))
            .with_remedy(format!("the experiments are {}", names().join(", ")))),
    }
}
