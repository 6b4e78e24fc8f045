//! The Unix socket that ranks connect to.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use motet_control::protocol::JobId;
use motet_control::wire::{Frame, MOST};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tracing::warn;

use super::Event;

/// How many frames a rank may leave unread.
const UNREAD: usize = 1024;
/// The time-out for the first frame.
const HELLO: Duration = Duration::from_secs(10);

/// Makes the socket, for this user only. A socket that a former manager has left behind is replaced, but not
/// one on which a manager still listens.
///
/// # Errors
///
/// If the socket cannot be made.
pub fn bind(path: &Path) -> std::io::Result<UnixListener> {
    if path.exists() && std::os::unix::net::UnixStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Accepts ranks until it is aborted.
pub async fn listen(listener: UnixListener, job: JobId, events: mpsc::Sender<Event>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(attend(stream, job, events.clone()));
            }
            Err(error) => {
                warn!("cannot accept a rank: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Serves one rank's connection, from its first frame to its last.
async fn attend(stream: UnixStream, job: JobId, events: mpsc::Sender<Event>) {
    let (reader, writer) = stream.into_split();
    let mut reader = Reader { stream: reader, bytes: Vec::new() };
    let hello = tokio::time::timeout(HELLO, reader.next()).await;
    let rank = match hello {
        Ok(Ok(Some(Frame::Hello { job: its, rank }))) if its == job => rank,
        Ok(Ok(Some(Frame::Hello { job: its, .. }))) => {
            warn!("refused: a rank of {its}, and this manager is {job}'s");
            return;
        }
        other => {
            warn!("refused: not a rank: {other:?}");
            return;
        }
    };
    let (sender, unread) = mpsc::channel(UNREAD);
    tokio::spawn(write(writer, unread));
    if events.send(Event::Rank(rank, sender.clone())).await.is_err() {
        return;
    }
    loop {
        let frame = match reader.next().await {
            Ok(Some(frame @ (Frame::Tell(_) | Frame::Bye))) => frame,
            Ok(None) => break,
            Ok(Some(frame)) => {
                warn!(%rank, "refused: {frame:?} is nothing that a rank says");
                break;
            }
            Err(error) => {
                warn!(%rank, "refused: {error}");
                break;
            }
        };
        if events.send(Event::Frame(rank, frame)).await.is_err() {
            return;
        }
    }
    // The manager may have ended.
    let _ = events.send(Event::Gone(rank, sender)).await;
}

async fn write(mut stream: OwnedWriteHalf, mut unread: mpsc::Receiver<Frame>) {
    let mut bytes = Vec::new();
    while let Some(frame) = unread.recv().await {
        bytes.clear();
        frame.write(&mut bytes);
        while let Ok(more) = unread.try_recv() {
            more.write(&mut bytes);
        }
        if stream.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

struct Reader {
    stream: OwnedReadHalf,
    bytes: Vec<u8>,
}

impl Reader {
    /// The next frame; `None` at the end of the connection.
    async fn next(&mut self) -> std::io::Result<Option<Frame>> {
        loop {
            let read = Frame::read(&self.bytes);
            let read =
                read.map_err(|it| std::io::Error::new(std::io::ErrorKind::InvalidData, it))?;
            if let Some((frame, length)) = read {
                self.bytes.drain(..length);
                return Ok(Some(frame));
            }
            let mut more = [0; 16 * MOST];
            let count = self.stream.read(&mut more).await?;
            let Some(more) = more.get(..count).filter(|it| !it.is_empty()) else {
                return Ok(None);
            };
            self.bytes.extend(more);
        }
    }
}
