//! The HTTP/JSON API, with its OpenAPI document at `/openapi.json`.
//!
//! [`views`] has the types of answers, [`check`] authenticates callers, `dashboard` has data about the past,
//! and `ui` the page that shows all of it. `/healthz`, `/openapi.json` and the page (without data) are for
//! everybody.

#![allow(unused_qualifications, reason = "utoipa's macros write them")]

pub mod check;
mod dashboard;
mod ui;
pub mod views;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::{Extension, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use motet_control::controller::RegisterError;
use motet_control::protocol::JobId;
use serde::Deserialize;
use utoipa::{IntoParams, OpenApi};

use crate::auth::Caller;
use crate::engine::{Health, Inbox};
use crate::job::{CircuitSpec, JobSpec};
use crate::metrics::Metrics;
use crate::store::Store;
use views::{CircuitView, GroupView, HealthView, JobView, Problem, RecordView, SwitchView};

/// The most bytes of a body: a job of 36,864 ranks has about five million.
pub const MOST_BODY: usize = 32 << 20;
/// The most entries of an answer.
const MOST: usize = 10_000;

/// The state that handlers answer from.
#[derive(Clone, Debug)]
pub struct Context {
    pub inbox: Inbox,
    pub store: Arc<dyn Store>,
    pub metrics: Arc<Metrics>,
    pub health: Arc<Health>,
    /// The names of the switches, in the order of their numbers.
    pub names: Arc<[String]>,
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Motet's controller",
        description = "Optical circuits of training jobs: what there is, and why"
    ),
    paths(
        health,
        jobs,
        job,
        groups,
        register,
        leave,
        circuits,
        switches,
        journal,
        dashboard::timeline,
        dashboard::stats,
        dashboard::report
    )
)]
struct Document;

/// The OpenAPI document, as JSON.
#[must_use]
pub fn openapi() -> String {
    let mut document = Document::openapi();
    env!("CARGO_PKG_VERSION").clone_into(&mut document.info.version);
    document.to_pretty_json().unwrap_or_default()
}

/// All routes that need a caller.
pub fn routes(context: Context) -> Router {
    Router::new()
        .route("/v1/health", get(health))
        .route("/v1/jobs", get(jobs).post(register))
        .route("/v1/jobs/{job}", get(job).delete(leave))
        .route("/v1/jobs/{job}/groups", get(groups))
        .route("/v1/jobs/{job}/timeline", get(dashboard::timeline))
        .route("/v1/stats", get(dashboard::stats))
        .route("/v1/report", get(dashboard::report))
        .route("/v1/circuits", get(circuits))
        .route("/v1/switches", get(switches))
        .route("/v1/journal", get(journal))
        .route("/metrics", get(metrics))
        .layer(axum::extract::DefaultBodyLimit::max(MOST_BODY))
        .layer(axum::middleware::from_fn(check::bound))
        .layer(axum::middleware::map_response(private))
        .with_state(context)
}

/// Adds headers that keep browsers from guessing content types and from caching answers.
async fn private(mut response: Response) -> Response {
    let headers = response.headers_mut();
    for (name, value) in ui::SAFE {
        headers.insert(name, axum::http::HeaderValue::from_static(value));
    }
    headers.insert(header::CACHE_CONTROL, axum::http::HeaderValue::from_static("no-store"));
    response
}

/// The routes for everybody.
pub fn open_routes(health: Arc<Health>) -> Router {
    let healthz = move || {
        let health = Arc::clone(&health);
        async move {
            if health.stopping.load(Ordering::Relaxed) {
                (StatusCode::SERVICE_UNAVAILABLE, "stopping\n")
            } else if health.store_failing.load(Ordering::Relaxed) {
                (StatusCode::SERVICE_UNAVAILABLE, "the store fails; see the log\n")
            } else {
                (StatusCode::OK, "ok\n")
            }
        }
    };
    let document = || async { ([("content-type", "application/json")], openapi()) };
    let open = Router::new().route("/healthz", get(healthz)).route("/openapi.json", get(document));
    open.merge(ui::routes())
}

