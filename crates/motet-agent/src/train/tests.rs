//! Training in a world whose best policy is known: it has two hidden regimes, in each of which another
//! algorithm is fast.

use std::sync::Arc;

use motet_collective::CollectiveKind;
use motet_nccl::{Algorithm, NcclOptions, Shape as Machine};
use motet_units::{Bytes, Duration};
use rand::RngExt as _;

use super::*;
use crate::action::{Action, ActionSpace, SpaceSpec};
use crate::lstm::{Catalogue, Nominal, PolicyErrorKind, Seen, Shape, Variant};
use crate::state::State;

/// A job with a hidden regime, which changes once: Ring is fast in one regime, Tree in the other.
struct Hidden {
    space: ActionSpace,
    catalogue: Arc<Catalogue>,
    nominal: Arc<Nominal>,
}

struct HiddenLife {
    actions: Vec<Action>,
    catalogue: Arc<Catalogue>,
    nominal: Arc<Nominal>,
    ring: bool,
    change: u32,
    call: u32,
}

impl Hidden {
    fn new() -> Self {
        let machine = Machine { ranks: 8, nodes: 1, sm: 90, nvlink: true, nvswitch: true };
        let (options, kind) = (NcclOptions::default(), CollectiveKind::AllReduce);
        let space = ActionSpace::of_shape(&machine, &options, kind, SpaceSpec::default());
        let catalogue = Arc::new(Catalogue::of(&space));
        let nominal = Arc::new(Nominal::unknown(space.len()));
        Self { space, catalogue, nominal }
    }
}

impl World for Hidden {
    type Life = HiddenLife;

    fn begin(&self, _: Stage, seed: Seed) -> HiddenLife {
        let mut stream = seed.stream("hidden");
        HiddenLife {
            actions: self.space.actions().collect(),
            catalogue: Arc::clone(&self.catalogue),
            nominal: Arc::clone(&self.nominal),
            ring: stream.random(),
            change: stream.random_range(8..16),
            call: 0,
        }
    }
}

impl HiddenLife {
    fn cost(&self, action: &Action) -> f32 {
        let ring = self.ring != (self.call >= self.change);
        match action.algorithm {
            Some(Algorithm::Ring) => f32::from(!ring),
            Some(Algorithm::Tree) => f32::from(ring),
            _ => 0.7,
        }
    }
}

impl Life for HiddenLife {
    fn face(&mut self) -> Option<Scene> {
        let mut state = State::BLANK;
        state.call.bytes = Bytes::mib(1);
        let costs = self.actions.iter().map(|it| self.cost(it)).collect();
        (self.call < 24).then(|| Scene {
            group: 0,
            state,
            catalogue: Arc::clone(&self.catalogue),
            nominal: Arc::clone(&self.nominal),
            costs,
        })
    }

    fn act(&mut self, action: usize, _: bool) -> Option<Lived> {
        let did = (self.actions[action], self.catalogue.kernel(action));
        let cost = self.cost(&did.0);
        self.call += 1;
        let time = Duration::from_ps(libm::round(1e7 * libm::exp(f64::from(cost))) as u64);
        let nominal = Duration::from_us(10);
        let call = (CollectiveKind::AllReduce, Bytes::mib(1));
        Some(Lived { reward: -cost, seen: Seen::new(call, did, time, nominal, nominal) })
    }
}

const SMALL: Settings = Settings {
    seed: 7,
    updates: 240,
    lives: 16,
    shape: Shape { encoder: 8, hidden: 8 },
    variant: Variant::FULL,
    curriculum: false,
    imitation: 0,
    full: true,
    rate: 10_000,
    judges: 4,
};

/// A network without the initial weights by which an untrained network follows recent times, so that it must
/// learn that.
fn unbiased(settings: Settings) -> Trainer {
    let mut trainer = Trainer::new(settings);
    let biases = trainer.net.weights_mut().iter_mut().filter(|it| it.abs() >= 2.0);
    biases.for_each(|it| *it = 0.0);
    trainer
}

fn trained(settings: Settings) -> Trainer {
    let world = Hidden::new();
    let mut trainer = unbiased(settings);
    while !trainer.is_done() {
        trainer.advance(&world);
    }
    trainer
}

fn regret(settings: Settings) -> f32 {
    let seeds: Vec<Seed> = (0..40).map(|it| Seed::new(99).numbered(it)).collect();
    judge(&Hidden::new(), &trained(settings).policy(), Stage::One, &seeds).regret
}

/// A policy with memory finds the regime and its change within a few calls; one without can only guess.
#[test]
fn memory_pays_where_the_world_has_a_hidden_state() {
    let none = regret(Settings { variant: Variant::FORGETFUL, ..SMALL });
    assert!(none > 0.4, "{none}");
    // Without outcomes there is nothing to remember.
    let blind = Variant { last: false, ledger: false, ..Variant::FULL };
    let blind = regret(Settings { variant: blind, ..SMALL });
    assert!(blind > 0.4, "{blind}");
    let full = regret(SMALL);
    assert!(full < 0.3, "{full}");
    let drawn = regret(Settings { full: false, updates: 400, ..SMALL });
    assert!(drawn < 0.4, "{drawn}");
    let imitated = regret(Settings { imitation: 240, ..SMALL });
    assert!(imitated < 0.3, "{imitated}");
}

#[test]
fn entropy_falls_and_the_curve_says_so() {
    let trainer = trained(SMALL);
    let curve = trainer.curve();
    assert_eq!(curve.len(), 240);
    assert!(curve[239].entropy < curve[0].entropy - 0.5);
    assert!(curve[239].regret < 0.8 * curve[0].regret);
    let text = curve::csv(curve);
    assert_eq!(text.lines().count(), 241);
    assert!(text.starts_with("update,reward,regret,"));
}

/// A run that was killed and continued on another number of threads ends with the same bytes.
#[test]
fn a_run_goes_on_from_its_checkpoint() {
    let world = Hidden::new();
    let settings = Settings { updates: 12, ..SMALL };
    let through = trained(settings);
    let mut first = unbiased(settings);
    (0..5).for_each(|_| first.advance(&world));
    let text = first.write();
    let mut second = Trainer::read(&text).unwrap();
    assert_eq!(second, first);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    pool.install(|| {
        while !second.is_done() {
            second.advance(&world);
        }
    });
    assert_eq!(second.write(), through.write());
    assert_eq!(second.policy().write(), through.policy().write());
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    assert_eq!(one.install(|| trained(settings)).write(), through.write());
    assert_ne!(trained(Settings { seed: 8, ..settings }).write(), through.write());
}

#[test]
fn a_damaged_checkpoint_is_refused() {
    let mut trainer = Trainer::new(Settings { updates: 2, lives: 2, ..SMALL });
    trainer.advance(&Hidden::new());
    let text = trainer.write();
    let kind = |text: &str| Trainer::read(text).unwrap_err().kind;
    assert_eq!(kind(&text[..text.len() / 2]), PolicyErrorKind::Truncated);
    assert_eq!(kind(&text.replacen("lives=2", "lives=3", 1)), PolicyErrorKind::Corrupt);
    assert_eq!(kind(&trainer.policy().write()), PolicyErrorKind::NotAPolicy);
    assert_eq!(kind("motet-training 9\n"), PolicyErrorKind::NewerVersion);
}
