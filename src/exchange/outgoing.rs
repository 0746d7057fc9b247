//! [`Outgoing`]: sends one message (RFC 9112 §6, §7.1).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;

use super::{Bounds, ExchangeError, Phase};
use crate::memory::{Arena, Reset, clear_cold};
use crate::message::{Body, BodySource, FileRange, Headers};
use crate::net::{Conn, ConnError, FileReader, FileSender, Locality, WriteBuffer, shrunk};
use crate::wire::{Framing, OutgoingFraming, chunked};

/// The sending side of one exchange: what remains to be sent of the message.
#[derive(Default)]
pub(crate) struct Outgoing {
    state: State,
    /// How many bytes of the current piece of content have been sent.
    sent: usize,
    /// Where more content comes from.
    source: Option<BodySource>,
    /// The current piece of content from the source.
    piece: Arena,
    /// The file that the source reads, if the operating system sends it by itself.
    file: Option<FileSender>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing has been sent, so any response is still possible.
    #[default]
    NotBegun,
    /// The head has been written. Under [`Framing::Empty`], as for HEAD, the body is dropped.
    Body(Framing),
    /// The same as under [`Framing::Chunked`], for content of known length, of which this many bytes remain.
    ChunkedWithLength(u64),
    /// A write has failed with an error of this kind. The bytes that it did not write are missing.
    Failed(io::ErrorKind),
    /// The end of the body has been written.
    Finished,
}

impl Outgoing {
    /// Begins the body, after the head that announces it was written.
    #[inline]
    pub(crate) fn begin(&mut self, framing: OutgoingFraming) {
        debug_assert!(!self.has_begun(), "a message has one head");
        self.state = match (framing.body(), framing.content_length()) {
            (Framing::Chunked, Some(length)) => State::ChunkedWithLength(length),
            (framing, _) => State::Body(framing),
        };
    }

    /// Notes that the connection becomes a tunnel, so that no response can follow.
    pub(crate) fn begin_tunnel(&mut self) {
        debug_assert!(!self.has_begun(), "a message has one head");
        self.state = State::Body(Framing::UntilClose);
    }

