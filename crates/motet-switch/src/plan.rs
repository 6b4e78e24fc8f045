//! Plans a change: compares a device's state with what is wanted, and decides what to keep, delete and create. Also ensures, before
//! anything is sent, that no port is in two connections, because not all devices check it (Polatis' model accepts an output
//! twice).

use std::collections::{BTreeMap, BTreeSet};

use motet_control::{Circuit, SwitchId};
use rustc_hash::FxHashMap;

use crate::device::{Readout, Seen, Status, Steps};
use crate::driver::{Delta, PortState, Snapshot, Stray};
use crate::error::{Difference, Problem};
use crate::layout::{Cross, Layout, Wiring};

/// The state of a switch in circuits and numbered ports, from a readout of its device.
pub(crate) fn snapshot(layout: &Layout, switch: SwitchId, readout: &Readout) -> Snapshot {
    let mut ports = vec![PortState::Up; layout.ports as usize];
    for (device, state) in &readout.ports {
        for number in [layout.of_input(*device), layout.of_output(*device)].into_iter().flatten() {
            if let Some(it) = ports.get_mut(number as usize) {
                *it = (*it).max(*state);
            }
        }
    }
    let (circuits, strays) = circuits(layout, switch, readout);
    Snapshot { circuits, ports, strays }
}

/// The complete circuits, in ascending order, and all other cross-connections. Large switches are read often,
/// so this sorts lists instead of filling maps.
fn circuits(layout: &Layout, switch: SwitchId, readout: &Readout) -> (Vec<Circuit>, Vec<Stray>) {
    let mut strays = Vec::new();
    let mut parts: Vec<(Circuit, Cross)> = Vec::with_capacity(readout.crosses.len());
    let twice = ends_in_two(layout, readout);
    for seen in &readout.crosses {
        let mut stray = |why: &str| strays.push(Stray { cross: seen.cross, why: why.to_owned() });
        match (layout.circuit(switch, seen.cross), &seen.status) {
            (_, Status::Broken(why)) => stray(why),
            (_, Status::Moving) => stray("the switch is still at it"),
            (None, Status::Made) => stray("not all of its ports are ours"),
            (Some(_), Status::Made) if is_in(layout, &twice, seen.cross) => {
                stray("a port is in several");
            }
            (Some(circuit), Status::Made) => parts.push((circuit, layout.canonical(seen.cross))),
        }
    }
    parts.sort_unstable();
    parts.dedup();
    let needed = if layout.wiring == Wiring::Duplex { 2 } else { 1 };
    let mut whole = Vec::with_capacity(parts.len() / needed);
    for of in parts.chunk_by(|a, b| a.0 == b.0) {
        match of {
            [(circuit, _), ..] if of.len() == needed => whole.push(*circuit),
            _ => {
                let why = "one direction of a circuit, without the other".to_owned();
                strays.extend(of.iter().map(|it| Stray { cross: it.1, why: why.clone() }));
            }
        }
    }
    (whole, strays)
}

/// An end of a cross-connection. With bidirectional wiring inputs and outputs are the same ports.
type End = (bool, u32);

fn ends(layout: &Layout, cross: Cross) -> [End; 2] {
    [(false, cross.input), (layout.wiring == Wiring::Duplex, cross.output)]
}

fn is_in(layout: &Layout, sorted: &[End], cross: Cross) -> bool {
    ends(layout, cross).iter().any(|it| sorted.binary_search(it).is_ok())
}

/// Ends that are in several cross-connections, in ascending order.
fn ends_in_two(layout: &Layout, readout: &Readout) -> Vec<End> {
    let made = readout.crosses.iter().filter(|it| it.status == Status::Made);
    let made = made.map(|it| layout.canonical(it.cross));
    let mut first: FxHashMap<End, Cross> = FxHashMap::default();
    first.reserve(2 * readout.crosses.len());
    let mut twice = Vec::new();
    for cross in made {
        for end in ends(layout, cross) {
            if *first.entry(end).or_insert(cross) != cross {
                twice.push(end);
            }
        }
    }
    twice.sort_unstable();
    twice
}

