//! The text of `nvidia-smi topo -m`: a header, a row for each device, and legends.
//!
//! Taken leniently, since it reaches us through terminals and chats: escape sequences and
//! comment signs are dropped, columns are told by order, rows of NICs may be missing (the matrix
//! is symmetric), and text before and after is passed over.

use std::collections::BTreeMap;

use crate::formats::{Position, ReadError};

const MAX_DEVICES: usize = 1024;

/// How two devices reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cell {
    /// Over this many NVLinks.
    NvLink(u32),
    Pix,
    Pxb,
    /// Within a NUMA node: `PHB` and `NODE`, which differ only in host bridges.
    Node,
    Sys,
}

#[derive(Debug)]
pub(super) struct Device {
    pub(super) name: String,
    pub(super) gpu: bool,
    pub(super) cpus: Option<String>,
    pub(super) numa: Option<String>,
}

#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) devices: Vec<Device>,
    /// By the lesser index first.
    cells: BTreeMap<(usize, usize), Cell>,
}

/// Whether there is a header line and a row below it.
pub(crate) fn looks_like(text: &str) -> bool {
    let mut lines = text.lines().take(1000).map(clean).skip_while(|it| header(it).is_none());
    lines.next().is_some() && lines.any(|it| it.split_whitespace().any(|it| it == "X"))
}

/// Without escape sequences and a leading comment sign.
fn clean(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['\u{1b}', '^', '[']) {
        let after = &rest[at..];
        // Chats and issue trackers lose the escape character itself and leave "[4m".
        let bare =
            |it: &&str| it.trim_start_matches(|it: char| it.is_ascii_digit()).starts_with('m');
        let sequence = after
            .strip_prefix("\u{1b}[")
            .or_else(|| after.strip_prefix("^[["))
            .or_else(|| after.strip_prefix('[').filter(bare));
        // A sequence ends with its letter, soon: "[4m" underlines, "[0m" resets.
        let letter = |it: &str| it.bytes().take(16).position(|it| it.is_ascii_alphabetic());
        let end = sequence.and_then(|it| it.get(letter(it)? + 1..));
        out.push_str(&rest[..at]);
        if end.is_none() && after.starts_with('[') {
            out.push('[');
        }
        let skip = after.chars().next().map_or(0, char::len_utf8);
        rest = end.unwrap_or(&after[skip..]);
    }
    out.push_str(rest);
    let trimmed = out.trim_start();
    trimmed.strip_prefix('#').map_or(out.clone(), str::to_owned)
}

fn is_gpu(name: &str) -> bool {
    let number = name.strip_prefix("GPU");
    number.is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
}

/// The columns of a header line: it starts with a GPU and, unlike a row, has no `X`.
fn header(line: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if !words.first().is_some_and(|it| is_gpu(it)) || words.contains(&"X") {
        return None;
    }
    // "CPU Affinity", "NUMA Affinity" and "GPU NUMA ID" follow the devices.
    let end = words.iter().position(|it| matches!(*it, "CPU" | "NUMA" | "GPU"));
    let devices = &words[..end.unwrap_or(words.len())];
    // A sentence that begins with GPU0 is not a header.
    let known = |it: &&str| is_gpu(it) || it.chars().any(|it| it.is_ascii_digit());
    devices.iter().all(known).then(|| devices.to_vec())
}

fn cell(word: &str) -> Option<Cell> {
    if let Some(lanes) = word.strip_prefix("NV") {
        return lanes.parse().ok().filter(|it| (1..=1024).contains(it)).map(Cell::NvLink);
    }
    match word {
        "PIX" => Some(Cell::Pix),
        "PXB" => Some(Cell::Pxb),
        "PHB" | "NODE" => Some(Cell::Node),
        // Older versions say SOC for sockets.
        "SYS" | "SOC" => Some(Cell::Sys),
        _ => None,
    }
}