    /// Sends the body without chunks, since there is no peer that would decode them.
    pub(crate) fn begin_raw(&mut self) {
        if matches!(self.state, State::Body(Framing::Chunked) | State::ChunkedWithLength(_)) {
            self.state = State::Body(Framing::UntilClose);
        }
    }

    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.state != State::NotBegun
    }

    /// Whether content that is written is dropped: there is no body, as for HEAD.
    pub(crate) fn is_bodyless(&self) -> bool {
        self.state == State::Body(Framing::Empty)
    }

    /// Whether nothing more belongs to the response: its end has been written, or its head was all of it.
    pub(crate) fn is_finished_or_bodyless(&self) -> bool {
        self.is_finished() || self.is_bodyless()
    }

    /// Whether the end of the body has been written.
    #[inline]
    pub(crate) fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Whether the end of the body has been written, or all of the length that the head has announced.
    #[inline]
    pub(crate) fn is_finished_or_full(&self) -> bool {
        match self.state {
            State::Finished | State::Body(Framing::Length(0)) => true,
            State::NotBegun | State::Body(_) | State::ChunkedWithLength(_) | State::Failed(_) => false,
        }
    }

    /// Notes that a write has failed. All later writes fail too, since bytes that follow a gap would pass for the
    /// whole.
    #[cold]
    pub(crate) fn fail(&mut self, kind: io::ErrorKind) {
        if !self.is_finished_or_bodyless() {
            self.state = State::Failed(kind);
        }
    }

    /// Drops the source of further content.
    pub(crate) fn drop_source(&mut self) {
        self.source = None;
        self.file = None;
    }

    /// Sends some bytes from the front of `data`, or copies them to the write buffer, and returns how many.
    pub(crate) fn poll_write<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        data: &[u8],
        bounds: &Bounds,
    ) -> Poll<Result<usize, ExchangeError>> {
        if self.try_buffer(conn, data) {
            return Poll::Ready(Ok(data.len()));
        }
        let count = match self.state {
            _ if data.is_empty() => 0,
            State::NotBegun | State::Finished => return Poll::Ready(Err(ExchangeError::Length)),
            State::Failed(kind) => {
                return Poll::Ready(Err(ExchangeError::from_failed_write(kind, bounds.timeouts.write)));
            }
            State::Body(Framing::Empty) => data.len(),
            State::Body(Framing::UntilClose) => ready!(poll_data(cx, conn, data, bounds))?,
            State::Body(Framing::Length(left)) | State::ChunkedWithLength(left)
                if data.len() as u64 > left =>
            {
                return Poll::Ready(Err(ExchangeError::Length));
            }
            State::Body(Framing::Length(left)) => {
                let count = ready!(poll_data(cx, conn, data, bounds))?;
                self.state = State::Body(Framing::Length(left - count as u64));
                count
            }
            State::ChunkedWithLength(left) => {
                let count = ready!(poll_chunk(cx, conn, data, bounds))?;
                self.state = State::ChunkedWithLength(left - count as u64);
                count
            }
            State::Body(Framing::Chunked) => ready!(poll_chunk(cx, conn, data, bounds))?,
        };
        Poll::Ready(Ok(count))
    }

    /// Copies all of `data` to the write buffer, if it should wait there for more. Returns whether it did.
    #[inline]
    pub(crate) fn try_buffer<L: Locality>(&mut self, conn: &mut Conn<L>, data: &[u8]) -> bool {
        let buffer = conn.write_buffer();
        match &mut self.state {
            _ if !fits_buffer(buffer, data) => return false,
            State::Body(Framing::Chunked) if !data.is_empty() => {
                chunked::encode(buffer.bytes(), data);
            }
            State::Body(Framing::Length(left)) if data.len() as u64 <= *left => {
                *left -= data.len() as u64;
                buffer.bytes().extend_from_slice(data);
            }
            State::Body(Framing::UntilClose) => buffer.bytes().extend_from_slice(data),
            State::NotBegun
            | State::Body(_)
            | State::ChunkedWithLength(_)
            | State::Failed(_)
            | State::Finished => {
                return false;
            }
        }
        true
    }

    /// Writes the end of the body, with its trailers if it is chunked.
    pub(crate) fn finish<L: Locality>(
        &mut self,
        conn: &mut Conn<L>,
        trailers: &Headers,
        bounds: &Bounds,
    ) -> Result<(), ExchangeError> {
        match self.state {
            State::Body(Framing::Chunked) | State::ChunkedWithLength(0) => {
                chunked::encode_end(conn.write_buffer().bytes(), trailers);
            }
            State::Body(Framing::Empty | Framing::UntilClose | Framing::Length(0)) | State::Finished => {}
            State::Failed(kind) => return Err(ExchangeError::from_failed_write(kind, bounds.timeouts.write)),
            State::NotBegun | State::ChunkedWithLength(_) | State::Body(Framing::Length(_)) => {
                return Err(ExchangeError::Length);
            }
        }
        self.state = State::Finished;
        Ok(())
    }

    /// Sends the whole of `body`. A small one stays in the write buffer, to leave with what follows.
    pub(crate) fn poll_send<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        body: &Body,
        trailers: &Headers,
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        if self.is_finished() || self.copy_whole(conn.write_buffer(), body) {
            return Poll::Ready(Ok(()));
        }
        if self.state != State::Body(Framing::Empty) {
            if self.source.is_some() || body.is_stream() {
                ready!(self.poll_source(cx, conn, body, bounds))?;
            } else {
                ready!(self.poll_bytes(cx, conn, body.bytes(), bounds))?;
            }
        }
        Poll::Ready(self.finish(conn, trailers, bounds))
    }

    /// Copies a body after its head, if it is in memory and small, as most are. Returns whether it did.
    #[inline]
    pub(crate) fn copy_whole(&mut self, buffer: &mut WriteBuffer, body: &Body) -> bool {
        let bytes = body.bytes();
        let is_whole = !bytes.is_empty() && self.state == State::Body(Framing::Length(bytes.len() as u64));
        if !is_whole || !fits_buffer(buffer, bytes) {
            return false;
        }
        buffer.bytes().extend_from_slice(bytes);
        self.state = State::Finished;
        true
    }

    /// Sends the rest of `bytes`.
    #[inline]
    fn poll_bytes<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bytes: &[u8],
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        debug_assert!(self.sent <= bytes.len(), "a body stays the same while it is sent");
        while self.sent < bytes.len() {
            self.sent += ready!(self.poll_write(cx, conn, &bytes[self.sent..], bounds))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends the content that the source of the body yields, as it arrives.
    fn poll_source<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        body: &Body,
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        if self.source.is_none() {
            self.source = Some(body.take_source().ok_or(ExchangeError::Length)?);
            let is_sized = matches!(self.state, State::Body(Framing::Length(_)));
            let file = body.file_range().filter(|_| is_sized && conn.transport.sends_files());
            self.file = file.map(|file| FileSender::new(file.file.clone(), file.range.clone()));
        }
        if self.file.is_some() {
            ready!(self.poll_file(cx, conn, bounds))?;
        }
        let mut piece = std::mem::take(&mut self.piece);
        let sent = self.poll_pieces(cx, conn, &mut piece, bounds);
        self.piece = piece;
        sent
    }

    fn poll_pieces<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        piece: &mut Arena,
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        loop {
            ready!(self.poll_bytes(cx, conn, piece.as_slice(), bounds))?;
            piece.clear();
            self.sent = 0;
            let Some(source) = &mut self.source else { return Poll::Ready(Ok(())) };
            let mut room = ReadBuf::new(piece.spare(PIECE));
            let read = source.as_mut().poll_read(cx, &mut room);
            if read.is_pending() {
                // While the source waits, all content before must have been sent.
                ready!(poll_flush(cx, conn, bounds))?;
            }
            ready!(read).map_err(ExchangeError::Source)?;
            match room.filled().len() {
                0 => self.source = None,
                count => piece.commit(count),
            }
        }
    }

    /// Lets the operating system send the file. If it refuses, the source is read after all.
    fn poll_file<L: Locality>(
        &mut self,
        cx: &mut Context<'_>,
        conn: &mut Conn<L>,
        bounds: &Bounds,
    ) -> Poll<Result<(), ExchangeError>> {
        ready!(poll_flush(cx, conn, bounds))?;
        let failed = ExchangeError::during(Phase::Write, bounds.timeouts.write);
        while let (Some(file), State::Body(Framing::Length(left @ 1..))) = (&mut self.file, self.state) {
            ready!(file.poll_readahead(cx)).map_err(ExchangeError::Source)?;
            match ready!(file.poll_send(cx, conn, bounds.timeouts.write)) {
                Ok(0) => return Poll::Ready(Err(ExchangeError::Source(shrunk()))),
                Ok(count) => self.state = State::Body(Framing::Length(left - count)),
                Err(ConnError::Io(error))
                    if error.kind() == io::ErrorKind::InvalidInput && !file.has_begun() =>
                {
                    self.file = None;
                    return Poll::Ready(Ok(()));
                }
                Err(error) => return Poll::Ready(Err(failed(error))),
            }
        }
        self.drop_source();
        Poll::Ready(Ok(()))
    }
}

