//! [`Sketch`]: constraints that guide synthesis, in TACCL's sense: which links may be used.
//!
//! A sketch is a TOML file:
//!
//! ```toml
//! name = "nvlink inside, rails outside"
//! [links]
//! allow = ["class:nvlink", "class:ib"]   # only these; without it, all
//! forbid = ["gpu0 -> *", "node:nic3"]    # none of these
//! ```
//!
//! A rule is `class:NAME`, `tier:N`, `node:NAME` (every link from or to it) or `FROM -> TO`; names
//! may end or begin in `*`. A rule that matches no link of the network is an error: it is a typing
//! mistake more often than not.

use motet_net::formats::ReadError;
use motet_net::{LinkClass, Network};
use motet_units::LinkId;
use serde::Deserialize;
use toml::Spanned;

/// Which links may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sketch {
    pub name: String,
    /// Per link of the network it was read for.
    pub allowed: Vec<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    name: String,
    #[serde(default)]
    links: Links,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Links {
    allow: Option<Vec<Spanned<String>>>,
    #[serde(default)]
    forbid: Vec<Spanned<String>>,
}

/// Which links a rule is about.
#[derive(Debug, PartialEq, Eq)]
enum Rule<'a> {
    Class(LinkClass),
    Tier(u8),
    Node(&'a str),
    Between(&'a str, &'a str),
}

impl Sketch {
    /// Reads a sketch for a network.
    pub fn read(text: &str, network: &Network) -> Result<Self, ReadError> {
        let file: File = toml::from_str(text).map_err(|error| {
            let problem = error.message().trim_end().replace('\n', "; ");
            let read = ReadError::new(problem);
            match error.span() {
                Some(span) => read.at(text, span.start),
                None => read,
            }
        })?;
        let links = network.links().len();
        let mut allowed = vec![file.links.allow.is_none(); links];
        for rule in file.links.allow.iter().flatten() {
            apply(text, rule, network, &mut allowed, true)?;
        }
        for rule in &file.links.forbid {
            apply(text, rule, network, &mut allowed, false)?;
        }
        Ok(Self { name: file.name, allowed })
    }
}

fn apply(
    text: &str,
    rule: &Spanned<String>,
    network: &Network,
    allowed: &mut [bool],
    value: bool,
) -> Result<(), ReadError> {
    let wrong = |problem: String| ReadError::new(problem).at(text, rule.span().start);
    let parsed = parse(rule.get_ref()).map_err(|problem| {
        let remedy = "write class:NAME, tier:N, node:NAME or FROM -> TO";
        wrong(problem).with_remedy(remedy)
    })?;
    let mut any = false;
    for link in network.link_ids().filter(|it| parsed.matches(network, *it)) {
        allowed[link.index()] = value;
        any = true;
    }
    if any {
        return Ok(());
    }
    let problem = format!("no link of `{}` matches `{}`", network.name(), rule.get_ref());
    Err(wrong(problem)
        .with_remedy("`motet net show` lists classes; node names are in the cluster file"))
}

fn parse(rule: &str) -> Result<Rule<'_>, String> {
    if let Some((from, to)) = rule.split_once("->") {
        return Ok(Rule::Between(from.trim(), to.trim()));
    }
    match rule.split_once(':') {
        Some(("class", name)) => {
            name.trim().parse().map(Rule::Class).map_err(|error| format!("`{rule}`: {error}"))
        }
        Some(("tier", tier)) => match tier.trim().parse() {
            Ok(tier @ 0..=4) => Ok(Rule::Tier(tier)),
            _ => Err(format!("`{rule}`: tiers are 0 to 4")),
        },
        Some(("node", name)) => Ok(Rule::Node(name.trim())),
        _ => Err(format!("`{rule}` is no rule")),
    }
}

impl Rule<'_> {
    fn matches(&self, network: &Network, link: LinkId) -> bool {
        let it = network.link(link);
        let named = |pattern: &str, node| name_matches(pattern, &network.node(node).name);
        match self {
            Self::Class(class) => it.spec.class == *class,
            Self::Tier(tier) => network.tier(link).index() == usize::from(*tier),
            Self::Node(name) => named(name, it.from) || named(name, it.to),
            Self::Between(from, to) => named(from, it.from) && named(to, it.to),
        }
    }
}

/// `*` at the beginning or end stands for anything.
fn name_matches(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        _ if pattern == "*" => true,
        (Some(rest), Some(_)) => name.contains(rest.trim_end_matches('*')),
        (Some(end), None) => name.ends_with(end),
        (None, Some(start)) => name.starts_with(start),
        (None, None) => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use motet_net::builders::{self, Params};

    fn ring() -> Network {
        builders::find("ring").unwrap().build(&Params::new()).unwrap()
    }

    #[test]
    fn rules_allow_and_forbid() {
        let network = ring();
        let count = |text: &str| {
            Sketch::read(text, &network).unwrap().allowed.iter().filter(|it| **it).count()
        };
        let all = network.links().len();
        assert_eq!(count(""), all);
        let first = &network.nodes()[0].name;
        assert_eq!(count(&format!("[links]\nforbid = [\"node:{first}\"]")), all - 4);
        assert_eq!(count(&format!("[links]\nallow = [\"{first} -> *\"]")), 2);
        assert_eq!(count("[links]\nforbid = [\"* -> *\"]"), 0);
    }

    #[test]
    fn what_matches_nothing_is_an_error_at_its_place() {
        let error = Sketch::read("[links]\nforbid = [\"node:nobody\"]", &ring()).unwrap_err();
        assert_eq!(error.at.map(|it| it.line), Some(2));
        assert!(error.problem.contains("matches `node:nobody`"), "{error}");
        for bad in ["links = 3", "[links]\nallow = [\"gpu\"]", "[links]\nbogus = 1"] {
            assert!(Sketch::read(bad, &ring()).unwrap_err().at.is_some(), "{bad}");
        }
    }
}
