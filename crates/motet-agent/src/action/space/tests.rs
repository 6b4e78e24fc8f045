//! For each rule of the mask there is a case that would fail without it; and numbers and actions correspond
//! one to one.

use motet_nccl::{Algorithm, NotOffered};
use motet_units::Bytes;

use super::super::{Extensions, Levels, Order};
use super::*;

const H100: Shape = Shape { ranks: 8, nodes: 1, sm: 90, nvlink: true, nvswitch: true };
const H100_X4: Shape = Shape { ranks: 32, nodes: 4, ..H100 };
const V100: Shape = Shape { ranks: 8, nodes: 1, sm: 70, nvlink: true, nvswitch: false };
const PCIE: Shape = Shape { ranks: 16, nodes: 2, sm: 80, nvlink: false, nvswitch: false };
const ALONE: Shape = Shape { ranks: 8, nodes: 8, ..H100 };

const WIDE: SpaceSpec = SpaceSpec {
    grain: Grain::Every,
    scope: Scope::Communicator,
    chunks: true,
    passthrough: true,
    program: true,
};

fn space(shape: &Shape, kind: CollectiveKind, spec: SpaceSpec) -> ActionSpace {
    ActionSpace::of_shape(shape, &NcclOptions::default(), kind, spec)
}

fn allreduce(shape: &Shape) -> ActionSpace {
    space(shape, CollectiveKind::AllReduce, WIDE)
}

fn offers(space: &ActionSpace, algorithm: Algorithm, protocol: Protocol) -> bool {
    space.index(&Action::nccl(algorithm, protocol)).is_some()
}

/// The reason why an action is not in a space, which must not contain it.
fn masked(space: &ActionSpace, action: Action) -> Masked {
    assert_eq!(space.index(&action), None, "{action:?}");
    space.check(&action).unwrap_err()
}

#[test]
fn numbers_and_actions_are_one_to_one() {
    for shape in [H100, H100_X4, V100, PCIE, ALONE] {
        for kind in CollectiveKind::ALL {
            for spec in [SpaceSpec::default(), WIDE] {
                let space = space(&shape, kind, spec);
                assert_eq!(space.get(0), Some(Action::DEFAULT));
                assert_eq!(space.get(space.len()), None);
                assert_eq!(space.actions().count(), space.len());
                for (index, action) in space.actions().enumerate() {
                    assert_eq!(space.index(&action), Some(index));
                    assert_eq!(space.get(index), Some(action));
                    assert_eq!(space.check(&action), Ok(()));
                }
                // Each looks at the whole space.
                for index in (0..space.len()).step_by(space.len() / 16 + 1) {
                    assert_eq!(space.get(index).map(|it| space.nearest(&it)), Some(index));
                }
            }
        }
    }
}

/// The space is enumerated with short cuts; trying every combination of all heads' values finds the same
/// actions.
#[test]
fn nothing_valid_is_left_out() {
    let space = allreduce(&H100_X4);
    let mut found = 0;
    let mut at = [0u8; Head::COUNT];
    loop {
        let action = Action::from_coordinates(&at).unwrap();
        assert_eq!(space.check(&action).is_ok(), space.index(&action).is_some());
        found += usize::from(space.check(&action).is_ok());
        // Count up; the reserved slots have a test of their own.
        let last = Head::NicStripe.index();
        let more = |it: &usize| usize::from(at[*it]) + 1 < Head::ALL[*it].size();
        let Some(head) = (0..last).rev().find(more) else { break };
        at[head] += 1;
        at[head + 1..].fill(0);
    }
    assert_eq!(found, space.len());
}

#[test]
fn algorithms_are_those_of_the_machine() {
    use Algorithm::{CollNetDirect, Nvls, NvlsTree, Pat, Ring, Tree};
    use Protocol::{Ll, Ll128, Simple};
    let one = allreduce(&H100);
    assert!(offers(&one, Nvls, Simple) && offers(&one, Tree, Ll128) && offers(&one, Ring, Ll));
    let refused = |space: &ActionSpace, algorithm, protocol| match masked(
        space,
        Action::nccl(algorithm, protocol),
    ) {
        Masked::NotOffered(it) => it,
        other => panic!("{other}"),
    };
    assert_eq!(refused(&one, NvlsTree, Simple), NotOffered::OneNode);
    assert_eq!(refused(&one, Nvls, Ll), NotOffered::SimpleOnly);
    assert_eq!(refused(&one, Pat, Simple), NotOffered::Collective);
    let many = allreduce(&H100_X4);
    assert!(offers(&many, NvlsTree, Simple));
    assert_eq!(refused(&many, Nvls, Simple), NotOffered::NoCollNet);
    assert_eq!(refused(&many, CollNetDirect, Simple), NotOffered::NoCollNet);
    let collnet = NcclOptions { collnet: true, ..NcclOptions::default() };
    let collnet = ActionSpace::of_shape(&H100_X4, &collnet, CollectiveKind::AllReduce, WIDE);
    assert!(offers(&collnet, CollNetDirect, Simple) && offers(&collnet, Nvls, Simple));
    // NVLS and LL128 need the hardware.
    assert_eq!(refused(&allreduce(&V100), Nvls, Simple), NotOffered::NoNvls);
    assert!(offers(&allreduce(&V100), Ring, Ll128));
    assert_eq!(refused(&allreduce(&PCIE), Ring, Ll128), NotOffered::Ll128);
    // PAT gathers and scatters, with one rank on each node.
    let gather = |shape| space(shape, CollectiveKind::AllGather, WIDE);
    assert!(offers(&gather(&ALONE), Pat, Simple));
    assert_eq!(refused(&gather(&H100_X4), Pat, Simple), NotOffered::NoPat);
    assert_eq!(refused(&gather(&H100_X4), Tree, Simple), NotOffered::Collective);
}

