//! [`PolicyFile`]: a trained network as text. The format, line by line:
//!
//! ```text
//! motet-policy 1
//! encoding 1 0123456789abcdef
//! actions fedcba9876543210
//! variant recurrent last ledger experts nominal trigger
//! trained seed=1 updates=600
//! shape encoder=32 hidden=32
//! weights 43210
//! 3f8000003f800000…
//! checksum 0123456789abcdef
//! ```
//!
//! `encoding` is the version and the checksum of the [state's row](crate::state::encoding), `actions` the
//! checksum of [what actions are made of](super::features::checksum). A network that was trained on others
//! would misread its inputs, and its outputs would mean other actions, so it is refused, and the caller falls
//! back to the plan's table or NCCL's own choice. `variant` lists the parts of the policy that are on.
//! Weights are the bits of `f32`, sixteen to a line. The last line is the CRC-64/XZ of all bytes before it.
//!
//! Only exactly what [`PolicyFile::write`] writes is read, as with the run-time table, so that a policy has
//! one text.

use super::features;
use super::net::{Net, Shape};
use super::text::{self, Lines, PolicyError, PolicyErrorKind};
use crate::state::encoding;

const MAGIC: &str = "motet-policy";
const VERSION: u64 = 1;

/// Which parts of the policy are on: all of them, except in ablations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Variant {
    /// The LSTM's state is carried from call to call.
    pub recurrent: bool,
    /// The policy sees the result of the last call.
    pub last: bool,
    /// The policy sees the recent times of kernels.
    pub ledger: bool,
    /// Roles of large 3D-parallel jobs have heads of their own.
    pub experts: bool,
    /// The policy sees nominal times.
    pub nominal: bool,
    /// The policy sees the trigger's signals.
    pub trigger: bool,
}

impl Variant {
    pub const FULL: Self = Self {
        recurrent: true,
        last: true,
        ledger: true,
        experts: true,
        nominal: true,
        trigger: true,
    };

    /// Nothing is carried from call to call.
    pub const FORGETFUL: Self = Self { recurrent: false, last: false, ledger: false, ..Self::FULL };

    const fn parts(self) -> [(&'static str, bool); 6] {
        [
            ("recurrent", self.recurrent),
            ("last", self.last),
            ("ledger", self.ledger),
            ("experts", self.experts),
            ("nominal", self.nominal),
            ("trigger", self.trigger),
        ]
    }

    fn read(text: &str) -> Option<Self> {
        let has = |name: &str| text.split(' ').any(|it| it == name);
        let [recurrent, last, ledger, experts, nominal, trigger] =
            Self::FULL.parts().map(|it| has(it.0));
        let found = Self { recurrent, last, ledger, experts, nominal, trigger };
        (found.to_string() == text).then_some(found)
    }
}

impl std::fmt::Display for Variant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = self.parts();
        let on: Vec<&str> = parts.iter().filter(|it| it.1).map(|it| it.0).collect();
        f.write_str(if on.is_empty() { "plain" } else { "" })?;
        f.write_str(&on.join(" "))
    }
}

/// A trained network with what its file says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyFile {
    pub net: Net,
    pub variant: Variant,
    /// The seed of its training, and how many times training had updated the weights.
    pub seed: u64,
    pub updates: u64,
}

impl PolicyFile {
    /// The text of the policy's file.
    #[must_use]
    pub fn write(&self) -> String {
        let mut text = format!("{MAGIC} {VERSION}\n{}", self.body());
        text::seal(&mut text);
        text
    }

    /// The lines between the first and the checksum; a checkpoint has them too.
    pub(crate) fn body(&self) -> String {
        let Self { net, variant, seed, updates } = self;
        let Shape { encoder, hidden } = net.shape();
        let mut text = format!(
            "encoding {} {}\nactions {}\nvariant {variant}\ntrained seed={seed} updates={updates}\n\
             shape encoder={encoder} hidden={hidden}\n",
            encoding::VERSION,
            encoding::checksum(),
            features::checksum(),
        );
        text::put_numbers(&mut text, "weights", net.weights());
        text
    }

    /// The policy of a file's text.
    ///
    /// # Errors
    /// When the text is not exactly a policy for this encoding and these actions: see [`PolicyErrorKind`].
    pub fn read(text: &str) -> Result<Self, PolicyError> {
        text::check_version(text, MAGIC, VERSION)?;
        let mut lines = Lines::unsealed(text)?;
        lines.next("the first line")?;
        let policy = Self::read_body(&mut lines)?;
        lines.end()?;
        Ok(policy)
    }

