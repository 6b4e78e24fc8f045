//! A small element tree for the XML readers, those of programs included: bounded, without DTDs or
//! entities of its own.
//!
//! Why not read events directly: topology files refer forwards (a link names a device listed
//! later), so their readers want the whole tree. Elements are kept flat, in document order, and
//! know their byte offset for error messages.

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesStart, Event};

use super::ReadError;

/// Deeper than any real file: PCIe trees are about ten levels.
const MAX_DEPTH: usize = 64;
/// Above what the largest network (`MAX_NODES`, `MAX_LINKS`) needs is not worth holding.
const MAX_ELEMENTS: usize = 1 << 24;
const MAX_ATTRIBUTES: usize = 64;

/// One element. Its name is without namespace prefix.
#[derive(Debug)]
pub struct Element {
    /// The name of its tag.
    pub name: String,
    /// Its attributes in the order of the text, with entities resolved.
    pub attributes: Vec<(String, String)>,
    /// The text directly inside, all pieces joined.
    pub text: String,
    /// The elements right inside it, by index.
    pub children: Vec<usize>,
    /// The element that it is right inside of, by index; `None` for the root.
    pub parent: Option<usize>,
    /// Where it begins, in bytes.
    pub offset: usize,
}

impl Element {
    /// The value of an attribute; of several of one name, the first.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A whole document; element 0 is the root.
#[derive(Debug)]
pub struct Document {
    /// All elements, each before those inside it; the first is the root.
    pub elements: Vec<Element>,
}

impl Document {
    /// The outermost element.
    #[must_use]
    pub fn root(&self) -> &Element {
        &self.elements[0]
    }

    /// The elements right inside `element`, each with its index.
    pub fn children<'a>(
        &'a self,
        element: &'a Element,
    ) -> impl Iterator<Item = (usize, &'a Element)> {
        element.children.iter().map(|it| (*it, &self.elements[*it]))
    }
}

/// Reads a document. It has exactly one root element.
pub fn parse(text: &str) -> Result<Document, ReadError> {
    let mut reader = Reader::from_str(text);
    let mut tree = Tree { text, elements: Vec::new(), open: Vec::new() };
    loop {
        let offset = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let event = reader.read_event().map_err(|error| {
            let offset = usize::try_from(reader.error_position()).unwrap_or(offset);
            ReadError::new(format!("the XML is broken: {error}")).at(text, offset)
        })?;
        match event {
            Event::Start(start) => {
                let index = tree.add(&start, offset)?;
                tree.open.push(index);
            }
            Event::Empty(start) => {
                tree.add(&start, offset)?;
            }
            Event::End(_) => {
                tree.open.pop();
            }
            Event::Text(piece) => tree.add_text(&piece.xml10_content(), offset)?,
            Event::CData(piece) => tree.add_text(&piece.xml10_content(), offset)?,
            Event::GeneralRef(reference) => {
                let known = match reference.resolve_char_ref() {
                    Ok(Some(char)) => Some(char.to_string()),
                    Ok(None) => resolve_xml_entity(&reference.into_inner()).map(str::to_owned),
                    Err(_) => None,
                };
                let Some(known) = known else {
                    let problem = "the reference is neither a character nor one of XML's own five";
                    return Err(ReadError::new(problem).at(text, offset).with_remedy(
                        "entities defined by a file are not expanded; write the text",
                    ));
                };
                tree.add_text(&known, offset)?;
            }
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
            Event::Eof => return tree.finish(),
        }
    }
}

struct Tree<'a> {
    text: &'a str,
    elements: Vec<Element>,
    open: Vec<usize>,
}

