//! The dashboard: one page, its style and its script, which are in this binary. It is for everybody and says nothing; what it
//! shows it asks of the API, with the token that its reader gives it.
//!
//! [`file()`] makes a page with the answers in it, to be kept and sent around: no service and no network is needed to read it.

use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;

const PAGE: &str = include_str!("../../ui/index.html");
const STYLE: &str = include_str!("../../ui/style.css");
/// Three files, so that each is about one thing, in the order in which they need each other.
const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("../../ui/dom.js"),
    include_str!("../../ui/draw.js"),
    include_str!("../../ui/app.js"),
    "})();\n"
);

/// What stands in the page for its style and script, and gives way to them in a file.
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"/ui/style.css\">";
const SCRIPT_LINK: &str = "<script src=\"/ui/app.js\"></script>";

/// What the browser may load and do for the page: its own style and script, and questions to this service.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of everything that a browser may show. Nothing is guessed from content, and no other page learns where one came from.
pub(super) const SAFE: [(HeaderName, &str); 2] =
    [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::REFERRER_POLICY, "no-referrer")];

/// The routes of the page, without data.
pub(super) fn routes() -> Router {
    let page = || async { asset("text/html; charset=utf-8", PAGE.to_owned()) };
    let style = || async { asset("text/css; charset=utf-8", style()) };
    let script = || async { asset("text/javascript; charset=utf-8", SCRIPT.to_owned()) };
    Router::new()
        .route("/", get(|| async { Redirect::temporary("/ui/") }))
        .route("/ui", get(|| async { Redirect::temporary("/ui/") }))
        .route("/ui/", get(page))
        .route("/ui/style.css", get(style))
        .route("/ui/app.js", get(script))
}

fn style() -> String {
    format!("{}{STYLE}", motet_page::STYLE)
}

fn asset(kind: &'static str, text: String) -> impl IntoResponse {
    let own = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_FRAME_OPTIONS, "DENY"),
        // Asked for anew each time, so that it is never older than the service.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (SAFE, own, text)
}

/// The page as a file with these answers: an object with the path of each question.
pub(super) fn file(answers: &serde_json::Map<String, serde_json::Value>) -> String {
    let json = serde_json::to_string(answers).unwrap_or_default();
    let policy = format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n<style>\n{}</style>",
        motet_page::FILE_POLICY,
        style()
    );
    let script = format!(
        "<script type=\"application/json\" id=\"answers\">{}</script>\n<script>\n{SCRIPT}</script>",
        motet_page::embedded(&json)
    );
    PAGE.replacen(STYLE_LINK, &policy, 1).replacen(SCRIPT_LINK, &script, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_comes_from_elsewhere() {
        let style = style();
        for text in [PAGE, style.as_str(), SCRIPT] {
            for afar in ["//cdn", "https:", "@import", "url(", "@font-face"] {
                assert!(!text.contains(afar), "{afar}");
            }
            // The one address is the name of SVG's elements, which nobody fetches.
            let names = text.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(text.matches("http:").count(), names);
        }
        // Data becomes text, never HTML; and the page does what its policy allows.
        for way in ["HTML", "createContextualFragment", "document.write", "eval("] {
            assert!(!SCRIPT.contains(way), "{way}");
        }
        assert!(!SCRIPT.contains("</script"));
        for inline in ["<style", " style=", " onclick", " onload", "<script>"] {
            assert!(!PAGE.contains(inline), "{inline}");
        }
    }

    #[test]
    fn a_file_holds_all_that_it_needs() {
        let mut answers = serde_json::Map::new();
        answers.insert("/v1/jobs".to_owned(), "</script><b>".into());
        let file = file(&answers);
        assert!(!file.contains("/ui/") && file.contains("\\u003c/script>\\u003cb>"));
        assert_eq!(file.matches("</script>").count(), 2);
        assert_eq!(file.matches("<style>").count(), 1);
    }
}
