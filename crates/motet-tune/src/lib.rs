//! From a cluster to a *plan*: for every collective and size, the program or NCCL algorithm that is
//! fastest on this network, with its knobs, as files that NCCL, MSCCL and MSCCL++ load.
//!
//! This is what `motet plan` runs. Start reading at [`plan::make()`], which goes through all of it:
//! candidate programs from the synthesizer ([`plan::candidates`]), each laid out as the file that a
//! runtime loads ([`layouts`]), priced beside NCCL ([`plan::tune`](mod@plan::tune)), and the settings of
//! the communicator that suit all tasks together ([`plan::communicator`]).
//!
//! - [`plan`]: plans: how they are made, what they hold, how they look on disk.
//! - [`measure`]: plans from measurements instead: NCCL's settings tried out on the machine.
//! - [`sockets`]: plans for the executor, of programs timed between processes.
//! - [`layouts`]: programs laid out on thread blocks as MSCCL's executor would run them; what is timed is
//!   the file read back.
//! - [`space`], [`profile`], [`search`]: a finite set of settings, whatever says how long each of them
//!   takes, and methods that find the best with few tries.
//! - [`mod@within`]: the best program that a runtime can load, for `motet synth --for`.
//! - [`sketch`]: which links and peers a program may use, from the network alone.
//! - [`mod@calibrate`]: cost models held against measurements, and fitted to them.
//! - [`clusters`]: the clusters that *TuCCL* was evaluated on.

pub mod calibrate;
pub mod clusters;
pub mod layouts;
pub mod measure;
pub mod plan;
pub mod profile;
pub mod search;
pub mod sketch;
pub mod sockets;
pub mod space;
pub mod within;
