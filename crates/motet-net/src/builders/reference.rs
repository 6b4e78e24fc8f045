//! The registry of templates as text: the table in `docs/cluster-file.md` and the help of
//! `motet net gen` are both made here, so that they cannot differ from the code.

use std::fmt::Write as _;

use super::template::Template;
use super::templates;

/// One template: its line, then a line for each parameter.
#[must_use]
pub fn text(template: &Template) -> String {
    let mut out = format!("{}: {}\n", template.name, template.doc);
    let width = template.params.iter().map(|it| it.name.len()).max().unwrap_or(0);
    for param in template.params {
        let default = if param.default.is_empty() { "none" } else { param.default };
        let _ = writeln!(out, "  {:width$}  {} [{default}]", param.name, param.doc);
    }
    out
}

/// All templates as Markdown, a table of parameters for each.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::new();
    for template in templates() {
        let (name, table) = (template.name, template.family.table());
        let _ = writeln!(out, "### `{name}` (`[[{table}]]`)\n\n{}\n", capital(template.doc));
        out.push_str("| parameter | value | default | meaning |\n| --- | --- | --- | --- |\n");
        for param in template.params {
            let default = match param.default {
                "" => "none".to_owned(),
                default => format!("`{default}`"),
            };
            let _ =
                writeln!(out, "| `{}` | {} | {default} | {} |", param.name, param.kind, param.doc);
        }
        out.push('\n');
    }
    out
}

/// A doc line as a sentence.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|it| it.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::find;

    #[test]
    fn every_parameter_is_in_the_text() {
        let text = text(find("ring").unwrap());
        assert!(text.starts_with("ring: GPUs in a ring\n"));
        assert!(
            text.contains("  bandwidth  the rate of each link, each way [50 GB/s]\n"),
            "{text}"
        );
        let all = markdown();
        assert!(templates().iter().all(|it| all.contains(&format!("### `{}`", it.name))));
    }

    /// The reference in the docs is this one. To renew it, run this test with `BLESS=1`.
    #[test]
    fn the_docs_are_up_to_date() {
        const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cluster-file.md");
        let (begin, end) = ("<!-- templates: begin -->\n", "<!-- templates: end -->");
        let docs = std::fs::read_to_string(DOCS).expect("docs/cluster-file.md");
        let (head, rest) = docs.split_once(begin).expect("a mark where the templates begin");
        let (table, tail) = rest.split_once(end).expect("a mark where they end");
        let wanted = format!("\n{}", markdown());
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(DOCS, format!("{head}{begin}{wanted}{end}{tail}")).unwrap();
        } else {
            assert_eq!(table, wanted, "renew docs/cluster-file.md: run this test with BLESS=1");
        }
    }
}
