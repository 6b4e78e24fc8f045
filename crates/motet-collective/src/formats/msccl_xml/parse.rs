//! The text of an MSCCL XML file as elements and numbers; what they mean is for
//! [`super::read`] to say.
//!
//! Strict about what the runtime's own parser is strict about (attributes that must be there,
//! names it knows), because no meaning can be made up for them. Numbers are only parsed here,
//! not judged.

use std::borrow::Cow;

use motet_net::formats::ReadError;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::program::Buffer;

/// Deeper than any file: algo, gpu, tb, step.
const MAX_DEPTH: usize = 16;
const MAX_ATTRIBUTES: usize = 64;

/// A whole file.
#[derive(Debug)]
pub(super) struct Algo {
    attributes: Vec<(String, String)>,
    /// Where the element begins, in bytes.
    offset: usize,
    pub(super) gpus: Vec<Gpu>,
    /// Whether there are `<copy>` elements, which runtimes pass over.
    pub(super) has_copies: bool,
}

#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) id: i64,
    pub(super) input: i64,
    pub(super) output: i64,
    pub(super) scratch: i64,
    pub(super) blocks: Vec<Block>,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: i64,
    pub(super) send: i64,
    pub(super) recv: i64,
    pub(super) channel: i64,
    pub(super) steps: Vec<Step>,
    pub(super) line: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// The number it gives itself.
    pub(super) number: Option<i64>,
    pub(super) kind: StepKind,
    pub(super) src: (Buffer, i64),
    pub(super) dst: (Buffer, i64),
    pub(super) count: i64,
    /// The threadblock and step to wait for; a negative threadblock means none.
    pub(super) awaited: (i64, i64),
    pub(super) flag: i64,
    pub(super) line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepKind {
    Send,
    Receive,
    ReceiveCopySend,
    ReceiveReduceSend,
    ReceiveReduceCopy,
    ReceiveReduceCopySend,
    Copy,
    Reduce,
    Nop,
}

impl StepKind {
    const ALL: [Self; 9] = [
        Self::Send,
        Self::Receive,
        Self::ReceiveCopySend,
        Self::ReceiveReduceSend,
        Self::ReceiveReduceCopy,
        Self::ReceiveReduceCopySend,
        Self::Copy,
        Self::Reduce,
        Self::Nop,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Send => "s",
            Self::Receive => "r",
            Self::ReceiveCopySend => "rcs",
            Self::ReceiveReduceSend => "rrs",
            Self::ReceiveReduceCopy => "rrc",
            Self::ReceiveReduceCopySend => "rrcs",
            Self::Copy => "cpy",
            Self::Reduce => "re",
            Self::Nop => "nop",
        }
    }
}

/// The letter of a buffer in the file.
pub(super) const fn letter(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "i",
        Buffer::Output => "o",
        Buffer::Scratch => "s",
    }
}

impl Algo {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, text: &str, name: &str) -> Result<Option<i64>, ReadError> {
        let Some(value) = self.get(name) else {
            return Ok(None);
        };
        let number = value.trim().parse();
        number.map(Some).map_err(|_| self.wrong(text, &format!("{name}=\"{value}\" is no number")))
    }

    pub(super) fn needed<T>(
        &self,
        text: &str,
        name: &str,
        value: Option<T>,
    ) -> Result<T, ReadError> {
        value.ok_or_else(|| self.wrong(text, &format!("<algo> has no attribute `{name}`")))
    }

    pub(super) fn wrong(&self, text: &str, problem: &str) -> ReadError {
        ReadError::new(problem).at(text, self.offset)
    }
}

