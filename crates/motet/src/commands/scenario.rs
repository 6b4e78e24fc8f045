//! Scenario files as `motet wan` and `motet testbed` read them, with the networks and traces that they name.

use std::path::Path;

use motet_net::Network;
use motet_net::formats::read_any;
use motet_units::Seed;
use motet_wan::Scenario;
use motet_wan::formats::ScenarioFile;
use motet_wan::formats::scenario_toml::Cluster;

use crate::args::read::ReadArgs;
use crate::failure::Failure;
use crate::files;
use crate::mistaken::{self, Wanted};
use crate::printer::Printer;

/// The seed where neither the command line nor the scenario gives one.
const DEFAULT_SEED: u64 = 1;

/// A scenario file with all that it names.
pub(crate) struct Loaded {
    name: String,
    file: ScenarioFile,
    pub(crate) network: Network,
    variation: Option<String>,
}

impl Loaded {
    pub(crate) fn read(name: &str, read: &ReadArgs, printer: &Printer) -> Result<Self, Failure> {
        let wanted = Wanted::Scenario;
        let text = files::read(name).map_err(|it| mistaken::for_missing(wanted, name, it))?;
        let file = ScenarioFile::read(&text).map_err(|it| {
            mistaken::for_text(wanted, name, &text, Failure::from(it).in_file(name))
        })?;
        let network = network(name, read, &file, printer)?;
        let variation = match file.variation_file() {
            Some(variation) => Some(files::read(&beside(name, variation))?),
            None => None,
        };
        Ok(Self { name: name.to_owned(), file, network, variation })
    }

    /// The scenario, with this seed if one is given.
    pub(crate) fn scenario(&self, seed: Option<u64>) -> Result<Scenario<'_>, Failure> {
        let seed = Seed::new(seed.or(self.file.seed).unwrap_or(DEFAULT_SEED));
        let made = self.file.resolve(&self.network, self.variation.as_deref(), seed);
        made.map_err(|it| Failure::from(it).in_file(&self.name))
    }
}

/// The network that the scenario names or holds; files are looked for beside the scenario first.
fn network(
    scenario: &str,
    read: &ReadArgs,
    file: &ScenarioFile,
    printer: &Printer,
) -> Result<Network, Failure> {
    let in_file = |it: Failure| it.in_file(scenario);
    match file.cluster().map_err(|it| in_file(it.into()))? {
        Cluster::Named(name) => {
            let name = beside(scenario, &name);
            Ok(files::network(&name, &read.options(), printer)?.network)
        }
        Cluster::Inline(text) => {
            let fetch =
                |name: &str| files::read(&beside(scenario, name)).map_err(|it| it.to_string());
            let read = read_any(&text, Some("cluster.toml"), &read.options(), &fetch);
            // Places are those of the tables as Motet wrote them out, which the user never saw.
            let read = read.map_err(|it| {
                let mut failure = Failure::from(it);
                (failure.at, failure.problem) = (None, format!("[cluster]: {}", failure.problem));
                in_file(failure)
            })?;
            for note in &read.notes {
                printer.note(&format!("{scenario}: {note}"));
            }
            Ok(read.network)
        }
    }
}

/// A file that a scenario names, relative to the scenario or else to where we are; templates stay
/// as they are.
fn beside(scenario: &str, name: &str) -> String {
    let folder = Path::new(scenario).parent().unwrap_or(Path::new(""));
    let path = folder.join(name);
    if path.exists() { path.to_string_lossy().into_owned() } else { name.to_owned() }
}
