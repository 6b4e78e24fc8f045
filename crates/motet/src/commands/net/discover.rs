//! `motet net discover`: the network of this machine, from sysfs, `nvidia-smi` where it is there,
//! and CUDA where measuring is asked for.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration as Wall;

use motet_cuda::{Cuda, Figure, Place};
use motet_net::discover::{Measured, Options, discover, with_measured};
use motet_net::provenance::{Sourced, Unseen};
use serde_json::{Map, Value, json};

use crate::args::discovery::DiscoverArgs;
use crate::commands::sourced;
use crate::failure::{Failure, Status};
use crate::files;
use crate::printer::Printer;
use crate::progress::Progress;

/// What `nvidia-smi` is asked, all of which our reader takes in one text.
const QUESTIONS: [&[&str]; 4] = [
    &["--query-gpu=index,pci.bus_id,name,compute_cap", "--format=csv,noheader"],
    &["nvlink", "-s"],
    &["nvlink", "-R"],
    &["topo", "-m"],
];
/// A broken driver lets it hang.
const PATIENCE: Wall = Wall::from_secs(20);
const MAX_BYTES: u64 = 1 << 22;

pub(crate) fn run(args: &DiscoverArgs, printer: &mut Printer) -> Result<Status, Failure> {
    let here = args.sysfs == "/sys";
    let smi = match &args.nvidia_smi {
        Some(file) => Some(files::read(file)?),
        None if here => {
            let _progress = Progress::start(printer, "asking nvidia-smi");
            ask_nvidia_smi(printer)
        }
        None => None,
    };
    if args.measure && !here {
        return Err(Failure::unreadable("only this machine can be measured, not a recorded tree")
            .with_remedy("leave out `--sysfs` or `--measure`"));
    }
    let options = Options { nvidia_smi: smi.as_deref(), name: &args.name };
    let mut found = discover(Path::new(&args.sysfs), &options)?;
    let mut more = Map::new();
    more.insert("sysfs".to_owned(), args.sysfs.clone().into());
    if args.measure {
        let _progress = Progress::start(printer, "measuring GPUs");
        let (with, figures) = measure(found)?;
        found = with;
        more.insert("measured".to_owned(), figures);
    }
    let from = if here { "this machine" } else { "a recorded machine" };
    sourced::show(&found, from, args.output.as_deref(), more, printer)?;
    Ok(Status::Done)
}

/// What it prints, or nothing where it is not there.
fn ask_nvidia_smi(printer: &Printer) -> Option<String> {
    let mut text = String::new();
    for question in QUESTIONS {
        match answer(question) {
            Ok(Some(answer)) => {
                text.push_str(&answer);
                text.push('\n');
            }
            Ok(None) => return None,
            Err(why) => {
                printer.note(&format!("nvidia-smi {}: {why}", question.join(" ")));
                return (!text.is_empty()).then_some(text);
            }
        }
    }
    Some(text)
}

/// Its answer to one question; `None` if there is no such program.
fn answer(question: &[&str]) -> Result<Option<String>, String> {
    let mut command = Command::new("nvidia-smi");
    command.args(question).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let (sender, receiver) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stdout.take(MAX_BYTES).read_to_end(&mut bytes);
            // Nobody listens any more if it took too long.
            let _ = sender.send(read.map(|_| bytes));
        });
    }
    let read = receiver.recv_timeout(PATIENCE);
    if read.is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
    match read {
        Ok(Ok(bytes)) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer in {} seconds", PATIENCE.as_secs())),
    }
}

/// What CUDA measures, put into the network; without CUDA, that it could not be.
fn measure(mut found: Sourced) -> Result<(Sourced, Value), Failure> {
    let measured = Cuda::load().and_then(|cuda| {
        let gpus = cuda.gpus()?;
        let figures = cuda.measure(&motet_cuda::Options::default(), &mut |_| {})?;
        Ok((gpus, figures))
    });
    let (gpus, figures) = match measured {
        Ok(measured) => measured,
        Err(error) => {
            found.unseen.push(Unseen::new("bandwidth between host and GPUs", error.to_string()));
            return Ok((found, Value::Array(Vec::new())));
        }
    };
    let end = |place: Place| match place {
        Place::Host => None,
        Place::Gpu(index) => gpus.get(index).map(|it| it.bus_id.clone()),
    };
    let one = |it: &Figure| Measured {
        from: end(it.from),
        to: end(it.to),
        bandwidth: it.bandwidth,
        latency: it.latency,
        direct: it.direct,
    };
    let measured: Vec<Measured> = figures.iter().map(one).collect();
    let host = || "host".to_owned();
    let listed = measured.iter().map(|it| {
        json!({
            "from": it.from.clone().unwrap_or_else(host),
            "to": it.to.clone().unwrap_or_else(host),
            "bandwidth_gbps": it.bandwidth.as_gb_per_s_f64(),
            "copy_latency_us": it.latency.as_us_f64(),
            "direct": it.direct,
        })
    });
    let listed = listed.collect();
    let found = with_measured(found, &measured)
        .map_err(|error| Failure::wrong(format!("what was measured makes no network: {error}")))?;
    Ok((found, listed))
}
