//! [`Script`]: what a peer does on a connection, step by step.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::message::Headers;
use crate::runtime::sleep;
use crate::wire::Limits;
use crate::wire::chunked::ChunkedDecoder;

/// The steps of a peer, server or client, on one connection: slow, cut short, or against the rules. After the last step, the
/// connection is closed.
///
/// # Examples
///
/// A client sends its head octet by octet, and the server gives up on it:
///
/// ```
/// use std::time::Duration;
/// use corehttp::testing::Script;
/// use corehttp::{Context, Server, Timeouts};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> corehttp::Result {
/// let timeouts = Timeouts { head: Duration::from_millis(50), ..Timeouts::default() };
/// let service = Server::new().timeouts(timeouts).service(|ctx: &mut Context| ctx.response.set_text("hi"));
/// let slow = Script::new().send_slowly("GET / HTTP/1.1\r\n", Duration::from_millis(10)).receive();
///
/// let (near, far) = tokio::io::duplex(1 << 10);
/// let (played, _) = tokio::join!(slow.play(near), service.serve_connection(far));
/// assert!(played?[0].starts_with(b"HTTP/1.1 408 "));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Script {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Receive,
    Send(Bytes),
    SendSlowly(Bytes, Duration),
    Wait(Duration),
    Hang,
}

impl Script {
    /// A script without steps, which closes the connection at once.
    pub fn new() -> Script {
        Script::default()
    }

    /// Receives a message: its head, and its content by `content-length` or chunks (RFC 9112 §6). Other content is not waited
    /// for. A message that the other side cuts short counts as received. If the other side closes without a message, the script
    /// ends here.
    pub fn receive(self) -> Script {
        self.with(Step::Receive)
    }

    /// Sends these octets as they are.
    pub fn send(self, octets: impl Into<Bytes>) -> Script {
        self.with(Step::Send(octets.into()))
    }

    /// Sends these octets one by one, with a pause before each.
    pub fn send_slowly(self, octets: impl Into<Bytes>, pause: Duration) -> Script {
        self.with(Step::SendSlowly(octets.into(), pause))
    }

    /// Waits, and neither receives nor sends.
    pub fn wait(self, time: Duration) -> Script {
        self.with(Step::Wait(time))
    }

    /// Waits until the other side closes the connection.
    pub fn hang(self) -> Script {
        self.with(Step::Hang)
    }

    fn with(mut self, step: Step) -> Script {
        self.steps.push(step);
        self
    }

    /// Plays the script on a connection. Returns the received messages, as they are on the wire.
    ///
    /// # Errors
    ///
    /// Fails if the connection fails, or for a message of more than 16 MiB.
    pub async fn play(&self, stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Vec<Vec<u8>>> {
        let mut received = Vec::new();
        self.play_to(stream, |message| received.push(message)).await?;
        Ok(received)
    }

    /// Plays the script, and hands over each message as soon as it is there.
    pub(super) async fn play_to(
        &self,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        mut take: impl FnMut(Vec<u8>),
    ) -> io::Result<()> {
        let mut unread = Vec::new();
        for step in &self.steps {
            match step {
                Step::Receive => match receive(&mut stream, &mut unread).await? {
                    Some(message) => take(message),
                    None => return Ok(()),
                },
                Step::Send(octets) => stream.write_all(octets).await?,
                Step::SendSlowly(octets, pause) => send_slowly(&mut stream, octets, *pause).await?,
                Step::Wait(time) => sleep(*time).await,
                Step::Hang => hang(&mut stream).await,
            }
        }
        stream.shutdown().await
    }
}

async fn send_slowly(
    stream: &mut (impl AsyncWrite + Unpin),
    octets: &[u8],
    pause: Duration,
) -> io::Result<()> {
    for octet in octets {
        sleep(pause).await;
        stream.write_all(&[*octet]).await?;
    }
    Ok(())
}

/// Receives a message, which may begin with octets that were read with the one before. `None` if there is none.
pub(super) async fn receive(
    stream: &mut (impl AsyncRead + Unpin),
    unread: &mut Vec<u8>,
) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(len) = message_len(unread) {
            let rest = unread.split_off(len);
            return Ok(Some(std::mem::replace(unread, rest)));
        }
        if unread.len() > MESSAGE_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too large"));
        }
        if stream.read_buf(unread).await? == 0 {
            let message = std::mem::take(unread);
            return Ok(Some(message).filter(|message| !message.is_empty()));
        }
    }
}

/// How large a message may be.
const MESSAGE_MAX: usize = 16 << 20;

/// The length of the message that `octets` begin with, if all of it is there.
pub(super) fn message_len(octets: &[u8]) -> Option<usize> {
    let head_len = memmem::find(octets, b"\r\n\r\n")? + 4;
    let head = octets[..head_len].to_ascii_lowercase();
    let field = |name: &[u8]| {
        let start = memmem::find(&head, name)? + name.len();
        let end = memmem::find(&head[start..], b"\r\n")?;
        Some(head[start..start + end].trim_ascii())
    };
    if field(b"\r\ntransfer-encoding:").is_some_and(|coding| coding.ends_with(b"chunked")) {
        return Some(head_len + decode_chunks(&octets[head_len..])?.len);
    }
    let content_len =
        field(b"\r\ncontent-length:").and_then(|digits| str::from_utf8(digits).ok()?.parse().ok());
    let len = head_len.checked_add(content_len.unwrap_or(0))?;
    (octets.len() >= len).then_some(len)
}

/// A chunked content (RFC 9112 §7.1), and how long it is on the wire.
pub(super) struct Chunks {
    pub(super) content: Vec<u8>,
    len: usize,
}

/// Decodes the chunks that `octets` begin with, if all of them are there. Chunks against the rules end with what is here.
pub(super) fn decode_chunks(octets: &[u8]) -> Option<Chunks> {
    let mut decoder = ChunkedDecoder::default();
    let (limits, mut trailers) = (Limits::default(), Headers::new());
    let mut chunks = Chunks { content: Vec::new(), len: 0 };
    while !decoder.is_done() {
        let Ok(decoded) = decoder.decode(&octets[chunks.len..], &limits, &mut trailers) else {
            return Some(Chunks { len: octets.len(), ..chunks });
        };
        let data = chunks.len + decoded.framing;
        chunks.len = data + decoded.data;
        chunks.content.extend_from_slice(&octets[data..chunks.len]);
        if decoded.data == 0 && !decoder.is_done() {
            return None;
        }
    }
    Some(chunks)
}

/// Waits until the other side has closed the connection.
async fn hang(stream: &mut (impl AsyncRead + Unpin)) {
    let mut ignored = [0; 1024];
    loop {
        match stream.read(&mut ignored).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_where_its_framing_says() {
        for (octets, expected) in [
            ("", None),
            ("GET / HTTP/1.1\r\n", None),
            ("GET / HTTP/1.1\r\n\r\nGET", Some(18)),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab", None),
            ("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcd", Some(41)),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", Some(52)),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nX", Some(58)),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n", None),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n9\r\n\r\n0\r\n\r\n", None),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\r\n\r\nX", Some(58)),
            ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nx\r\n", Some(50)),
            ("POST / HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n", Some(57)),
        ] {
            assert_eq!(message_len(octets.as_bytes()), expected, "{octets:?}");
        }
    }
}
