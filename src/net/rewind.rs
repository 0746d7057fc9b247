//! [`Rewind`]: a transport that was handed over, with what its peer had already sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use super::{AnyStream, ReadBuffer, Transport, delegate_write};

/// A transport whose first bytes have already been read, and are returned first.
pub(crate) struct Rewind<B> {
    transport: Transport<B>,
    bytes: ReadBuffer,
}

impl<B> Rewind<B> {
    pub(crate) fn new(transport: Transport<B>, bytes: ReadBuffer) -> Rewind<B> {
        Rewind { transport, bytes }
    }
}

impl<B: AnyStream> AsyncRead for Rewind<B> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.transport).poll_read(cx, out);
        }
        let count = self.bytes.unread().len().min(out.remaining());
        out.put_slice(&self.bytes.unread()[..count]);
        self.bytes.consume(count);
        if self.bytes.is_empty() {
            self.bytes = ReadBuffer::default();
        }
        Poll::Ready(Ok(()))
    }
}

delegate_write!([B: AnyStream] Rewind<B>, transport);
