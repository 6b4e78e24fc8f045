//! Fakes: a simulated switch behind each protocol, served on a port of this machine. What the switch is told to do wrong
//! ([`Mishap`](motet_switch::sim::Mishap)) shows through the protocol as a real one's mistakes would.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    dead_code,
    unreachable_pub,
    reason = "tests may fail, and say so; not every test uses every fake"
)]

pub mod gnmi;
pub mod netconf;
pub mod restconf;
pub mod scpi;
pub mod tl1;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use motet_switch::layout::Cross;
use motet_switch::sim::Switch;
use motet_switch::{PortState, Problem};
use tokio::net::{TcpListener, TcpStream};

/// What a fake knows of its switch besides what is connected.
#[derive(Clone)]
pub struct Fake {
    pub switch: Arc<Switch>,
    /// Ports of the device: 1 to this.
    pub ports: u32,
    /// Ports up to this are inputs only, others outputs only; if none, all are both.
    pub inputs: Option<u32>,
    /// Name and password that it wants, if it does.
    pub login: Option<(&'static str, &'static str)>,
}

/// What a switch says to a change.
pub enum Verdict {
    Done,
    No(String),
    /// The connection is gone.
    Gone,
}

impl Fake {
    /// Changes cross-connections, as far as a real switch would take them: with ports that exist and are free.
    pub async fn change(&self, remove: &[Cross], add: &[Cross]) -> Verdict {
        let mut left = self.switch.crosses();
        for cross in remove {
            let Some(at) = left.iter().position(|it| it.input == cross.input) else {
                return Verdict::No(format!("input {} is not connected", cross.input));
            };
            left.remove(at);
        }
        for cross in add {
            let sides = self.inputs.is_none_or(|it| cross.input <= it && cross.output > it);
            if [cross.input, cross.output].iter().any(|it| *it == 0 || *it > self.ports) || !sides {
                return Verdict::No(format!("{cross} is out of range"));
            }
            let same = |a: u32, b: u32| a == b;
            let busy = left.iter().any(|it| {
                same(it.input, cross.input)
                    || same(it.output, cross.output)
                    || self.inputs.is_none()
                        && (same(it.input, cross.output) || same(it.output, cross.input))
            });
            if busy {
                return Verdict::No(format!("a port of {cross} is in use"));
            }
            left.push(*cross);
        }
        match self.switch.change(remove, add).await {
            Ok(()) => Verdict::Done,
            Err(fault) => match fault.problem {
                Problem::Rejected(words) => Verdict::No(words),
                _ => Verdict::Gone,
            },
        }
    }

    /// Of each port that is not up.
    pub fn states(&self) -> Vec<(u32, PortState)> {
        self.switch.readout().map(|it| it.ports).unwrap_or_default()
    }

    pub fn state(&self, port: u32) -> PortState {
        self.states().iter().find(|it| it.0 == port).map_or(PortState::Up, |it| it.1)
    }
}

/// Serves connections, each until it ends or the power goes.
pub async fn serve<F, Run>(switch: Arc<Switch>, each: F) -> SocketAddr
where
    F: Fn(TcpStream) -> Run + Send + 'static,
    Run: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            if !switch.is_on() {
                continue;
            }
            stream.set_nodelay(true).unwrap();
            let (switch, run) = (switch.clone(), each(stream));
            tokio::spawn(async move {
                let cycles = switch.power_cycles();
                let gone = async {
                    while switch.is_on() && switch.power_cycles() == cycles {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                };
                tokio::select! {
                    () = run => {}
                    () = gone => {}
                }
            });
        }
    });
    address
}
