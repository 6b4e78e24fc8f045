//! What is chosen for sockets, and that programs through gateways are right.

use motet_net::formats::{ReadOptions, read_any};

use super::*;

/// Two datacenters of two ranks behind a router each, with so many links between the routers.
fn two_datacenters(links: usize) -> Network {
    let mut text = String::new();
    for dc in ["a", "b"] {
        for name in [format!("{dc}0"), format!("{dc}1")] {
            text += &format!("[[node]]\nname = \"{name}\"\nkind = \"gpu\"\ndc = \"{dc}\"\n");
            text += &format!(
                "[[link]]\nfrom = \"{name}\"\nto = \"r{dc}\"\nbandwidth = \"10 Gbit/s\"\nlatency = \"20 us\"\n"
            );
        }
        text += &format!("[[node]]\nname = \"r{dc}\"\nkind = \"border\"\ndc = \"{dc}\"\n");
    }
    for _ in 0..links {
        text += "[[link]]\nfrom = \"ra\"\nto = \"rb\"\nclass = \"wan\"\nbandwidth = \"1 Gbit/s\"\nlatency = \"5 ms\"\n";
    }
    read_any(&text, None, &ReadOptions::default(), &|_| Err(String::new())).unwrap().network
}

fn chosen(network: &Network, known: bool, kind: CollectiveKind, method: Method) -> Synthesis {
    let goal = Goal::new(kind, 4).unwrap();
    for_sockets(network, known, &goal, Bytes::mib(16), method, Seed::new(1)).unwrap()
}

#[test]
fn what_crosses_between_datacenters_does_so_by_gateways() {
    use CollectiveKind::{AllGather, AllReduce, ReduceScatter};
    let (one, two) = (two_datacenters(1), two_datacenters(2));
    let name = |network, kind| chosen(network, true, kind, Method::Auto).method.name();
    // Over a single way trees are faster for AllReduce.
    assert_eq!(name(&one, AllGather), "gateways");
    assert_ne!(name(&one, AllReduce), "gateways");
    assert_eq!((name(&two, AllGather), name(&two, AllReduce)), ("gateways", "gateways"));
    assert_ne!(name(&two, ReduceScatter), "gateways");
    // Nobody who asks for a method, or whose figures are none, gets another.
    assert_eq!(chosen(&two, true, AllGather, Method::Forest).method.name(), "forest");
    assert_ne!(chosen(&two, false, AllGather, Method::Auto).method.name(), "gateways");
    // A part of the ranks, all in one datacenter.
    let goal = Goal::new(AllGather, 2).unwrap();
    let (size, seed) = (Bytes::mib(16), Seed::new(1));
    let near = for_sockets(&two, true, &goal, size, Method::Auto, seed).unwrap();
    assert!(near.method.name() != "gateways" && near.program.collective().ranks() == 2);
}

#[test]
fn links_side_by_side_are_one() {
    let (one, three) = (two_datacenters(1), two_datacenters(3));
    assert!(matches!(joined(&one), Cow::Borrowed(_)));
    let joined = joined(&three);
    assert_eq!((joined.links().len(), joined.ranks()), (one.links().len(), three.ranks()));
    let wan: Vec<&Link> = joined.links().iter().filter(|it| is_wan(it)).collect();
    assert!(wan.len() == 2 && wan.iter().all(|it| it.spec.bandwidth.bits_per_s() == 3_000_000_000));
    // What a program takes is its time on these: twice as fast as on one of two.
    let of = |network| chosen(network, true, CollectiveKind::AllGather, Method::Auto).time;
    assert!(of(&two_datacenters(2)) < of(&one));
}

fn sites_of(counts: &[u32]) -> Vec<Vec<Rank>> {
    let mut next = 0;
    let mut site = |count: &u32| {
        next += count;
        (next - count..next).map(Rank).collect()
    };
    counts.iter().map(&mut site).collect()
}

#[test]
fn programs_are_right_and_cross_between_gateways_only() {
    for counts in [&[4, 4][..], &[1, 1], &[3, 1], &[2, 3, 1], &[2, 2, 2, 2]] {
        for kind in [CollectiveKind::AllGather, CollectiveKind::AllReduce] {
            for size in [1, 1 << 20, 64 << 20] {
                let sites = sites_of(counts);
                let made = gateways::program(kind, &sites, Bytes::new(size)).unwrap();
                assert!(made.forms().in_place && made.forms().out_of_place);
                let site = |rank: Rank| sites.iter().position(|it| it.contains(&rank));
                let mut crossing = 0;
                for it in made.transfers() {
                    let (from, to) = (it.src.rank, it.dst.rank);
                    if site(from) != site(to) {
                        crossing += u64::from(it.count);
                        assert!(sites.iter().any(|it| it[0] == from));
                        assert!(sites.iter().any(|it| it[0] == to));
                    }
                }
                let others = sites.len() as u64 - 1;
                let (ranks, chunks) =
                    (made.collective().ranks(), u64::from(made.collective().chunks()));
                let least = match kind {
                    CollectiveKind::AllGather => u64::from(ranks) * chunks * others,
                    _ => 2 * chunks * others,
                };
                assert_eq!(crossing, least);
            }
        }
    }
    assert!(gateways::program(CollectiveKind::AllGather, &sites_of(&[4]), Bytes::new(1)).is_none());
    assert!(
        gateways::program(CollectiveKind::AllToAll, &sites_of(&[2, 2]), Bytes::new(1)).is_none()
    );
    assert!(
        gateways::program(CollectiveKind::AllReduce, &sites_of(&[2, 2]), Bytes::new(1 << 40))
            .is_none()
    );
}
