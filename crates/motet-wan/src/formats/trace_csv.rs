//! A recorded trace as CSV with the columns `time,from,to,bandwidth`: from `time` on the link has
//! this bandwidth, or is `down` or `up`. `from` and `to` are names of nodes; each direction of a
//! link has its own lines.

use motet_net::formats::ReadError;
use motet_net::{LinkChange, Network, StateEvent, StateTrace};
use motet_units::{Bandwidth, Duration, Instant};

use super::lines_csv::{self, Shape};

const SHAPE: Shape =
    Shape { heading: "time", remedy: "write time,from,to,bandwidth, such as: 10 s,a,b,40 Gbit/s" };

/// Reads a trace for a network.
pub fn read(text: &str, network: &Network) -> Result<StateTrace, ReadError> {
    let mut events = Vec::new();
    lines_csv::each(text, &SHAPE, |[time, from, to, what], wrong| {
        let time: Duration = time.parse().map_err(|error| wrong(format!("`{time}`: {error}")))?;
        let at = Instant::from_ps(time.as_ps());
        let change = match what {
            "down" => LinkChange::Down,
            "up" => LinkChange::Up,
            _ => {
                let rate: Bandwidth =
                    what.parse().map_err(|error| wrong(format!("`{what}`: {error}")))?;
                LinkChange::Bandwidth(rate)
            }
        };
        let node = |name: &str| {
            network.find(name).ok_or_else(|| wrong(format!("there is no node `{name}`")))
        };
        let (from, to) = (node(from)?, node(to)?);
        let joins = |it: &&motet_units::LinkId| network.link(**it).to == to;
        let before = events.len();
        let links = network.outgoing(from).iter().filter(joins);
        events.extend(links.map(|link| StateEvent { at, link: *link, change }));
        if events.len() == before {
            return Err(wrong("no link leads from the first node to the second".to_owned()));
        }
        Ok(())
    })?;
    StateTrace::new(network, events).map_err(|error| ReadError::new(error.to_string()))
}
