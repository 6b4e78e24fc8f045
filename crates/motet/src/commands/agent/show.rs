//! `motet agent show`: what the agent sees of a call, what it may do, what the gates say and what is held to be so
//! before anything is measured. Without a cluster: the same call at each tier, and §7's example.

use motet_agent::action::{Action, ActionSpace};
use motet_agent::env::{Atlas, Place, PlaceError};
use motet_agent::eval::sweep::ChosenKernel;
use motet_agent::eval::{AtTier, sweep as sweep_tiers};
use motet_agent::gate::{Experts, gate};
use motet_agent::policy::{DEFAULT, default_policy};
use motet_agent::prior::SyncRound;
use motet_agent::prior::tiers;
use motet_agent::state::{CallState, State, TopologyClass};
use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, NcclOptions, Protocol};
use motet_net::Tier;
use motet_units::{Bandwidth, Bytes, Seed};
use serde::Serialize;

use crate::args::agent::ShowArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::table::{Table, Values};

#[derive(Serialize)]
struct ActionJson {
    index: usize,
    algorithm: Option<&'static str>,
    protocol: Option<&'static str>,
    channels: Option<u32>,
    time_us: f64,
}

#[derive(Serialize)]
struct MaskedJson {
    algorithm: &'static str,
    protocol: &'static str,
    reason: String,
}

#[derive(Serialize)]
struct TierJson {
    tier: u8,
    place: String,
    /// What the default policy holds to be the best after some hundred calls.
    chosen: String,
    chosen_us: f64,
    best: String,
    best_us: f64,
    nccl: String,
    nccl_us: f64,
}

pub(crate) fn run(args: &ShowArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let Some(cluster) = &args.cluster else { return sweep(args, printer) };
    let network = files::network(cluster, &args.read.options(), printer)?.network;
    let place = Place::new(cluster, network, TopologyClass::Mixed, NcclOptions::default(), None)
        .map_err(|it| Failure::wrong(it.to_string()).in_file(cluster))?;
    let brief = brief(&place, args.collective, args.size)?;
    let call = CallState::first(args.collective, args.size);
    let state = State { topology: place.topology, call, ..State::BLANK };
    let verdict = gate(&state, &Experts::default()).to_string();
    let actions: Vec<ActionJson> =
        brief.space.actions().zip(&brief.nominal).enumerate().map(action).collect();
    let masked = masked(&brief.space);
    if printer.is_json() {
        let encoding: Vec<(String, f32)> =
            motet_agent::state::encoding::names().into_iter().zip(state.encode()).collect();
        printer.json(&serde_json::json!({
            "cluster": cluster,
            "collective": args.collective.name(),
            "size_bytes": args.size.get(),
            "gate": verdict,
            "state": encoding,
            "actions": actions,
            "masked": masked,
        }))?;
        return Ok(Status::Done);
    }
    printer.out(&format!(
        "{} of {} on {}\ngate: {verdict}\n\n",
        args.collective, args.size, place.name
    ))?;
    printer.out("what it sees, but for zeros:\n")?;
    for (name, value) in motet_agent::state::encoding::names().iter().zip(state.encode()) {
        if value > 0.0 {
            printer.out(&format!("  {name} {value:.3}\n"))?;
        }
    }
    printer
        .out("\nwhat it may do, and what that takes by the model, nobody else being there:\n")?;
    printer.out(&table(&actions).text())?;
    printer.out("\nwhat it may not:\n")?;
    for it in &masked {
        printer.out(&format!("  {}/{}: {}\n", it.algorithm, it.protocol, it.reason))?;
    }
    Ok(Status::Done)
}

fn tier(it: &AtTier) -> TierJson {
    let named = |it: &ChosenKernel| format!("{}/{}/{}", it.kernel.0, it.kernel.1, it.channels);
    TierJson {
        tier: it.tier,
        place: it.place.clone(),
        chosen: named(&it.chosen),
        chosen_us: it.chosen.micros,
        best: named(&it.best),
        best_us: it.best.micros,
        nccl: named(&it.nccl),
        nccl_us: it.nccl.micros,
    }
}

fn no_price(error: &PlaceError) -> Failure {
    Failure::wrong(error.to_string()).with_remedy(
        "NCCL chooses knobs for allreduce, allgather, reducescatter, broadcast and reduce",
    )
}

