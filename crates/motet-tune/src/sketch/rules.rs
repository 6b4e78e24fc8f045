//! Link rules: `class:NAME`, `tier:N`, `node:NAME` and `FROM -> TO`, and which links they are about.
//!
//! A rule that matches no link of the network is an error: it is a typing mistake more often than
//! not.

use motet_net::formats::ReadError;
use motet_net::{LinkClass, Network};
use motet_units::LinkId;

/// Which links a sketch allows and forbids, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkRules {
    /// Only links that match one of these rules are allowed; `None`: all.
    pub allow: Option<Vec<String>>,
    /// Links that match one of these rules are forbidden, even if `allow` names them.
    pub forbid: Vec<String>,
}

/// Which links a rule is about.
#[derive(Debug, PartialEq, Eq)]
enum Rule<'a> {
    Class(LinkClass),
    Tier(u8),
    Node(&'a str),
    Between(&'a str, &'a str),
}

/// Sets `marks` to `value` for every link that `rule` is about.
pub(super) fn mark(
    rule: &str,
    network: &Network,
    marks: &mut [bool],
    value: bool,
) -> Result<(), ReadError> {
    let parsed = parse(rule).map_err(|problem| {
        ReadError::new(problem).with_remedy("write class:NAME, tier:N, node:NAME or FROM -> TO")
    })?;
    let mut any = false;
    for link in network.link_ids().filter(|it| parsed.matches(network, *it)) {
        marks[link.index()] = value;
        any = true;
    }
    if any {
        return Ok(());
    }
    Err(ReadError::new(format!("no link of `{}` matches `{rule}`", network.name()))
        .with_remedy("`motet net show` lists classes; node names are in the cluster file"))
}

/// The rule that is about exactly the links from one node to another; `None` if their names cannot
/// be written in a rule.
#[must_use]
pub fn between(network: &Network, link: LinkId) -> Option<String> {
    let link = network.link(link);
    let (from, to) = (&network.node(link.from).name, &network.node(link.to).name);
    let plain = |name: &str| !name.contains("->") && !name.contains('*') && name.trim() == name;
    (plain(from) && plain(to)).then(|| format!("{from} -> {to}"))
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
