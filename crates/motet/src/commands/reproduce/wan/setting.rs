//! [`Setting`]: a run of the experiment as a scenario, with what the paper leaves open.

use motet_net::Network;
use motet_net::builders::{self, Params};
use motet_units::Seed;
use motet_wan::formats::ScenarioFile;
use motet_wan::{Mode, Scenario};

use crate::args::reproduce::ReproduceArgs;
use crate::commands::wan::{Outcome, run_modes};
use crate::failure::Failure;
use crate::printer::Printer;

/// What the paper leaves open, and what is assumed for it.
pub(super) const ASSUMED: &str = "  two border routers in each region, each joined to both of the other; the logical graph of §III
  (a link between any two GPUs of a region and from each GPU to each border router); every link
  drawn anew for every collective; base is a ring in rank order over whole chunks; routes at the
  start by a hash over the shortest ways; a rebuilt program stays for 10 collectives; moves are free";

/// The settings of a run that the sensitivity varies.
#[derive(Clone)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) cluster: String,
    pub(super) chunk: String,
    pub(super) variation: String,
    pub(super) routes: String,
    pub(super) programs: String,
}

impl Setting {
    pub(super) fn new(name: &str, gpus: u32, chunk: &str, delay: &str) -> Self {
        Self {
            name: name.to_owned(),
            cluster: format!("gpus={gpus},fabric=logical,borders=2,wan-latency={delay}"),
            chunk: chunk.to_owned(),
            variation: "kind = \"uniform\"".to_owned(),
            routes: "every = 1".to_owned(),
            programs: "every = 10".to_owned(),
        }
    }

    fn text(&self, count: u32) -> String {
        format!(
            "name = \"{}\"\ncluster = \"two-dc:{}\"\ncount = {count}\n\
             [[collective]]\nkind = \"allgather\"\nchunk = \"{}\"\n\
             [variation]\n{}\nintra = [\"20 Gbit/s\", \"200 Gbit/s\"]\n\
             wan = [\"10 Gbit/s\", \"100 Gbit/s\"]\n\
             [routes]\n{}\n[programs]\n{}\n",
            self.name, self.cluster, self.chunk, self.variation, self.routes, self.programs
        )
    }

    pub(super) fn network(&self) -> Result<Network, Failure> {
        let mut params = Params::new();
        for pair in self.cluster.split(',') {
            if let Some((key, value)) = pair.split_once('=') {
                params.set(key, value);
            }
        }
        Ok(builders::find("two-dc")?.build(&params)?)
    }

    pub(super) fn run(
        &self,
        args: &ReproduceArgs,
        count: u32,
        printer: &Printer,
    ) -> Result<Vec<Outcome>, Failure> {
        let network = self.network()?;
        let file = ScenarioFile::read(&self.text(count))?;
        let scenario: Scenario<'_> = file.resolve(&network, None, Seed::new(args.seed))?;
        run_modes(&scenario, &Mode::ALL, printer).map_err(|it| Failure::wrong(it.to_string()))
    }
}
