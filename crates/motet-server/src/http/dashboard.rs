//! The dashboard's data beyond the controller's present state: timelines, figures, and everything in one
//! file.

use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use motet_control::protocol::JobId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::views::{Problem, RecordView};
use super::{Answer, Context, Failure, Tail, forbidden, stopped, ui, unknown};
use crate::auth::Caller;
use crate::engine::Sight;
use crate::timeline::{Cdf, Change, Phase, Window, cdf, quantile, windows};

/// How long the engine may take to answer; it does not answer while its store fails.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most jobs that are in the file with their groups and timelines.
const MOST_JOBS: usize = 50;

/// What a job did with its circuits of late. All times are microseconds since the service started, by a clock that never jumps.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct TimelineView {
    job: u64,
    now_us: u64,
    /// Turns of groups: those that have ended in the order of their ends, then those that have not.
    phases: Vec<Phase>,
    changes: Vec<Change>,
    /// Between phases on a rail, where members have told when they sent.
    windows: Vec<Window>,
    /// Of all windows that are known, also those that are not listed.
    cdf: Vec<Cdf>,
    /// Phases that are no longer known.
    dropped: u64,
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Latest {
    /// How many of the last phases, changes and windows at most, each: 500 unless told.
    most: Option<usize>,
}

/// What a job's groups did of late: phases, changes of circuits, windows
#[utoipa::path(get, path = "/v1/jobs/{job}/timeline", params(("job" = u64, Path), Latest),
    responses((status = 200, body = TimelineView), (status = 404, body = Problem)))]
pub(super) async fn timeline(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<u64>,
    Query(latest): Query<Latest>,
) -> Answer<TimelineView> {
    let look = context.inbox.see(move |it| {
        let found = it.controller.registration(JobId(job));
        let found = found.filter(|it| caller.may_see(it.job, it.tenant))?;
        Some((it.now, it.history.of(JobId(job)), found.groups.clone()))
    });
    let (now_us, kept, groups) = look.await.map_err(stopped)?.ok_or_else(|| unknown(job))?;
    // Windows are computed here and not on the engine's thread, which has more urgent work.
    let windows = windows(&kept.phases, &groups);
    let most = latest.most.unwrap_or(500);
    Ok(Json(TimelineView {
        job,
        now_us,
        cdf: cdf(&windows),
        phases: last(kept.phases, most),
        changes: last(kept.changes, most),
        windows: last(windows, most),
        dropped: kept.dropped,
    }))
}

fn last<T>(mut all: Vec<T>, most: usize) -> Vec<T> {
    let first = all.len().saturating_sub(most);
    all.drain(..first);
    all
}

/// Figures of the service since it started, as far as people want to see them; `/metrics` has all.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct StatsView {
    uptime_us: u64,
    /// Members that are connected.
    members: i64,
    connections: i64,
    /// Reports of members.
    reports: u64,
    granted: u64,
    passed: u64,
    refused: u64,
    recalled: u64,
    /// From a member's ask to the answer, of the last asks.
    ask: Times,
    changes_begun: u64,
    changes_done: u64,
    changes_failed: u64,
    changes_rolled_back: u64,
    switches_lost: u64,
    store_failures: u64,
    slow_readers: u64,
    /// Clients that were turned away.
    turned_away: u64,
}

/// How long something took, the last few thousand times.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Times {
    count: usize,
    p50_us: u32,
    p99_us: u32,
    most_us: u32,
}

impl Times {
    fn new(mut all: Vec<u32>) -> Self {
        all.sort_unstable();
        let [p50_us, p99_us, most_us] = [50, 99, 100].map(|it| quantile(&all, it));
        Self { count: all.len(), p50_us, p99_us, most_us }
    }
}

/// How much the service does, and how long it takes
#[utoipa::path(get, path = "/v1/stats", responses((status = 200, body = StatsView)))]
pub(super) async fn stats(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
) -> Answer<StatsView> {
    if !caller.may_see_all() {
        return Err(forbidden("read figures of the service"));
    }
    let look = context.inbox.see(|it: &Sight<'_>| (it.now, it.history.waits()));
    let look = tokio::time::timeout(PATIENCE, look).await;
    let look = look.map_err(|_| stopped("the controller waits for its store; see the log"))?;
    let (uptime_us, waits) = look.map_err(stopped)?;
    let it = &context.metrics;
    Ok(Json(StatsView {
        uptime_us,
        members: it.members.get(),
        connections: it.connections.get(),
        reports: it.reports.get(),
        granted: it.notices_of("grant"),
        passed: it.notices_of("pass"),
        refused: it.notices_of("refuse"),
        recalled: it.notices_of("recall"),
        ask: Times::new(waits),
        changes_begun: it.changes_of("begun"),
        changes_done: it.changes_of("done"),
        changes_failed: it.changes_of("failed"),
        changes_rolled_back: it.changes_of("rolled_back"),
        switches_lost: it.switches_lost.get(),
        store_failures: it.store_failures.get(),
        slow_readers: it.slow_readers.get(),
        turned_away: it.turned_away(),
    }))
}

/// The dashboard with all that the caller may see, as one file that needs neither network nor service
#[utoipa::path(get, path = "/v1/report", responses((status = 200, content_type = "text/html", body = String)))]
pub(super) async fn report(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let state = || State(context.clone());
    let who = || Extension(caller.clone());
    let mut answers = Map::new();
    put(&mut answers, "/v1/health".to_owned(), super::health(state()).await);
    put(&mut answers, "/v1/stats".to_owned(), stats(state(), who()).await);
    put(&mut answers, "/v1/switches".to_owned(), super::switches(state(), who()).await);
    put(&mut answers, "/v1/circuits".to_owned(), super::circuits(state(), who()).await);
    let tail = Query(Tail { from: None, most: None });
    let records: Answer<Vec<RecordView>> = super::journal(state(), who(), tail).await;
    put(&mut answers, "/v1/journal".to_owned(), records);
    let jobs = super::jobs(state(), who()).await;
    let numbers: Vec<u64> = match &jobs {
        Ok(Json(all)) => all.iter().take(MOST_JOBS).map(|it| it.job).collect(),
        Err(_) => Vec::new(),
    };
    put(&mut answers, "/v1/jobs".to_owned(), jobs);
    for job in numbers {
        let path = format!("/v1/jobs/{job}");
        put(&mut answers, format!("{path}/groups"), super::groups(state(), who(), Path(job)).await);
        let latest = Query(Latest { most: None });
        let timeline = timeline(state(), who(), Path(job), latest).await;
        put(&mut answers, format!("{path}/timeline"), timeline);
    }
    let kind = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"motet.html\""),
    ];
    (kind, ui::file(&answers)).into_response()
}

/// Adds an answer in the form that the page expects: the value, or the reason why there is none.
fn put<T: Serialize>(answers: &mut Map<String, Value>, path: String, answer: Answer<T>) {
    let mut entry = Map::new();
    match answer {
        Ok(Json(it)) => {
            let value = serde_json::to_value(it).unwrap_or_default();
            entry.insert("value".to_owned(), value);
        }
        Err(Failure(status, problem)) => {
            entry.insert("status".to_owned(), status.as_u16().into());
            entry.insert("problem".to_owned(), problem.into());
        }
    }
    answers.insert(path, Value::Object(entry));
}
