//! The page is whole: every task is in it, every link leads somewhere, nothing is loaded from afar, and
//! its tags are balanced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use motet_collective::CollectiveKind;
use motet_net::builders::{self, Params};
use motet_net::formats::cluster_toml;
use motet_tune::plan::communicator::Effort;
use motet_tune::plan::make::Nccl;
use motet_tune::plan::{MscclppUse, NoJournal, Request, folder, make};
use motet_tune::search;
use motet_units::Bytes;

use super::*;

/// Made once for all tests.
static MADE: LazyLock<Made> = LazyLock::new(made);

/// A plan with programs for both runtimes, and a collective that NCCL has nothing for.
#[derive(Clone)]
struct Made {
    network: Network,
    plan: Plan,
    maker: Maker,
    sketches: Vec<String>,
}

fn made() -> Made {
    let params = Params::from_words(["count=2"]).unwrap();
    let network = builders::find("dgx-a100").unwrap().build(&params).unwrap();
    let request = Request {
        tasks: [CollectiveKind::AllGather, CollectiveKind::AllToAll]
            .map(|it| (it, [10, 15, 20, 25].map(|it| Bytes::new(1 << it)).to_vec()))
            .to_vec(),
        seed: 0,
        effort: Effort { method: search::Method::Surrogate, trials: 0 },
        sketch: None,
        most_blocks: None,
        mscclpp: MscclppUse::default(),
        runtime: None,
        margin_percent: 5,
    };
    let plan = make(&network, &request, &NoJournal).unwrap();
    let sketches =
        request.sketches(&network).iter().map(|it| format!("sketches/{}.toml", it.name)).collect();
    let maker = Maker { motet: "1.2.3".to_owned(), command: "motet plan a<b -o \"c\"".to_owned() };
    Made { network, plan, maker, sketches }
}

impl Made {
    fn html(&self) -> String {
        Report { plan: &self.plan, network: &self.network, maker: &self.maker }.html()
    }

    fn files(&self) -> BTreeMap<String, String> {
        let mut extra =
            BTreeMap::from([(folder::NETWORK.to_owned(), cluster_toml::write(&self.network))]);
        extra.extend(self.sketches.iter().map(|it| (it.clone(), String::new())));
        let nccl = Nccl::new(&self.network, self.plan.setup);
        folder::files(&self.plan, &self.maker, nccl.priced(&self.network).as_ref(), extra).unwrap()
    }
}

/// The values of an attribute, wherever it stands.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let begin = format!(" {attribute}=\"");
    html.split(begin.as_str()).skip(1).map(|it| it.split('"').next().unwrap()).collect()
}

/// The part of the page about a collective.
fn section(html: &str, kind: CollectiveKind) -> &str {
    let from = html.split(&format!("<section id=\"{kind}\">")).nth(1).unwrap();
    from.split("</section>").next().unwrap()
}

/// What is wrong with the nesting of tags, if anything.
fn unbalanced(html: &str) -> Option<String> {
    const VOID: [&str; 4] = ["meta", "br", "hr", "!doctype"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>')?;
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.split([' ', '\n', '/']).find(|it| !it.is_empty())?;
        if tag.starts_with('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Some(format!("</{name}> closes {last:?}")),
            }
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        // Their content is no HTML.
        if (name == "script" || name == "style") && !tag.starts_with('/') {
            rest = &rest[rest.find(&format!("</{name}>"))?..];
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} are never closed"))
}

#[test]
fn tags_out_of_order_are_seen() {
    assert_eq!(unbalanced("<!doctype html><p>a<br><svg><path/></svg></p>"), None);
    assert!(unbalanced("<p><b></p></b>").is_some());
    assert!(unbalanced("<ul><li></ul>").is_some());
    assert!(unbalanced("<p>").is_some());
    assert_eq!(unbalanced("<script>if (a<b) {}</script>"), None);
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let made = &*MADE;
    let html = made.html();
    assert_eq!(unbalanced(&html), None);
    // What is fetched, and from where: nothing, and nowhere.
    for afar in
        [" src=", "url(", "@import", "https:", "//cdn", "fetch(", "<link", "<img", "<iframe"]
    {
        assert!(!html.contains(afar), "{afar}");
    }
    let namespaces = html.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(html.matches("http:").count(), namespaces);
    // Every chart has words for those who do not see it.
    assert_eq!(html.matches("class=\"chart\"").count(), html.matches("<desc id=").count());
    let ids = values(&html, "id");
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    for label in ["aria-labelledby", "aria-describedby"] {
        assert!(values(&html, label).iter().all(|it| ids.contains(it)));
    }
    assert_eq!(html, made.html(), "the same plan gives the same bytes");
}

#[test]
fn every_task_has_a_row_and_a_place_in_the_charts() {
    let made = &*MADE;
    let html = made.html();
    for kind in [CollectiveKind::AllGather, CollectiveKind::AllToAll] {
        let part = section(&html, kind);
        let rows: Vec<&str> = part.split("<tr><th scope=\"row\">").skip(1).collect();
        let tasks: Vec<&TunedTask> =
            made.plan.tasks.iter().filter(|it| it.collective == kind).collect();
        assert_eq!(rows.len(), tasks.len());
        for (row, task) in rows.iter().zip(&tasks) {
            assert!(row.starts_with(&format!("{}</th>", task.size())), "{row}");
            assert!(row.contains(&format!("<td>{:.2}</td>", task.pick.time().as_us_f64())));
        }
        for places in values(part, "data-x") {
            assert_eq!(places.split(' ').count(), tasks.len());
        }
        // What the script reads is JSON with a point for every task.
        let data = part.split("<script type=\"application/json\">").nth(1).unwrap();
        let data = data.split("</script>").next().unwrap();
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["sizes"].as_array().unwrap().len(), tasks.len());
        for line in data["lines"].as_array().unwrap() {
            assert_eq!(line["points"].as_array().unwrap().len(), tasks.len());
        }
    }
}

