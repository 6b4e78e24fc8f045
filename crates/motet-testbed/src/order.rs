//! [`Order`]: what a controller tells the keeper, one line of text each, answered by one line: `ok`, `ok` and numbers, or `no` and why.

use std::fmt;
use std::str::FromStr;

use motet_units::{Bandwidth, LinkId};

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The rate of a link; zero takes it down.
    Rate(LinkId, Bandwidth),
    /// The links that packets from the first rank to the second take.
    Way(u32, u32, Vec<LinkId>),
    /// How many bytes each WAN link has sent and how many wait before it: `LINK BYTES WAITING` for each.
    Carried,
    /// Ends everything.
    Stop,
}

/// The most links of a route.
const MAX_WAY: usize = 256;

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(link, rate) => write!(f, "rate {} {}", link.0, rate.bits_per_s()),
            Self::Way(from, to, links) => {
                write!(f, "way {from} {to}")?;
                links.iter().try_for_each(|it| write!(f, " {}", it.0))
            }
            Self::Carried => f.write_str("carried"),
            Self::Stop => f.write_str("stop"),
        }
    }
}

/// Not an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an order; there are rate LINK BITS, way FROM TO LINKS, carried and stop")]
pub struct NotAnOrder(String);

impl FromStr for Order {
    type Err = NotAnOrder;

    fn from_str(text: &str) -> Result<Self, NotAnOrder> {
        let mut words = text.split_ascii_whitespace();
        let order = words.next();
        let numbers: Option<Vec<u64>> = words.map(|it| it.parse().ok()).collect();
        let number = |it: u64| u32::try_from(it).ok();
        let read = || match (order?, numbers?.as_slice()) {
            ("rate", [link, bits]) => {
                Some(Self::Rate(LinkId(number(*link)?), Bandwidth::from_bits_per_s(*bits)))
            }
            ("way", [from, to, links @ ..]) if links.len() <= MAX_WAY => {
                let links: Option<Vec<LinkId>> =
                    links.iter().map(|it| number(*it).map(LinkId)).collect();
                Some(Self::Way(number(*from)?, number(*to)?, links?))
            }
            ("carried", []) => Some(Self::Carried),
            ("stop", []) => Some(Self::Stop),
            _ => None,
        };
        read().ok_or_else(|| NotAnOrder(motet_units::brief(text).to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_read_back() {
        let orders = [
            Order::Rate(LinkId(3), Bandwidth::from_bits_per_s(100_000_000)),
            Order::Way(0, 7, vec![LinkId(1), LinkId(44)]),
            Order::Way(0, 1, Vec::new()),
            Order::Carried,
            Order::Stop,
        ];
        for order in orders {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        for text in
            ["", "rate", "rate 1", "rate 1 x", "rate 99999999999 1", "way 1", "stop now", "go"]
        {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
    }
}
