//! The machine that a job runs on, from the command line.

use motet_rails::Machine;

use crate::args::rails::MachineArgs;
use crate::failure::Failure;

/// The machine by name, or the DGX of the GPU; single figures as asked.
pub(super) fn machine(args: &MachineArgs, gpu: Option<&str>) -> Result<Machine, Failure> {
    let usual = match gpu {
        Some("a100") => "dgx-a100",
        Some("h200") => "dgx-h200",
        Some("b200") => "gb200-nvl72",
        _ => "dgx-h100",
    };
    let name = args.machine.as_deref().unwrap_or(usual);
    let known: Vec<&str> = Machine::names().collect();
    let mut machine = Machine::named(name).ok_or_else(|| {
        Failure::unreadable(format!("there is no machine `{name}`"))
            .with_remedy(format!("machines are {}", known.join(", ")))
    })?;
    if let Some(domain) = args.domain {
        machine.domain = domain;
    }
    for (wire, asked) in [(&mut machine.rail, args.nic), (&mut machine.scale_up, args.scale_up)] {
        if let Some(bandwidth) = asked {
            if bandwidth.is_zero() {
                return Err(Failure::unreadable("a wire without bandwidth carries nothing")
                    .with_remedy("give `--nic` and `--scale-up` some, as in \"400 Gbit/s\""));
            }
            wire.bandwidth = bandwidth;
        }
    }
    Ok(machine)
}
