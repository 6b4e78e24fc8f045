//! The text of an MSCCL XML file as elements and numbers; what they mean is for
//! [`super::read()`] to say.
//!
//! Strict about what the runtime's own parser is strict about (attributes that must be there,
//! names it knows), because no meaning can be made up for them. Numbers are only parsed here,
//! not judged.

use motet_net::formats::ReadError;
use motet_net::formats::xml::{self, Element};
use motet_units::brief;

use crate::program::Buffer;

/// A whole file.
#[derive(Debug)]
pub(super) struct Algo {
    attributes: Vec<(String, String)>,
    /// Where the element begins, in bytes.
    offset: usize,
    pub(super) gpus: Vec<XmlGpu>,
    /// Whether there are `<copy>` elements, which runtimes pass over.
    pub(super) has_copies: bool,
}

#[derive(Debug)]
pub(super) struct XmlGpu {
    pub(super) id: i64,
    pub(super) input: i64,
    pub(super) output: i64,
    pub(super) scratch: i64,
    pub(super) blocks: Vec<XmlBlock>,
    pub(super) line: u32,
}

#[derive(Debug)]
pub(super) struct XmlBlock {
    pub(super) id: i64,
    pub(super) send: i64,
    pub(super) recv: i64,
    pub(super) channel: i64,
    pub(super) steps: Vec<XmlStep>,
    pub(super) line: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct XmlStep {
    /// The number it gives itself.
    pub(super) number: Option<i64>,
    pub(super) kind: XmlStepKind,
    pub(super) src: (Buffer, i64),
    pub(super) dst: (Buffer, i64),
    pub(super) count: i64,
    /// The threadblock and step to wait for; a negative threadblock means none.
    pub(super) awaited: (i64, i64),
    pub(super) flag: i64,
    pub(super) line: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum XmlStepKind {
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

impl XmlStepKind {
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

/// The letter of a buffer in the file. Switch slots have none: [`check_counts`](super::check_counts)
/// refuses programs that have any.
pub(super) const fn letter(buffer: Buffer) -> &'static str {
    match buffer {
        Buffer::Input => "i",
        Buffer::Output => "o",
        Buffer::Scratch => "s",
        Buffer::Switch => "",
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
        number
            .map(Some)
            .map_err(|_| self.wrong(text, &format!("{name}=\"{}\" is no number", brief(value))))
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

/// Reads the elements of a file. Like the runtimes, it passes over elements that it does not know.
pub(super) fn parse(text: &str) -> Result<Algo, ReadError> {
    let document = xml::parse(text)?;
    let root = document.root();
    if root.name != "algo" {
        return Err(ReadError::new(format!("the outermost element is <{}>", brief(&root.name)))
            .at(text, root.offset)
            .with_remedy("an MSCCL program is an XML file whose outermost element is <algo>"));
    }
    let mut lines = Lines { text, line: 1, counted: 0 };
    let mut algo = Algo {
        attributes: root.attributes.clone(),
        offset: root.offset,
        gpus: Vec::new(),
        has_copies: false,
    };
    let of = |parent, name| {
        document.children(parent).map(|(_, it)| it).filter(move |it| it.name == name)
    };
    for element in of(root, "gpu") {
        let attributes = Attributes { text, element };
        let mut gpu = gpu(&attributes, lines.at(element.offset))?;
        algo.has_copies |= of(element, "copy").next().is_some();
        for element in of(element, "tb") {
            let attributes = Attributes { text, element };
            let mut block = block(&attributes, lines.at(element.offset))?;
            for element in of(element, "step") {
                let attributes = Attributes { text, element };
                block.steps.push(step(&attributes, lines.at(element.offset))?);
            }
            gpu.blocks.push(block);
        }
        algo.gpus.push(gpu);
    }
    Ok(algo)
}

/// Counts lines once, for offsets that come in ascending order.
struct Lines<'a> {
    text: &'a str,
    /// The line of byte `counted`.
    line: u32,
    counted: usize,
}

impl Lines<'_> {
    fn at(&mut self, offset: usize) -> u32 {
        let passed = &self.text.as_bytes()[self.counted.min(offset)..offset];
        self.line += passed.iter().filter(|it| **it == b'\n').count() as u32;
        self.counted = offset;
        self.line
    }
}

/// The attributes of one element.
struct Attributes<'a> {
    text: &'a str,
    element: &'a Element,
}

impl Attributes<'_> {
    fn wrong(&self, problem: &str) -> ReadError {
        ReadError::new(problem).at(self.text, self.element.offset)
    }

    fn get(&self, name: &str) -> Result<&str, ReadError> {
        self.element.get(name).ok_or_else(|| {
            self.wrong(&format!("<{}> has no attribute `{name}`", self.element.name))
                .with_remedy("the runtime refuses a file without it; add it")
        })
    }

    fn number(&self, name: &str) -> Result<i64, ReadError> {
        let value = self.get(name)?;
        let number = value.trim().parse();
        number.map_err(|_| self.wrong(&format!("{name}=\"{}\" is no number", brief(value))))
    }

    fn buffer(&self, name: &str) -> Result<Buffer, ReadError> {
        let value = self.get(name)?;
        let known = [Buffer::Input, Buffer::Output, Buffer::Scratch];
        known.into_iter().find(|it| letter(*it) == value).ok_or_else(|| {
            self.wrong(&format!("{name}=\"{}\" is no buffer", brief(value)))
                .with_remedy("buffers are i (input), o (output) and s (scratch)")
        })
    }
}

fn gpu(attributes: &Attributes<'_>, line: u32) -> Result<XmlGpu, ReadError> {
    Ok(XmlGpu {
        id: attributes.number("id")?,
        input: attributes.number("i_chunks")?,
        output: attributes.number("o_chunks")?,
        scratch: attributes.number("s_chunks")?,
        blocks: Vec::new(),
        line,
    })
}

fn block(attributes: &Attributes<'_>, line: u32) -> Result<XmlBlock, ReadError> {
    Ok(XmlBlock {
        id: attributes.number("id")?,
        send: attributes.number("send")?,
        recv: attributes.number("recv")?,
        channel: attributes.number("chan")?,
        steps: Vec::new(),
        line,
    })
}

fn step(attributes: &Attributes<'_>, line: u32) -> Result<XmlStep, ReadError> {
    let name = attributes.get("type")?;
    let kind = XmlStepKind::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
        let known = XmlStepKind::ALL.map(XmlStepKind::name).join(", ");
        attributes
            .wrong(&format!("unknown step type `{}`", brief(name)))
            .with_remedy(format!("the runtime knows {known}"))
    })?;
    let number = match attributes.element.get("s") {
        Some(_) => Some(attributes.number("s")?),
        None => None,
    };
    Ok(XmlStep {
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
