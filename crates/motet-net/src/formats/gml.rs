//! GML, the graph language of the Internet Topology Zoo and of networkx.
//!
//! A list of `key value` pairs, where a value is a number, a quoted text or a list in brackets.
//! The reader keeps what stands in `graph [ … ]`; [`wan`] makes a network of it.

use std::collections::BTreeMap;

use super::wan::{self, Attributes, GraphEdge, GraphFile, GraphNode, WanDefaults};
use super::{NetworkFormat, ReadError, ReadNetwork};

const MAX_DEPTH: usize = 32;

/// Reads a GML graph as a wide-area network.
pub fn read(text: &str, defaults: &WanDefaults) -> Result<ReadNetwork, ReadError> {
    let pairs = parse(text)?;
    let graph = pairs.iter().find(|it| it.key.eq_ignore_ascii_case("graph"));
    let Some(Pair { value: Value::List(content), .. }) = graph else {
        return Err(ReadError::new("there is no `graph [ … ]` in the file").with_remedy(
            "a GML file holds `graph [ node [ id 0 ] … edge [ source 0 target 1 ] ]`",
        ));
    };
    wan::network(&graph_file(text, content)?, defaults, NetworkFormat::Gml)
}

struct Pair<'a> {
    key: &'a str,
    value: Value<'a>,
    offset: usize,
}

enum Value<'a> {
    Scalar(String),
    List(Vec<Pair<'a>>),
}

fn graph_file(text: &str, content: &[Pair<'_>]) -> Result<GraphFile, ReadError> {
    let mut graph = GraphFile::default();
    let directed = scalar(content, "directed") == Some("1");
    graph.name = scalar(content, "label").or_else(|| scalar(content, "name")).map(str::to_owned);
    let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
    let lists = |key: &'static str| {
        content.iter().filter_map(move |it| match &it.value {
            Value::List(list) if it.key.eq_ignore_ascii_case(key) => Some((it, list)),
            _ => None,
        })
    };
    for (pair, list) in lists("node") {
        let Some(id) = scalar(list, "id") else {
            return Err(ReadError::new("the node has no `id`").at(text, pair.offset));
        };
        if index_of.insert(id, graph.nodes.len()).is_some() {
            let problem = format!("there are two nodes with id {id}");
            return Err(ReadError::new(problem).at(text, pair.offset));
        }
        graph.nodes.push(GraphNode { id: id.to_owned(), attributes: attributes(list, &["id"]) });
    }
    for (pair, list) in lists("edge") {
        let end = |key: &str| {
            let id = scalar(list, key).ok_or_else(|| {
                ReadError::new(format!("the edge has no `{key}`")).at(text, pair.offset)
            })?;
            index_of.get(id).copied().ok_or_else(|| {
                let problem = format!("the edge's {key} is {id}, but no node has that id");
                ReadError::new(problem).at(text, pair.offset)
            })
        };
        graph.edges.push(GraphEdge {
            from: end("source")?,
            to: end("target")?,
            directed,
            attributes: attributes(list, &["source", "target"]),
        });
    }
    Ok(graph)
}

