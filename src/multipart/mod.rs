//! `multipart/form-data`, in which browsers send files (RFC 7578, RFC 2046 §5.1).
//!
//! [`Multipart`] reads a body part by part as it arrives, in constant memory; [`Form`] writes one.
//!
//! ```no_run
//! use corehttp::{BodyPlan, Context, Server, with_plan};
//!
//! async fn upload(ctx: &mut Context) -> corehttp::Result {
//!     let mut parts = ctx.multipart()?;
//!     while let Some(mut part) = parts.part().await? {
//!         match part.name() {
//!             "title" => println!("{}", part.text().await?),
//!             "photo" => println!("{:?}", part.save("/srv/photos").await?),
//!             _ => {} // what is not read is skipped
//!         }
//!     }
//!     Ok(())
//! }
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("127.0.0.1:8080").run(with_plan(|_| BodyPlan::Stream, upload))
//! }
//! ```
//!
//! A body that breaks the rules, or exceeds a limit of [`MultipartLimits`], is an error that becomes 400, 413, 415 or
//! 431 with `?`.

mod part;
mod request;
mod save;

mod boundary;
mod disposition;
mod head;
mod parameters;
mod window;

mod form;

mod error;
mod limits;

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{self, Poll, ready};

use memchr::memmem;
use tokio::io::AsyncRead;

pub use error::MultipartError;
pub use form::Form;
pub use limits::MultipartLimits;
pub use part::Part;
pub use save::Saved;

use self::boundary::{Boundary, DelimiterKind, Scan};
use self::head::PartHead;
use self::window::Window;
use crate::error::Excerpt;
use crate::message::Headers;
use crate::wire::WireDetail;

/// Reads a body part by part, as it arrives.
///
/// Made by [`Context::multipart`](crate::Context::multipart) and [`Request::multipart`](crate::Request::multipart), or
/// from anything that yields bytes. Its memory does not grow with the body: it holds a window of 16 KiB, and the head
/// of one part.
///
/// # Examples
///
/// ```
/// use corehttp::multipart::{Multipart, MultipartLimits};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// let body = b"--b\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n";
/// let mut parts = Multipart::new(&body[..], "b", MultipartLimits::default())?;
/// while let Some(mut part) = parts.part().await? {
///     assert_eq!(part.name(), "a");
///     assert_eq!(part.text().await?, "1");
/// }
/// # Ok(())
/// # }
/// ```
pub struct Multipart<R> {
    source: R,
    boundary: Boundary,
    limits: MultipartLimits,
    window: Window,
    state: State,
    /// How many bytes at the front of the window are known to be neither a delimiter nor a head.
    data_len: usize,
    /// How many parts have begun.
    parts: usize,
    /// How large the content of this part is so far; or the preamble, or the epilogue.
    size: u64,
    /// The head of this part.
    head: PartHead,
    /// Why nothing more can be read.
    failed: Option<MultipartError>,
}

/// The position in the body (RFC 2046 §5.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
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

