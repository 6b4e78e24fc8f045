//! The options that ask "what if": links failed or slower than the cluster says.

use clap::Args;
use motet_net::Network;
use motet_net::state::{Factor, WhatIf};

use crate::failure::Failure;
use crate::printer::Printer;

/// Changes to the network before the question is answered.
#[derive(Debug, Args)]
pub(crate) struct WhatIfArgs {
    /// What if this link is down: "a-b" both ways, "a->b" one way, or a node with all its links
    #[arg(long, value_name = "LINK", help_heading = "What if")]
    pub(crate) fail: Vec<String>,
    /// What if this link has another bandwidth: so many times its own
    #[arg(long, value_name = "LINK=FACTOR", value_parser = scaled, help_heading = "What if")]
    pub(crate) scale: Vec<(String, Factor)>,
}

impl WhatIfArgs {
    /// The links that change; a note says how many.
    pub(crate) fn of(&self, network: &Network, printer: &Printer) -> Result<WhatIf, Failure> {
        let change = WhatIf::new(network, &self.fail, &self.scale)?;
        if !change.is_empty() {
            let (down, slower) = (change.failed().count(), change.scaled().count());
            let counted = format!("{down} directed links down, {slower} at another bandwidth");
            printer.note(&format!("what if: {counted}"));
        }
        Ok(change)
    }
}

fn scaled(text: &str) -> Result<(String, Factor), String> {
    let Some((link, factor)) = text.rsplit_once('=') else {
        return Err("write LINK=FACTOR, for example `a-b=0.5`".to_owned());
    };
    let factor = factor.parse::<Factor>().map_err(|it| match it.remedy {
        Some(remedy) => format!("{}; {remedy}", it.problem),
        None => it.problem,
    })?;
    Ok((link.to_owned(), factor))
}
