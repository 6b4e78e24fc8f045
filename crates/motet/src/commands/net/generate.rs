//! `motet net gen`: a network from a template.

use motet_net::builders::{self, Params, reference};
use serde::Serialize;

use crate::args::net::GenArgs;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    table: &'static str,
    doc: &'static str,
    params: Vec<ListedParam>,
}

#[derive(Serialize)]
struct ListedParam {
    name: &'static str,
    values: String,
    default: &'static str,
    doc: &'static str,
}

pub(crate) fn run(args: &GenArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let Some(word) = &args.template else { return list(None, printer) };
    // The parameters may also come in one word, as wherever a CLUSTER is asked for.
    let (name, words) = files::template_words(word);
    let template = builders::find(name)?;
    if args.list {
        return list(Some(template), printer);
    }
    let mut params = Params::from_words(words.iter().chain(&args.params))?;
    if let Some(seed) = args.seed {
        if !template.params.iter().any(|it| it.name == "seed") {
            return Err(Failure::unreadable(format!("template `{name}` has nothing random"))
                .with_remedy("leave out `--seed`"));
        }
        params.set("seed", seed.to_string());
    }
    let (network, notes) = files::build(template, &params)?;
    for note in &notes {
        printer.note(note);
    }
    super::write(&network, &args.out, printer)?;
    Ok(Status::Done)
}

/// All templates, or one with its parameters.
fn list(only: Option<&builders::Template>, printer: &mut Printer) -> Result<Status, Failure> {
    let shown =
        || builders::templates().iter().filter(|it| only.is_none_or(|one| one.name == it.name));
    if printer.is_json() {
        let params = |it: &builders::Template| {
            let param = |it: &builders::Param| ListedParam {
                name: it.name,
                values: it.kind.to_string(),
                default: it.default,
                doc: it.doc,
            };
            it.params.iter().map(param).collect()
        };
        let listed: Vec<Listed> = shown()
            .map(|it| Listed {
                name: it.name,
                table: it.family.table(),
                doc: it.doc,
                params: params(it),
            })
            .collect();
        printer.json(&serde_json::json!({ "templates": listed }))?;
        return Ok(Status::Done);
    }
    let text: Vec<String> = if only.is_some() || printer.is_verbose() {
        shown().map(reference::text).collect()
    } else {
        shown().map(|it| format!("{:14}  {}\n", it.name, it.doc)).collect()
    };
    printer.out(&text.concat())?;
    Ok(Status::Done)
}
