//! The dashboard: one page, its style and its script, which are embedded in this binary. The page itself is
//! public and has no data; it requests the data from the API with the token that its reader enters.
//!
//! [`file()`] makes a page with the answers in it, which can be kept and sent to others, and read without
//! service or network.

use axum::Router;
use axum::http::header::{self, HeaderName};
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;

const PAGE: &str = include_str!("../../ui/index.html");
const STYLE: &str = include_str!("../../ui/style.css");
/// The script: three files, in the order in which they depend on each other.
const SCRIPT: &str = concat!(
    "(() => {\n'use strict';\n",
    include_str!("../../ui/dom.js"),
    include_str!("../../ui/draw.js"),
    include_str!("../../ui/app.js"),
    "})();\n"
);

/// The references to style and script in the page, which [`file()`] replaces by their contents.
const STYLE_LINK: &str = "<link rel=\"stylesheet\" href=\"/ui/style.css\">";
const SCRIPT_LINK: &str = "<script src=\"/ui/app.js\"></script>";

/// The page's content security policy: it may load its own style and script and send requests to this
/// service, nothing else.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Headers of the page and of the API's answers: browsers must not guess content types from content, nor tell
/// other sites where a visitor came from.
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
        // Always revalidated, so that the page is never older than the service.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (SAFE, own, text)
}

/// The page as one file that contains these answers, an object with the path of each request as its keys.
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