impl Tree<'_> {
    fn add(&mut self, start: &BytesStart<'_>, offset: usize) -> Result<usize, ReadError> {
        let refuse = |problem: String| ReadError::new(problem).at(self.text, offset);
        if self.open.len() >= MAX_DEPTH {
            return Err(refuse(format!("elements are nested deeper than {MAX_DEPTH} levels")));
        }
        if self.elements.len() >= MAX_ELEMENTS {
            return Err(refuse(format!("there are more than {MAX_ELEMENTS} elements")));
        }
        let parent = self.open.last().copied();
        if parent.is_none() && !self.elements.is_empty() {
            return Err(refuse("there is a second root element".to_owned()));
        }
        let mut attributes = Vec::new();
        // The check for duplicates is quadratic; the limit below and `get` (first wins) replace it.
        for attribute in start.attributes().with_checks(false) {
            let attribute =
                attribute.map_err(|error| refuse(format!("an attribute is broken: {error}")))?;
            if attributes.len() >= MAX_ATTRIBUTES {
                return Err(refuse(format!("there are more than {MAX_ATTRIBUTES} attributes")));
            }
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|error| refuse(format!("an attribute's value is broken: {error}")))?;
            if let Some(char) = value.chars().find(|it| is_forbidden(*it)) {
                return Err(refuse(forbidden(char)));
            }
            attributes.push((attribute.key.0.to_owned(), value.into_owned()));
        }
        let index = self.elements.len();
        if let Some(parent) = parent {
            self.elements[parent].children.push(index);
        }
        self.elements.push(Element {
            name: start.local_name().into_inner().to_owned(),
            attributes,
            text: String::new(),
            children: Vec::new(),
            parent,
            offset,
        });
        Ok(index)
    }

    fn add_text(&mut self, piece: &str, offset: usize) -> Result<(), ReadError> {
        if let Some(char) = piece.chars().find(|it| is_forbidden(*it)) {
            return Err(ReadError::new(forbidden(char)).at(self.text, offset));
        }
        match self.open.last() {
            Some(open) => {
                self.elements[*open].text.push_str(piece);
                Ok(())
            }
            None if piece.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']).is_empty() => Ok(()),
            None => Err(ReadError::new("there is text outside the root element")
                .at(self.text, offset)
                .with_remedy("if the file is a log, keep only the lines of the XML")),
        }
    }

    fn finish(self) -> Result<Document, ReadError> {
        if let Some(open) = self.open.last() {
            let element = &self.elements[*open];
            let problem = format!("<{}> is never closed; the file may be cut short", element.name);
            return Err(ReadError::new(problem).at(self.text, element.offset));
        }
        if self.elements.is_empty() {
            return Err(ReadError::new("there is no XML element in the file"));
        }
        Ok(Document { elements: self.elements })
    }
}

/// What XML 1.0 cannot hold, not even as a reference.
const fn is_forbidden(char: char) -> bool {
    let control = matches!(char, '\u{0}'..='\u{1f}') && !matches!(char, '\t' | '\n' | '\r');
    control || matches!(char, '\u{fffe}' | '\u{ffff}')
}

fn forbidden(char: char) -> String {
    format!("the character U+{:04X} is not allowed in XML; take it out", char as u32)
}

/// `text` as it stands in an attribute or between tags. What XML 1.0 cannot hold at all (control
/// characters) becomes U+FFFD; line breaks are written as references so that no reader folds them.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            other if is_forbidden(other) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Position;
    use proptest::prelude::*;

    #[test]
    fn reads_a_tree() {
        let text = "<?xml version=\"1.0\"?><!-- c --><a x='1 &lt; 2'><b/>t&amp;&#65;<c:d/></a>\n";
        let document = parse(text).unwrap();
        let root = document.root();
        assert_eq!((root.get("x"), root.text.as_str()), (Some("1 < 2"), "t&A"));
        let names: Vec<&str> = document.children(root).map(|(_, it)| it.name.as_str()).collect();
        assert_eq!(names, ["b", "d"]);
    }

    #[test]
    fn says_what_is_broken_and_where() {
        for (text, line, part) in [
            ("<a>\n<b></a>", 2, "broken"),
            ("<a>\n  <b>", 2, "<b> is never closed"),
            ("<a/>\n<b/>", 2, "second root"),
            ("<a/>\nlog line", 1, "outside the root"),
            ("<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>", 1, "neither a character"),
            ("<a x=1/>", 1, "attribute is broken"),
            ("<a>\n<b x='\0'/></a>", 2, "U+0000"),
            ("<a>\n\u{b}</a>", 1, "U+000B"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.problem.contains(part), "{text}: {error}");
            assert_eq!(error.at.map(|it| it.line), Some(line), "{text}: {error}");
        }
        assert_eq!(parse("  ").unwrap_err().at, None::<Position>);
        let deep = "<a>".repeat(MAX_DEPTH + 1);
        assert!(parse(&deep).unwrap_err().problem.contains("nested deeper"));
        let wide: String = (0..=MAX_ATTRIBUTES).map(|it| format!(" a{it}=''")).collect();
        assert!(parse(&format!("<a{wide}/>")).unwrap_err().problem.contains("attributes"));
    }

    proptest! {
        #[test]
        fn escaped_text_comes_back(text in "[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\u{fffe}\u{ffff}]*") {
            let document = parse(&format!("<a b=\"{0}\">{0}</a>", escape(&text))).unwrap();
            prop_assert_eq!(document.root().get("b"), Some(text.as_str()));
            prop_assert_eq!(&document.root().text, &text);
        }
    }
}
