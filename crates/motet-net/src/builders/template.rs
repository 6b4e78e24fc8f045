//! [`Template`]: a kind of network with named parameters, each with a kind, a default and a line
//! of doc; [`Params`] is what a user gave, `Args` the same checked and completed.
//!
//! The cluster file's `[[server]]`, `[[fabric]]` and `[[wan]]` tables and `motet net gen` both
//! go through here, so that they share names, defaults, docs and error texts. Values are text on
//! the way in: what a user types and what a default says are read by the same code.
//!
//! Next: [`Assembly`], into which templates build.

use std::collections::BTreeMap;
use std::fmt;

use motet_units::{Bandwidth, Duration};

use super::assembly::Assembly;
use crate::link::LinkClass;
use crate::nearest;
use crate::network::{BuildError, Network};

/// Which table of the cluster file holds a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Boxes of GPUs with ports to the network: `[[server]]`.
    Server,
    /// What joins the ports, or a whole network of its own: `[[fabric]]`.
    Fabric,
    /// What joins datacenters: `[[wan]]`.
    Wan,
}

impl Family {
    /// The name of the table.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Fabric => "fabric",
            Self::Wan => "wan",
        }
    }
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A whole number in a range, both ends included.
    Count { min: u32, max: u32 },
    /// A rate such as "400 Gbit/s", never zero.
    Bandwidth,
    /// A time such as "500 ns".
    Latency,
    /// `true` or `false`.
    Flag,
    /// The name of a [`LinkClass`].
    Class,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// Any text.
    Text,
    /// Several texts, with commas between.
    List,
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count { min, max } => write!(f, "{min} to {max}"),
            Self::Bandwidth => f.write_str("bandwidth"),
            Self::Latency => f.write_str("time"),
            Self::Flag => f.write_str("true or false"),
            Self::Class => f.write_str("link class"),
            Self::Choice(choices) => f.write_str(&choices.join(" or ")),
            Self::Text => f.write_str("text"),
            Self::List => f.write_str("list"),
        }
    }
}

/// The default of a parameter that follows from others.
pub const AUTO: &str = "auto";
/// The default of a parameter that must be given.
pub const REQUIRED: &str = "required";

/// A parameter of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The key of the cluster file and of `key=value` on the command line.
    pub name: &'static str,
    /// What values it takes.
    pub kind: ParamKind,
    /// As a user would write it; [`AUTO`] or [`REQUIRED`] where there is no fixed value.
    pub default: &'static str,
    /// One line for help and docs.
    pub doc: &'static str,
}

impl Param {
    pub(super) const fn new(
        name: &'static str,
        kind: ParamKind,
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self { name, kind, default, doc }
    }

    pub(super) const fn count(
        name: &'static str,
        (min, max): (u32, u32),
        default: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::new(name, ParamKind::Count { min, max }, default, doc)
    }

    fn read(&self, given: &Given) -> Result<Value, TemplateError> {
        let text = match (given, self.kind) {
            (Given::List(list), ParamKind::List) => return Ok(Value::List(list.clone())),
            (Given::List(_), _) => {
                return Err(self.wrong(format!("`{}` takes one value, not a list", self.name)));
            }
            (Given::Text(text), _) => text.trim(),
        };
        if text == AUTO && self.default == AUTO {
            return Ok(Value::Auto);
        }
        let bad = |problem: String| self.wrong(format!("`{}`: {problem}", self.name));
        match self.kind {
            ParamKind::Count { min, max } => {
                let out = || bad(format!("`{text}` is not a whole number from {min} to {max}"));
                let count: u32 = text.replace('_', "").parse().map_err(|_| out())?;
                if (min..=max).contains(&count) { Ok(Value::Count(count)) } else { Err(out()) }
            }
            ParamKind::Bandwidth => match text.parse::<Bandwidth>() {
                Ok(rate) if rate.is_zero() => Err(bad("a link needs some bandwidth".to_owned())),
                Ok(rate) => Ok(Value::Bandwidth(rate)),
                Err(error) => Err(bad(error.to_string())),
            },
            ParamKind::Latency => {
                text.parse().map(Value::Latency).map_err(|it| bad(it.to_string()))
            }
            ParamKind::Flag => match text {
                "true" => Ok(Value::Flag(true)),
                "false" => Ok(Value::Flag(false)),
                _ => Err(bad(format!("`{text}` is neither true nor false"))),
            },
            ParamKind::Class => text.parse().map(Value::Class).map_err(|it| bad(it.to_string())),
            ParamKind::Choice(choices) => {
                if choices.contains(&text) {
                    return Ok(Value::Text(text.to_owned()));
                }
                let mut error = bad(format!("`{text}` is not one of the choices"));
                error.remedy = nearest::remedy(text, choices.iter().copied());
                Err(error)
            }
            ParamKind::Text => Ok(Value::Text(text.to_owned())),
            ParamKind::List => {
                let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
                Ok(Value::List(parts.map(str::to_owned).collect()))
            }
        }
    }

    fn wrong(&self, problem: String) -> TemplateError {
        TemplateError { key: Some(self.name.to_owned()), problem, remedy: None }
    }
}