/// The part of a readout that matters for these circuits: cross-connections with an end at one of their
/// ports, and those that share a port with such a cross-connection. A change usually concerns a few circuits
/// out of hundreds.
fn about(layout: &Layout, readout: &Readout, circuits: impl Iterator<Item = Circuit>) -> Readout {
    let mut near: Vec<End> =
        circuits.flat_map(|it| layout.crosses(&it)).flat_map(|it| ends(layout, it)).collect();
    near.sort_unstable();
    let touching = readout.crosses.iter().filter(|it| is_in(layout, &near, it.cross));
    let mut far: Vec<End> = touching.flat_map(|it| ends(layout, it.cross)).collect();
    far.extend(&near);
    far.sort_unstable();
    let crosses = readout.crosses.iter().filter(|it| is_in(layout, &far, it.cross)).cloned();
    Readout { crosses: crosses.collect(), ports: readout.ports.clone() }
}

/// The cross-connections that must be removed and added to carry out a delta on a device in this state.
pub(crate) fn steps(
    layout: &Layout,
    switch: SwitchId,
    readout: &Readout,
    delta: &Delta,
) -> Result<Steps, Problem> {
    let create: BTreeSet<Circuit> = delta.create.iter().copied().collect();
    let delete: BTreeSet<Circuit> =
        delta.delete.iter().copied().filter(|it| !create.contains(it)).collect();
    for circuit in create.iter().chain(&delete) {
        belongs(layout, switch, circuit)?;
    }
    let mut used = BTreeSet::new();
    for number in create.iter().flat_map(Circuit::numbers) {
        if !used.insert(number) {
            return Err(Problem::Twice(number));
        }
    }
    let readout = &about(layout, readout, create.iter().chain(&delete).copied());
    let now = snapshot(layout, switch, readout);
    let whole = now.circuits.as_slice();
    let wanted: Vec<&Circuit> =
        create.iter().filter(|it| whole.binary_search(it).is_err()).collect();
    for number in wanted.iter().flat_map(|it| it.numbers()) {
        match now.ports.get(number as usize) {
            None | Some(PortState::Up) => {}
            Some(state) => return Err(Problem::Port { number, state: *state }),
        }
    }
    let canonical = |it: Cross| layout.canonical(it);
    let gone: BTreeSet<Cross> =
        delete.iter().flat_map(|it| layout.crosses(it)).map(canonical).collect();
    let needed: BTreeMap<Cross, Cross> =
        wanted.iter().flat_map(|it| layout.crosses(it)).map(|it| (canonical(it), it)).collect();
    let mut taken: Vec<End> = needed.values().flat_map(|it| ends(layout, *it)).collect();
    taken.sort_unstable();

    let mut remove: Vec<Seen> = Vec::new();
    let mut present: BTreeSet<Cross> = BTreeSet::new();
    for seen in &readout.crosses {
        let cross = canonical(seen.cross);
        if needed.contains_key(&cross) && seen.status == Status::Made {
            if !present.insert(cross) {
                // The device has this cross-connection twice, under two names; one is removed.
                remove.push(seen.clone());
            }
        } else if gone.contains(&cross) {
            remove.push(seen.clone());
        } else if is_in(layout, &taken, cross) {
            may_go(layout, switch, seen, whole, &taken)?;
            remove.push(seen.clone());
        }
    }
    let add = needed.iter().filter(|it| !present.contains(it.0)).map(|it| *it.1).collect();
    Ok(Steps { remove, add })
}

fn belongs(layout: &Layout, switch: SwitchId, circuit: &Circuit) -> Result<(), Problem> {
    if circuit.switch != switch {
        return Err(Problem::OtherSwitch(circuit.to_string()));
    }
    match circuit.numbers().into_iter().find(|it| *it >= layout.ports) {
        Some(number) => Err(Problem::NoSuchPort { number, ports: layout.ports }),
        None => Ok(()),
    }
}