#[test]
fn collectives_that_nccl_does_not_tune_have_its_own_choice_only() {
    let space = space(&H100, CollectiveKind::AllToAll, SpaceSpec::default());
    assert_eq!(space.len(), 1);
    let ring = Action::nccl(Algorithm::Ring, Protocol::Simple);
    assert_eq!(masked(&space, ring), Masked::NotTuned);
    assert_eq!(space.nearest(&ring), 0);
}

#[test]
fn paths_are_open_where_there_is_something_to_take() {
    let closed = space(&H100, CollectiveKind::AllReduce, SpaceSpec::default());
    assert_eq!(masked(&closed, Action::PASSTHROUGH), Masked::NoPassthrough);
    assert_eq!(masked(&closed, Action::PROGRAM), Masked::NoProgram);
    let open = allreduce(&H100);
    assert!(open.index(&Action::PASSTHROUGH).is_some() && open.index(&Action::PROGRAM).is_some());
    let both = Action { path: Path::Program, ..Action::nccl(Algorithm::Ring, Protocol::Ll) };
    assert_eq!(masked(&open, both), Masked::OtherPath);
}

#[test]
fn knobs_belong_to_an_algorithm_and_a_protocol() {
    let space = allreduce(&H100);
    let half = Action { algorithm: Some(Algorithm::Ring), ..Action::DEFAULT };
    assert_eq!(masked(&space, half), Masked::Unpaired);
    let bare = Action { channels: Some(4), ..Action::DEFAULT };
    assert_eq!(masked(&space, bare), Masked::Unpaired);
}

#[test]
fn channels_are_bounded() {
    let ring = Action::nccl(Algorithm::Ring, Protocol::Simple);
    let with = |channels| Action { channels: Some(channels), ..ring };
    let options = NcclOptions { max_channels: Some(8), ..NcclOptions::default() };
    let few = ActionSpace::of_shape(&H100, &options, CollectiveKind::AllReduce, WIDE);
    assert!(few.index(&with(8)).is_some());
    assert_eq!(masked(&few, with(9)), Masked::Channels { asked: 9, most: 8 });
    assert_eq!(few.get(few.nearest(&with(9))), Some(with(8)));
    let coarse = space(&H100, CollectiveKind::AllReduce, SpaceSpec::default());
    assert_eq!(masked(&coarse, with(6)), Masked::Grain(6));
    assert!(allreduce(&H100).index(&with(6)).is_some());
    let nvls = Action { channels: Some(4), ..Action::nccl(Algorithm::Nvls, Protocol::Simple) };
    assert_eq!(masked(&allreduce(&H100), nvls), Masked::InNetwork);
}

#[test]
fn threads_are_the_communicators() {
    let with = |algorithm, protocol, threads| Action {
        threads: Some(threads),
        ..Action::nccl(algorithm, protocol)
    };
    let simple = with(Algorithm::Ring, Protocol::Simple, 64);
    let call = space(&H100, CollectiveKind::AllReduce, SpaceSpec::default());
    assert_eq!(masked(&call, simple), Masked::ThreadsPerCall);
    let wide = allreduce(&H100);
    assert!(wide.index(&simple).is_some());
    for threads in [64, 128] {
        let ll128 = with(Algorithm::Ring, Protocol::Ll128, threads);
        let protocol = Protocol::Ll128;
        assert_eq!(masked(&wide, ll128), Masked::Threads { threads, protocol });
    }
    assert!(wide.index(&with(Algorithm::Ring, Protocol::Ll128, 256)).is_some());
    assert_eq!(masked(&wide, with(Algorithm::Tree, Protocol::Simple, 64)), Masked::ThreadsFixed);
}