/// Reads the elements of a file.
pub(super) fn parse(text: &str) -> Result<Algo, ReadError> {
    let mut reader = Reader::from_str(text);
    let mut parser = Parser { text, algo: None, open: Vec::new(), line: 1, counted: 0 };
    loop {
        let offset = usize::try_from(reader.buffer_position()).unwrap_or(text.len());
        let event = reader.read_event().map_err(|error| {
            let offset = usize::try_from(reader.error_position()).unwrap_or(offset);
            ReadError::new(format!("the XML is broken: {error}")).at(text, offset)
        })?;
        match event {
            Event::Start(start) => {
                let level = parser.element(&start, offset)?;
                parser.open.push(level);
            }
            Event::Empty(start) => {
                parser.element(&start, offset)?;
            }
            Event::End(_) => {
                parser.open.pop();
            }
            Event::Eof => break,
            _ => {}
        }
    }
    if !parser.open.is_empty() {
        let problem = "an element is never closed; the file may be cut short";
        return Err(ReadError::new(problem).at(text, text.len()));
    }
    parser.algo.ok_or_else(|| {
        ReadError::new("there is no <algo> element")
            .with_remedy("an MSCCL program is an XML file whose outermost element is <algo>")
    })
}

/// What an open element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Algo,
    Gpu,
    Block,
    Other,
}

struct Parser<'a> {
    text: &'a str,
    algo: Option<Algo>,
    open: Vec<Level>,
    /// The line of byte `counted`.
    line: u32,
    counted: usize,
}

impl Parser<'_> {
    fn element(&mut self, start: &BytesStart<'_>, offset: usize) -> Result<Level, ReadError> {
        if self.open.len() >= MAX_DEPTH {
            let problem = format!("elements are nested deeper than {MAX_DEPTH} levels");
            return Err(ReadError::new(problem).at(self.text, offset));
        }
        let name = start.local_name();
        let name = name.into_inner();
        let level = self.open.last().copied();
        match (level, name) {
            (None, "algo") => {
                let attributes = Attributes::of(start, self.text, offset)?;
                if self.algo.is_some() {
                    return Err(attributes.wrong("there is a second <algo>"));
                }
                let owned = attributes.all.into_iter().map(|(k, v)| (k.to_owned(), v.into_owned()));
                self.algo = Some(Algo {
                    attributes: owned.collect(),
                    offset,
                    gpus: Vec::new(),
                    has_copies: false,
                });
                Ok(Level::Algo)
            }
            (Some(Level::Algo), "gpu") => {
                let line = self.line_at(offset);
                let gpu = gpu(&Attributes::of(start, self.text, offset)?, line)?;
                if let Some(algo) = &mut self.algo {
                    algo.gpus.push(gpu);
                }
                Ok(Level::Gpu)
            }
            (Some(Level::Gpu), "tb") => {
                let line = self.line_at(offset);
                let block = block(&Attributes::of(start, self.text, offset)?, line)?;
                if let Some(gpu) = self.last_gpu() {
                    gpu.blocks.push(block);
                }
                Ok(Level::Block)
            }
            (Some(Level::Block), "step") => {
                let line = self.line_at(offset);
                let step = step(&Attributes::of(start, self.text, offset)?, line)?;
                if let Some(block) = self.last_gpu().and_then(|it| it.blocks.last_mut()) {
                    block.steps.push(step);
                }
                Ok(Level::Other)
            }
            (Some(Level::Gpu), "copy") => {
                if let Some(algo) = &mut self.algo {
                    algo.has_copies = true;
                }
                Ok(Level::Other)
            }
            (None, _) => Err(ReadError::new(format!("the outermost element is <{name}>"))
                .at(self.text, offset)
                .with_remedy("an MSCCL program is an XML file whose outermost element is <algo>")),
            // Runtimes pass over elements that they do not know.
            _ => Ok(Level::Other),
        }
    }

    fn last_gpu(&mut self) -> Option<&mut Gpu> {
        self.algo.as_mut().and_then(|it| it.gpus.last_mut())
    }

    /// The line of `offset`; offsets come in ascending order.
    fn line_at(&mut self, offset: usize) -> u32 {
        let passed = &self.text.as_bytes()[self.counted.min(offset)..offset];
        self.line += passed.iter().filter(|it| **it == b'\n').count() as u32;
        self.counted = offset;
        self.line
    }
}

