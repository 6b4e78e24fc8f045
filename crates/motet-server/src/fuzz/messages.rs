//! [`check`]: a message of the gRPC API as bytes, decoded as the service does and given to a controller.

use motet_control::controller::{Answer, Order, Policy};
use motet_control::protocol::{
    GroupId, GroupSpec, JobId, Member, Notice, Registration, Report, TenantId,
};
use motet_control::{Circuit, Controller, Input, Output, Port, SwitchId, Timer};
use prost::Message as _;

use crate::api::v1;

/// The first byte says what the others are: 0 a registration, 2 a message of the controller, anything else a
/// message of members. Checks that whatever is understood is the same after encoding and decoding it, and
/// that no port gets into two circuits.
///
/// # Errors
///
/// If one of these properties does not hold.
pub fn check(bytes: &[u8]) -> Result<bool, String> {
    match bytes.split_first() {
        None => Ok(false),
        Some((0, bytes)) => registration(bytes),
        Some((2, bytes)) => notices(bytes),
        Some((_, bytes)) => reports(bytes),
    }
}

fn controller() -> Controller {
    let (mut controller, _) = Controller::new(Policy::default(), &[(SwitchId(0), 8)], &[]);
    controller.handle(Input::Switch(SwitchId(0), Answer::Circuits(Vec::new())));
    controller
}

fn registration(bytes: &[u8]) -> Result<bool, String> {
    let Ok(request) = v1::RegisterRequest::decode(bytes) else { return Ok(false) };
    let Ok(registration) = Registration::try_from(request) else { return Ok(false) };
    let again = Registration::try_from(v1::RegisterRequest::from(&registration));
    if again.as_ref() != Ok(&registration) {
        return Err(format!("{registration:?} comes back as {again:?}"));
    }
    controller().handle(Input::Register(registration));
    Ok(true)
}

fn notices(bytes: &[u8]) -> Result<bool, String> {
    let Ok(message) = v1::FromController::decode(bytes) else { return Ok(false) };
    for notice in message.notices {
        let Ok(notice) = Notice::try_from(notice) else { return Ok(false) };
        let again = Notice::try_from(v1::Notice::from(&notice));
        if again != Ok(notice) {
            return Err(format!("{notice:?} comes back as {again:?}"));
        }
    }
    Ok(true)
}

fn reports(bytes: &[u8]) -> Result<bool, String> {
    let Ok(message) = v1::ToController::decode(bytes) else { return Ok(false) };
    let mut controller = controller();
    let pair = |id: u32| GroupSpec {
        id: GroupId(id),
        members: vec![Member(id), Member(id + 1)],
        circuits: Circuit::new(SwitchId(0), id, id + 1).into_iter().collect(),
    };
    let ports = (0..3).map(|it| (Member(it), Port::new(0, it))).collect();
    let (job, tenant, groups) = (JobId(1), TenantId(0), vec![pair(0), pair(1)]);
    controller.handle(Input::Register(Registration { job, tenant, ports, groups, mode: None }));
    for report in message.reports {
        let Ok(report) = Report::try_from(report) else { return Ok(false) };
        let again = Report::try_from(v1::Report::from(&report));
        if again != Ok(report) {
            return Err(format!("{report:?} comes back as {again:?}"));
        }
        let mut todo = controller.handle(Input::Report(report));
        while let Some(output) = todo.pop() {
            let input = match output {
                Output::Order(switch, Order::Prepare { change, .. }) => {
                    Input::Switch(switch, Answer::Prepared(change))
                }
                Output::Order(switch, Order::Apply { change, .. }) => {
                    Input::Switch(switch, Answer::Applied(change))
                }
                Output::Timer(timer @ Timer::Gather(_), _) => Input::Timer(timer),
                _ => continue,
            };
            todo.extend(controller.handle(input));
        }
        super::one_to_one(controller.circuits())?;
    }
    Ok(true)
}
