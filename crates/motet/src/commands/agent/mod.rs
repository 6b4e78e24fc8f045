//! `motet agent`: a policy for every collective call, judged in scenarios (`eval`) and shown (`show`).

pub(crate) mod eval;
pub(crate) mod show;