#[test]
fn chunks_need_tuner_v6_and_fit_a_slot() {
    let with = |protocol, kib| Action {
        chunk: Some(Bytes::kib(kib)),
        ..Action::nccl(Algorithm::Ring, protocol)
    };
    let wide = allreduce(&H100);
    assert!(wide.index(&with(Protocol::Simple, 2048)).is_some());
    assert_eq!(masked(&wide, with(Protocol::Simple, 65)), Masked::OffGrid);
    let (asked, most) = (Bytes::kib(64), Bytes::kib(32));
    assert_eq!(masked(&wide, with(Protocol::Ll, 64)), Masked::Chunk { asked, most });
    let old = NcclOptions { version: NcclVersion::V2_28, ..NcclOptions::default() };
    let old = ActionSpace::of_shape(&H100, &old, CollectiveKind::AllReduce, WIDE);
    assert_eq!(masked(&old, with(Protocol::Simple, 64)), Masked::NoChunks);
    let call = space(&H100, CollectiveKind::AllReduce, SpaceSpec::default());
    assert_eq!(masked(&call, with(Protocol::Simple, 64)), Masked::OffGrid);
}

#[test]
fn reserved_slots_are_masked() {
    let none = Extensions::NONE;
    let all = [
        (Extensions { nic_stripe: 2, ..none }, Head::NicStripe),
        (Extensions { pipeline_depth: 4, ..none }, Head::PipelineDepth),
        (Extensions { order: Order::AroundFaults, ..none }, Head::Order),
        (Extensions { levels: Levels::Each, ..none }, Head::Levels),
    ];
    for (extensions, head) in all {
        let action = Action { extensions, ..Action::DEFAULT };
        assert_eq!(masked(&allreduce(&H100), action), Masked::Extension(head));
    }
}

/// Choosing head by head among what the masks leave reaches every action and nothing else.
#[test]
fn masks_lead_to_valid_actions() {
    fn reach(space: &ActionSpace, chosen: &mut Vec<u8>, found: &mut usize) {
        if chosen.len() == Head::COUNT {
            assert_eq!(space.actions.get(*found).map(|it| &it[..]), Some(&chosen[..]));
            *found += 1;
            return;
        }
        let mask = space.mask(chosen);
        assert_eq!(mask.len(), Head::ALL[chosen.len()].size());
        for value in (0..mask.len()).filter(|it| mask[*it]) {
            chosen.push(u8::try_from(value).unwrap());
            reach(space, chosen, found);
            chosen.pop();
        }
    }
    let space = allreduce(&H100_X4);
    let mut found = 0;
    reach(&space, &mut Vec::new(), &mut found);
    assert_eq!(found, space.len());
    assert!(space.mask(&[1, 1]).iter().all(|it| !it), "a passthrough with an algorithm");
    assert!(space.mask(&[0; Head::COUNT]).is_empty());
}

#[test]
fn what_cannot_be_had_has_a_nearest() {
    let near = |space: &ActionSpace, it: Action| space.get(space.nearest(&it)).unwrap();
    let of = Action::nccl;
    let pcie = allreduce(&PCIE);
    let ring = |protocol| of(Algorithm::Ring, protocol);
    assert_eq!(near(&pcie, ring(Protocol::Ll128)), ring(Protocol::Simple));
    // Another algorithm is not nearer than NCCL's own choice.
    assert_eq!(near(&pcie, of(Algorithm::Nvls, Protocol::Simple)), Action::DEFAULT);
    let h100 = allreduce(&H100);
    let nvls = of(Algorithm::Nvls, Protocol::Simple);
    assert_eq!(near(&h100, of(Algorithm::Nvls, Protocol::Ll)), nvls);
    assert_eq!(near(&h100, Action { channels: Some(4), ..nvls }), nvls);
    let chunk = |kib| Action { chunk: Some(Bytes::kib(kib)), ..ring(Protocol::Simple) };
    assert_eq!(near(&h100, chunk(100)), chunk(128));
}

#[test]
fn spaces_that_differ_have_different_checksums() {
    let all = [
        allreduce(&H100),
        allreduce(&H100_X4),
        allreduce(&V100),
        space(&H100, CollectiveKind::AllReduce, SpaceSpec::default()),
        space(&H100, CollectiveKind::AllGather, WIDE),
        space(&H100, CollectiveKind::AllToAll, SpaceSpec::default()),
        space(&H100, CollectiveKind::SendRecv, SpaceSpec::default()),
    ];
    let mut sums: Vec<Checksum> = all.iter().map(ActionSpace::checksum).collect();
    assert_eq!(allreduce(&H100).checksum(), sums[0]);
    sums.sort_unstable();
    sums.dedup();
    assert_eq!(sums.len(), all.len());
}
