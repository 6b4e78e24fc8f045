//! [`SimConfig`]: how a simulated switch behaves.

use std::path::PathBuf;

use motet_rails::optical::Delay;
use motet_rails::scale::{KNOWN, OpticalSwitch};
use motet_units::Duration;
use serde::{Deserialize, Serialize};

use super::faults::FaultRates;

/// The `[switch.sim]` table of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimConfig {
    /// A switch of Opus' Table 3 by its technology or maker ("Piezo", "Polatis"). It is the default for the
    /// optics' time and the number of ports.
    pub technology: Option<String>,
    /// The time from the order until the optics begin to move.
    pub command: Option<Duration>,
    /// The time for which mirrors, or other moving parts, move. Overrides that of the technology.
    pub optics: Option<Duration>,
    /// The time until transceivers have re-established their links.
    pub link_up: Option<Duration>,
    /// A file with the circuits, so that they outlive this process as those of a real switch do. It must
    /// exist: `[]` is a switch without circuits. While it does not exist or cannot be read, the switch cannot
    /// be reached.
    pub state: Option<PathBuf>,
    pub retention: Retention,
    pub faults: FaultRates,
}

/// What happens to circuits when the switch loses power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retention {
    /// They are lost, as with mirrors that fall back.
    #[default]
    Loses,
    /// They stay, as with latching switches and robots.
    Keeps,
}

impl SimConfig {
    /// The switch of Opus' Table 3 that it simulates.
    ///
    /// # Errors
    ///
    /// If there is none of that name.
    pub fn like(&self) -> Result<Option<OpticalSwitch>, String> {
        let Some(name) = &self.technology else { return Ok(None) };
        let same = |it: &&OpticalSwitch| {
            it.technology.eq_ignore_ascii_case(name) || it.maker.eq_ignore_ascii_case(name)
        };
        match KNOWN.iter().find(same) {
            Some(it) => Ok(Some(*it)),
            None => {
                let known: Vec<&str> = KNOWN.iter().map(|it| it.technology).collect();
                Err(format!("no technology is called `{name}`; there are {}", known.join(", ")))
            }
        }
    }

    /// How long a change takes.
    ///
    /// # Errors
    ///
    /// If the technology is not known.
    pub fn delay(&self) -> Result<Delay, String> {
        let optics = self.like()?.map(|it| it.reconfiguration);
        Ok(Delay {
            command: self.command.unwrap_or_default(),
            optics: self.optics.or(optics).unwrap_or_default(),
            link_up: self.link_up.unwrap_or_default(),
        })
    }
}