impl Reset for Outgoing {
    #[inline]
    fn reset(&mut self) {
        let Outgoing { state, sent, source, piece, file } = self;
        *state = State::NotBegun;
        *sent = 0;
        clear_cold(source);
        clear_cold(file);
        piece.clear();
    }

    fn shrink(&mut self) -> usize {
        self.piece.shrink(PIECE)
    }
}

/// How many bytes are read from a source at once.
const PIECE: usize = 16 << 10;

/// Up to this size, data is appended to the write buffer, to leave with it in one write. Larger data is sent along with
/// the buffer, without being copied.
const COPIED_MAX: usize = 16 << 10;

/// How much small data is gathered before it is sent: a system call costs as much as copying this.
const BUFFERED_MAX: usize = 64 << 10;

/// How large a chunk of larger data may be, since all of the chunk may have to be copied.
const CHUNK_MAX: usize = 64 << 10;

/// Sends the whole write buffer.
#[inline]
pub(crate) fn poll_flush<L: Locality>(
    cx: &mut Context<'_>,
    conn: &mut Conn<L>,
    bounds: &Bounds,
) -> Poll<Result<(), ExchangeError>> {
    conn.poll_flush(cx, bounds.timeouts.write)
        .map_err(ExchangeError::during(Phase::Write, bounds.timeouts.write))
}

/// Whether `data` is appended to the write buffer, to leave with it.
#[inline]
fn fits_buffer(buffer: &WriteBuffer, data: &[u8]) -> bool {
    data.len() <= COPIED_MAX && buffer.len() < BUFFERED_MAX
}

