//! [`Reason`]: why a call is left to the library. Small enough to be made on the call path; its
//! text is for logs.

use crate::table::TableErrorKind;

/// Why the library decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    #[error("no table is in use; give the runtime a plan")]
    NoTable,
    #[error("the table was refused: {0}; {remedy}", remedy = .0.remedy())]
    Refused(TableErrorKind),
    #[error("the table has nothing for this network; make a plan for it")]
    OtherNetwork,
    #[error("the ranks agreed to leave the table, as the network changed; make a plan for it")]
    Left,
    #[error("the table has nothing for this collective on so many ranks; add it to the plan")]
    NoEntry,
    #[error("the table has nothing near this size; add it to the plan")]
    NoSizeNear,
}
