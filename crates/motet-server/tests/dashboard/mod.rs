//! The dashboard and what it asks for: over HTTP, and in a real browser where one is installed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use motet_control::protocol::{GroupId, Registration};
use motet_control::shim::Mode;
use motet_server::api::v1;
use motet_server::serve::{Instead, Running};
use serde_json::{Value, json};

use crate::common::{LONG, Members, client, get, job, register, service, whole};

/// If the page took this for markup, its title would be another.
const HOSTILE: &str = "<img src=x onerror=document.title='taken'>&amp;";
const TOKENS: &str = "[[credential]]\ntoken = 'operator-operator'\nrole = 'operator'\n\
                      [[credential]]\ntoken = 'tenant-tenant-one'\ntenant = 1\n\
                      [[credential]]\ntoken = 'tenant-tenant-two'\ntenant = 2\n";
const OPERATOR: Option<&str> = Some("operator-operator");

fn config(more: &str) -> String {
    format!("store = 'memory'\n[[switch]]\nname = \"{HOSTILE}\"\nports = 64\n{more}")
}

/// Job 7 of tenant 1, whose groups have taken turns: group 0 from the first to the third turn, then group 1 holds.
async fn busy(running: &Running, token: Option<&str>) -> (Registration, Members) {
    let client = client(running, token);
    let job = Registration { mode: Some(Mode::Provisioned), ..job(7, 1, 0) };
    register(&client, &job).await.unwrap();
    let mut members = Members::connect(&client, &job, &[0, 1, 2]).await.unwrap();
    // Group 0 says that it sent before the service started, which counts as at its start; group 1 that it does so now.
    let traffic = |ago: u64| v1::Traffic { began_us_ago: ago, ended_us_ago: ago };
    members.traffic = [(GroupId(0), traffic(u64::MAX)), (GroupId(1), traffic(0))].into();
    for (group, pair) in [(0, [0, 1]), (1, [1, 2]), (0, [0, 1]), (1, [1, 2])] {
        members.whole_call(group, pair).await.unwrap();
    }
    (job, members)
}

