//! One rank of a live run: joins the others, registers programs and makes calls as it is told.

use std::collections::BTreeMap;
use std::io::{BufRead, Write};

use motet_collective::formats::program_json;
use motet_collective::{Program, Verified};
use motet_exec::check::Data;
use motet_exec::{Call, Config, Element, Group, Note, Operation, Reduction, SharedClock};
use motet_units::Seed;

use super::words::{FromRank, ToRank, read, write};

/// A program that is registered and can be called.
struct Ready {
    program: Verified<Program>,
    call: Call,
    operation: Operation,
    /// Whether a call of it has been checked.
    checked: bool,
}

/// The number of the program in force, and the next one with the call from which it is in force.
#[derive(Debug, Default)]
struct Agreed {
    now: Option<u32>,
    then: Option<(u32, u32)>,
}

impl Agreed {
    /// The number of the program that a call runs.
    fn of_call(&mut self, call: u32) -> Option<u32> {
        if let Some((_, number)) = self.then.take_if(|it| it.0 <= call) {
            self.now = Some(number);
        }
        self.now
    }
}

/// Runs a rank until `input` ends.
pub fn serve(
    config: &Config,
    clock: &SharedClock,
    note: Note,
    input: impl BufRead,
    mut output: impl Write,
) -> Result<(), String> {
    let mut say = |word: &FromRank| {
        output
            .write_all(write(word).as_bytes())
            .and_then(|()| output.flush())
            .map_err(|it| format!("the controller is gone: {it}"))
    };
    let mut group = Group::join(config, clock.clone(), note).map_err(|it| it.to_string())?;
    say(&FromRank::Joined)?;
    let mut ready: BTreeMap<u32, Ready> = BTreeMap::new();
    let mut agreed = Agreed::default();
    for line in input.lines() {
        let line = line.map_err(|it| format!("the controller is gone: {it}"))?;
        match read(&line)? {
            ToRank::Register { number, file, bytes } => {
                ready.insert(number, register(&mut group, &file, bytes)?);
                say(&FromRank::Registered { number })?;
            }
            ToRank::Switch { at, number } => agreed.then = Some((at, number)),
            ToRank::Drop { number } => drop(ready.remove(&number)),
            ToRank::Call { call } => {
                let number = agreed.of_call(call);
                let program = number.and_then(|it| Some((it, ready.get_mut(&it)?)));
                let Some((number, program)) = program else {
                    return Err(format!("call {call} has no program"));
                };
                let (ns, wrong) = make(&mut group, program, clock)?;
                say(&FromRank::Called { call, number, ns, wrong })?;
            }
        }
    }
    Ok(())
}

fn register(group: &mut Group, file: &str, bytes: u64) -> Result<Ready, String> {
    let text = std::fs::read_to_string(file).map_err(|it| format!("{file}: {it}"))?;
    let program = program_json::read(&text).map_err(|it| format!("{file}: {it}"))?;
    let program = Verified::new(program, None).map_err(|it| format!("{file}: {}", it.report))?;
    let call = Call::of_size(&program, bytes, Element::F32, Reduction::Sum);
    let operation = group.register(&program, call).map_err(|it| it.to_string())?;
    Ok(Ready { program, call, operation, checked: false })
}

/// Makes a call; the first of each program is checked. Returns how many nanoseconds it took, and how many elements were wrong.
fn make(group: &mut Group, ready: &mut Ready, clock: &SharedClock) -> Result<(u64, u64), String> {
    let data = Data::new(ready.program.collective(), ready.call, Seed::new(1));
    let check = !std::mem::replace(&mut ready.checked, true);
    let (rank, busy) = (group.rank(), || "a call is still under way".to_owned());
    if check {
        data.fill(rank, ready.operation.input_mut().ok_or_else(busy)?);
    }
    group.barrier().map_err(|it| it.to_string())?;
    let start = clock.now();
    ready.operation.run().map_err(|it| it.to_string())?;
    let took = clock.now().since(start);
    let wrong =
        if check { data.wrong(rank, ready.operation.output().ok_or_else(busy)?).0 } else { 0 };
    Ok((took.as_ps() / 1000, wrong))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_comes_at_its_call_and_not_before() {
        let mut agreed = Agreed { now: Some(0), then: Some((3, 1)) };
        let all: Vec<Option<u32>> = (1..6).map(|it| agreed.of_call(it)).collect();
        assert_eq!(all, [Some(0), Some(0), Some(1), Some(1), Some(1)]);
        assert_eq!(Agreed::default().of_call(0), None);
    }
}
