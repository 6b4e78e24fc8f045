//! Sketches: which links and peers programs may use, as files and made from a network alone.
//!
//! A [`Sketch`] is a mask over links with the reasons for it ([`constraints`]); it is all that synthesis
//! is told, as [`Task::allowed`](motet_synth::Task). Everything about sketches is here, above synthesis,
//! because synthesis itself needs no more than the mask.
//!
//! - [`constraints`]: the type and what a file may say; `file.rs`: reading and writing that text;
//!   [`rules`]: link rules; [`connections`]: which GPU uses which NIC and which NICs talk to each other;
//!   [`locality`]: servers, their ports, and how far a GPU is from them.
//! - [`candidates`]: sketches worth trying on a network, made by the three stages of *TuCCL* §III-B:
//!
//! 1. [`bind()`]: each GPU to the NIC nearest to it.
//! 2. [`group()`]: NICs of different servers into groups of like bandwidth.
//! 3. Within a group every connecting GPU to every one of another server: the NIC-to-NIC picture
//!    becomes a GPU-to-GPU one ([`transform`]), which is what TACCL wants.
//!
//! [`sketches`] gives candidates from all links to one connecting GPU for each server; the tuner
//! takes the one whose program is the fastest. What each keeps and removes is its [`Guidance`].
//! [`prune()`] makes one of them and says what each stage left; `motet net sketch` writes it.
//! [`taccl`] writes and reads them as TACCL's sketch files; [`experiment`] shows what fewer
//! connections are good for.
//!
//! What the paper's guidance sketches hold, and what of it has a meaning here:
//! - *"prioritize NVLink paths for gradients > 10 MB"*: the candidate `nvlink` forbids, above 10 MB,
//!   the links by way of CPUs inside servers that NVLink joins. A bound sketch forbids them always.
//! - *"chunk sizes aligned to PCIe packets"*: nothing. How finely data is cut is the synthesizer's
//!   choice and the buffer size a knob, of which every value is a multiple of 256 bytes (PCIe's usual
//!   largest payload); packets have no cost of their own in the simulator.
//! - *"congestion scores"* are named once and never defined; least variance is the rule.

pub mod bind;
pub mod candidates;
pub mod connections;
pub mod constraints;
pub mod experiment;
mod file;
pub mod group;
pub mod guidance;
pub mod locality;
pub mod rules;
pub mod stages;
pub mod taccl;
pub mod transform;

pub use bind::bind;
pub use candidates::{Candidate, LARGE, distinct, sketches};
pub use connections::{Connections, Group};
pub use constraints::{Above, Sketch};
pub use group::{PortGroup, group};
pub use guidance::{Guidance, Reduction};
pub use locality::Servers;
pub use rules::LinkRules;
pub use stages::{Connecting, NotPruned, Pruned, Stage, prune};