/// A kind of network that can be built from parameters.
#[derive(Clone, Copy, Debug)]
pub struct Template {
    /// What users call it: the `kind` of a table, the first word of `motet net gen`.
    pub name: &'static str,
    /// Which table of the cluster file holds it.
    pub family: Family,
    /// One line for help and docs.
    pub doc: &'static str,
    /// All parameters it takes.
    pub params: &'static [Param],
    pub(super) build: fn(&mut Assembly<'_>, &Args) -> Result<(), TemplateError>,
}

impl Template {
    /// The network of this template alone. Templates that read a file need an
    /// [`Assembly`] with a way to fetch it.
    pub fn build(&self, params: &Params) -> Result<Network, TemplateError> {
        let mut assembly = Assembly::new(self.name);
        assembly.add(self, params)?;
        assembly.finish()
    }

    /// The parameters checked, with defaults for those not given.
    pub(super) fn args(&self, params: &Params) -> Result<Args, TemplateError> {
        for key in params.0.keys() {
            if !self.params.iter().any(|it| it.name == key) {
                return Err(TemplateError {
                    key: Some(key.clone()),
                    problem: format!("`{}` has no parameter `{key}`", self.name),
                    remedy: nearest::remedy(key, self.params.iter().map(|it| it.name)),
                });
            }
        }
        let mut values = BTreeMap::new();
        for param in self.params {
            let given = params.0.get(param.name);
            let value = match given {
                Some(given) => param.read(given)?,
                None if param.default == REQUIRED => {
                    let problem = format!("`{}` needs `{}`: {}", self.name, param.name, param.doc);
                    return Err(TemplateError::new(problem));
                }
                None => param.read(&Given::Text(param.default.to_owned()))?,
            };
            values.insert(param.name, (value, given.is_some()));
        }
        Ok(Args { template: self.name, values })
    }
}

/// What a user gave for a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Given {
    Text(String),
    List(Vec<String>),
}

/// The parameters a user gave, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params(BTreeMap<String, Given>);

impl Params {
    /// No parameters: every one has its default.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `key`; the last value given counts.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), Given::Text(value.into()));
    }

    /// Sets a parameter that takes a list, each value exactly as it is.
    pub fn set_list(&mut self, key: impl Into<String>, values: Vec<String>) {
        self.0.insert(key.into(), Given::List(values));
    }

    /// From `key=value` words, as on the command line.
    pub fn from_words<S: AsRef<str>>(
        words: impl IntoIterator<Item = S>,
    ) -> Result<Self, TemplateError> {
        let mut params = Self::new();
        for word in words {
            let word = word.as_ref();
            let Some((key, value)) = word.split_once('=') else {
                return Err(TemplateError::new(format!("`{word}` is not of the form key=value")));
            };
            params.set(key.trim(), value);
        }
        Ok(params)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Auto,
    Count(u32),
    Bandwidth(Bandwidth),
    Latency(Duration),
    Flag(bool),
    Class(LinkClass),
    Text(String),
    List(Vec<String>),
}

/// A template's parameters, checked and complete. A getter fails only if the template does not
/// declare what it asks for; the tests build every template, so that this cannot ship.
#[derive(Clone, Debug)]
pub(super) struct Args {
    template: &'static str,
    values: BTreeMap<&'static str, (Value, bool)>,
}

macro_rules! getter {
    ($name:ident, $variant:ident, $type:ty) => {
        pub(super) fn $name(&self, name: &str) -> Result<$type, TemplateError> {
            match self.values.get(name) {
                Some((Value::$variant(value), _)) => Ok(value.clone()),
                _ => Err(self.undeclared(name, stringify!($variant))),
            }
        }
    };
}

impl Args {
    getter!(bandwidth, Bandwidth, Bandwidth);
    getter!(latency, Latency, Duration);
    getter!(flag, Flag, bool);
    getter!(class, Class, LinkClass);
    getter!(text, Text, String);
    getter!(list, List, Vec<String>);

    pub(super) fn count(&self, name: &str) -> Result<usize, TemplateError> {
        match self.values.get(name) {
            Some((Value::Count(count), _)) => Ok(*count as usize),
            _ => Err(self.undeclared(name, "Count")),
        }
    }

    pub(super) fn count_or(&self, name: &str, auto: usize) -> Result<usize, TemplateError> {
        if self.is_auto(name) { Ok(auto) } else { self.count(name) }
    }

    pub(super) fn is_auto(&self, name: &str) -> bool {
        matches!(self.values.get(name), Some((Value::Auto, _)))
    }

    /// Whether the user gave it, rather than the default.
    pub(super) fn given(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(|it| it.1)
    }

    fn undeclared(&self, name: &str, kind: &str) -> TemplateError {
        TemplateError::new(format!("template `{}` declares no {kind} `{name}`", self.template))
    }
}

/// Why a template cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct TemplateError {
    /// The parameter at fault, where there is one.
    pub key: Option<String>,
    /// What is wrong.
    pub problem: String,
    /// What to do about it, where that is known.
    pub remedy: Option<String>,
}

impl TemplateError {
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { key: None, problem: problem.into(), remedy: None }
    }

    pub(super) fn of(key: &str, problem: impl Into<String>) -> Self {
        Self { key: Some(key.to_owned()), problem: problem.into(), remedy: None }
    }

    pub(super) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl From<BuildError> for TemplateError {
    fn from(error: BuildError) -> Self {
        let remedy = match &error {
            BuildError::DuplicateName { .. } => Some("give one of them another `name`".to_owned()),
            _ => None,
        };
        Self { key: None, problem: error.to_string(), remedy }
    }
}