/// Checks whether a cross-connection that is in the way of a new circuit may be removed. It may if all its
/// ends are ports of ours and it is not a complete circuit. Cross-connections to ports of others may not, nor
/// circuits that were not to be deleted.
fn may_go(
    layout: &Layout,
    switch: SwitchId,
    seen: &Seen,
    whole: &[Circuit],
    taken: &[End],
) -> Result<(), Problem> {
    let [input, output] = ends(layout, seen.cross);
    let by_input = layout.of_input(input.1).filter(|_| taken.binary_search(&input).is_ok());
    let by_output = layout.of_output(output.1).filter(|_| taken.binary_search(&output).is_ok());
    let number = by_input.or(by_output).unwrap_or(0);
    match layout.circuit(switch, seen.cross) {
        Some(circuit) if whole.binary_search(&circuit).is_ok() => {
            Err(Problem::Taken { number, by: format!("the circuit {circuit}") })
        }
        Some(_) => Ok(()),
        // Both ends are the same port of ours, as in a loop for tests, so nobody else uses it.
        None if layout.of_input(seen.cross.input).is_some()
            && layout.of_output(seen.cross.output).is_some() =>
        {
            Ok(())
        }
        None => Err(Problem::Taken {
            number,
            by: format!("the device's cross-connection {}, which is not all ours", seen.cross),
        }),
    }
}

