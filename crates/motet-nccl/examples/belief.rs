//! scratch
use motet_collective::{CollectiveKind, Verified};
use motet_nccl::kernel::{Grain, Kernels, Laid};
use motet_nccl::{Algorithm, NcclModel, NcclOptions, Protocol, Tuned, own};
use motet_net::builders::{Params, find};
use motet_sim::{Routed, SwitchForwarding};
use motet_units::Bytes;
use std::sync::Arc;
fn main() {
    let only = std::env::args().nth(1);
    let mut all: Vec<f64> = Vec::new();
    for words in [
        "loopback",
        "dgx-a100 count=1",
        "dgx-a100 count=2",
        "dgx-a100 count=4",
        "dgx-h100 count=1",
        "dgx-h100 count=2",
        "dgx-1 count=1",
    ] {
        if only.as_ref().is_some_and(|it| !words.contains(it.as_str())) {
            continue;
        }
        let network = if words == "loopback" {
            let text = std::fs::read_to_string("examples/loopback.toml").unwrap();
            motet_net::formats::cluster_toml::read(&text, &|_| Err("".into())).unwrap().network
        } else {
            let mut w = words.split_whitespace();
            find(w.next().unwrap()).unwrap().build(&Params::from_words(w).unwrap()).unwrap()
        };
        let options = NcclOptions::default();
        let model = NcclModel::new(&network, options.clone()).unwrap();
        let kernels = Arc::new(Kernels::new(&network, model.communicator(), &options));
        let channels = model.channels();
        for kind in [
            CollectiveKind::AllReduce,
            CollectiveKind::AllGather,
            CollectiveKind::ReduceScatter,
            CollectiveKind::Broadcast,
            CollectiveKind::Reduce,
        ] {
            let tuned = Tuned::of(kind).unwrap();
            for algorithm in [Algorithm::Ring, Algorithm::Tree] {
                for protocol in Protocol::ALL {
                    let mut row = String::new();
                    let mut cache: std::collections::BTreeMap<u32, Laid> = Default::default();
                    for p in (10..=30).step_by(2) {
                        let size = Bytes::new(1 << p);
                        let Some(choice) = model.force(tuned, size, algorithm, protocol) else {
                            continue;
                        };
                        let count = choice.used_channels as u32;
                        if !cache.contains_key(&count) {
                            let Some(program) =
                                own::program(&channels, kind, algorithm, protocol, count).unwrap()
                            else {
                                continue;
                            };
                            let verified = match Verified::new(program, None) {
                                Ok(it) => it,
                                Err(e) => {
                                    println!(
                                        "{words} {kind} {algorithm:?}: {}",
                                        e.report.to_string().lines().next().unwrap()
                                    );
                                    continue;
                                }
                            };
                            let routed =
                                Routed::new(&verified, &network, SwitchForwarding::CutThrough)
                                    .unwrap();
                            cache.insert(count, Laid::new(&routed, kernels.clone()).unwrap());
                        }
                        let laid = &cache[&count];
                        let price = laid.price_with(size, Some(Grain::nccl(&choice))).unwrap();
                        let ratio = price.time.as_us_f64() / choice.time;
                        all.push((ratio - 1.0).abs());
                        row += &format!(" {ratio:.2}");
                    }
                    if !row.is_empty() {
                        println!(
                            "{words:18} {kind:14} {} {:6} {row}",
                            algorithm.name(),
                            protocol.name()
                        );
                    }
                }
            }
        }
    }
    all.sort_by(f64::total_cmp);
    println!(
        "median {:.3} max {:.3} over 15%: {} of {}",
        all[all.len() / 2],
        all[all.len() - 1],
        all.iter().filter(|it| **it > 0.15).count(),
        all.len()
    );
}
