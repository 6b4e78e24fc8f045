//! The analysis of Opus (Ding, Ouyang et al.) §3 and §4.2, ours beside what the paper says: `fig3` is who communicates when, `fig4`
//! the windows between, `fig8` what switching in them costs; `table3` how far optical switches reach, `fig7` what they save.

mod fig3;
mod fig4;
mod fig7;
mod fig8;
mod table3;

pub(super) use fig3::fig3;
pub(super) use fig4::fig4;
pub(super) use fig7::fig7;
pub(super) use fig8::fig8;
pub(super) use table3::table3;

/// What the experiments with the measured job assume, where the paper is silent.
const SILENT: [&str; 3] = [
    "Llama 3 8B on 4 x 4 A100, TP 4, FSDP 2, PP 2, 1F1B, micro-batches of 2, as in §3.1; sequences of 8192 tokens, 8 micro-batches and compute \
     at 40 % of the peak are ours",
    "parameters are gathered once a step and gradients reduced once, behind the last backward pass and before it sends, and activations are exchanged for \
     gradients, as PyTorch did in 2025 under pipeline parallelism",
    "one NIC of 200 Gbit/s per GPU in two ports; NCCL's rings on ideal links; compute is not slowed down by communication beside it; the host \
     takes 0.2 ms for a call at the end of a step (measured, on another host) and is ahead of the GPU else",
];
