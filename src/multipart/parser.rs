//! [`Parser`]: takes a body apart as it arrives (RFC 2046 §5.1.1); [`PartMemory`]: the memory of parts that are read whole.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};
use std::time::Duration;

use memchr::memmem;
use tokio::io::{AsyncRead, ReadBuf};

use super::boundary::{Boundary, DelimiterKind, Scan, parse_delimiter_line};
use super::error::{MultipartError, MultipartLimits};
use super::part_head::PartHead;
use crate::error_text::Excerpt;
use crate::exchange::{ExchangeError, Phase};
use crate::runtime::{CancelMemoryWaitOnDrop, MemoryBudget, MemoryShare};
use crate::wire::WireDetail;

/// Takes a body apart, as far as it has arrived, in memory that does not grow with the body.
pub(super) struct Parser<R> {
    source: R,
    pub(super) boundary: Boundary,
    pub(super) limits: MultipartLimits,
    window: Window,
    pub(super) state: State,
    /// How many bytes at the front of the window are known to be neither a delimiter nor a head.
    data_len: usize,
    /// How many parts have begun.
    parts: usize,
    /// How large the content of this part is so far; or the preamble, or the epilogue.
    size: u64,
    /// The head of this part.
    pub(super) head: PartHead,
    /// The error that all further reads fail with.
    failed: Option<MultipartError>,
    pub(super) memory: PartMemory,
    /// Called with the source once all parts have been read.
    pub(super) on_end: Option<fn(&mut R)>,
}

/// The position in the body (RFC 2046 §5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Preamble,
    /// At a delimiter.
    Delimiter,
    /// In the head of a part, whose end is not within this many bytes.
    Head {
        searched: usize,
    },
    /// At the empty line between a head and its content.
    EmptyLine,
    Content,
    Epilogue,
    Done,
    Failed,
}

impl<R: AsyncRead + Unpin> Parser<R> {
    pub(super) fn new(source: R, boundary: Boundary, limits: MultipartLimits) -> Parser<R> {
        let limits = MultipartLimits { head_max: limits.head_max.min(HEAD_MAX), ..limits };
        // The first boundary is also at the start of a line, though it need not follow a CRLF.
        debug_assert!(boundary.delimiter_len() < WINDOW_MIN, "a delimiter fits into the window");
        let window = Window::new(WINDOW_MIN.max(limits.head_max + HEAD_ENDS), b"\r\n");
        Parser {
            source,
            boundary,
            limits,
            window,
            state: State::Preamble,
            data_len: 0,
            parts: 0,
            size: 0,
            head: PartHead::default(),
            failed: None,
            memory: PartMemory::default(),
            on_end: None,
        }
    }

