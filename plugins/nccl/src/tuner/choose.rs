//! Which entry of NCCL's table of costs is meant.

use motet_runtime::{Algorithm, Protocol};

/// Protocols in a row of the table; every NCCL has these three.
pub(crate) const PROTOCOLS: usize = Protocol::ALL.len();

/// Whether NCCL's table has a shape that we know: seven algorithms, or six before 2.23.
pub(crate) const fn is_known(algorithms: i32, protocols: i32) -> bool {
    matches!(algorithms, 6 | 7) && protocols == PROTOCOLS as i32
}

/// Of the entries that NCCL can choose (0 or above) and that are of `algorithm` and `protocol`, the cheapest; the first
/// of equal ones, as NCCL does it.
pub(crate) fn chosen(
    costs: &[f32],
    algorithm: Option<Algorithm>,
    protocol: Option<Protocol>,
) -> Option<usize> {
    // Not a number compares as neither.
    let possible = |entry: &usize| costs.get(*entry).is_some_and(|it| *it >= 0.0);
    if let (Some(algorithm), Some(protocol)) = (algorithm, protocol) {
        return Some(algorithm.index() * PROTOCOLS + protocol.index()).filter(possible);
    }
    let meant = |entry: &usize| {
        algorithm.is_none_or(|it| it.index() == entry / PROTOCOLS)
            && protocol.is_none_or(|it| it.index() == entry % PROTOCOLS)
    };
    let entries = (0..costs.len()).filter(meant).filter(possible);
    entries.reduce(|best, it| if costs[it] < costs[best] { it } else { best })
}

/// What NCCL would choose by itself: the cheapest, as far as its table says.
pub(crate) fn own(costs: &[f32]) -> Option<(Algorithm, Protocol)> {
    let entry = chosen(costs, None, None)?;
    Some((*Algorithm::ALL.get(entry / PROTOCOLS)?, *Protocol::ALL.get(entry % PROTOCOLS)?))
}

/// Whether NCCL by itself would have switches reduce. Of several cheapest entries it takes the first, row by row.
pub(crate) fn prefers_network(costs: &[f32]) -> bool {
    const FIRST: usize = Algorithm::CollNetDirect.index() * PROTOCOLS;
    const BEHIND: usize = Algorithm::Pat.index() * PROTOCOLS;
    // As whole numbers, floats from 0 on stand in their order; what NCCL cannot choose comes after all of them.
    let cheapest = |costs: &[f32]| costs.iter().map(|it| it.to_bits()).min().unwrap_or(u32::MAX);
    let Some((known, patterns)) = costs.split_first_chunk::<BEHIND>() else { return false };
    let within = cheapest(&known[FIRST..]);
    let possible = within <= f32::INFINITY.to_bits();
    possible && within < cheapest(&known[..FIRST]) && within <= cheapest(patterns)
}

/// Whether an entry's algorithm has switches reduce: CollNet (SHARP) and NVLS.
pub(crate) const fn is_in_network(entry: usize) -> bool {
    let row = entry / PROTOCOLS;
    row >= Algorithm::CollNetDirect.index() && row <= Algorithm::NvlsTree.index()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_that_is_meant_and_can_be_chosen() {
        let mut costs = [5.0f32; 21];
        costs[4] = 3.0; // ring, LL128
        costs[0] = -1.0; // tree, LL
        assert_eq!(chosen(&costs, Some(Algorithm::Ring), Some(Protocol::Ll)), Some(3));
        assert_eq!(chosen(&costs, Some(Algorithm::Ring), None), Some(4));
        assert_eq!(chosen(&costs, None, Some(Protocol::Ll)), Some(3));
        assert_eq!(chosen(&costs, Some(Algorithm::Tree), Some(Protocol::Ll)), None);
        assert_eq!(chosen(&costs[..18], Some(Algorithm::Pat), None), None);
        assert_eq!(chosen(&[-1.0; 21], None, Some(Protocol::Simple)), None);
        assert_eq!(chosen(&[f32::NAN; 21], Some(Algorithm::Ring), None), None);
    }

    #[test]
    fn nccl_takes_the_first_of_the_cheapest() {
        let nvls = 14;
        for (algorithms, cost, ring, pat, expected) in [
            (7, 2.0, 3.0, 3.0, true),
            (7, 3.0, 3.0, 4.0, false),
            (7, 3.0, 4.0, 3.0, true),
            (7, 3.0, 4.0, 2.0, false),
            (7, -1.0, 4.0, 2.0, false),
            (7, 3.0, -1.0, -1.0, true),
            (6, 2.0, 3.0, 1.0, true),
        ] {
            let mut costs = [-1.0f32; 21];
            (costs[nvls], costs[3], costs[20]) = (cost, ring, pat);
            assert_eq!(prefers_network(&costs[..algorithms * PROTOCOLS]), expected, "{costs:?}");
        }
        assert!(!prefers_network(&[-1.0; 21]) && !prefers_network(&[f32::NAN; 21]));
        assert!(!prefers_network(&[]));
    }

    #[test]
    fn switches_reduce_in_four_algorithms() {
        let names = (0..7).filter(|it| is_in_network(it * PROTOCOLS + 2));
        let names: Vec<_> = names.map(|it| Algorithm::ALL[it].name()).collect();
        assert_eq!(names, ["collnet_direct", "collnet_chain", "nvls", "nvls_tree"]);
    }
}
