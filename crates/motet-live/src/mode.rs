//! [`Mode`]: what a tuner is told to do for a collective, as text that people type and files hold:
//! `default` (NCCL by itself), `plan` (as the plan says), or `algorithm/protocol[/channels[/chunk]]`.

use std::fmt;
use std::str::FromStr;

use motet_runtime::{Algorithm, Forced, Protocol};
use serde::{Deserialize, Serialize};

/// What a tuner is told to do for a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Mode {
    /// NCCL by itself, in spite of any plan.
    Default,
    /// Nothing is forced: the tuner does as its plan says.
    Plan,
    Forced {
        algorithm: Algorithm,
        protocol: Protocol,
        /// `None` is NCCL's own.
        channels: Option<u32>,
        chunk: Option<u32>,
    },
}

impl Mode {
    /// For the control file; `None` releases the collective to the plan.
    #[must_use]
    pub fn forced(self) -> Option<Forced> {
        match self {
            Self::Plan => None,
            Self::Default => Some(Forced::default()),
            Self::Forced { algorithm, protocol, channels, chunk } => {
                let (algorithm, protocol) = (Some(algorithm), Some(protocol));
                Some(Forced { algorithm, protocol, channels, chunk })
            }
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Plan => f.write_str("plan"),
            Self::Forced { algorithm, protocol, channels, chunk } => {
                write!(f, "{}/{}", algorithm.name(), protocol.name())?;
                if channels.is_some() || chunk.is_some() {
                    write!(f, "/{}", channels.unwrap_or(0))?;
                }
                chunk.map_or(Ok(()), |it| write!(f, "/{it}"))
            }
        }
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not `default`, `plan` or `algorithm/protocol[/channels[/chunk]]`")
        };
        match text {
            "default" => return Ok(Self::Default),
            "plan" => return Ok(Self::Plan),
            _ => {}
        }
        let mut parts = text.split('/');
        let algorithm = parts.next().and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
        let protocol = parts.next().and_then(|it| it.parse().ok()).ok_or_else(wrong)?;
        let mut number = || match parts.next() {
            Some(it) => {
                it.parse().map(|it: u32| Some(it).filter(|it| *it > 0)).map_err(|_| wrong())
            }
            None => Ok(None),
        };
        let (channels, chunk) = (number()?, number()?);
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Self::Forced { algorithm, protocol, channels, chunk })
    }
}

impl TryFrom<String> for Mode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Mode> for String {
    fn from(mode: Mode) -> Self {
        mode.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["default", "plan", "ring/ll", "tree/simple/4", "pat/simple/0/65536"] {
            assert_eq!(text.parse::<Mode>().unwrap().to_string(), text);
        }
        assert_eq!("ring/ll/0".parse::<Mode>().unwrap().to_string(), "ring/ll");
        for text in ["", "ring", "ring/", "ring/ll/x", "ring/ll/1/2/3", "star/ll", "ring/ll/-1"] {
            assert!(text.parse::<Mode>().is_err(), "{text}");
        }
    }
}
