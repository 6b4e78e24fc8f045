//! The knobs hand of `motet wan`: a policy of `motet-agent`, asked before every collective beside the other hands.

use motet_agent::hand::{Offer, PolicyHand, Task};
use motet_agent::policy::{DEFAULT, Registered, find};
use motet_control::hand::{HandKind, Hands};
use motet_wan::{Mode, Scenario, Strength, WanError, knobs};

use crate::args::wan::WanArgs;
use crate::failure::Failure;

/// The policy that moves knobs, and what it may choose from.
pub(super) struct Knobs {
    policy: &'static Registered,
    tasks: Vec<Task>,
    pub(super) settings: Vec<Vec<knobs::Setting>>,
}

impl Knobs {
    /// The policy that was asked for; `None` if knobs stay.
    pub(super) fn asked_for(args: &WanArgs) -> Result<Option<&'static Registered>, Failure> {
        let wanted = args.hands.contains(&HandKind::Knobs);
        let Some(name) = args.agent.as_deref().or(wanted.then_some(DEFAULT)) else {
            return Ok(None);
        };
        // An oracle must be told what nobody knows here.
        let policy = find(name).filter(|it| it.name != "oracle");
        policy.map(Some).ok_or_else(|| {
            let known = motet_agent::pilot::live().map(|it| it.name).collect::<Vec<_>>();
            Failure::unreadable(format!("no policy `{name}` for the knobs of a call"))
                .with_remedy(format!("there are {}", known.join(", ")))
        })
    }

    pub(super) fn new(
        policy: &'static Registered,
        scenario: &Scenario<'_>,
    ) -> Result<Self, WanError> {
        let settings = knobs::settings(scenario)?;
        let task = |(asked, settings): (&motet_wan::Asked, &Vec<knobs::Setting>)| Task {
            kind: asked.goal.kind(),
            bytes: asked.size,
            nominal: settings.first().map_or(motet_units::Duration::ZERO, |it| it.nominal),
            offers: settings
                .iter()
                .filter_map(|it| {
                    let (algorithm, channels, nominal) = (it.algorithm?, it.channels, it.nominal);
                    Some(Offer { algorithm, channels, nominal })
                })
                .collect(),
        };
        let tasks = scenario.collectives.iter().zip(&settings).map(task).collect();
        Ok(Self { policy, tasks, settings })
    }

    /// A hand that has seen no call.
    pub(super) fn hand(&self, scenario: &Scenario<'_>) -> Result<PolicyHand, Failure> {
        let seed = scenario.seed.named("knobs");
        PolicyHand::new(self.policy, seed, scenario.network.clone(), &self.tasks)
            .map_err(|it| Failure::wrong(format!("the knobs hand: {it}")))
    }
}

/// The modes that were asked for: without knobs as ever; with a policy, each of them with knobs too.
pub(super) fn modes(args: &WanArgs, knobs: bool) -> Result<Vec<Mode>, Failure> {
    if args.hands.contains(&HandKind::Circuits) {
        return Err(Failure::unreadable("a WAN has no circuits to move")
            .with_remedy("leave `circuits` out; `motet rails sim` moves them"));
    }
    let strong = |mode: &Mode| {
        let strength = args.strength.map(Strength::from);
        mode.strength().is_none_or(|has| strength.is_none_or(|it| it == has))
    };
    let mut modes: Vec<Mode> = Mode::ALL.into_iter().filter(strong).collect();
    if knobs {
        modes.extend(modes.clone().into_iter().map(Mode::with_knobs));
    }
    if !args.hands.is_empty() {
        let may: Hands = args.hands.iter().copied().collect();
        modes.retain(|it| it.hands().within(may));
    }
    Ok(modes)
}
