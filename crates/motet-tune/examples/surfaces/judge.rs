//! One search on a recorded surface: what it had cost when the best point that it had run at full
//! length was first truly within 1% of the best, from when on it stayed there, what it cost in the
//! end, and how good its last recommendation was.

use std::error::Error;

use motet_tune::profile::{Measured, Recorded};
use motet_tune::search::{Budget, Cost, Method, Search, Settings};
use motet_tune::space::{Dimension, Space};
use motet_units::{Duration, Seed};
use serde_json::{Value, json};

/// What a search is put to.
#[derive(Clone, Copy)]
pub(crate) struct Trouble {
    /// Of one iteration, as a part of its time. Without it, a point is run once.
    pub(crate) noise: f64,
    pub(crate) restart: Duration,
}

pub(crate) struct Surface {
    space: Space,
    recorded: Recorded,
}

/// Reads a surface as `record` writes it.
pub(crate) fn read(text: &str) -> Result<Surface, Box<dyn Error>> {
    let mut columns: [Vec<String>; 5] = Default::default();
    let mut rows = Vec::new();
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, program, protocol, channels, threads, buffer, time] = fields[..] else {
            return Err(format!("not a point of a surface: {line}").into());
        };
        let knobs = [program, protocol, channels, threads, buffer].map(str::to_owned);
        for (column, knob) in columns.iter_mut().zip(&knobs) {
            if !column.contains(knob) {
                column.push(knob.clone());
            }
        }
        rows.push((knobs, time.parse().ok()));
    }
    for column in &mut columns[2..] {
        column.sort_by_key(|it| it.parse::<u64>().unwrap_or(u64::MAX));
    }
    let numbers = |at: usize| columns[at].iter().map(|it| it.parse().unwrap_or(1));
    let dimensions = vec![
        Dimension::categorical("program", columns[0].len()),
        Dimension::categorical("protocol", columns[1].len()),
        Dimension::logarithmic("channels", numbers(2)),
        Dimension::logarithmic("threads", numbers(3)).with_restarts(),
        Dimension::logarithmic("buffer", numbers(4)).with_restarts(),
    ];
    let mut points = Vec::new();
    for (knobs, time) in &rows {
        let index =
            |(column, knob): (&Vec<String>, &String)| column.iter().position(|it| it == knob);
        let point: Vec<u16> =
            columns.iter().zip(knobs).filter_map(index).map(|it| it as u16).collect();
        points.push((point, time.map(Duration::from_ps)));
    }
    points.sort();
    let space = Space::new(dimensions, |it| {
        points.binary_search_by(|(point, _)| point[..].cmp(it)).is_ok()
    })?;
    let times = points.into_iter().map(|(_, it)| it.ok_or_else(|| "it does not run".to_owned()));
    Ok(Surface { space, recorded: Recorded::new(times.collect()) })
}

fn cost(it: &Cost) -> Value {
    json!({
        "trials": it.trials,
        "iterations": it.iterations,
        "time_ps": it.time.as_ps(),
        "restarts": it.restarts,
    })
}

pub(crate) fn run(
    surface: &Surface,
    method: Method,
    seed: u64,
    trouble: Trouble,
) -> Result<Value, Box<dyn Error>> {
    let times = surface.recorded.times();
    let (_, best) = surface.recorded.best().ok_or("no point of the surface runs")?;
    let running = times.iter().filter(|it| it.is_ok()).count();
    let mut settings = Settings { method, seed, restart: trouble.restart, ..Settings::default() };
    if trouble.noise == 0.0 {
        settings.most_iterations = Settings::exact().most_iterations;
    }
    // A tenth of the grid, as nobody would spend more.
    let iterations = running as u64 * u64::from(settings.most_iterations) / 10;
    settings.budget = Some(Budget { trials: u32::MAX, iterations });
    let noise = Seed::new(seed).named("surfaces");
    let mut profiler = Measured::with_noise(surface.recorded.clone(), trouble.noise, noise);
    let mut search = Search::new(&surface.space, settings);
    let regret = |point: Option<usize>| {
        let time = point.and_then(|it| times[it].as_ref().ok());
        time.map_or(f64::INFINITY, |it| it.as_ps() as f64 / best.as_ps() as f64 - 1.0)
    };
    let (mut hit, mut stays) = (None, None);
    while search.step(&mut profiler)? {
        if regret(search.ledger().best_at(settings.most_iterations)) <= 0.01 {
            let now = search.ledger().cost();
            hit.get_or_insert(now);
            stays.get_or_insert(now);
        } else {
            stays = None;
        }
    }
    let outcome = search.outcome();
    Ok(json!({
        "method": method.name(),
        "seed": seed,
        "hit": hit.as_ref().map(cost),
        "stays": stays.as_ref().map(cost),
        "end": cost(&outcome.cost),
        "regret": regret(outcome.best),
        "stop": outcome.stop,
    }))
}