/// Sends some bytes from the front of `data` after the write buffer, or appends them to it.
fn poll_data<L: Locality>(
    cx: &mut Context<'_>,
    conn: &mut Conn<L>,
    data: &[u8],
    bounds: &Bounds,
) -> Poll<Result<usize, ExchangeError>> {
    loop {
        if fits_buffer(conn.write_buffer(), data) {
            conn.write_buffer().bytes().extend_from_slice(data);
            return Poll::Ready(Ok(data.len()));
        }
        let sent = ready!(conn.poll_send(cx, data, bounds.timeouts.write));
        match sent.map_err(ExchangeError::during(Phase::Write, bounds.timeouts.write))? {
            0 => {}
            count => return Poll::Ready(Ok(count)),
        }
    }
}

/// Sends some bytes from the front of `data`, which is not empty, as one whole chunk. The part that cannot be sent at
/// once is copied to the write buffer: a writer may never return with the rest of a chunk that has begun.
fn poll_chunk<L: Locality>(
    cx: &mut Context<'_>,
    conn: &mut Conn<L>,
    data: &[u8],
    bounds: &Bounds,
) -> Poll<Result<usize, ExchangeError>> {
    debug_assert!(!data.is_empty(), "an empty chunk would end the body");
    let failed = ExchangeError::during(Phase::Write, bounds.timeouts.write);
    while conn.write_buffer().len() >= BUFFERED_MAX {
        ready!(conn.poll_send(cx, &[], bounds.timeouts.write)).map_err(&failed)?;
    }
    let chunk = &data[..data.len().min(CHUNK_MAX)];
    let start = conn.write_buffer().bytes().len();
    chunked::encode_size(conn.write_buffer().bytes(), chunk.len());
    let polled = match fits_buffer(conn.write_buffer(), chunk) {
        true => Poll::Pending,
        false => conn.poll_send(cx, chunk, bounds.timeouts.write),
    };
    let sent = match polled {
        Poll::Ready(Ok(sent)) => sent,
        Poll::Ready(Err(error)) => {
            // A caller may ignore the error. The bytes that it writes next must not be read as this chunk.
            conn.write_buffer().bytes().truncate(start);
            return Poll::Ready(Err(failed(error)));
        }
        Poll::Pending => 0,
    };
    conn.write_buffer().bytes().extend_from_slice(&chunk[sent..]);
    conn.write_buffer().bytes().extend_from_slice(b"\r\n");
    Poll::Ready(Ok(chunk.len()))
}

impl Body {
    /// Sets the content to a range of `file`, in bytes. The range is sent with its length.
    ///
    /// On Linux, the operating system moves the range to a socket by itself. Elsewhere, and to other transports, it is read
    /// piece by piece. On Linux this is done from the page cache, on other systems on the runtime's threads for blocking work.
    /// Either way it takes no memory in proportion to its size. If the file grows, the addition is not sent. If it shrinks, the
    /// connection is aborted.
    ///
    /// To middleware, it is a [stream](Body::is_stream). A client may send it several times, and reads it anew each time.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use std::fs::File;
    /// use corehttp::Context;
    ///
    /// fn report(ctx: &mut Context) -> corehttp::Result {
    ///     let file = File::open("report.pdf")?; // a disk may be slow: see `Context::send_file`
    ///     let size = file.metadata()?.len();
    ///     ctx.response.headers.set("content-type", "application/pdf")?;
    ///     ctx.response.body.set_file(file, 0..size);
    ///     Ok(())
    /// }
    /// ```
    pub fn set_file(&mut self, file: impl Into<Arc<File>>, range: Range<u64>) {
        let file = file.into();
        // A range that ends before it begins is empty.
        let range = range.start..range.end.max(range.start);
        let source = Box::pin(FileReader::new(file.clone(), range.clone()));
        self.stream_file(source, FileRange { file, range });
    }

    /// Returns whether the content can be sent, perhaps again. A stream that was taken cannot, unless it is a range of a
    /// file, which is read anew.
    pub(crate) fn rewind(&self) -> bool {
        if !self.is_source_taken() {
            return true;
        }
        if let Some(FileRange { file, range }) = self.file_range() {
            self.put_source(Box::pin(FileReader::new(file.clone(), range.clone())));
        }
        !self.is_source_taken()
    }
}