fn scalar<'a>(pairs: &'a [Pair<'_>], key: &str) -> Option<&'a str> {
    pairs.iter().find_map(|it| match &it.value {
        Value::Scalar(value) if it.key.eq_ignore_ascii_case(key) => Some(value.as_str()),
        _ => None,
    })
}

/// Every plain value but `without`; nested lists (`graphics`) say nothing about the network.
fn attributes(pairs: &[Pair<'_>], without: &[&str]) -> Attributes {
    let mut attributes = Attributes::default();
    for pair in pairs {
        if let Value::Scalar(value) = &pair.value
            && !without.iter().any(|it| it.eq_ignore_ascii_case(pair.key))
        {
            attributes.add(pair.key, value.as_str());
        }
    }
    attributes
}

fn parse(text: &str) -> Result<Vec<Pair<'_>>, ReadError> {
    let mut tokens = Tokens { text, at: 0 };
    // The open lists, each with the key it will be the value of.
    let mut open: Vec<(&str, usize, Vec<Pair<'_>>)> = Vec::new();
    let mut top: Vec<Pair<'_>> = Vec::new();
    while let Some((token, offset)) = tokens.next()? {
        let error = |problem: String| Err(ReadError::new(problem).at(text, offset));
        let key = match token {
            Token::Word(key) => key,
            Token::Close => {
                let Some((key, offset, list)) = open.pop() else {
                    return error("there is a `]` without its `[`".to_owned());
                };
                let into = open.last_mut().map_or(&mut top, |it| &mut it.2);
                into.push(Pair { key, value: Value::List(list), offset });
                continue;
            }
            Token::Open => return error("there is a `[` where a key should be".to_owned()),
            Token::Text(_) => return error("there is a text where a key should be".to_owned()),
        };
        match tokens.next()? {
            Some((Token::Open, _)) if open.len() >= MAX_DEPTH => {
                return error(format!("lists are nested deeper than {MAX_DEPTH} levels"));
            }
            Some((Token::Open, _)) => open.push((key, offset, Vec::new())),
            Some((Token::Word(word), _)) => {
                let into = open.last_mut().map_or(&mut top, |it| &mut it.2);
                into.push(Pair { key, value: Value::Scalar(word.to_owned()), offset });
            }
            Some((Token::Text(value), _)) => {
                let into = open.last_mut().map_or(&mut top, |it| &mut it.2);
                into.push(Pair { key, value: Value::Scalar(value), offset });
            }
            Some((Token::Close, _)) | None => return error(format!("`{key}` has no value")),
        }
    }
    if let Some((key, offset, _)) = open.last() {
        let problem = format!("`{key} [` is never closed; the file may be cut short");
        return Err(ReadError::new(problem).at(text, *offset));
    }
    Ok(top)
}

enum Token<'a> {
    Word(&'a str),
    Text(String),
    Open,
    Close,
}

struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Tokens<'a> {
    /// The next token and where it begins.
    fn next(&mut self) -> Result<Option<(Token<'a>, usize)>, ReadError> {
        loop {
            let rest = &self.text[self.at..];
            self.at += rest.len() - rest.trim_start_matches('\u{feff}').trim_start().len();
            let rest = &self.text[self.at..];
            if !rest.starts_with('#') {
                break;
            }
            self.at += rest.find('\n').unwrap_or(rest.len());
        }
        let start = self.at;
        let rest = &self.text[start..];
        let Some(first) = rest.chars().next() else { return Ok(None) };
        let token = match first {
            '[' => Token::Open,
            ']' => Token::Close,
            '"' => {
                let Some(length) = rest[1..].find('"') else {
                    let problem = "the text is never closed by a `\"`";
                    return Err(ReadError::new(problem).at(self.text, start));
                };
                self.at += length + 2;
                return Ok(Some((Token::Text(unescape(&rest[1..=length])), start)));
            }
            _ => {
                let ends = |it: char| it.is_whitespace() || matches!(it, '[' | ']' | '"');
                let length = rest.find(ends).unwrap_or(rest.len());
                self.at += length;
                return Ok(Some((Token::Word(&rest[..length]), start)));
            }
        };
        self.at += 1;
        Ok(Some((token, start)))
    }
}

/// Quotes and what is not ASCII stand in a GML text as XML references; others stay as they are.
fn unescape(text: &str) -> String {
    match quick_xml::escape::unescape(text) {
        Ok(plain) => plain.into_owned(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"
# a comment
Creator "hand"
graph [
  directed 0
  label "small"
  node [ id 10 label "A &#38; B" Latitude 40.0 Longitude -74.0 graphics [ x 1 ] ]
  node [ id 11 label "C" Latitude 41.0 Longitude -74.0 ]
  node [ id 12 label "C" ]
  node [ id 13 ]
  edge [ source 10 target 11 LinkSpeedRaw 10000000000.0 ]
  edge [ source 11 target 10 capacity 40000 ]
  edge [ source 12 target 13 ]
]
"#;

    #[test]
    fn reads_nodes_edges_and_places() {
        let read = read(SMALL, &WanDefaults::default()).unwrap();
        let network = &read.network;
        assert_eq!(network.name(), "small");
        let names: Vec<&str> = network.nodes().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["A & B", "C#11", "C#12", "13"]);
        assert_eq!(network.nodes()[0].properties["latitude"], "40");
        // Two parallel edges stay two.
        assert_eq!(network.links().len(), 6);
        assert_eq!(network.links()[0].spec.latency.to_string(), "556 µs");
        assert_eq!(network.links()[2].spec.bandwidth.to_string(), "5 GB/s");
        assert_eq!(read.notes.len(), 4, "{:?}", read.notes);
    }

    #[test]
    fn directed_graphs_keep_their_direction() {
        let text = SMALL.replace("directed 0", "directed 1");
        let read = read(&text, &WanDefaults::default()).unwrap();
        assert_eq!(read.network.links().len(), 3);
        assert!(read.network.links().iter().all(|it| it.reverse.is_none()));
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let deep = format!("graph [\n{}", "a [ ".repeat(MAX_DEPTH));
        for (text, line, part) in [
            ("graph [\n node [ id 0\n", 2, "never closed"),
            ("graph [\n node [ label \"x\" ]\n]", 2, "no `id`"),
            ("graph [\n node [ id 0 ]\n edge [ source 0 target 9 ]\n]", 3, "no node has that id"),
            ("graph [\n node [ id 0 ]\n node [ id 0 ]\n]", 3, "two nodes"),
            ("graph [\n label \"x\n]", 2, "never closed"),
            ("graph\n]", 1, "no value"),
            ("a 1\n]", 2, "without its"),
            (&deep, 2, "nested deeper"),
        ] {
            let error = read(text, &WanDefaults::default()).unwrap_err();
            assert!(error.problem.contains(part), "{text}: {error}");
            assert_eq!(error.at.map(|it| it.line), Some(line), "{text}: {error}");
        }
        assert!(read("node [ id 0 ]", &WanDefaults::default()).unwrap_err().at.is_none());
    }
}