impl<R: AsyncRead + Unpin> Multipart<R> {
    /// Reads the parts that `source` yields. The boundary and the length are taken from `headers`. Use this for a body
    /// that was decoded, for example.
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`](crate::Context::multipart), but a content coding in `headers` is not looked at.
    pub fn of(source: R, headers: &Headers, limits: MultipartLimits) -> Result<Multipart<R>, MultipartError> {
        let boundary = Boundary::of(headers)?;
        // Before a byte is read, and before `100 Continue` invites the peer to send any.
        if headers.content_length().is_some_and(|length| length > limits.bytes_max) {
            return Err(body_too_large(limits.bytes_max));
        }
        Ok(Multipart::with_boundary(source, boundary, limits))
    }

    /// Reads the parts that `source` yields, separated by `boundary`.
    ///
    /// # Errors
    ///
    /// Fails if the boundary is malformed (RFC 2046 §5.1.1).
    pub fn new(source: R, boundary: &str, limits: MultipartLimits) -> Result<Multipart<R>, MultipartError> {
        Ok(Multipart::with_boundary(source, Boundary::new(boundary.as_bytes())?, limits))
    }

    /// Returns the next part as soon as its head has arrived; `None` after the last one, when the whole body has been
    /// read. The rest of the previous part is skipped.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read, breaks the rules, or exceeds a limit. All further calls then fail too.
    pub async fn part(&mut self) -> io::Result<Option<Part<'_, R>>> {
        match poll_fn(|cx| self.poll_part(cx)).await? {
            true => Ok(Some(Part::new(self))),
            false => Ok(None),
        }
    }

    fn with_boundary(source: R, boundary: Boundary, limits: MultipartLimits) -> Multipart<R> {
        let limits = MultipartLimits { head_max: limits.head_max.min(HEAD_MAX), ..limits };
        // The first boundary is also at the start of a line, though it need not follow a CRLF.
        let window = Window::new(WINDOW_MIN.max(limits.head_max + HEAD_ENDS), b"\r\n");
        Multipart {
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
        }
    }

    /// Goes to the next part. Returns whether there is one.
    fn poll_part(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<bool>> {
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
                    (self.state, self.size) = (State::EmptyLine, 0);
                    return Poll::Ready(Ok(true));
                }
                State::Epilogue => {
                    let skipped = ready!(self.poll_epilogue(cx));
                    self.record_failure(skipped)?;
                    self.state = State::Done;
                }
                State::Done => return Poll::Ready(Ok(false)),
                State::Failed => return Poll::Ready(Err(self.failure())),
            }
        }
    }

    /// Returns how many bytes at the front of the window are content of the part, or preamble; 0 at its end.
    fn poll_data(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        if self.data_len == 0 {
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
                // client sends it, since content must not begin with the boundary either (RFC 2046 §5.1.1).
                (Scan::Delimiter, State::EmptyLine) => {
                    return Poll::Ready(Err(MultipartError::Delimiter.into()));
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
            match boundary::parse_delimiter_line(rest, self.window.is_end())? {
                Some((line, len)) => {
                    self.window.consume(start + len);
                    return Poll::Ready(Ok(line));
                }
                None => _ = ready!(self.poll_fill(cx))?,
            }
        }
    }

    /// Reads the head of a part. It begins with the CRLF of the line before it, so that an empty head ends like any
    /// other.
    fn poll_head(&mut self, cx: &mut task::Context<'_>, mut searched: usize) -> Poll<io::Result<()>> {
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

    /// Reads everything after the last boundary, which means nothing, but is not the next request.
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
            0 => Poll::Ready(Err(MultipartError::Incomplete.into())),
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_fill(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<usize>> {
        let count = ready!(self.window.poll_fill(cx, &mut self.source))?;
        let bytes_max = self.limits.bytes_max;
        let received = check_limit(self.window.received(), bytes_max, || body_too_large(bytes_max));
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

    /// Notes an error, after which nothing more can be read.
    fn record_failure<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result {
            self.failed = error.get_ref().and_then(|error| error.downcast_ref()).cloned();
            self.state = State::Failed;
        }
        result
    }

    fn failure(&self) -> io::Error {
        self.failed.clone().unwrap_or(MultipartError::Incomplete).into()
    }

    /// How much may precede the first boundary, with the CRLF that the window begins with; or follow the last, with the
    /// one after it.
    fn margin_max(&self) -> u64 {
        self.limits.margin_max.saturating_add(2)
    }

    /// The error for too much of what is being read: content of a part, or what is around all parts.
    #[cold]
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

    #[cold]
    fn part_too_large(&self, limit: Box<WireDetail>) -> MultipartError {
        MultipartError::PartTooLarge(self.part_name(), limit)
    }

    #[cold]
    fn head_too_large(&self) -> MultipartError {
        let limit = WireDetail::limit("head_max", "bytes", self.limits.head_max as u64);
        MultipartError::PartHeadTooLarge(self.parts, limit)
    }

    /// The name of this part, as errors quote it.
    #[cold]
    fn part_name(&self) -> Box<str> {
        Excerpt(&self.head.disposition.name).to_string().into()
    }

    /// Takes the first `count` bytes of the window, which [`Multipart::poll_data`] has found.
    fn take(&mut self, count: usize) -> &[u8] {
        self.data_len -= count;
        self.window.take(count)
    }
}

/// The least size of the window.
const WINDOW_MIN: usize = 16 << 10;

/// No honest head is longer, and there is room for it from the start.
const HEAD_MAX: usize = 1 << 20;

/// The CRLFs around a head.
const HEAD_ENDS: usize = "\r\n\r\n\r\n".len();

fn check_limit(count: u64, max: u64, error: impl FnOnce() -> MultipartError) -> io::Result<()> {
    match count <= max {
        true => Ok(()),
        false => Err(error().into()),
    }
}

#[cold]
fn body_too_large(bytes_max: u64) -> MultipartError {
    MultipartError::BodyTooLarge(WireDetail::limit("bytes_max", "bytes", bytes_max))
}

impl<R> fmt::Debug for Multipart<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipart")
            .field("boundary", &self.boundary)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
