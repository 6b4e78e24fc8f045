//! The program files that Motet reads and writes.
//!
//! - [`program_json`]: Motet's own, which holds everything a program is.
//! - [`msccl_xml`]: what MSCCL runtimes and RCCL execute.
//! - [`mscclpp_json`]: what MSCCL++ executes.
//!
//! [`read_any`] tells them apart by their content. Foreign files come as [`Imported`], with the
//! reader's findings and the places of transfers.

pub mod imported;
pub mod msccl_xml;
pub mod mscclpp_json;
pub mod program_json;

use std::fmt;
use std::str::FromStr;

use motet_net::formats::ReadError;
use motet_net::node::UnknownName;

use crate::diagnostic::Report;
pub use imported::{Imported, Origin, Origins, Place};

/// A format of program files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProgramFormat {
    Motet,
    Msccl,
    Mscclpp,
}

impl ProgramFormat {
    pub const ALL: [Self; 3] = [Self::Motet, Self::Msccl, Self::Mscclpp];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Motet => "motet",
            Self::Msccl => "msccl",
            Self::Mscclpp => "mscclpp",
        }
    }

    /// The format of `text` by what it looks like; `None` if it is neither XML nor JSON.
    #[must_use]
    pub fn detect(text: &str) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        match text.chars().next()? {
            '<' => Some(Self::Msccl),
            '{' if text.contains(&format!("\"{}\"", program_json::KEY)) => Some(Self::Motet),
            '{' => Some(Self::Mscclpp),
            _ => None,
        }
    }
}

impl fmt::Display for ProgramFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ProgramFormat {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|it| it.name() == text)
            .ok_or_else(|| UnknownName::new("program format", text, Self::ALL.map(Self::name)))
    }
}

/// Reads a program file of any format.
pub fn read_any(text: &str) -> Result<(ProgramFormat, Imported), ReadError> {
    let format = ProgramFormat::detect(text).ok_or_else(|| {
        ReadError::new("the file is neither XML nor JSON")
            .with_remedy("give a Motet program, MSCCL XML or an MSCCL++ plan")
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let imported = match format {
        ProgramFormat::Motet => Imported {
            program: program_json::read(text)?,
            // Its findings name transfers by the numbers they have in the file.
            origins: Origins::new("transfer"),
            report: Report::default(),
        },
        ProgramFormat::Msccl => msccl_xml::read(text)?,
        ProgramFormat::Mscclpp => mscclpp_json::read(text)?,
    };
    Ok((format, imported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart() {
        let detect = ProgramFormat::detect;
        assert_eq!(detect("\u{feff} \n<algo/>"), Some(ProgramFormat::Msccl));
        assert_eq!(detect("{\"name\": 1, \"motet_program\": 1}"), Some(ProgramFormat::Motet));
        assert_eq!(detect("{\"name\": \"x\", \"gpus\": []}"), Some(ProgramFormat::Mscclpp));
        assert_eq!(detect("name = 1"), None);
        assert_eq!(detect(""), None);
        assert!(read_any("name = 1").is_err());
        for format in ProgramFormat::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        assert!("xml".parse::<ProgramFormat>().is_err());
    }
}
