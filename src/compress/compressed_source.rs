//! [`CompressedSource`]: a source of a body, compressed.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use crate::coding::{ContentEncoder, Flush};
use crate::message::BodySource;
use crate::runtime::Budget;

/// The compressed content of a source. Whenever the source has nothing for now, the encoder is flushed.
pub(super) struct CompressedSource {
    source: BodySource,
    encoder: ContentEncoder,
    /// What was read from the source.
    piece: Vec<u8>,
    /// The output of the encoder, and how much of it was passed on.
    output: Vec<u8>,
    sent: usize,
    /// How the encoder was last called.
    last: Flush,
    budget: Budget,
}

impl CompressedSource {
    pub(super) fn new(source: BodySource, encoder: ContentEncoder) -> CompressedSource {
        let piece = vec![0; PIECE];
        CompressedSource {
            source,
            encoder,
            piece,
            output: Vec::new(),
            sent: 0,
            last: Flush::Now,
            budget: Budget::default(),
        }
    }

    /// Encodes what the source yields next.
    fn poll_encode(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.budget.poll_proceed(cx));
        let mut room = ReadBuf::new(&mut self.piece);
        let flush = match self.source.as_mut().poll_read(cx, &mut room) {
            Poll::Pending if self.last == Flush::Now => return Poll::Pending,
            Poll::Pending => Flush::Now,
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) if room.filled().is_empty() => Flush::End,
            Poll::Ready(Ok(())) => Flush::Later,
        };
        self.output.clear();
        self.sent = 0;
        self.last = flush;
        self.budget.spend(room.filled().len());
        self.encoder.encode(room.filled(), flush, &mut self.output)?;
        Poll::Ready(Ok(()))
    }
}

/// How many bytes are read from the source at once.
const PIECE: usize = 16 << 10;

impl AsyncRead for CompressedSource {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.sent == this.output.len() && this.last != Flush::End {
            ready!(this.poll_encode(cx))?;
        }
        let count = out.remaining().min(this.output.len() - this.sent);
        out.put_slice(&this.output[this.sent..][..count]);
        this.sent += count;
        Poll::Ready(Ok(()))
    }
}