impl Matrix {
    pub(super) fn parse(text: &str) -> Result<Self, ReadError> {
        let lines: Vec<String> = text.lines().map(clean).collect();
        let found = lines.iter().enumerate().find_map(|(at, it)| Some((at, header(it)?)));
        let Some((top, columns)) = found else {
            return Err(ReadError::new("there is no header line with GPU0, GPU1 …")
                .with_remedy("give the whole output of `nvidia-smi topo -m`"));
        };
        if columns.len() > MAX_DEVICES {
            return Err(ReadError::new(format!("there are more than {MAX_DEVICES} devices")));
        }
        let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, column) in columns.iter().enumerate() {
            if index_of.insert(column, index).is_some() {
                return Err(at_line(top, format!("the header names `{column}` twice")));
            }
        }
        let device =
            |it: &&str| Device { name: (*it).to_owned(), gpu: is_gpu(it), cpus: None, numa: None };
        let devices = columns.iter().map(device).collect();
        let mut matrix = Self { devices, cells: BTreeMap::new() };
        let mut rows = 0;
        for (number, line) in lines.iter().enumerate().skip(top + 1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.split_first() {
                Some((name, rest)) if index_of.contains_key(name) => {
                    matrix.add_row(index_of[name], rest).map_err(|it| at_line(number, it))?;
                    rows += 1;
                }
                Some((nic, [name])) => matrix.rename(nic, name, &index_of),
                _ => {}
            }
        }
        if rows == 0 {
            return Err(at_line(top, "no row follows the header".to_owned()));
        }
        Ok(matrix)
    }

    fn add_row(&mut self, row: usize, words: &[&str]) -> Result<(), String> {
        let count = self.devices.len();
        if words.len() < count {
            return Err(format!("the row has {} cells for {count} devices", words.len()));
        }
        for (column, word) in words[..count].iter().enumerate() {
            if column == row || *word == "X" {
                if column != row || *word != "X" {
                    return Err("the row's `X` is not in its own column".to_owned());
                }
                continue;
            }
            let cell = cell(word)
                .ok_or_else(|| format!("`{word}` is not NV#, PIX, PXB, PHB, NODE or SYS"))?;
            let key = (row.min(column), row.max(column));
            let other = *self.cells.entry(key).or_insert(cell);
            if other != cell {
                let (a, b) = (&self.devices[key.0].name, &self.devices[key.1].name);
                return Err(format!("{a} and {b} say different things of their connection"));
            }
        }
        let affinity = |place: usize| {
            let word = words.get(count + place).filter(|it| **it != "N/A");
            word.map(|it| (*it).to_owned())
        };
        let device = &mut self.devices[row];
        (device.cpus, device.numa) = (affinity(0), affinity(1));
        Ok(())
    }

    /// A line of the NIC legend: "NIC0: mlx5_0".
    fn rename(&mut self, nic: &str, name: &str, index_of: &BTreeMap<&str, usize>) {
        let index = nic.strip_suffix(':').and_then(|it| index_of.get(it));
        if let Some(index) = index.filter(|it| !self.devices[**it].gpu) {
            self.devices[*index].name = name.to_owned();
        }
    }

    /// Pairs that the class, or a narrower one, joins.
    pub(super) fn pairs_within(&self, class: Cell) -> impl Iterator<Item = (usize, usize)> {
        let within = move |it: &Cell| !matches!(it, Cell::NvLink(_)) && *it <= class;
        self.cells.iter().filter(move |(_, it)| within(it)).map(|(pair, _)| *pair)
    }

    /// Pairs with NVLinks, and how many.
    pub(super) fn gpu_pairs(&self) -> impl Iterator<Item = (usize, usize, u32)> {
        self.cells.iter().filter_map(|((a, b), it)| match it {
            Cell::NvLink(lanes) => Some((*a, *b, *lanes)),
            _ => None,
        })
    }

    /// All NVLinks in each device's row together.
    pub(super) fn lanes(&self) -> Vec<u32> {
        let mut lanes = vec![0u32; self.devices.len()];
        for (a, b, count) in self.gpu_pairs() {
            lanes[a] = lanes[a].saturating_add(count);
            lanes[b] = lanes[b].saturating_add(count);
        }
        lanes
    }

    /// Pairs of devices on the same NUMA node by their affinity, since NVLink hides how GPUs hang
    /// on PCIe. GPUs of which nothing is known but NVLinks count as one node.
    pub(super) fn same_numa(&self) -> Vec<(usize, usize)> {
        let mut placed = vec![false; self.devices.len()];
        for ((a, b), cell) in &self.cells {
            if !matches!(cell, Cell::NvLink(_)) {
                (placed[*a], placed[*b]) = (true, true);
            }
        }
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        let mut pairs = Vec::new();
        for (index, device) in self.devices.iter().enumerate() {
            let known = device.numa.as_deref().or(device.cpus.as_deref());
            if let Some(node) = known.or((!placed[index]).then_some("")) {
                pairs.push((*first.entry(node).or_insert(index), index));
            }
        }
        pairs
    }
}

fn at_line(index: usize, problem: String) -> ReadError {
    let mut error = ReadError::new(problem);
    error.at = Some(Position { line: index + 1, column: 1 });
    error
}
