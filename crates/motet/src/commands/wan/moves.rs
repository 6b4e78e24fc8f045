//! What a run of each mode ended with, to be put to use: the programs as files, and which way every
//! flow of them takes.

use std::collections::BTreeMap;

use motet_collective::formats::program_json;
use motet_net::Network;
use motet_wan::account::Last;
use serde::Serialize;

use super::Ran;
use crate::failure::Failure;
use crate::files;
use crate::printer::Printer;

#[derive(Serialize)]
struct Standing<'a> {
    mode: &'a str,
    /// Which of the scenario's collectives, counted from 0.
    collective: usize,
    kind: &'static str,
    size_bytes: u64,
    /// What made the program.
    made_by: &'a str,
    /// Its file beside this one.
    program: String,
    flows: Vec<FlowRow<'a>>,
}

/// What a program sends from one rank to another over one path, or one part of it.
#[derive(Serialize)]
struct FlowRow<'a> {
    from: u32,
    to: u32,
    bytes: u64,
    /// Whether the routes hand chose the way.
    movable: bool,
    /// The nodes of the way, the two GPUs included.
    way: Vec<&'a str>,
}

impl Ran<'_> {
    /// Writes `routes.json` and a program file for each program that it names.
    pub(super) fn write_moves(&self, folder: &str, printer: &mut Printer) -> Result<(), Failure> {
        let mut programs = BTreeMap::new();
        let mut rows = Vec::new();
        for (mode, account) in self.accounts {
            for (collective, last) in account.last.iter().enumerate() {
                let text = program_json::write(&last.built.program);
                let name = numbered(&mut programs, text);
                rows.push(Standing {
                    mode: mode.name(),
                    collective,
                    kind: last.built.program.collective().kind().name(),
                    size_bytes: last.built.size.get(),
                    made_by: &last.built.name,
                    program: name,
                    flows: flows(self.scenario.network, last),
                });
            }
        }
        for (text, number) in &programs {
            files::write(&format!("{folder}/{}", file(*number)), text, printer)?;
        }
        let text = serde_json::to_string_pretty(&rows)
            .map_err(|it| Failure::unreadable(format!("cannot be written as JSON: {it}")))?;
        files::write(&format!("{folder}/routes.json"), &(text + "\n"), printer)
    }
}

fn file(number: usize) -> String {
    format!("program-{number}.json")
}

/// The name of the file for a program; modes that end with the same one share it.
fn numbered(programs: &mut BTreeMap<String, usize>, text: String) -> String {
    let next = programs.len();
    file(*programs.entry(text).or_insert(next))
}

fn flows<'a>(network: &'a Network, last: &Last) -> Vec<FlowRow<'a>> {
    let all = last.built.flows().iter().enumerate();
    all.map(|(number, flow)| {
        let mut way = vec![network.node(network.ranks()[flow.from.index()]).name.as_str()];
        let links = last.built.route(&last.routes, number).links();
        way.extend(links.map(|it| network.node(network.link(it).to).name.as_str()));
        FlowRow {
            from: flow.from.0,
            to: flow.to.0,
            bytes: flow.bytes.get(),
            movable: last.built.movable().contains(&number),
            way,
        }
    })
    .collect()
}
