//! Bytes to and from a device: connecting by TCP, and splitting the received stream into messages.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::device::Fault;
use crate::error::Problem;

/// The most bytes of one message: more than any answer of a switch with thousands of ports.
pub(crate) const LONGEST: usize = 16 << 20;

/// Both directions of a connection.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// The host and the port in an address such as `host`, `host:port` or `[v6]:port`.
pub(crate) fn host_and_port(address: &str, default: u16) -> Result<(String, u16), String> {
    let wrong = || format!("`{address}` is not a host, or a host and a port after a colon");
    let (host, port) = if let Some(rest) = address.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(wrong()),
        }
    } else {
        match address.split_once(':') {
            // Several colons: an IPv6 address without a port.
            Some((_, rest)) if rest.contains(':') => (address, None),
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        }
    };
    let port = port.map_or(Ok(default), |it| it.parse().map_err(|_| wrong()))?;
    if host.is_empty() || host.starts_with('-') {
        Err(wrong())
    } else {
        Ok((host.to_owned(), port))
    }
}

pub(crate) async fn tcp(host: &str, port: u16) -> Result<TcpStream, Fault> {
    let lost = |it: std::io::Error| Fault::new("connecting", Problem::Unreachable(it.to_string()));
    let stream = TcpStream::connect((host, port)).await.map_err(lost)?;
    stream.set_nodelay(true).map_err(lost)?;
    Ok(stream)
}

/// A connection, with the received bytes that were not used yet.
pub(crate) struct Line {
    stream: Box<dyn Duplex>,
    inbox: Vec<u8>,
}

impl Line {
    pub(crate) fn new(stream: impl Duplex + 'static) -> Self {
        Self { stream: Box::new(stream), inbox: Vec::new() }
    }

    pub(crate) async fn send(&mut self, asked: &str, bytes: &[u8]) -> Result<(), Fault> {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|it| Fault::new(asked, Problem::Unreachable(it.to_string())))
    }

    /// The next message. `cut` takes it from the front of the received bytes: it returns the message and the
    /// number of bytes it takes, `None` if the message is not complete yet, or what is wrong with it.
    pub(crate) async fn next<T>(
        &mut self,
        asked: &str,
        mut cut: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, String>,
    ) -> Result<T, Fault> {
        loop {
            let garbled = |it: String| Fault::new(asked, Problem::Garbled(it));
            if let Some((message, length)) = cut(&self.inbox).map_err(garbled)? {
                self.inbox.drain(..length.min(self.inbox.len()));
                return Ok(message);
            }
            if self.inbox.len() > LONGEST {
                return Err(garbled(format!("more than {LONGEST} bytes without an end")));
            }
            let lost = |it: String| Fault::new(asked, Problem::Unreachable(it));
            match self.stream.read_buf(&mut self.inbox).await {
                Ok(0) => return Err(lost("it has closed the connection".to_owned())),
                Ok(_) => {}
                Err(it) => return Err(lost(it.to_string())),
            }
        }
    }
}

/// The start of a text, for an error message.
pub(crate) fn start_of(text: &str) -> String {
    const MOST: usize = 200;
    let text = text.trim();
    let start: String =
        text.chars().take(MOST).map(|it| if it.is_control() { ' ' } else { it }).collect();
    if text.chars().nth(MOST).is_some() { format!("{start}…") } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let of = |it| host_and_port(it, 830);
        assert_eq!(of("ocs").unwrap(), ("ocs".to_owned(), 830));
        assert_eq!(of("10.0.0.1:8830").unwrap(), ("10.0.0.1".to_owned(), 8830));
        assert_eq!(of("[fe80::1]:22").unwrap(), ("fe80::1".to_owned(), 22));
        assert_eq!(of("fe80::1").unwrap(), ("fe80::1".to_owned(), 830));
        for wrong in
            ["", ":830", "ocs:", "ocs:x", "ocs:70000", "[::1", "[::1]22", "-oProxyCommand=x"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