    /// Reads what [`body`](Self::body) wrote.
    pub(crate) fn read_body(lines: &mut Lines<'_>) -> Result<Self, PolicyError> {
        lines.fits(PolicyErrorKind::OtherEncoding, "encoding", || {
            format!("{} {}", encoding::VERSION, encoding::checksum())
        })?;
        lines
            .fits(PolicyErrorKind::OtherActions, "actions", || features::checksum().to_string())?;
        let variant = lines.after("variant")?;
        let variant = Variant::read(variant).ok_or_else(|| lines.bad(variant))?;
        let [seed, updates] = lines.named("trained", ["seed", "updates"])?;
        let sizes = lines.named("shape", ["encoder", "hidden"])?;
        let [encoder, hidden] = sizes.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
        let most = Shape::MOST;
        if ![encoder, hidden].iter().all(|it| (1..=most).contains(it)) {
            let problem = format!("layers of {encoder} and {hidden} are not between 1 and {most}");
            return Err(lines.malformed(problem));
        }
        let shape = Shape { encoder, hidden };
        let weights = lines.numbers("weights", shape.layout().len())?;
        let net = Net::of(shape, weights);
        let net = net.ok_or_else(|| lines.malformed("too few weights".to_owned()))?;
        Ok(Self { net, variant, seed, updates })
    }
}

#[cfg(test)]
mod tests {
    use motet_runtime::Checksum;
    use motet_units::Seed;

    use super::*;

    fn policy() -> PolicyFile {
        let shape = Shape { encoder: 3, hidden: 2 };
        let net = Net::new(shape, Seed::new(5));
        PolicyFile { net, variant: Variant::FULL, seed: 5, updates: 12 }
    }

    fn resealed(text: &str) -> String {
        let body = &text[..text.rfind("checksum ").unwrap()];
        format!("{body}checksum {}\n", Checksum::of(body.as_bytes()))
    }

    fn refused(text: &str) -> PolicyErrorKind {
        PolicyFile::read(text).unwrap_err().kind
    }

    #[test]
    fn a_policy_comes_back_bit_by_bit() {
        let policy = policy();
        let text = policy.write();
        assert_eq!(PolicyFile::read(&text).unwrap(), policy);
        for off in 0..64 {
            let [recurrent, last, ledger, experts, nominal, trigger] =
                [1, 2, 4, 8, 16, 32].map(|it| off & it == 0);
            let variant = Variant { recurrent, last, ledger, experts, nominal, trigger };
            let other = PolicyFile { variant, ..policy.clone() };
            assert_eq!(PolicyFile::read(&other.write()).unwrap().variant, variant);
        }
    }

    #[test]
    fn damage_is_refused_with_its_kind() {
        let text = policy().write();
        assert_eq!(refused(""), PolicyErrorKind::NotAPolicy);
        assert_eq!(refused("motet-table 1\n"), PolicyErrorKind::NotAPolicy);
        assert_eq!(refused(&text[..text.len() / 2]), PolicyErrorKind::Truncated);
        let newer = text.replacen("motet-policy 1", "motet-policy 2", 1);
        assert_eq!(refused(&newer), PolicyErrorKind::NewerVersion);
        // Every single changed byte is noticed.
        for at in (0..text.len()).step_by(7) {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            if let Ok(other) = String::from_utf8(bytes) {
                assert!(PolicyFile::read(&other).is_err(), "byte {at}");
            }
        }
        let flipped = text.replacen("seed=5", "seed=6", 1);
        assert_eq!(refused(&flipped), PolicyErrorKind::Corrupt);
        assert!(PolicyFile::read(&resealed(&flipped)).is_ok());
    }

    #[test]
    fn other_encodings_and_actions_are_refused() {
        let text = policy().write();
        let change = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            refused(&resealed(&text.replacen(from, to, 1)))
        };
        let encoding = encoding::checksum().to_string();
        assert_eq!(change(&encoding, "0123456789abcdef"), PolicyErrorKind::OtherEncoding);
        assert_eq!(change("encoding 1", "encoding 2"), PolicyErrorKind::OtherEncoding);
        let actions = features::checksum().to_string();
        assert_eq!(change(&actions, "0123456789abcdef"), PolicyErrorKind::OtherActions);
        for (from, to) in [
            ("hidden=2", "hidden=3"),
            ("hidden=2", "hidden=100000"),
            ("hidden=2", "hidden=0"),
            ("encoder=3", "encoder=03"),
            ("recurrent last", "last recurrent"),
            ("variant ", "variant  "),
        ] {
            assert_eq!(change(from, to), PolicyErrorKind::Malformed, "{to}");
        }
        // NaN is no weight.
        let first = text.lines().nth(7).unwrap();
        let with_nan = text.replacen(first, &format!("7fc00000{}", &first[8..]), 1);
        assert_eq!(refused(&resealed(&with_nan)), PolicyErrorKind::Malformed);
        let longer = text.replacen("checksum", "00000000\nchecksum", 1);
        assert_eq!(refused(&resealed(&longer)), PolicyErrorKind::Malformed);
    }
}
