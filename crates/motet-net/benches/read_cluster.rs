//! How long an explicit cluster file of 10,000 nodes and 40,000 link tables takes to read: a
//! large training cluster drawn in full. It should stay well under half a second.

use std::fmt::Write as _;

use criterion::{Criterion, criterion_group, criterion_main};
use motet_net::formats::cluster_toml;

const NODES: usize = 10_000;
const LINKS_PER_NODE: usize = 4;

/// GPUs in eights, each with links to others near and far.
fn file() -> String {
    let mut text = String::from("name = \"bench\"\n\n");
    for node in 0..NODES {
        let server = node / 8;
        let _ = writeln!(
            text,
            "[[node]]\nname = \"s{server}-gpu{node}\"\nkind = \"gpu\"\nserver = \"s{server}\"\n"
        );
    }
    for from in 0..NODES {
        for step in 0..LINKS_PER_NODE {
            let to = (from + 1 + step * 777) % NODES;
            let _ = writeln!(
                text,
                "[[link]]\nfrom = \"s{}-gpu{from}\"\nto = \"s{}-gpu{to}\"\n\
                 bandwidth = \"50 GB/s\"\nlatency = \"500 ns\"\nclass = \"nvlink\"\n",
                from / 8,
                to / 8
            );
        }
    }
    text
}

fn read_cluster(criterion: &mut Criterion) {
    let text = file();
    let fetch = |_: &str| Err(String::new());
    let links = cluster_toml::read(&text, &fetch).map_or(0, |it| it.network.links().len());
    assert_eq!(links, 2 * NODES * LINKS_PER_NODE, "the file is read as it was meant");
    criterion.bench_function("read cluster file, 10k nodes, 40k link tables", |bench| {
        bench.iter(|| cluster_toml::read(&text, &fetch));
    });
}

criterion_group!(benches, read_cluster);
criterion_main!(benches);