#[test]
fn every_link_leads_to_a_file_of_the_plan() {
    let made = &*MADE;
    let (html, files) = (made.html(), made.files());
    let ids = values(&html, "id");
    let links = values(&html, "href");
    for link in &links {
        let leads = match link.strip_prefix('#') {
            Some(id) => ids.contains(&id),
            None if link.ends_with('/') => files.keys().any(|it| it.starts_with(link)),
            None => files.contains_key(*link),
        };
        assert!(leads, "{link} leads nowhere");
    }
    // And every program is linked from its rows and from the list of files.
    let programs = files
        .keys()
        .filter(|it| it.starts_with("msccl/algorithms") || it.starts_with("mscclpp/plans"));
    let mut seen = BTreeSet::new();
    for program in programs {
        assert!(links.iter().filter(|it| *it == program).count() >= 2, "{program}");
        seen.insert(program.split('/').next().unwrap());
    }
    assert_eq!(seen.len(), 2, "the plan has programs for both runtimes");
    let manifest: serde_json::Value = serde_json::from_str(&files[folder::MANIFEST]).unwrap();
    assert_eq!(manifest["motet_plan"], folder::VERSION);
}

#[test]
fn the_headline_counts_what_the_tasks_say() {
    let made = &*MADE;
    let html = made.html();
    let with = made.plan.tasks.iter().filter(|it| it.nccl_best.is_some());
    let (compared, msccl, plus) = with.fold((0, 0, 0), |(all, msccl, plus), it| {
        (
            all + 1,
            msccl + usize::from(it.pick.is_program()),
            plus + usize::from(it.mscclpp.is_some()),
        )
    });
    assert!(compared > 0 && compared < made.plan.tasks.len(), "alltoall is not NCCL's");
    assert!(html.contains(&format!("<strong>{msccl} of {compared} tasks</strong>")), "{html}");
    assert!(html.contains(&format!("<strong>{plus} of {compared}</strong>")));
    let mean = made.plan.mean_gain(|it| it.nccl_best.as_ref()).unwrap();
    assert!(html.contains(&format!("<strong>{mean:.2} times</strong>")));
    assert!(html.contains("No time here is measured."));
}

#[test]
fn names_cannot_break_the_page() {
    let mut made = MADE.clone();
    "<script>alert(1)</script> & \"co\"".clone_into(&mut made.plan.network);
    made.plan.left_out.push(("a<b>".to_owned(), "c</ul>".to_owned()));
    made.plan.tasks[0].pick.way = "</script><b>".to_owned();
    let html = made.html();
    assert_eq!(unbalanced(&html), None);
    assert!(!html.contains("alert(1)</script>") && !html.contains("</script><b>"));
    assert!(html.contains("motet plan a&lt;b -o &quot;c&quot;"));
    assert_eq!(link("a b/ü#", "x"), "<a href=\"a%20b/%C3%BC%23\">x</a>");
}

#[test]
fn without_nccl_the_page_claims_nothing() {
    let mut made = MADE.clone();
    for task in &mut made.plan.tasks {
        (task.nccl, task.nccl_best, task.msccl) = (None, None, None);
    }
    let html = made.html();
    assert_eq!(unbalanced(&html), None);
    assert!(html.contains("nothing to compare the plan's programs with"));
    assert!(!html.contains("times</strong>"));
}