    /// Goes to the next part. Returns whether there is one.
    pub(super) fn poll_part(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            match self.state {
                State::Preamble | State::EmptyLine | State::Content => match ready!(self.poll_data(cx))? {
                    0 => self.state = State::Delimiter,
                    count => _ = self.take(count),
                },
                State::Delimiter => {
                    let line = ready!(self.poll_delimiter_line(cx));
                    let next = line.and_then(|line| self.begin_next(line));
                    self.state = self.record_failure(next)?;
                }
                State::Head { searched } => {
                    let head = ready!(self.poll_head(cx, searched));
                    self.record_failure(head)?;
                    self.state = State::EmptyLine;
                    self.size = 0;
                    return Poll::Ready(Ok(true));
                }
                State::Epilogue => {
                    let skipped = ready!(self.poll_epilogue(cx));
                    self.record_failure(skipped)?;
                    self.end();
                }
                State::Done => return Poll::Ready(Ok(false)),
                State::Failed => return Poll::Ready(Err(self.failure())),
            }
        }
    }

    /// Returns how many bytes at the front of the window are content of the part, or preamble; 0 at its end.
    pub(super) fn poll_data(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        if self.data_len == 0 {
            let in_time = self.memory.check();
            self.record_failure(in_time)?;
            let found = ready!(self.poll_scan(cx));
            self.data_len = self.record_failure(found)?;
        }
        Poll::Ready(Ok(self.data_len))
    }

    fn poll_scan(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        let size_max = match self.state {
            State::EmptyLine | State::Content => self.limits.part_max,
            State::Preamble => self.margin_max(),
            State::Failed => return Poll::Ready(Err(self.failure())),
            _ => return Poll::Ready(Ok(0)),
        };
        loop {
            let unread = self.window.unread();
            let scanned = match self.state {
                State::Preamble => self.boundary.scan_preamble(unread)?,
                _ => self.boundary.scan(unread),
            };
            match (scanned, self.state) {
                (Scan::Data(_), State::EmptyLine) => {
                    self.window.consume("\r\n".len());
                    self.state = State::Content;
                }
                // By the grammar, this part has no content; many programs read the delimiter as content. No honest
                // client sends such a part, since content must not begin with the boundary either (RFC 2046 §5.1.1).
                (Scan::Delimiter, State::EmptyLine) => {
                    return Poll::Ready(Err(MultipartError::Delimiter(self.parts).into()));
                }
                (Scan::Data(count), _) => {
                    self.size += count as u64;
                    check_limit(self.size, size_max, || self.too_large())?;
                    return Poll::Ready(Ok(count));
                }
                (Scan::Delimiter, _) => return Poll::Ready(Ok(0)),
                (Scan::Partial, _) => ready!(self.poll_more(cx))?,
            }
        }
    }

    fn poll_delimiter_line(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<DelimiterKind>> {
        let start = self.boundary.delimiter_len();
        loop {
            let rest = &self.window.unread()[start..];
            match parse_delimiter_line(rest, self.window.is_end, self.parts)? {
                Some((line, len)) => {
                    self.window.consume(start + len);
                    return Poll::Ready(Ok(line));
                }
                None => _ = ready!(self.poll_fill(cx))?,
            }
        }
    }

    /// Reads the head of a part. The head begins with the CRLF of the line before it, so that an empty head ends like
    /// any other.
    fn poll_head(&mut self, cx: &mut task::Context<'_>, mut searched: usize) -> Poll<io::Result<()>> {
        debug_assert!(self.window.unread().starts_with(b"\r\n"), "the line of the delimiter has ended");
        loop {
            let unread = self.window.unread();
            if let Some(found) = memmem::find(&unread[searched..], b"\r\n\r\n") {
                let end = searched + found + 2;
                check_limit(end as u64 - 2, self.limits.head_max as u64, || self.head_too_large())?;
                self.head.parse(self.parts, &unread[2..end], self.limits.fields_max)?;
                self.window.consume(end);
                return Poll::Ready(Ok(()));
            }
            if unread.len() >= self.limits.head_max + HEAD_ENDS {
                return Poll::Ready(Err(self.head_too_large().into()));
            }
            searched = unread.len().saturating_sub(3);
            self.state = State::Head { searched };
            ready!(self.poll_more(cx))?;
        }
    }

    /// Reads and drops the epilogue, which would otherwise be taken for the next request.
    fn poll_epilogue(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let count = self.window.unread().len();
            self.size += count as u64;
            self.window.consume(count);
            check_limit(self.size, self.margin_max(), || self.too_large())?;
            if ready!(self.poll_fill(cx))? == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Reads more, and fails at the end.
    fn poll_more(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_fill(cx))? {
            0 => Poll::Ready(Err(MultipartError::Incomplete(self.parts).into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_fill(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        let count = ready!(self.window.poll_fill(cx, &mut self.source))?;
        let bytes_max = self.limits.bytes_max;
        let received = check_limit(self.window.received, bytes_max, || body_too_large(bytes_max));
        Poll::Ready(received.map(|()| count))
    }

    /// The state after the line of a delimiter.
    fn begin_next(&mut self, kind: DelimiterKind) -> io::Result<State> {
        match kind {
            DelimiterKind::Close => {
                self.size = 0;
                Ok(State::Epilogue)
            }
            DelimiterKind::Part => {
                self.parts += 1;
                let parts_max = self.limits.parts_max as u64;
                check_limit(self.parts as u64, parts_max, || {
                    MultipartError::TooManyParts(WireDetail::limit("parts_max", "parts", parts_max))
                })?;
                Ok(State::Head { searched: 0 })
            }
        }
    }

    fn end(&mut self) {
        self.state = State::Done;
        if let Some(on_end) = self.on_end {
            on_end(&mut self.source);
        }
    }

    /// Records an error, which all further reads fail with.
    pub(super) fn record_failure<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.failed = error.get_ref().and_then(|error| error.downcast_ref()).cloned();
            self.state = State::Failed;
        }
        result
    }

    /// Whether all further reads fail.
    pub(super) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed)
    }

    fn failure(&self) -> io::Error {
        self.failed.clone().unwrap_or(MultipartError::Incomplete(self.parts)).into()
    }

    /// How much may precede the first boundary, with the CRLF that the window begins with; or follow the last, with the
    /// one after it.
    fn margin_max(&self) -> u64 {
        self.limits.margin_max.saturating_add(2)
    }

    /// The error for too much of what is being read: content of a part, or what is around all parts.
    fn too_large(&self) -> MultipartError {
        match self.state {
            State::EmptyLine | State::Content => {
                self.part_too_large(WireDetail::limit("part_max", "bytes", self.limits.part_max))
            }
            _ => MultipartError::MarginTooLarge(WireDetail::limit(
                "margin_max",
                "bytes",
                self.limits.margin_max,
            )),
        }
    }

    pub(super) fn part_too_large(&self, limit: Box<WireDetail>) -> MultipartError {
        MultipartError::PartTooLarge(self.part_name(), limit)
    }

    fn head_too_large(&self) -> MultipartError {
        let limit = WireDetail::limit("head_max", "bytes", self.limits.head_max as u64);
        MultipartError::PartHeadTooLarge(self.parts, limit)
    }

    /// The name of this part, as errors quote it.
    pub(super) fn part_name(&self) -> Box<str> {
        Excerpt(&self.head.disposition.name).to_string().into()
    }

    /// Takes the first `count` bytes of the window, which [`Parser::poll_data`] has found.
    pub(super) fn take(&mut self, count: usize) -> &[u8] {
        debug_assert!(count <= self.data_len, "only data that a scan has found can be taken");
        self.data_len -= count;
        self.window.take(count)
    }
}

