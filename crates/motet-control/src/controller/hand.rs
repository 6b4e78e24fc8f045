//! The controller as a [`Hand`]: it is given one input at a time and proposes the outputs that follow from it.
//!
//! Its proposals cost nothing and may be carried out at once, because the time that a change takes is known only to the switches,
//! which answer when the circuits are up. It learns from its inputs alone, so `learn` does nothing.

use std::convert::Infallible;

use super::{Controller, Input, Output};
use crate::hand::{Hand, HandKind, Proposal};

impl Hand<Input> for Controller {
    type Action = Vec<Output>;
    type Outcome = ();
    type Error = Infallible;

    fn kind(&self) -> HandKind {
        HandKind::Circuits
    }

    fn propose(&mut self, input: Input) -> Result<Option<Proposal<Vec<Output>>>, Infallible> {
        let outputs = self.handle(input);
        Ok((!outputs.is_empty()).then(|| Proposal::free(outputs)))
    }

    fn learn(&mut self, _outcome: &()) {}
}

#[cfg(test)]
mod tests {
    use super::super::{Policy, Timer};
    use super::*;
    use crate::circuit::SwitchId;
    use crate::protocol::JobId;

    #[test]
    fn it_proposes_what_it_would_do() {
        let (mut by_hand, _) = Controller::new(Policy::default(), &[(SwitchId(0), 4)], &[]);
        let mut by_itself = by_hand.clone();
        assert_eq!(by_hand.kind(), HandKind::Circuits);
        for input in [Input::Timer(Timer::Reach(SwitchId(0))), Input::Leave(JobId(7))] {
            let Ok(proposal) = by_hand.propose(input.clone());
            let outputs = by_itself.handle(input);
            assert_eq!(proposal.map(|it| it.action).unwrap_or_default(), outputs);
            by_hand.learn(&());
            assert_eq!(by_hand, by_itself);
        }
    }
}
