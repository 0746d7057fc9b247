//! [`Outgoing`]: sends one message (RFC 9112 §6, §7.1).

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::{Bounds, ExchangeError, Phase};
use crate::message::{Body, Headers, Source};
use crate::net::Conn;
use crate::wire::{Framing, chunked};

/// The sending side of one exchange: what of the message is still to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outgoing {
    state: State,
    /// So many bytes of the chunk whose size was sent last are still to come.
    chunk_left: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nobody has seen any of it: anything may still be answered.
    #[default]
    Unsent,
    /// The head is on its way. What is written under [`Framing::Empty`] is dropped, as for HEAD.
    Body(Framing),
    Done,
}

impl Outgoing {
    /// Forgets the message.
    #[inline]
    pub(crate) fn reset(&mut self) {
        let Outgoing { state, chunk_left } = self;
        *state = State::Unsent;
        *chunk_left = 0;
    }

    /// The head was written, and a body so framed follows.
    #[inline]
    pub(crate) fn begin(&mut self, framing: Framing) {
        self.state = State::Body(framing);
    }

    /// What is written is to be kept bare, for nobody is at the other end.
    pub(crate) fn begin_bare(&mut self) {
        if self.state != State::Body(Framing::Empty) {
            self.state = State::Body(Framing::UntilClose);
        }
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.state == State::Unsent
    }

    /// Whether all was sent that the head has announced.
    pub(crate) fn is_whole(&self) -> bool {
        match self.state {
            State::Done | State::Body(Framing::Length(0)) => true,
            State::Unsent | State::Body(_) => false,
        }
    }

    /// Sends some of the front of `data`, or copies it to the output, and answers how much.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn,
        data: &[u8],
        bounds: &Bounds,
    ) -> Poll<Result<usize, ExchangeError>> {
        let count = match self.state {
            _ if data.is_empty() => 0,
            State::Unsent | State::Done => return Poll::Ready(Err(ExchangeError::Length)),
            State::Body(Framing::Empty) => data.len(),
            State::Body(Framing::UntilClose) => ready!(poll_data(cx, conn, data, bounds))?,
            State::Body(Framing::Length(left)) if data.len() as u64 > left => {
                return Poll::Ready(Err(ExchangeError::Length));
            }
            State::Body(Framing::Length(left)) => {
                let count = ready!(poll_data(cx, conn, data, bounds))?;
                self.state = State::Body(Framing::Length(left - count as u64));
                count
            }
            State::Body(Framing::Chunked) => {
                if self.chunk_left == 0 {
                    chunked::encode_size(conn.output.bytes(), data.len());
                    self.chunk_left = data.len();
                }
                let of_chunk = data.len().min(self.chunk_left);
                let count = ready!(poll_data(cx, conn, &data[..of_chunk], bounds))?;
                self.chunk_left -= count;
                if self.chunk_left == 0 {
                    conn.output.bytes().extend_from_slice(b"\r\n");
                }
                count
            }
        };
        Poll::Ready(Ok(count))
    }

    /// Writes what ends the body, with its trailers if it is chunked.
    pub(crate) fn finish(&mut self, conn: &mut Conn, trailers: &Headers) -> Result<(), ExchangeError> {
        match self.state {
            State::Body(Framing::Chunked) if self.chunk_left == 0 => {
                chunked::encode_end(conn.output.bytes(), trailers);
            }
            State::Body(Framing::Empty | Framing::UntilClose | Framing::Length(0)) | State::Done => {}
            State::Unsent | State::Body(Framing::Chunked | Framing::Length(_)) => {
                return Err(ExchangeError::Length);
            }
        }
        self.state = State::Done;
        Ok(())
    }

    /// Copies the whole of `body` behind the head in the output, if it is small. Says whether it is.
    #[inline]
    pub(crate) fn send_flat(&mut self, conn: &mut Conn, body: &Body) -> bool {
        let bytes = body.bytes();
        let is_flat = match self.state {
            State::Body(Framing::Empty) => true,
            State::Body(Framing::Length(length)) => length == bytes.len() as u64 && bytes.len() <= FLAT_MAX,
            _ => false,
        };
        if is_flat {
            if self.state != State::Body(Framing::Empty) {
                conn.output.bytes().extend_from_slice(bytes);
            }
            self.state = State::Done;
        }
        is_flat
    }

    /// Sends the whole of `body`.
    pub(crate) async fn send(
        &mut self,
        conn: &mut Conn,
        body: &mut Body,
        trailers: &Headers,
        bounds: &Bounds,
    ) -> Result<(), ExchangeError> {
        match self.state {
            State::Body(Framing::Empty) => {}
            _ if body.is_stream() => {
                let source = body.take_source().ok_or(ExchangeError::Length)?;
                self.send_source(conn, source, body, bounds).await?;
            }
            _ => {
                let mut rest = body.bytes();
                while !rest.is_empty() {
                    let count = poll_fn(|cx| self.poll_write(cx, conn, rest, bounds)).await?;
                    rest = &rest[count..];
                }
            }
        }
        self.finish(conn, trailers)
    }

    /// Sends what `source` yields, as it yields it. `body` lends its memory.
    async fn send_source(
        &mut self,
        conn: &mut Conn,
        mut source: Source,
        body: &mut Body,
        bounds: &Bounds,
    ) -> Result<(), ExchangeError> {
        let room = body.receive();
        loop {
            let count = poll_fn(|cx| {
                let mut piece = ReadBuf::new(room.spare(PIECE));
                let read = source.as_mut().poll_read(cx, &mut piece);
                if read.is_pending() {
                    // Whoever waits for the next piece has the ones before it.
                    ready!(poll_flush(cx, conn, bounds))?;
                }
                ready!(read).map_err(ExchangeError::Source)?;
                Poll::Ready(Ok::<usize, ExchangeError>(piece.filled().len()))
            })
            .await?;
            if count == 0 {
                return Ok(());
            }
            let mut sent = 0;
            while sent < count {
                sent +=
                    poll_fn(|cx| self.poll_write(cx, conn, &room.spare(PIECE)[sent..count], bounds)).await?;
            }
        }
    }
}

/// What is asked of a source at once.
const PIECE: usize = 16 << 10;

/// Up to this size data is copied behind the output, to leave with it in one write. Beyond, both leave side by
/// side, and nothing is copied.
const FLAT_MAX: usize = 16 << 10;

/// Sends all of the output.
pub(crate) fn poll_flush(
    cx: &mut Context<'_>,
    conn: &mut Conn,
    bounds: &Bounds,
) -> Poll<Result<(), ExchangeError>> {
    conn.poll_flush(cx, bounds.timeouts.write).map_err(ExchangeError::during(Phase::Write))
}

/// Sends some of the front of `data` behind the output, or copies it there.
fn poll_data(
    cx: &mut Context<'_>,
    conn: &mut Conn,
    data: &[u8],
    bounds: &Bounds,
) -> Poll<Result<usize, ExchangeError>> {
    loop {
        if conn.output.len() + data.len() <= FLAT_MAX {
            conn.output.bytes().extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        let sent = ready!(conn.poll_send(cx, data, bounds.timeouts.write));
        match sent.map_err(ExchangeError::during(Phase::Write))? {
            0 => {}
            count => return Poll::Ready(Ok(count)),
        }
    }
}
