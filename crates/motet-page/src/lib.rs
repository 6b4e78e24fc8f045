//! What all pages of Motet share: the report of `motet plan` and the dashboard of `motet serve` look alike, need no network, and
//! take data in the same safe way.
//!
//! Where to start:
//! - [`STYLE`]: the part of their style sheets that both have: colours (light and dark), type, tables, charts, print;
//! - [`embedded`]: JSON in a page such that no text in it is taken for markup;
//! - [`FILE_POLICY`]: what the browser may load for a page that is a file: nothing.

/// The style sheet that comes before a page's own.
pub const STYLE: &str = include_str!("style.css");

/// What the browser may load for a page that is a file: nothing. Its style and script are in it.
pub const FILE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

/// JSON as it may stand in a `<script type="application/json">`: no text in it can end that element or begin another.
#[must_use]
pub fn embedded(json: &str) -> String {
    // In JSON this character is only ever inside strings.
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_the_element_that_holds_it() {
        let json = embedded(r#"{"name":"</script><b>"}"#);
        assert!(!json.contains('<'));
        assert_eq!(json, r#"{"name":"\u003c/script>\u003cb>"}"#);
    }

    #[test]
    fn the_style_loads_nothing() {
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains("</"));
    }
}
