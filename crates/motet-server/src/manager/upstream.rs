//! The manager's connection to the controller, made again whenever it breaks.

use std::time::Duration;

use motet_control::protocol::{Notice, Registration};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};
use tracing::{error, info, warn};

use super::Event;
use crate::api::v1;
use crate::client::Client;

/// How many messages may wait to be sent.
const UNSENT: usize = 1024;
/// The pause between attempts to connect: at first, and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// What a manager needs to reach the controller.
#[derive(Debug)]
pub struct Upstream {
    pub client: Client,
    pub registration: Registration,
    pub member: u32,
}

impl Upstream {
    /// Connects and listens, again and again, until `over` is set or nobody takes its events any more. Once
    /// it has returned, no request of it is under way, so a job that leaves after that is not registered
    /// again.
    pub async fn run(self, events: mpsc::Sender<Event>, mut over: watch::Receiver<bool>) {
        let [mut pause, longest] = PAUSE;
        let mut told = None;
        while !*over.borrow() {
            let mut reached = false;
            let mut calls = self.client.calls();
            // The controller may never have heard of the job, or have ended it while this manager was away.
            // Registering is not interrupted, because it would then be unknown whether the controller has
            // received it.
            let register = calls.register(self.client.request((&self.registration).into())).await;
            let listen = async {
                register?;
                self.listen(&events, &mut reached).await
            };
            let listened = tokio::select! {
                listened = listen => listened,
                _ = over.changed() => return,
            };
            let status = match listened {
                Ok(()) => Status::unavailable("the controller has closed the connection"),
                Err(status) => status,
            };
            if events.send(Event::Down).await.is_err() {
                return;
            }
            if reached {
                pause = PAUSE[0];
                told = None;
            }
            // Log repeated failures of one kind only once.
            if told != Some(status.code()) {
                told = Some(status.code());
                match status.code() {
                    Code::Unavailable | Code::Unknown | Code::Cancelled | Code::NotFound => {
                        warn!(
                            "the controller cannot be reached: {}; tries again",
                            status.message()
                        );
                    }
                    code => {
                        error!("the controller refuses: {code}: {}; tries again", status.message());
                    }
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = over.changed() => return,
            }
            pause = (pause * 2).min(longest);
        }
    }

    async fn listen(&self, events: &mpsc::Sender<Event>, reached: &mut bool) -> Result<(), Status> {
        let mut calls = self.client.calls();
        let (out, stream) = mpsc::channel(UNSENT);
        let seat = v1::Seat { job: self.registration.job.0, member: self.member };
        let join = v1::ToController { join: vec![seat], reports: Vec::new() };
        let full = |_| Status::internal("a new channel is full");
        out.try_send(join).map_err(full)?;
        let request = self.client.request(ReceiverStream::new(stream));
        let mut replies = calls.connect(request).await?.into_inner();
        let mut out = Some(out);
        while let Some(message) = replies.message().await? {
            if !message.joined.is_empty()
                && let Some(out) = out.take()
            {
                info!("connected to the controller");
                *reached = true;
                if events.send(Event::Up(out)).await.is_err() {
                    return Ok(());
                }
            }
            let notices = message.notices.into_iter().map(Notice::try_from);
            let notices: Vec<Notice> = notices
                .collect::<Result<_, _>>()
                .map_err(|it| Status::internal(format!("a notice that makes no sense: {it}")))?;
            if !notices.is_empty() && events.send(Event::Notices(notices)).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