/// A failed request: its status and the problem.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(Problem { problem: self.1 })).into_response()
    }
}

fn stopped(it: impl std::fmt::Display) -> Failure {
    Failure(StatusCode::SERVICE_UNAVAILABLE, it.to_string())
}

fn forbidden(what: &str) -> Failure {
    Failure(StatusCode::FORBIDDEN, format!("this token may not {what}"))
}

fn unknown(job: u64) -> Failure {
    Failure(StatusCode::NOT_FOUND, format!("there is no job {job}"))
}

type Answer<T> = Result<Json<T>, Failure>;

/// Whether the service works, and how much it does
#[utoipa::path(get, path = "/v1/health", responses((status = 200, body = HealthView)))]
async fn health(State(context): State<Context>) -> Answer<HealthView> {
    let look = context.inbox.look(|it| {
        let (queue, changing) = it.pending();
        let up = it.switches().filter(|it| it.contact == motet_control::controller::Contact::Up);
        let up = up.count();
        (it.registrations().count(), it.switches().count(), up, queue, changing)
    });
    // While the store fails the engine does not answer, but this handler must, so it waits only for a while.
    let failing = context.health.store_failing.load(Ordering::Relaxed);
    let look = tokio::time::timeout(std::time::Duration::from_secs(2), look).await;
    let (jobs, switches, up, queue, changing) = match look {
        Ok(it) => it.map_err(stopped)?,
        Err(_) => return Err(stopped("the controller waits for its store; see the log")),
    };
    let version = env!("CARGO_PKG_VERSION");
    Ok(Json(HealthView {
        version,
        store_failing: failing,
        jobs,
        switches,
        switches_up: up,
        queue,
        changing,
    }))
}

/// All jobs that the caller may see
#[utoipa::path(get, path = "/v1/jobs", responses((status = 200, body = Vec<JobView>)))]
async fn jobs(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
) -> Answer<Vec<JobView>> {
    let look = context.inbox.see(move |sight| {
        let mine = sight.controller.registrations();
        let mine = mine.filter(|it| caller.may_see(it.job, it.tenant)).take(MOST);
        mine.map(|it| JobView::new(it, sight)).collect()
    });
    Ok(Json(look.await.map_err(stopped)?))
}

/// One job
#[utoipa::path(get, path = "/v1/jobs/{job}", params(("job" = u64, Path)),
    responses((status = 200, body = JobView), (status = 404, body = Problem)))]
async fn job(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<u64>,
) -> Answer<JobView> {
    let look = context.inbox.see(move |sight| {
        let found = sight.controller.registration(JobId(job));
        found.filter(|it| caller.may_see(it.job, it.tenant)).map(|it| JobView::new(it, sight))
    });
    look.await.map_err(stopped)?.map(Json).ok_or_else(|| unknown(job))
}

/// The groups of a job: who asks, who holds, and which circuits are set
#[utoipa::path(get, path = "/v1/jobs/{job}/groups", params(("job" = u64, Path)),
    responses((status = 200, body = Vec<GroupView>), (status = 404, body = Problem)))]
async fn groups(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<u64>,
) -> Answer<Vec<GroupView>> {
    let look = context.inbox.look(move |it| {
        let found = it.registration(JobId(job));
        found.filter(|it| caller.may_see(it.job, it.tenant))?;
        Some(it.groups(JobId(job)).take(MOST).map(GroupView::from).collect())
    });
    look.await.map_err(stopped)?.map(Json).ok_or_else(|| unknown(job))
}

/// Begins a job; the same one twice is no error
#[utoipa::path(post, path = "/v1/jobs", request_body = JobSpec,
    responses((status = 204), (status = 409, body = Problem), (status = 422, body = Problem)))]