/// Compares the state after a change with what was wanted.
pub(crate) fn verify(
    layout: &Layout,
    before: &Readout,
    steps: &Steps,
    after: &Readout,
) -> Result<(), Problem> {
    // A device may have one cross-connection under several names, so they are counted.
    let sorted = |crosses: &mut dyn Iterator<Item = Cross>| {
        let mut all: Vec<Cross> = crosses.map(|it| layout.canonical(it)).collect();
        all.sort_unstable();
        all
    };
    let count = |all: &[Cross], it: &Cross| {
        all.partition_point(|x| x <= it) - all.partition_point(|x| x < it)
    };
    let has = |all: &[Cross], it: &Cross| all.binary_search(it).is_ok();
    let all = |it: &Readout| sorted(&mut it.crosses.iter().map(|it| it.cross));
    let made = |it: &Readout| {
        let made = it.crosses.iter().filter(|it| it.status == Status::Made);
        sorted(&mut made.map(|it| it.cross))
    };
    let add = sorted(&mut steps.add.iter().copied());
    let mut remove = sorted(&mut steps.remove.iter().map(|it| it.cross));
    let (was, is, light) = (all(before), all(after), made(after));
    let missing = add.iter().filter(|it| !has(&light, it)).copied().collect();
    let mut lost = made(before);
    lost.retain(|it| !has(&remove, it) && !has(&light, it));
    let removed = remove.clone();
    remove.dedup();
    remove.retain(|it| count(&is, it) + count(&removed, it) > count(&was, it) + count(&add, it));
    let left = remove;
    let difference = Difference { missing, left, lost };
    if difference.is_none() { Ok(()) } else { Err(Problem::NotDone(Box::new(difference))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: SwitchId = SwitchId(0);

    fn layouts() -> impl Strategy<Value = Layout> {
        prop_oneof![
            Just(Layout::bidirectional(6)),
            Just(Layout::duplex(6)),
            // Ports of somebody else before, between and behind ours.
            Just(Layout { wiring: Wiring::Duplex, ports: 6, first: 3, first_output: 12 }),
            Just(Layout { wiring: Wiring::Bidirectional, ports: 6, first: 3, first_output: 3 }),
        ]
    }

    fn readouts() -> impl Strategy<Value = Readout> {
        let status =
            prop_oneof![4 => Just(Status::Made), 1 => Just(Status::Broken("x".to_owned()))];
        let cross = (1_u32..10, 1_u32..20, status);
        let state = prop_oneof![Just(PortState::Failed), Just(PortState::Disabled)];
        let ports = proptest::collection::vec((1_u32..20, state), 0..2);
        (proptest::collection::vec(cross, 0..8), ports).prop_map(|(crosses, ports)| {
            let numbered = crosses.into_iter().enumerate();
            let crosses = numbered.map(|(at, (input, output, status))| Seen {
                cross: Cross { input, output },
                status,
                key: Some(at.to_string()),
            });
            Readout { crosses: crosses.collect(), ports }
        })
    }

    fn deltas() -> impl Strategy<Value = Delta> {
        let pair =
            || (0_u32..7, 0_u32..7).prop_filter_map("one port", |(a, b)| Circuit::new(ID, a, b));
        let list = || proptest::collection::vec(pair(), 0..3);
        (list(), list()).prop_map(|(delete, create)| Delta { delete, create })
    }

    /// The state of a switch after it has carried out these steps correctly.
    fn done(readout: &Readout, steps: &Steps) -> Readout {
        let mut after = readout.clone();
        after.crosses.retain(|it| !steps.remove.contains(it));
        after.crosses.extend(steps.add.iter().map(|it| Seen::made(it.input, it.output)));
        after
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// What is wanted is there, what is not to be deleted stays, no port of ours gets into two circuits, and what
        /// somebody else has connected is not touched.
        #[test]
        fn what_is_planned_is_right(layout in layouts(), before in readouts(), delta in deltas()) {
            let was = snapshot(&layout, ID, &before);
            let Ok(steps) = steps(&layout, ID, &before, &delta) else { return Ok(()) };
            let after = done(&before, &steps);
            let is = snapshot(&layout, ID, &after);
            for circuit in &delta.create {
                prop_assert!(is.circuits.contains(circuit), "{circuit} is not there: {steps:?}");
            }
            for circuit in &delta.delete {
                prop_assert!(delta.create.contains(circuit) || !is.circuits.contains(circuit));
            }
            for circuit in &was.circuits {
                prop_assert!(delta.delete.contains(circuit) || is.circuits.contains(circuit), "{circuit} is gone");
            }
            for seen in &steps.remove {
                let ours = layout.of_input(seen.cross.input).is_some() && layout.of_output(seen.cross.output).is_some();
                prop_assert!(ours, "{} is not ours", seen.cross);
            }
            let ports: Vec<u32> = is.circuits.iter().flat_map(Circuit::numbers).collect();
            let different: BTreeSet<u32> = ports.iter().copied().collect();
            prop_assert_eq!(ports.len(), different.len());
            prop_assert_eq!(verify(&layout, &before, &steps, &after), Ok(()));
            // And doing it again is nothing.
            let again = super::steps(&layout, ID, &after, &delta);
            prop_assert!(again.as_ref().is_ok_and(Steps::is_empty), "{again:?}");
            // Not doing all of it is seen.
            if let Some((_, rest)) = steps.add.split_last() {
                let half = done(&before, &Steps { add: rest.to_vec(), ..steps.clone() });
                prop_assert!(verify(&layout, &before, &steps, &half).is_err());
            }
        }
    }

    #[test]
    fn what_is_not_done_is_said() {
        let layout = Layout::bidirectional(6);
        let before =
            Readout { crosses: vec![Seen::made(1, 2), Seen::made(5, 6)], ports: Vec::new() };
        let delta = Delta {
            delete: vec![Circuit::new(ID, 0, 1).unwrap()],
            create: vec![Circuit::new(ID, 2, 3).unwrap()],
        };
        let steps = steps(&layout, ID, &before, &delta).unwrap();
        let nothing = Readout { crosses: vec![Seen::made(1, 2)], ports: Vec::new() };
        let problem = verify(&layout, &before, &steps, &nothing).unwrap_err();
        let words = "it is not done: not connected: 3→4; still connected: 1→2; gone though it was to stay: 5→6";
        assert_eq!(problem.to_string(), words);
    }
}
