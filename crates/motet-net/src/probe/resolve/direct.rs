//! NICs joined pairwise: what was measured, or the median of the class.

use motet_units::{Bandwidth, Duration};

use super::super::sample::{Class, Pair};
use super::{Evidence, Making, median, probes};
use crate::LinkClass;
use crate::formats::ReadError;
use crate::provenance::{Provenance, Source};

/// Every pair is a link, so their number is bounded.
const MAX_HOSTS: usize = 1024;

pub(super) fn build(evidence: &Evidence<'_>, making: &mut Making) -> Result<(), ReadError> {
    if evidence.seen.len() > MAX_HOSTS {
        return Err(ReadError::new(format!(
            "more than {MAX_HOSTS} hosts cannot be joined pairwise"
        ))
        .with_remedy("leave out `--model direct`"));
    }
    let mut nics = Vec::new();
    for host in &evidence.seen {
        let of_host = evidence.probes.iter().filter(|it| it.0.a == *host || it.0.b == *host);
        let fastest = of_host.map(|it| it.1.bandwidth()).max().unwrap_or_default();
        nics.push((*host, making.add_host(&evidence.hosts[*host], fastest)?));
    }
    let classes = Classes::of(evidence);
    for (place, (a, nic)) in nics.iter().enumerate() {
        for (b, other) in &nics[place + 1..] {
            let pair = Pair::new(*a, *b);
            let (bandwidth, latency, source) = match evidence.probes.get(&pair) {
                Some(it) => {
                    let detail = format!("{} there, {} back", it.there, it.back);
                    (it.bandwidth(), it.latency(), Source::new(Provenance::Measured, detail))
                }
                None => classes.estimate(evidence.class(pair)),
            };
            let class = match evidence.class(pair) {
                Class::Dcs => LinkClass::Wan,
                Class::Rack | Class::Racks => LinkClass::Ethernet,
            };
            making.join(*nic, *other, class, (bandwidth, source.clone()), (latency, source))?;
        }
    }
    Ok(())
}

/// The medians of what was measured in each class.
struct Classes(Vec<(Class, Bandwidth, Duration, usize)>);

impl Classes {
    fn of(evidence: &Evidence<'_>) -> Self {
        let mut all = Vec::new();
        for class in [Class::Rack, Class::Racks, Class::Dcs] {
            let of_class = evidence.of_class(class);
            let bandwidth = median(of_class.iter().map(|it| it.1.bandwidth()));
            let latency = median(of_class.iter().map(|it| it.1.latency()));
            if let (Some(bandwidth), Some(latency)) = (bandwidth, latency) {
                all.push((class, bandwidth, latency, of_class.len()));
            }
        }
        Self(all)
    }

    /// The class itself, or the next farther one, or the farthest there is.
    fn estimate(&self, class: Class) -> (Bandwidth, Duration, Source) {
        let found = self.0.iter().find(|it| it.0 >= class).or(self.0.last());
        let Some((of, bandwidth, latency, count)) = found else {
            // `resolve` refuses where nothing was measured; one host has no pairs.
            let source = Source::new(Provenance::Guessed, "nothing was measured");
            return (Bandwidth::gbit_per_s(1), Duration::from_us(50), source);
        };
        let what = match of {
            Class::Rack => "within racks",
            Class::Racks => "between racks",
            Class::Dcs => "between datacenters",
        };
        let detail = format!("from the median of {} {what}", probes(*count));
        (*bandwidth, *latency, Source::new(Provenance::Estimated, detail))
    }
}