/// The attributes of one element.
struct Attributes<'a> {
    text: &'a str,
    offset: usize,
    element: String,
    all: Vec<(&'a str, Cow<'a, str>)>,
}

impl<'a> Attributes<'a> {
    fn of(start: &'a BytesStart<'_>, text: &'a str, offset: usize) -> Result<Self, ReadError> {
        let element = start.local_name().into_inner().to_owned();
        let mut them = Self { text, offset, element, all: Vec::with_capacity(12) };
        // The check for duplicates is quadratic; the limit below and `get` (first wins, as in the
        // runtime) replace it.
        for attribute in start.attributes().with_checks(false) {
            let attribute =
                attribute.map_err(|it| them.wrong(&format!("an attribute is broken: {it}")))?;
            if them.all.len() >= MAX_ATTRIBUTES {
                return Err(them.wrong(&format!("there are more than {MAX_ATTRIBUTES} attributes")));
            }
            let value = attribute
                .normalized_value(XmlVersion::Implicit1_0)
                .map_err(|it| them.wrong(&format!("an attribute's value is broken: {it}")))?;
            them.all.push((attribute.key.0, value));
        }
        Ok(them)
    }

    fn wrong(&self, problem: &str) -> ReadError {
        ReadError::new(problem).at(self.text, self.offset)
    }

    fn get(&self, name: &str) -> Result<&str, ReadError> {
        let found = self.all.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.as_ref()).ok_or_else(|| {
            self.wrong(&format!("<{}> has no attribute `{name}`", self.element))
                .with_remedy("the runtime refuses a file without it; add it")
        })
    }

    fn number(&self, name: &str) -> Result<i64, ReadError> {
        let value = self.get(name)?;
        let number = value.trim().parse();
        number.map_err(|_| self.wrong(&format!("{name}=\"{value}\" is no number")))
    }

    fn buffer(&self, name: &str) -> Result<Buffer, ReadError> {
        let value = self.get(name)?;
        Buffer::ALL.into_iter().find(|it| letter(*it) == value).ok_or_else(|| {
            self.wrong(&format!("{name}=\"{value}\" is no buffer"))
                .with_remedy("buffers are i (input), o (output) and s (scratch)")
        })
    }
}

fn gpu(attributes: &Attributes<'_>, line: u32) -> Result<Gpu, ReadError> {
    Ok(Gpu {
        id: attributes.number("id")?,
        input: attributes.number("i_chunks")?,
        output: attributes.number("o_chunks")?,
        scratch: attributes.number("s_chunks")?,
        blocks: Vec::new(),
        line,
    })
}

fn block(attributes: &Attributes<'_>, line: u32) -> Result<Block, ReadError> {
    Ok(Block {
        id: attributes.number("id")?,
        send: attributes.number("send")?,
        recv: attributes.number("recv")?,
        channel: attributes.number("chan")?,
        steps: Vec::new(),
        line,
    })
}

fn step(attributes: &Attributes<'_>, line: u32) -> Result<Step, ReadError> {
    let name = attributes.get("type")?;
    let kind = StepKind::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
        let known = StepKind::ALL.map(StepKind::name).join(", ");
        attributes
            .wrong(&format!("unknown step type `{name}`"))
            .with_remedy(format!("the runtime knows {known}"))
    })?;
    let number = match attributes.all.iter().any(|(key, _)| *key == "s") {
        true => Some(attributes.number("s")?),
        false => None,
    };
    Ok(Step {
        number,
        kind,
        src: (attributes.buffer("srcbuf")?, attributes.number("srcoff")?),
        dst: (attributes.buffer("dstbuf")?, attributes.number("dstoff")?),
        count: attributes.number("cnt")?,
        awaited: (attributes.number("depid")?, attributes.number("deps")?),
        flag: attributes.number("hasdep")?,
        line,
    })
}
