//! [`InNetwork`]: what programs may ask of a switch.
//!
//! NVLink switches since Hopper (NVLS) and InfiniBand switches (SHARP) copy one stream to several
//! links and add several streams up, if whoever sends asks for it. A program asks by naming the
//! switch's registers (`Buffer::Switch` in `motet-collective`). This is not what
//! [`Node::multicast`](crate::Node) and [`Node::reduces`](crate::Node) say: those are of switches that do so by
//! themselves with whatever passes, which no program has to know.

use std::fmt;
use std::str::FromStr;

use crate::unknown_name::UnknownName;

/// What programs may ask of a switch; nothing, unless the network says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InNetwork {
    /// It copies what one device sends to several (`multimem.st`).
    pub copies: bool,
    /// It adds up what several devices hold for the one that asks (`multimem.ld_reduce`).
    pub reduces: bool,
    /// It passes what it added up straight to several devices, as SHARP does. NVLS does not: the
    /// sum goes to the device that asked, which sends it up again.
    pub spreads: bool,
}

impl InNetwork {
    /// Nothing: a switch that only forwards.
    pub const NONE: Self = Self { copies: false, reduces: false, spreads: false };
    /// What NVLink switches do since Hopper.
    pub const NVLS: Self = Self { copies: true, reduces: true, spreads: false };

    /// The words of the cluster file.
    pub const WORDS: [&'static str; 3] = ["copy", "reduce", "spread"];

    /// Whether programs can ask for anything at all.
    #[must_use]
    pub fn is_any(self) -> bool {
        self != Self::NONE
    }

    /// Whether a switch that does this does all of `needs`.
    #[must_use]
    pub const fn covers(self, needs: Self) -> bool {
        (self.copies || !needs.copies)
            && (self.reduces || !needs.reduces)
            && (self.spreads || !needs.spreads)
    }

    /// What it does, as words of the cluster file.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let does = [self.copies, self.reduces, self.spreads];
        Self::WORDS.into_iter().zip(does).filter(|it| it.1).map(|it| it.0)
    }

    /// The same and what `word` says.
    pub fn with(self, word: &str) -> Result<Self, UnknownName> {
        match word {
            "copy" => Ok(Self { copies: true, ..self }),
            "reduce" => Ok(Self { reduces: true, ..self }),
            "spread" => Ok(Self { spreads: true, ..self }),
            _ => Err(UnknownName {
                what: "service of a switch",
                name: word.to_owned(),
                known: Self::WORDS.join(", "),
            }),
        }
    }
}

/// The words, with blanks between them.
impl fmt::Display for InNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().collect::<Vec<_>>().join(" "))
    }
}

impl FromStr for InNetwork {
    type Err = UnknownName;
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        text.split_whitespace().try_fold(Self::NONE, Self::with)
    }
}
