//! The model against what real NCCLs were seen to do: a published TUNING log, published GRAPH
//! lines, graph dumps, and the choices that follow from them; then laws that must hold anywhere.

mod boxes;
mod choices;
mod h200;
mod laws;
mod log;
