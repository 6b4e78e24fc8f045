//! What must hold on any network: an answer or a clear error, costs that grow with size, and
//! limits kept.

use motet_net::{LinkClass, LinkSpec, Network, NetworkBuilder, Node, NodeKind};
use motet_units::{Bandwidth, Bytes, Duration};
use proptest::prelude::*;

use crate::testing::{build, model};
use crate::{
    Algorithm, CostTable, Loopback, NcclError, NcclModel, NcclOptions, NcclVersion, Protocol,
    TunedCollective,
};

#[test]
fn one_rank_costs_nothing() {
    let network = Loopback { ranks: 1, ..Loopback::default() }.network().unwrap();
    let choice = model(&network).choose(TunedCollective::AllReduce, Bytes::gib(1)).unwrap();
    assert_eq!((choice.algorithm, choice.protocol), (Algorithm::Ring, Protocol::Simple));
    assert_eq!((choice.time, choice.duration()), (0.0, Duration::ZERO));
}

#[test]
fn says_what_is_missing() {
    let empty = NetworkBuilder::new("empty").build().unwrap();
    assert_eq!(NcclModel::new(&empty, NcclOptions::default()).unwrap_err(), NcclError::NoGpu);
    let network = build("dgx-a100", &["count=2", "fabric=none", "nics=0"]);
    let error = NcclModel::new(&network, NcclOptions::default()).unwrap_err();
    assert!(matches!(error, NcclError::NoInterface { ref gpu } if gpu == "s0-gpu0"), "{error}");
    let network = star(400);
    let error = NcclModel::new(&network, NcclOptions::default()).unwrap_err();
    assert!(matches!(error, NcclError::TooManyGpus { gpus: 400, .. }), "{error}");
}

/// GPUs without servers on one NVSwitch.
fn star(gpus: usize) -> Network {
    let mut builder = NetworkBuilder::new("star");
    let hub = builder.add_node(Node::new("hub", NodeKind::NvSwitch)).unwrap();
    let spec = LinkSpec::new(LinkClass::NvLink, Bandwidth::gb_per_s(300), Duration::ZERO);
    for gpu in 0..gpus {
        let gpu = builder.add_node(Node::new(format!("g{gpu}"), NodeKind::Gpu)).unwrap();
        builder.add_duplex(gpu, hub, spec.with_lanes(12)).unwrap();
    }
    builder.build().unwrap()
}

#[test]
fn ties_go_to_the_first() {
    let mut table = CostTable([[CostTable::IGNORE; 3]; 7]);
    assert_eq!(table.cheapest(), None);
    table.0[1][2] = 5.0;
    table.0[0][2] = 5.0;
    table.0[0][1] = 6.0;
    assert_eq!(table.cheapest(), Some((Algorithm::Tree, Protocol::Simple, 5.0)));
}

/// A random box: GPUs with NVLinks here and there, one or two CPUs, NICs, one to three of it.
fn random_network() -> impl Strategy<Value = Network> {
    let nvlinks = prop::collection::vec((0usize..6, 0usize..6, 1u32..7), 0..9);
    let nics = prop::collection::vec((0usize..6, 1u64..400), 1..4);
    (
        1usize..4,
        1usize..6,
        1usize..3,
        nvlinks,
        nics,
        prop::sample::select(vec![61u32, 70, 80, 86, 90, 100]),
    )
        .prop_map(|(servers, gpus, cpus, nvlinks, nics, sm)| {
            let mut b = NetworkBuilder::new("random");
            let leaf = b.add_node(Node::new("leaf", NodeKind::Leaf)).unwrap();
            let spec =
                |class, gbit| LinkSpec::new(class, Bandwidth::gbit_per_s(gbit), Duration::ZERO);
            for server in 0..servers {
                let server = format!("s{server}");
                let node = |name: String, kind| {
                    Node::new(format!("{server}-{name}"), kind).in_server(&server)
                };
                let sockets: Vec<_> = (0..cpus)
                    .map(|it| b.add_node(node(format!("cpu{it}"), NodeKind::Cpu)).unwrap())
                    .collect();
                for pair in sockets.windows(2) {
                    b.add_duplex(pair[0], pair[1], spec(LinkClass::Smp, 80)).unwrap();
                }
                let all: Vec<_> = (0..gpus)
                    .map(|it| {
                        let gpu = node(format!("gpu{it}"), NodeKind::Gpu);
                        let gpu = b.add_node(gpu.with_property("sm", sm.to_string())).unwrap();
                        b.add_duplex(gpu, sockets[it % cpus], spec(LinkClass::Pcie, 96)).unwrap();
                        gpu
                    })
                    .collect();
                for (a, c, lanes) in &nvlinks {
                    let (a, c) = (a % gpus, c % gpus);
                    if a != c {
                        let spec = spec(LinkClass::NvLink, 160).with_lanes(*lanes);
                        b.add_duplex(all[a], all[c], spec).unwrap();
                    }
                }
                for (index, (at, gbit)) in nics.iter().enumerate() {
                    let nic = b.add_node(node(format!("nic{index}"), NodeKind::Nic)).unwrap();
                    b.add_duplex(nic, sockets[at % cpus], spec(LinkClass::Pcie, 96)).unwrap();
                    b.add_duplex(nic, leaf, spec(LinkClass::InfiniBand, *gbit)).unwrap();
                }
            }
            b.build().unwrap()
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_box_has_an_answer(network in random_network(), new: bool) {
        let version = if new { NcclVersion::V2_30 } else { NcclVersion::V2_28 };
        let options = NcclOptions { version, ..NcclOptions::default() };
        let model = NcclModel::new(&network, options).unwrap();
        let ranks = network.ranks().len();
        let channels = model.channels();
        prop_assert!((1..=64).contains(&channels.count()));
        for channel in 0..channels.count() {
            let mut ring: Vec<u32> = channels.ring(channel).iter().map(|it| it.0).collect();
            ring.sort_unstable();
            prop_assert_eq!(ring, (0..ranks as u32).collect::<Vec<_>>());
        }
        for collective in TunedCollective::ALL {
            let mut last = [[0.0f64; 3]; 7];
            for power in 0..36 {
                let bytes = Bytes::new(1 << power);
                let table = model.costs(collective, bytes, 1);
                // Trees are corrected by size, not always upward.
                for (algorithm, protocol) in [(Algorithm::Ring, Protocol::Ll), (Algorithm::Ring, Protocol::Simple)] {
                    if let Some(time) = table.get(algorithm, protocol) {
                        let last = &mut last[algorithm.index()][protocol.index()];
                        prop_assert!(time >= *last);
                        *last = time;
                    }
                }
                let choice = model.choose(collective, bytes).unwrap();
                let most = model.communicator().channels.max(model.communicator().nvls_channels);
                prop_assert!((1..=most).contains(&choice.channels));
                prop_assert!((1..=choice.channels).contains(&choice.used_channels));
                prop_assert!((96..=640).contains(&choice.threads) && choice.threads.is_multiple_of(32));
                prop_assert!(!choice.chunk.is_zero() && choice.slice <= choice.chunk);
            }
        }
    }
}