async fn answer(running: &Running, path: &str, token: Option<&str>) -> Value {
    let (status, body) = get(running, path, token).await;
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timelines_and_figures_are_for_those_who_may_see_them() {
    let running = service(&config(TOKENS), Instead::default()).await;
    let (_, members) = busy(&running, Some("tenant-tenant-one")).await;
    for path in ["/v1/jobs/7/timeline", "/v1/stats", "/v1/report"] {
        assert_eq!(get(&running, path, None).await.0, 401, "{path}");
    }
    let other = Some("tenant-tenant-two");
    assert_eq!(get(&running, "/v1/jobs/7/timeline", other).await.0, 404);
    assert_eq!(get(&running, "/v1/stats", other).await.0, 403);
    let (status, report) = get(&running, "/v1/report", other).await;
    assert!(status == 200 && !report.contains("/v1/jobs/7"), "{status}");

    let timeline = answer(&running, "/v1/jobs/7/timeline", Some("tenant-tenant-one")).await;
    let phases = timeline["phases"].as_array().unwrap();
    let turns: Vec<u64> = phases.iter().map(|it| it["group"].as_u64().unwrap()).collect();
    assert_eq!(turns, [0, 1, 0, 1], "{timeline}");
    let outcomes: Vec<&str> = phases.iter().map(|it| it["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["held", "held", "held", "open"]);
    for phase in phases {
        let (first, last) = (&phase["asked"]["first_us"], &phase["asked"]["last_us"]);
        assert!(first.as_u64() <= last.as_u64() && last.as_u64() <= phase["held_us"].as_u64());
    }
    let changes = timeline["changes"].as_array().unwrap();
    assert!(changes.len() == 4 && changes.iter().all(|it| it["went"] == "done"), "{timeline}");
    // Both of group 0's turns count as at the start, so there is one window, before group 1's.
    let windows = timeline["windows"].as_array().unwrap();
    assert_eq!(windows.len(), 1, "{timeline}");
    let window = &windows[0];
    assert_eq!(
        (&window["rail"], &window["after"], &window["from_us"]),
        (&0.into(), &1.into(), &0.into())
    );
    assert_eq!(window["length_us"], window["to_us"]);
    assert_eq!(timeline["cdf"][0]["p50_us"], window["length_us"]);
    let few = answer(&running, "/v1/jobs/7/timeline?most=1", OPERATOR).await;
    assert_eq!(few["phases"].as_array().unwrap().len(), 1);

    let stats = answer(&running, "/v1/stats", OPERATOR).await;
    assert_eq!((&stats["granted"], &stats["changes_done"]), (&8.into(), &4.into()));
    assert_eq!((&stats["ask"]["count"], &stats["members"]), (&8.into(), &3.into()));
    assert!(stats["ask"]["p50_us"].as_u64() <= stats["ask"]["p99_us"].as_u64());
    assert!(stats["turned_away"].as_u64() >= Some(3));
    // Nobody speaks for this one.
    register(&client(&running, OPERATOR), &job(8, 2, 8)).await.unwrap();
    let jobs = answer(&running, "/v1/jobs", OPERATOR).await;
    assert_eq!((&jobs[0]["mode"], &jobs[0]["present"]), (&"provisioned".into(), &3.into()));
    assert_eq!((&jobs[1]["mode"], &jobs[1]["present"]), (&Value::Null, &0.into()));
    assert_eq!((&jobs[0]["absent"], &jobs[1]["absent"]), (&json!([]), &json!([0, 1, 2])));
    assert_eq!(answer(&running, "/v1/switches", OPERATOR).await[0]["name"], HOSTILE);
    drop(members);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_for_everybody_and_has_no_data() {
    let running = service(&config(TOKENS), Instead::default()).await;
    let (_, members) = busy(&running, Some("tenant-tenant-one")).await;
    for (path, kind) in
        [("/ui/", "text/html"), ("/ui/style.css", "text/css"), ("/ui/app.js", "text/javascript")]
    {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = whole(running.address, request.as_bytes()).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        for line in [
            format!("content-type: {kind}").as_str(),
            "content-security-policy: default-src 'none'; script-src 'self'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "x-frame-options: deny",
        ] {
            assert!(head.contains(line), "{path} lacks {line}: {head}");
        }
        assert!(!body.contains("onerror") && !body.contains("operator-operator"), "{path}");
    }
    assert_eq!(get(&running, "/", None).await.0, 307);
    let openapi = answer(&running, "/openapi.json", None).await;
    for path in ["/v1/jobs/{job}/timeline", "/v1/stats", "/v1/report"] {
        assert!(openapi["paths"][path]["get"].is_object(), "{path}");
    }
    let request = "GET /v1/jobs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
                   authorization: Bearer operator-operator\r\n\r\n";
    let answer = whole(running.address, request.as_bytes()).await.to_lowercase();
    assert!(answer.contains("cache-control: no-store") && answer.contains("nosniff"), "{answer}");
    drop(members);
    running.stop().await;
}

/// The first browser there is. Nothing where there is none, which is said past the harness: it would drop what a test that passes
/// has said.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = names
        .iter()
        .flat_map(|name| all.iter().map(move |it| it.join(name)))
        .find(|it| it.is_file());
    if found.is_none() {
        let why = "no chromium and no google-chrome on the PATH";
        let _ = writeln!(std::io::stderr(), "skipped: dashboard: {why}");
    }
    found
}

/// The page as the browser has it after its script has run for a while.
fn dump(browser: &Path, address: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("dom.html");
    let mut child = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-background-networking", "--disable-extensions"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .args(["--virtual-time-budget=5000", "--dump-dom", address])
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > 2 * LONG {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{} does not end", browser.display());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    std::fs::read_to_string(&out).unwrap()
}

/// Nothing in a name became markup, and it can be read.
fn harmless(dom: &str) {
    assert!(dom.contains("<title>Motet controller</title>"), "{dom}");
    assert!(dom.contains("&lt;img src=x onerror=document.title='taken'&gt;&amp;amp;"), "{dom}");
}

/// What must be seen of [`busy`]. Of a value that differs from run to run, that it begins with a digit.
fn whole_picture(dom: &str) {
    let number = |name: &str| {
        let after = dom.split(&format!("<dt>{name}</dt><dd>")).nth(1);
        let value = after.and_then(|it| it.split('<').next()).unwrap_or_default();
        assert!(value.starts_with(|it: char| it.is_ascii_digit()), "{name}: `{value}` in {dom}");
    };
    for seen in [
        // The job, with its mode and members; and that it is chosen.
        "href=\"#job=7\"",
        "<td class=\"text\">provisioned</td>",
        "<td>3 of 3</td>",
        "Timeline <span class=\"of\">of job 7</span>",
        // The circuit: drawn, and as a table.
        "<title>ports 1 – 2: job 7, group 1, in use</title>",
        "<td class=\"text\">1 – 2</td>",
        // Who holds.
        "<td class=\"text\">holds</td><td>1 of 1</td><td>2</td>",
        // Turns, changes and windows.
        "class=\"bar-held\"",
        "class=\"bar-change\"",
        "<title>window on rail 0: ",
        "<title>rail 0</title>",
        // Health.
        "<dt>store</dt><dd>works</dd>",
        "<dt>switches up</dt><dd>1 of 1</dd>",
        "<dt>grants</dt><dd>8</dd>",
        "<dt>changes done</dt><dd>4</dd>",
        "<dt>switches lost</dt><dd>0</dd>",
        // The journal.
        "job 7 of tenant 1 begins",
    ] {
        assert!(dom.contains(seen), "no {seen} in {dom}");
    }
    number("ask to answer, p50");
    number("ask to answer, p99");
    harmless(dom);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_shows_all_of_it() {
    let Some(browser) = browser() else {
        return;
    };
    let running = service(&config(""), Instead::default()).await;
    let (_, members) = busy(&running, None).await;
    let live = format!("http://{}/ui/", running.address);
    let (at, with) = (live.clone(), browser.clone());
    let dom = tokio::task::spawn_blocking(move || dump(&with, &at)).await.unwrap();
    whole_picture(&dom);
    assert!(dom.contains("Connected."), "{dom}");

    // The same from a file, when there is no service any more.
    let (_, report) = get(&running, "/v1/report", None).await;
    drop(members);
    running.stop().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("motet.html");
    std::fs::write(&file, &report).unwrap();
    let (at, with) = (format!("file://{}", file.display()), browser.clone());
    let dom = tokio::task::spawn_blocking(move || dump(&with, &at)).await.unwrap();
    whole_picture(&dom);
    assert!(dom.contains("nothing here changes any more"), "{dom}");

    // And if it has no answers, nor anybody to ask.
    std::fs::write(&file, report.replacen("id=\"answers\"", "", 1)).unwrap();
    let at = format!("file://{}", file.display());
    let dom = tokio::task::spawn_blocking(move || dump(&browser, &at)).await.unwrap();
    assert!(dom.contains("The service cannot be reached (no connection)"), "{dom}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_browser_without_a_token_is_asked_for_one() {
    let Some(browser) = browser() else {
        return;
    };
    let running = service(&config(TOKENS), Instead::default()).await;
    let (_, members) = busy(&running, Some("tenant-tenant-one")).await;
    let at = format!("http://{}/ui/", running.address);
    let dom = tokio::task::spawn_blocking(move || dump(&browser, &at)).await.unwrap();
    assert!(dom.contains("The service wants a token"), "{dom}");
    assert!(dom.contains("<form id=\"access\">"), "{dom}");
    assert!(!dom.contains("#job=7") && !dom.contains("onerror"), "{dom}");
    // It asked once and waits for the token.
    assert_eq!(running.metrics.turned_away(), 1);
    drop(members);
    running.stop().await;
}
