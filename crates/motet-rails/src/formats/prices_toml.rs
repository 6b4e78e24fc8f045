//! Prices and powers of parts in TOML, read into [`Prices`]. [`DEFAULT`] is the file that is used if there is none,
//! and the example of the format.

use motet_net::formats::{ReadError, read_toml};
use serde::Deserialize;
use toml::Spanned;

use crate::cost::{Dollars, OpticalPart, PacketPart, Part, Prices, Watts};

/// The defaults, each with its source.
pub const DEFAULT: &str = include_str!("prices.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    transceiver: PartTable,
    packet_switch: PacketTable,
    optical_switch: OpticalTable,
    nic: PartTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartTable {
    price_dollars: u32,
    power_watts: Spanned<f64>,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PacketTable {
    ports: Spanned<u32>,
    price_dollars: u32,
    power_watts: Spanned<f64>,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OpticalTable {
    ports: Spanned<u32>,
    port_price_dollars: u32,
    power_watts: Spanned<f64>,
    source: String,
}

/// The most ports of one switch; more are taken for a mistake.
const MOST_PORTS: u32 = 1 << 20;
/// The most watts of one part.
const MOST_WATTS: f64 = 1e6;

/// Reads prices.
pub fn read(text: &str) -> Result<Prices, ReadError> {
    let file: File = read_toml(text)?;
    let watts = |it: &Spanned<f64>| {
        let watts = *it.get_ref();
        if (0.0..=MOST_WATTS).contains(&watts) {
            Ok(Watts::of(watts))
        } else {
            Err(ReadError::new(format!("{watts} W is no power of a part"))
                .at(text, it.span().start)
                .with_remedy("give watts from 0 to 1000000"))
        }
    };
    let ports = |it: &Spanned<u32>, least: u32| {
        let ports = *it.get_ref();
        if (least..=MOST_PORTS).contains(&ports) {
            Ok(ports)
        } else {
            Err(ReadError::new(format!("no switch has {ports} ports"))
                .at(text, it.span().start)
                .with_remedy(format!("give from {least} to {MOST_PORTS}")))
        }
    };
    let part = |it: PartTable| {
        let price = Dollars(u64::from(it.price_dollars));
        Ok::<_, ReadError>(Part { price, power: watts(&it.power_watts)?, source: it.source })
    };
    let (packet, optical) = (file.packet_switch, file.optical_switch);
    Ok(Prices {
        transceiver: part(file.transceiver)?,
        packet_switch: PacketPart {
            ports: ports(&packet.ports, 4)?,
            part: Part {
                price: Dollars(u64::from(packet.price_dollars)),
                power: watts(&packet.power_watts)?,
                source: packet.source,
            },
        },
        optical_switch: OpticalPart {
            ports: ports(&optical.ports, 2)?,
            port_price: Dollars(u64::from(optical.port_price_dollars)),
            power: watts(&optical.power_watts)?,
            source: optical.source,
        },
        nic: part(file.nic)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_read() {
        let prices = read(DEFAULT).map_err(|it| it.to_string());
        assert!(
            prices.is_ok_and(|it| it.packet_switch.ports == 64 && it.optical_switch.ports == 576)
        );
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (from, to, said) in [
            ("power_watts = 9\n", "power_watts = -9\n", "line 6, column 15: -9 W is no power"),
            ("power_watts = 9\n", "power_watts = nan\n", "line 6, column 15: NaN W is no power"),
            ("ports = 64", "ports = 2", "line 10, column 9: no switch has 2 ports"),
            ("[nic]", "[nics]", "unknown field `nics`"),
            ("price_dollars = 1000", "price_dollars = -1", "invalid value"),
        ] {
            let text = DEFAULT.replacen(from, to, 1);
            let error = read(&text).map_err(|it| it.to_string()).err().unwrap_or_default();
            assert!(error.contains(said), "{to}: {error}");
        }
    }
}
