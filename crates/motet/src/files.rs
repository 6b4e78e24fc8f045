//! Reading and writing files, and finding the network that a CLUSTER argument names. Files are read up to a
//! limit, errors name the file, and what is written is written whole or not at all.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use motet_nccl::NcclTerms;
use motet_nccl::mscclpp::PlanTerms;
use motet_net::builders::{self, Assembly, Params, Template, TemplateError};
use motet_net::formats::nccl_xml::GraphDump;
use motet_net::formats::{ReadOptions, read_any};
use motet_net::{Network, NodeKind};
use motet_tune::calibrate::terms_file::{self, TermsFile};
use motet_tune::sketch::Sketch;
use motet_tune::sketch::taccl;

use crate::failure::Failure;
use crate::mistaken::{self, Wanted};
use crate::printer::Printer;

/// The largest file read: a program of two million transfers is some 100 MB.
const MAX_BYTES: u64 = 1 << 30;

/// The text of a file; `-` is stdin.
pub(crate) fn read(name: &str) -> Result<String, Failure> {
    String::from_utf8(read_bytes(name)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::unreadable(format!("is not UTF-8 text (byte {at})"))
            .in_file(name)
            .with_remedy("Motet reads text files; is this the right one?")
    })
}

/// What is in a file; `-` is stdin.
pub(crate) fn read_bytes(name: &str) -> Result<Vec<u8>, Failure> {
    let failure = |problem: String| Failure::unreadable(problem).in_file(name);
    let mut bytes = Vec::new();
    let result = if name == "-" {
        std::io::stdin().lock().take(MAX_BYTES + 1).read_to_end(&mut bytes)
    } else {
        File::open(name).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
    };
    result
        .map_err(|error| mistaken::for_folder(name, failure(format!("cannot be read: {error}"))))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(failure(format!("is larger than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// Writes a file whole or not at all; `-` is stdout.
pub(crate) fn write(name: &str, text: &str, printer: &mut Printer) -> Result<(), Failure> {
    if name == "-" { printer.out(text) } else { write_bytes(name, text.as_bytes()) }
}

/// Writes bytes into a file, whole or not at all: first under a temporary name, then renamed.
pub(crate) fn write_bytes(name: &str, bytes: &[u8]) -> Result<(), Failure> {
    let failure = |error: std::io::Error| {
        Failure::unreadable(format!("cannot be written: {}", plain(&error))).in_file(name)
    };
    // A link stays, and what it leads to is replaced.
    let path = std::fs::canonicalize(name).unwrap_or_else(|_| PathBuf::from(name));
    // A pipe or a device (`/dev/null`) must not become a file.
    if std::fs::metadata(&path).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
        let mut opened = File::options().write(true).open(&path).map_err(failure)?;
        return opened.write_all(bytes).map_err(failure);
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(Failure::unreadable("cannot be written: its folder does not exist")
            .in_file(name)
            .with_remedy(format!("create the folder `{}` first", folder.display())));
    }
    // In the same folder, so that the rename cannot cross a file system.
    let mut builder = tempfile::Builder::new();
    builder.prefix(".motet-");
    // As any new file, less what the user's mask forbids; by itself a temporary file is private.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(failure)?;
    file.write_all(bytes).map_err(failure)?;
    file.as_file().sync_all().map_err(failure)?;
    file.persist(&path).map_err(|it| failure(it.error))?;
    Ok(())
}

/// An error without the name of the temporary file that it may carry, which tells the user nothing.
fn plain(error: &std::io::Error) -> String {
    match error.get_ref() {
        Some(_) => error.kind().to_string(),
        None => error.to_string(),
    }
}

/// A network and where it comes from.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) network: Network,
    /// The format's name, or "template".
    pub(crate) format: &'static str,
    /// What the format is, as a part of a sentence.
    pub(crate) description: &'static str,
    /// What the reader assumed, merged or left out.
    pub(crate) notes: Vec<String>,
    /// The graphs of an NCCL graph dump.
    pub(crate) graphs: Option<GraphDump>,
}

/// What to call a network whose file does not say: the file's name without its ending.
pub(crate) fn stem(name: &str) -> String {
    let stem = Path::new(name).file_stem().filter(|it| *it != "-");
    stem.map_or_else(|| "network".to_owned(), |it| it.to_string_lossy().into_owned())
}

/// A network named on the command line: a file, `-`, or a template with its parameters
/// (`torus-2d:rows=4,columns=4`). A file wins over a template of the same name.
pub(crate) fn network(
    name: &str,
    options: &ReadOptions,
    printer: &Printer,
) -> Result<Cluster, Failure> {
    if name != "-" && !Path::new(name).exists() {
        return template(name, printer);
    }
    let text = read(name)?;
    let folder = Path::new(name).parent().unwrap_or(Path::new("")).to_owned();
    let fetch = |other: &str| {
        let path = folder.join(other);
        read(&path.to_string_lossy()).map_err(|it| it.to_string())
    };
    let read = read_any(&text, Some(name), options, &fetch).map_err(|it| {
        mistaken::for_text(Wanted::Cluster, name, &text, Failure::from(it).in_file(name))
    })?;
    for note in &read.notes {
        printer.note(&format!("{name}: {note}"));
    }
    let mut network = read.network;
    // A format without names calls every network after itself; the file's name says more.
    if network.name() == read.format.name() {
        network = network.renamed(stem(name));
    }
    Ok(Cluster {
        network,
        format: read.format.name(),
        description: read.format.description(),
        notes: read.notes,
        graphs: read.graphs,
    })
}

/// How many GPUs a network has, for what needs some.
pub(crate) fn gpus(network: &Network, name: &str) -> Result<u32, Failure> {
    let gpus = u32::try_from(network.ranks().len()).unwrap_or(u32::MAX);
    if gpus > 0 {
        return Ok(gpus);
    }
    let remedy = match network.count(NodeKind::Border) {
        0 => "describe the GPUs too, or give a template such as dgx-h100",
        _ => "a WAN file alone has only routers; attach datacenters to it in a cluster file",
    };
    let failure = Failure::unreadable("has no GPUs, and so no ranks");
    Err(failure.in_file(name).with_remedy(remedy))
}

/// Terms of MSCCL++'s cost model, as `motet calibrate` writes them; those of an H200 if the file has only NCCL's.
pub(crate) fn terms(name: &str) -> Result<PlanTerms, Failure> {
    Ok(terms_file(name)?.mscclpp.unwrap_or(PlanTerms::H200))
}

/// Terms of NCCL on a machine, as `motet calibrate` writes them.
pub(crate) fn nccl_terms(name: &str) -> Result<NcclTerms, Failure> {
    terms_file(name)?.nccl.ok_or_else(|| {
        Failure::unreadable("has no terms of NCCL")
            .in_file(name)
            .with_remedy("`motet calibrate` of NCCL's calls writes them as `[nccl]`")
    })
}

/// All terms of a file.
pub(crate) fn terms_file(name: &str) -> Result<TermsFile, Failure> {
    terms_file::read(&read(name)?).map_err(|it| Failure::from(it).in_file(name))
}

/// A sketch for a network: one of ours, or TACCL's, which is JSON.
pub(crate) fn sketch(name: &str, network: &Network) -> Result<Sketch, Failure> {
    let text = read(name)?;
    // A TOML document cannot begin with a brace.
    let sketch = if text.trim_start().starts_with('{') {
        let stem = Path::new(name).file_stem().map_or(name.into(), |it| it.to_string_lossy());
        taccl::read(&text).and_then(|it| it.on(network, &stem))
    } else {
        Sketch::read(&text, network)
    };
    sketch.map_err(|it| {
        mistaken::for_text(Wanted::Sketch, name, &text, Failure::from(it).in_file(name))
    })
}

/// The network of a template with its parameters in one word, such as `dgx-a100:count=2`.
fn template(name: &str, printer: &Printer) -> Result<Cluster, Failure> {
    let failure = |it: TemplateError| Failure::from(it).in_file(name);
    let (kind, words) = template_words(name);
    let template = builders::find(kind).map_err(|it| {
        let near = it.remedy.filter(|it| it.starts_with("did you mean"));
        Failure::unreadable("there is no such file, and no template of that name")
            .in_file(name)
            .with_remedy(near.unwrap_or("`motet net gen --list` shows the templates".to_owned()))
    })?;
    let params = Params::from_words(words).map_err(failure)?;
    let (network, notes) = build(template, &params).map_err(failure)?;
    for note in &notes {
        printer.note(note);
    }
    let (format, description) = ("template", "a template");
    Ok(Cluster { network, format, description, notes, graphs: None })
}

/// A template's name and its parameters, from one word: `torus-2d:rows=4,columns=4`. A comma only
/// parts parameters where another `key=value` follows, so that a value may be a list.
pub(crate) fn template_words(word: &str) -> (&str, Vec<String>) {
    let (kind, rest) = word.split_once(':').unwrap_or((word, ""));
    let mut words: Vec<String> = Vec::new();
    for part in rest.split(',').filter(|it| !it.is_empty()) {
        match words.last_mut() {
            Some(last) if !part.contains('=') => {
                last.push(',');
                last.push_str(part);
            }
            _ => words.push(part.to_owned()),
        }
    }
    (kind, words)
}

/// What a template makes, with notes; files that it names are looked for where Motet runs.
pub(crate) fn build(
    template: &Template,
    params: &Params,
) -> Result<(Network, Vec<String>), TemplateError> {
    let fetch = |name: &str| read(name).map_err(|it| it.problem);
    let mut assembly = Assembly::new(template.name).with_fetch(&fetch);
    assembly.add(template, params)?;
    let notes = assembly.notes().to_vec();
    Ok((assembly.finish()?, notes))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;

    #[test]
    fn a_template_in_one_word() {
        assert_eq!(template_words("ring"), ("ring", vec![]));
        let (kind, words) = template_words("wan:file=b4.gml,datacenters=0,5,9,gpus=4");
        assert_eq!((kind, words.len()), ("wan", 3));
        assert_eq!(words[1], "datacenters=0,5,9");
    }

    #[test]
    fn a_pipe_is_written_into_and_a_link_stays() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        write_bytes(&format!("/proc/self/fd/{}", writer.as_raw_fd()), b"through").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");

        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write_bytes(&link.to_string_lossy(), b"new").unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "new");
    }
}