async fn register(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Json(spec): Json<JobSpec>,
) -> Result<StatusCode, Failure> {
    let it = spec.registration().map_err(|it| Failure(StatusCode::UNPROCESSABLE_ENTITY, it))?;
    if !caller.speaks_for(it.job) || !caller.may_register(it.tenant) {
        context.metrics.refuse("wrong_tenant");
        tracing::warn!(%caller, job = it.job.0, "refused: the job is another's");
        return Err(forbidden("begin jobs of that tenant, or that job"));
    }
    match context.inbox.register(it).await.map_err(stopped)? {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(why @ RegisterError::Exists(_)) => Err(Failure(StatusCode::CONFLICT, why.to_string())),
        Err(why) => Err(Failure(StatusCode::UNPROCESSABLE_ENTITY, why.to_string())),
    }
}

/// Ends a job: its circuits are taken down, and its ports are free
#[utoipa::path(delete, path = "/v1/jobs/{job}", params(("job" = u64, Path)),
    responses((status = 204), (status = 404, body = Problem)))]
async fn leave(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Path(job): Path<u64>,
) -> Result<StatusCode, Failure> {
    let look = context.inbox.look(move |it| {
        let found = it.registration(JobId(job));
        found.is_some_and(|it| caller.speaks_for(it.job) && caller.may_register(it.tenant))
    });
    if !look.await.map_err(stopped)? {
        return Err(unknown(job));
    }
    context.inbox.leave(JobId(job)).await.map_err(stopped)?;
    Ok(StatusCode::NO_CONTENT)
}

/// The circuits that are set, on all switches; tenants see those between their own ports
#[utoipa::path(get, path = "/v1/circuits", responses((status = 200, body = Vec<CircuitView>)))]
async fn circuits(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
) -> Answer<Vec<CircuitView>> {
    let look = context.inbox.look(move |it| {
        let view = |circuit: motet_control::Circuit| {
            let owner = circuit.ends().into_iter().find_map(|port| it.owner(port)).map(|it| it.0);
            let tenant = owner.and_then(|job| it.registration(job)).map(|it| it.tenant);
            let sees = match owner.zip(tenant) {
                Some((job, tenant)) => caller.may_see(job, tenant),
                None => caller.may_see_all(),
            };
            let CircuitSpec { switch, a, b } = circuit.into();
            sees.then(|| CircuitView {
                switch,
                a,
                b,
                job: owner.map(|it| it.0),
                members: circuit.ends().map(|port| it.owner(port).map(|it| it.1.0)),
                groups: it.users(&circuit).map(|it| it.0).collect(),
                in_use: it.is_in_use(&circuit),
            })
        };
        it.circuits().filter_map(view).take(MOST).collect()
    });
    Ok(Json(look.await.map_err(stopped)?))
}

/// The switches, and whether they answer
#[utoipa::path(get, path = "/v1/switches", responses((status = 200, body = Vec<SwitchView>)))]
async fn switches(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
) -> Answer<Vec<SwitchView>> {
    if !caller.may_see_all() {
        return Err(forbidden("look at switches"));
    }
    let look = context.inbox.look(|it| it.switches().collect::<Vec<_>>()).await.map_err(stopped)?;
    Ok(Json(look.into_iter().map(|it| SwitchView::new(it, &context.names)).collect()))
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct Tail {
    /// The number of the first record; without it, the last ones.
    from: Option<u64>,
    /// How many at most: 100 unless told, 10000 at most.
    most: Option<usize>,
}

/// What the controller did, in order
#[utoipa::path(get, path = "/v1/journal", params(Tail), responses((status = 200, body = Vec<RecordView>)))]
async fn journal(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
    Query(tail): Query<Tail>,
) -> Answer<Vec<RecordView>> {
    if !caller.may_see_all() {
        return Err(forbidden("read the journal"));
    }
    let most = tail.most.unwrap_or(100).min(MOST);
    let store = Arc::clone(&context.store);
    let records = tokio::task::spawn_blocking(move || store.records(tail.from, most)).await;
    let records = records.map_err(stopped)?.map_err(stopped)?;
    Ok(Json(records.into_iter().map(RecordView::from).collect()))
}

async fn metrics(
    State(context): State<Context>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Failure> {
    if !caller.may_see_all() {
        return Err(forbidden("read metrics"));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([("content-type", kind)], context.metrics.text()).into_response())
}