/// The least size of the window.
const WINDOW_MIN: usize = 16 << 10;

/// The most that `head_max` may be, since the window has room for a whole head from the start.
const HEAD_MAX: usize = 1 << 20;

/// The CRLFs around a head.
const HEAD_ENDS: usize = "\r\n\r\n\r\n".len();

fn check_limit(count: u64, max: u64, error: impl FnOnce() -> MultipartError) -> io::Result<()> {
    match count <= max {
        true => Ok(()),
        false => Err(error().into()),
    }
}

pub(super) fn body_too_large(bytes_max: u64) -> MultipartError {
    MultipartError::BodyTooLarge(WireDetail::limit("bytes_max", "bytes", bytes_max))
}

/// A window of fixed size on a stream of bytes.
struct Window {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// How many bytes the source has yielded.
    received: u64,
    /// Whether the source has ended.
    is_end: bool,
}

impl Window {
    /// Creates a window of this size, with `first` in front of all that the source yields.
    fn new(size: usize, first: &[u8]) -> Window {
        let mut bytes = vec![0; size.max(first.len())].into_boxed_slice();
        bytes[..first.len()].copy_from_slice(first);
        Window { bytes, start: 0, end: first.len(), received: 0, is_end: false }
    }

    /// Reads more, and returns how many bytes, 0 at the end. The unread bytes must not fill the window: a read without
    /// room would look like the end.
    fn poll_fill<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut task::Context<'_>,
        source: &mut R,
    ) -> Poll<io::Result<usize>> {
        debug_assert!(self.unread().len() < self.bytes.len(), "a full window has no room for a read");
        if self.is_end {
            return Poll::Ready(Ok(0));
        }
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        ready!(Pin::new(source).poll_read(cx, &mut room))?;
        let count = room.filled().len();
        self.end += count;
        self.received += count as u64;
        self.is_end = count == 0;
        Poll::Ready(Ok(count))
    }

    /// Advances the window.
    fn consume(&mut self, count: usize) {
        self.take(count);
    }

    /// Advances the window, and returns the bytes that it has passed.
    fn take(&mut self, count: usize) -> &[u8] {
        debug_assert!(count <= self.unread().len(), "only unread bytes can be passed");
        let range = self.start..self.end.min(self.start + count);
        self.start = range.end;
        &self.bytes[range]
    }

    fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

/// The memory of the parts of one body that are read as a whole, of what the peers of a server share.
#[derive(Default)]
pub(super) struct PartMemory {
    budget: MemoryBudget,
    share: MemoryShare,
    /// How long it waits for memory, and holds some for which others wait.
    limit: Duration,
    /// How many bytes of the parts before this one the application may still have.
    kept: usize,
}

impl PartMemory {
    pub(super) fn new(budget: MemoryBudget, limit: Duration) -> PartMemory {
        PartMemory { budget, limit, ..PartMemory::default() }
    }

    /// Checks that it does not hold memory for too long.
    fn check(&self) -> io::Result<()> {
        match self.share.is_overdue(&self.budget, self.limit) {
            true => Err(ExchangeError::TimedOut(Phase::Body, self.limit.into()).into()),
            false => Ok(()),
        }
    }

    /// Waits for memory for so many bytes of this part, which may have `part_max`. A wait that is given up leaves the queue.
    pub(super) async fn take(&mut self, len: usize, part_max: usize) -> io::Result<()> {
        let wait = CancelMemoryWaitOnDrop(self);
        poll_fn(|cx| wait.0.poll_take(cx, len, part_max)).await
    }

    fn poll_take(&mut self, cx: &mut task::Context<'_>, len: usize, part_max: usize) -> Poll<io::Result<()>> {
        let most = self.kept.saturating_add(part_max);
        let len = self.kept + len;
        if len <= PART_UNRESERVED_MAX.max(self.share.len()) {
            return Poll::Ready(Ok(()));
        }
        let grown =
            self.share.poll_grow_to(cx, &self.budget, self.budget.growth_target(len, most), self.limit);
        grown.map_err(|error| ExchangeError::from_memory(error).into())
    }

    /// Notes that a part of this length was read, and gives back what was taken for more of it.
    pub(super) fn keep(&mut self, len: usize) {
        self.kept += len;
        self.share.shrink_to(self.kept);
    }
}

impl AsMut<MemoryShare> for PartMemory {
    fn as_mut(&mut self) -> &mut MemoryShare {
        &mut self.share
    }
}

/// Parts up to this length reserve no memory.
const PART_UNRESERVED_MAX: usize = 16 << 10;