fn brief(
    place: &Place,
    kind: CollectiveKind,
    size: Bytes,
) -> Result<std::sync::Arc<motet_agent::env::Brief>, Failure> {
    place.brief(kind, size).map_err(|it| no_price(&it))
}

fn action((index, (action, time)): (usize, (Action, &f64))) -> ActionJson {
    ActionJson {
        index,
        algorithm: action.algorithm.map(Algorithm::name),
        protocol: action.protocol.map(Protocol::name),
        channels: action.channels,
        time_us: *time,
    }
}

fn masked(space: &ActionSpace) -> Vec<MaskedJson> {
    let mut all = Vec::new();
    for algorithm in Algorithm::ALL {
        for protocol in Protocol::ALL {
            if let Err(why) = space.check(&Action::nccl(algorithm, protocol)) {
                let (algorithm, protocol) = (algorithm.name(), protocol.name());
                all.push(MaskedJson { algorithm, protocol, reason: why.to_string() });
            }
        }
    }
    all
}

fn table(actions: &[ActionJson]) -> Table {
    let own = |it: Option<&str>| it.unwrap_or("own").to_owned();
    let words =
        |of: &dyn Fn(&ActionJson) -> String| Values::Words(actions.iter().map(of).collect());
    Table::new()
        .with("#", Values::Whole(actions.iter().map(|it| it.index as i64).collect()))
        .with("algorithm", words(&|it| own(it.algorithm)))
        .with("protocol", words(&|it| own(it.protocol)))
        .with("channels", words(&|it| own(it.channels.map(|it| it.to_string()).as_deref())))
        .with("µs", Values::Number(actions.iter().map(|it| it.time_us).collect(), 1))
}

/// The same call at tiers 1 to 4 (§13.9), and how long it takes to bring the survey's model together (§7).
fn sweep(args: &ShowArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let mut policy = default_policy().make(Seed::new(1));
    let call = (args.collective, args.size);
    let found = sweep_tiers(&mut *policy, &Atlas::default(), call, Seed::new(1));
    let found = found.map_err(|it| no_price(&it))?;
    let tiers_json: Vec<TierJson> = found.iter().map(tier).collect();
    let seconds = |over: Bandwidth| {
        SyncRound::of_the_survey(over).time().map_or(f64::NAN, |it| it.as_us_f64() / 1e6)
    };
    let slow = seconds(Bandwidth::gbit_per_s(1));
    let nvlink = Tier::new(1).and_then(|it| tiers::of(it).bandwidth).map(|it| it.0);
    let fast = nvlink.map_or(f64::NAN, seconds);
    if printer.is_json() {
        printer.json(&serde_json::json!({
            "collective": args.collective.name(),
            "size_bytes": args.size.get(),
            "tiers": tiers_json,
            "sync_100b_1gbit_s": slow,
            "sync_100b_nvlink_s": fast,
        }))?;
        return Ok(Status::Done);
    }
    let words = |of: fn(&TierJson) -> &str| {
        Values::Words(tiers_json.iter().map(|it| of(it).to_owned()).collect())
    };
    let micros = |of: fn(&TierJson) -> f64| Values::Number(tiers_json.iter().map(of).collect(), 1);
    let table = Table::new()
        .with("tier", Values::Whole(tiers_json.iter().map(|it| i64::from(it.tier)).collect()))
        .with("where", words(|it| &it.place))
        .with(DEFAULT, words(|it| &it.chosen))
        .with("µs", micros(|it| it.chosen_us))
        .with("best by the model", words(|it| &it.best))
        .with("its µs", micros(|it| it.best_us))
        .with("NCCL's own", words(|it| &it.nccl))
        .with("its µs", micros(|it| it.nccl_us));
    printer.out(&format!(
        "{} of {} at each tier (algorithm/protocol/channels):\n",
        args.collective, args.size
    ))?;
    printer.out(&table.text())?;
    printer.out(&format!(
        "\n100 billion parameters of 16 bits, once over one link: {slow:.0} s at 1 Gbit/s, {fast:.2} s over NVLink at 900 GB/s\n"
    ))?;
    Ok(Status::Done)
}
