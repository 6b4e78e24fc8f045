//! The `env` file of each runtime: what to set so that a job loads the plan, to be read by a shell
//! (`source plan/msccl/env`). docs/deploy.md says the same in words, with versions and how to go back.

use super::{Plan, Setup};

/// A shell line that puts the folder of the file into `here`, so that paths are absolute wherever the plan lies.
const HERE: &str = "here=$(cd \"$(dirname \"${BASH_SOURCE[0]:-$0}\")\" && pwd)\n";

/// Shell lines for the settings that a communicator is made with, where they are not NCCL's own.
fn communicator(setup: &Setup) -> String {
    let threads = setup.threads.map(|it| format!("export NCCL_NTHREADS={it}\n"));
    let buffer = setup.buffer.map(|it| format!("export NCCL_BUFFSIZE={}\n", it.get()));
    threads.into_iter().chain(buffer).collect()
}

/// For NCCL with Motet's plugin; with NVIDIA's example tuner in comments.
#[must_use]
pub fn nccl(plan: &Plan) -> String {
    format!(
        "# NCCL 2.21 or later with Motet's plugin (docs/nccl-plugin.md). If NCCL does not find libmotet_nccl.so, put its\n\
         # whole path into NCCL_TUNER_PLUGIN. To go back: export NCCL_TUNER_PLUGIN=none\n\
         # Or, without it, NVIDIA's example tuner of the same NCCL release (2.27.5 or later):\n\
         #   export NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=\"$here/tuner.csv\"\n\
         {HERE}\
         export NCCL_TUNER_PLUGIN=\"${{NCCL_TUNER_PLUGIN:-libmotet_nccl.so}}\"\n\
         export MOTET_PLAN=\"$(dirname \"$here\")\"\n\
         {}",
        communicator(&plan.setup)
    )
}

/// For MSCCL's executor.
#[must_use]
pub fn msccl(plan: &Plan) -> String {
    format!(
        "# MSCCL's executor (Azure/msccl-executor-nccl) in place of NCCL; one process per GPU.\n\
         # To go back: export NCCL_MSCCL_ENABLE=0\n\
         {HERE}\
         export NCCL_MSCCL_ENABLE=1\n\
         export MSCCL_ALGO_DIR=\"$here/algorithms\"\n\
         {}",
        communicator(&plan.setup)
    )
}

/// For MSCCL++.
#[must_use]
pub fn mscclpp() -> String {
    format!(
        "# MSCCL++ 0.8 loads every plan of a folder; 0.9 and later take plans that the job registers\n\
         # (docs/deploy.md has the lines). To go back: do not preload libmscclpp_nccl.so\n\
         {HERE}\
         export MSCCLPP_EXECUTION_PLAN_DIR=\"$here/plans\"\n"
    )
}
