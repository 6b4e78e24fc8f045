//! Runs an episode under a policy, and records what was observed, chosen and computed for each call.

use motet_units::{Seed, Stream};

use super::world::{Life, Lived, Scene, Stage, World};
use crate::gate::{Experts, gate};
use crate::lstm::policy::expert;
use crate::lstm::{Faced, Facing, Memory, Mind, NetStep, Odds};

/// One call of an episode.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) scene: Scene,
    /// The features of the call's actions.
    pub(super) faced: Faced,
    pub(super) step: NetStep,
    pub(super) odds: Odds,
    pub(super) action: usize,
    pub(super) lived: Lived,
}

impl Moment {
    /// How much more the action cost than the best would have.
    pub(super) fn regret(&self) -> f32 {
        let least = self.scene.costs.iter().copied().fold(f32::INFINITY, f32::min);
        self.scene.costs.get(self.action).map_or(0.0, |it| it - least)
    }
}

/// How actions are chosen.
#[derive(Debug)]
pub(super) enum Choosing<'a> {
    /// At random, by their odds.
    Drawn(&'a mut Stream),
    /// Always the likeliest.
    Best,
}

/// Runs one episode under a network. The calls of each communicator form a sequence of their own.
pub(super) fn play<W: World>(
    world: &W,
    (stage, seed): (Stage, Seed),
    mind: Mind<'_>,
    mut choosing: Choosing<'_>,
) -> Vec<Vec<Moment>> {
    let mut life = world.begin(stage, seed);
    let mut groups: Vec<(Memory, Vec<Moment>)> = Vec::new();
    while let Some(scene) = life.face() {
        while groups.len() <= scene.group {
            groups.push((Memory::new(mind.net.shape()), Vec::new()));
        }
        let (memory, moments) = &mut groups[scene.group];
        let call = Facing {
            state: &scene.state,
            expert: expert(gate(&scene.state, &Experts::default()).verdict),
            catalogue: &scene.catalogue,
            nominal: &scene.nominal,
        };
        let (step, faced, odds) = mind.think(&call, memory);
        let action = match &mut choosing {
            Choosing::Drawn(stream) => odds.draw(stream),
            Choosing::Best => odds.best(),
        };
        let Some(lived) = life.act(action, action != odds.best()) else { break };
        memory.learn(lived.seen);
        moments.push(Moment { scene, faced, step, odds, action, lived });
    }
    groups.into_iter().map(|it| it.1).collect()
}
