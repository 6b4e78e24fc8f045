//! [`Error`]: a failed request to a switch: which switch, the request, the answer, and what to do about it.

use motet_units::Duration;

use crate::driver::PortState;
use crate::layout::Cross;

/// A request that a switch did not carry out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("switch `{switch}` at {address}: {asked}: {problem}. {}", problem.remedy())]
pub struct Error {
    pub switch: String,
    pub address: String,
    /// What it was asked to do, in the words of its protocol.
    pub asked: String,
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("it cannot be reached ({0})")]
    Unreachable(String),
    #[error("it does not let us in ({0})")]
    Login(String),
    #[error("no answer within {0}")]
    TimedOut(Duration),
    /// It refused; the text is its own.
    #[error("it answered “{0}”")]
    Rejected(String),
    /// Its answer violates the protocol or is not understood.
    #[error("its answer makes no sense: {0}")]
    Garbled(String),
    #[error("port {number} does not exist; it has ports 0 to {}", ports.saturating_sub(1))]
    NoSuchPort { number: u32, ports: u32 },
    #[error("the circuit {0} is of another switch")]
    OtherSwitch(String),
    #[error("port {0} would be in two circuits")]
    Twice(u32),
    #[error("port {number} is taken by {by}")]
    Taken { number: u32, by: String },
    #[error("port {number} is {state}")]
    Port { number: u32, state: PortState },
    /// It reported success, but reading back shows a different state.
    #[error("it is not done: {0}")]
    NotDone(Box<Difference>),
    #[error("{0}")]
    Config(String),
}

impl Problem {
    /// What one can do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => {
                "Check that it is on, that the address is right and that nothing in between blocks it"
            }
            Self::Login(_) => {
                "Check the user and the password, key or certificate files of this `[[switch]]`"
            }
            Self::TimedOut(_) => {
                "Look at the switch's own log; a slow one needs a longer `timeout`"
            }
            Self::Rejected(_) => {
                "Look up that answer in the switch's manual; nothing of it is taken for done"
            }
            Self::Garbled(_) => "Check that `driver` is right for this device and its firmware",
            Self::NoSuchPort { .. } => "Check `ports` of this `[[switch]]`",
            Self::OtherSwitch(_) => "This is a mistake in Motet: please report it",
            Self::Twice(_) => "Delete the circuit that the port is in first",
            Self::Taken { .. } => "Delete what takes it, or leave this port out",
            Self::Port { .. } => "Repair or enable it on the switch, or leave it out",
            Self::NotDone(_) => "Look at the switch's own log and at who else configures it",
            Self::Config(_) => "Correct this `[[switch]]`",
        }
    }

    /// Whether it is unknown if the switch has done what it was asked, because it did not answer or its
    /// answer cannot be trusted.
    #[must_use]
    pub const fn leaves_doubt(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::TimedOut(_) | Self::Garbled(_) | Self::Login(_))
    }
}

/// How the state read back differs from the wanted one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Cross-connections that were to be made and are not there.
    pub missing: Vec<Cross>,
    /// Cross-connections that were to be removed and are still there.
    pub left: Vec<Cross>,
    /// Cross-connections that were to stay and are gone.
    pub lost: Vec<Cross>,
}

impl Difference {
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.missing.is_empty() && self.left.is_empty() && self.lost.is_empty()
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            ("not connected:", &self.missing),
            ("still connected:", &self.left),
            ("gone though it was to stay:", &self.lost),
        ];
        let mut between = "";
        for (what, crosses) in parts.into_iter().filter(|it| !it.1.is_empty()) {
            let list: Vec<String> = crosses.iter().take(4).map(ToString::to_string).collect();
            write!(f, "{between}{what} {}", list.join(", "))?;
            if crosses.len() > 4 {
                write!(f, " and {} more", crosses.len() - 4)?;
            }
            between = "; ";
        }
        Ok(())
    }
}
