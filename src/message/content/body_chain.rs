//! [`BodyChain`]: content that consists of several sources, read one after the other, such as a multipart body.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use super::body::{Body, BodySource, StreamOrigin, Unbuffered};

/// Several sources of content, read one after the other. A source that was read to its end is removed.
pub(crate) struct BodyChain(VecDeque<ChainLink>);

/// One source of a [`BodyChain`].
pub(crate) enum ChainLink {
    Bytes(Bytes),
    /// A reader and its declared length, if any. A reader that yields more or less fails.
    Stream {
        source: BodySource,
        left: Option<u64>,
    },
}

impl BodyChain {
    pub(crate) fn new(links: Vec<ChainLink>) -> BodyChain {
        BodyChain(links.into())
    }

    /// Makes the chain the content of a message. The length of the content is known if that of each link is.
    pub(crate) fn fill(self, body: &mut Body) {
        let len = self.0.iter().try_fold(0u64, |sum, link| sum.checked_add(link.known_len()?));
        body.set_source(Box::pin(self), len, StreamOrigin::Chain);
    }
}

impl ChainLink {
    fn known_len(&self) -> Option<u64> {
        match self {
            ChainLink::Bytes(bytes) => Some(bytes.len() as u64),
            ChainLink::Stream { left, .. } => *left,
        }
    }
}

impl From<Body> for ChainLink {
    fn from(body: Body) -> ChainLink {
        match body.take_source() {
            Some(source) => ChainLink::Stream { source, left: body.known_len() },
            None => ChainLink::Bytes(match &body.unbuffered {
                Some(Unbuffered::Shared(bytes)) => bytes.clone(),
                // A stream that has been taken has no content left.
                Some(Unbuffered::Stream { .. }) | None => Bytes::copy_from_slice(body.bytes()),
            }),
        }
    }
}

impl AsyncRead for BodyChain {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while out.remaining() > 0 {
            let Some(link) = self.0.front_mut() else { break };
            let before = out.filled().len();
            match link {
                ChainLink::Bytes(bytes) => {
                    let count = bytes.len().min(out.remaining());
                    out.put_slice(&bytes[..count]);
                    bytes.advance(count);
                }
                ChainLink::Stream { source, left } => {
                    ready!(source.as_mut().poll_read(cx, out))?;
                    subtract_read(left, out.filled().len() - before)?;
                }
            }
            if out.filled().len() > before {
                break;
            }
            self.0.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

/// Subtracts the `count` bytes that a source has yielded from those that it declared. At the end, the count is 0.
fn subtract_read(left: &mut Option<u64>, count: usize) -> io::Result<()> {
    let Some(left) = left else { return Ok(()) };
    match left.checked_sub(count as u64) {
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a source is longer than was declared")),
        Some(1..) if count == 0 => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a source is shorter than was declared"))
        }
        Some(rest) => {
            *left = rest;
            Ok(())
        }
    }
}

/// The links of a body of parts, each of which has a head that ends with an empty line (RFC 2046 §5.1.1).
pub(crate) fn multipart<H: AsRef<[u8]>>(
    boundary: &str,
    parts: impl IntoIterator<Item = (H, ChainLink)>,
) -> Vec<ChainLink> {
    debug_assert!((1..=70).contains(&boundary.len()), "RFC 2046 bounds the boundary");
    let mut links = Vec::new();
    let mut delimiter = format!("--{boundary}");
    for (head, content) in parts {
        debug_assert!(head.as_ref().ends_with(b"\r\n\r\n"), "an empty line ends the head of a part");
        links.push(ChainLink::Bytes([delimiter.as_bytes(), b"\r\n", head.as_ref()].concat().into()));
        links.push(content);
        delimiter = format!("\r\n--{boundary}");
    }
    links.push(ChainLink::Bytes(format!("{delimiter}--\r\n").into()));
    links
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use super::*;

    /// `a`, `bcd` from a source with a declared length, nothing, and `ef` from a source without one.
    fn links() -> BodyChain {
        let stream = |text: &'static str, left| ChainLink::Stream { source: Box::pin(text.as_bytes()), left };
        let bytes = |text: &'static str| ChainLink::Bytes(text.into());
        BodyChain::new(vec![bytes("a"), stream("bcd", Some(3)), bytes(""), stream("ef", None)])
    }

    #[test]
    fn links_are_read_as_one_into_buffers_of_any_size() {
        for room in 1..=7 {
            let mut links = pin!(links());
            let mut read = Vec::new();
            for round in 0..2 * 7 {
                // Each buffer has something in it already, and every other one has no room.
                let mut memory = vec![b'x'; 2 + (round % 2) * room];
                let mut out = ReadBuf::new(&mut memory);
                out.advance(2);
                let polled = links.as_mut().poll_read(&mut Context::from_waker(Waker::noop()), &mut out);
                assert!(matches!(polled, Poll::Ready(Ok(()))), "{room}");
                read.extend_from_slice(&out.filled()[2..]);
            }
            assert_eq!(read, b"abcdef", "{room}");
        }
    }
}
