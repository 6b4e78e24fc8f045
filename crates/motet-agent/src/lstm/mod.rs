//! Agent-2's network: a small LSTM that reads one call after the other and gives each action of the next a probability.
//!
//! - [`input`]: its input for a call: the state's row, and the result of the previous call;
//! - [`features`]: the features of actions, by which one network serves every action space;
//! - [`memory`]: the state that it keeps between calls;
//! - [`net`]: its weights; [`forward`] and [`backward`] run it and find its gradients;
//! - [`odds`]: the probabilities that it gives to the actions of a space;
//! - [`mind`]: all of that together; [`policy`]: as a policy among others; [`mod@file`]: its file.
//!
//! ```text
//! state (124) + last call ──► encoder (tanh) ──► LSTM ──► [h, e] ──► rows of logits, shared + the gate's expert ──► odds
//!                                                                └─► value
//! ```
//!
//! **By hand, in `f32` with `libm`.** Ranks that choose differently hang, so two machines must find the same bits.
//! candle's matrix kernels depend on the processor and its generator cannot be seeded; burn needs a newer compiler
//! than the workspace; both add well over a hundred crates for what is four loops here. Sums run in one written
//! order, products are not fused, and exponentials are `libm`'s.
//!
//! Next: [`train`](crate::train), which finds the weights.

pub mod backward;
pub mod features;
pub mod file;
pub mod forward;
pub mod input;
mod math;
pub mod memory;
pub mod mind;
pub mod net;
pub mod odds;
pub mod policy;
pub(crate) mod text;

pub use features::{Catalogue, Nominal};
pub use file::{PolicyFile, Variant};
pub use forward::NetStep;
pub use input::Input;
pub use memory::{Ledger, Memory, Seen};
pub use mind::{Facing, Mind};
pub use net::{Net, Shape};
pub use odds::{Faced, Odds};
pub use policy::Lstm;
pub use text::{PolicyError, PolicyErrorKind};
