//! [`JsonLines`]: values that come one a line.

use std::fmt;
use std::io;

use memchr::memchr;
use serde_core::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::content::read;
use crate::message::ContentError;
use crate::message::content::ContentFault;

/// Reads a stream of JSON values, one a line, as NDJSON and JSON Lines are: logs, exports, the answers of models.
///
/// Lines end with LF or CRLF, and empty ones are skipped.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::json::JsonLines;
/// use corehttp::{Client, Request, Response};
///
/// #[derive(serde::Deserialize)]
/// struct Word<'a> {
///     text: &'a str,
/// }
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
/// #     ctx.response.set_text("{\"text\":\"so\"}\n{\"text\":\"long\"}\n");
/// # })?;
/// # corehttp::block_on(async {
/// # let client = Client::builder().connect_to(listener).build();
/// let (request, mut response) = (Request::get("http://model.example/")?, Response::new());
/// let mut lines = JsonLines::new(client.open_response(&request, &mut response).await?);
/// let mut said = String::new();
/// while let Some(word) = lines.next::<Word<'_>>().await? {
///     said.push_str(word.text);
/// }
/// assert_eq!(said, "solong");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("ndjson", "jsonl", "stream"))]
pub struct JsonLines<R> {
    /// How many bytes a line may have. Default: 1 MiB, and 64 KiB of a request. The memory of a line is no part of
    /// [`Limits::memory_max`](crate::Limits::memory_max), and each peer may withhold its end.
    pub line_max: usize,
    source: BufReader<R>,
    line: Vec<u8>,
    state: LineState,
    is_of_request: bool,
}

/// The part of a line that has been read.
enum LineState {
    /// The line has begun, or nothing of it is here.
    Partial,
    /// All of it, and it was returned.
    Complete,
    /// More than it may have. Its end is unread.
    TooLong,
}

impl<R: AsyncRead + Unpin> JsonLines<R> {
    /// Reads from `source`, such as a [`ResponseReader`](crate::client::ResponseReader).
    pub fn new(source: R) -> JsonLines<R> {
        JsonLines {
            line_max: LINE_MAX,
            source: BufReader::new(source),
            line: Vec::new(),
            state: LineState::Partial,
            is_of_request: false,
        }
    }

    /// Reads from the body of a request, whose peer is to blame for a wrong line. In a handler, `?` turns a wrong line into
    /// 400, 413 or 422: see [`ContentError::status`](crate::error::ContentError::status). For other sources the status is 500.
    ///
    /// Read all lines of a body with the same `JsonLines`: it reads ahead, and content that it has taken is lost when it is dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::json::JsonLines;
    /// use corehttp::{BodyPlan, Context, Request, Result, Server, Status};
    /// use corehttp::middleware::wrap;
    ///
    /// async fn sum(ctx: &mut Context) -> Result {
    ///     let mut lines = JsonLines::from_request(ctx.body_reader());
    ///     let mut sum: u64 = 0;
    ///     while let Some(number) = lines.next::<u32>().await? {
    ///         sum += u64::from(number);
    ///     }
    ///     drop(lines);
    ///     ctx.response.set_text(sum.to_string());
    ///     Ok(())
    /// }
    ///
    /// let service = Server::new().service(wrap(BodyPlan::Stream, sum));
    /// for (numbers, status) in [("1\n2\n", Status::OK), ("1\ntwo\n", Status::BAD_REQUEST)] {
    ///     let mut request = Request::post("/")?;
    ///     request.set_text(numbers);
    ///     assert_eq!(corehttp::block_on(service.respond(request))?.status, status);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_request(source: R) -> JsonLines<R> {
        JsonLines { line_max: REQUEST_LINE_MAX, is_of_request: true, ..JsonLines::new(source) }
    }

    /// Waits for the next value, whose texts may borrow from its line. Returns `None` at the end of the stream. The last line
    /// need not end with LF. If the future is dropped, nothing is lost.
    ///
    /// # Errors
    ///
    /// Fails if reading fails. A line that is longer than [`JsonLines::line_max`] or not the JSON of a `T` is an
    /// [`io::ErrorKind::InvalidData`] with a [`ContentError`](crate::error::ContentError) within. The line is gone, and the
    /// next call reads the next one.
    pub async fn next<'a, T: Deserialize<'a>>(&'a mut self) -> io::Result<Option<T>> {
        while self.read_line().await? {
            if !self.line.trim_ascii().is_empty() {
                let value = read(&self.line);
                return value.map(Some).map_err(|error| blamed(error, self.is_of_request).into());
            }
        }
        Ok(None)
    }

    /// Reads a line with its end. Returns whether there was one.
    async fn read_line(&mut self) -> io::Result<bool> {
        match self.state {
            LineState::Partial => {}
            LineState::Complete => self.begin_line(),
            LineState::TooLong => self.skip_line().await?,
        }
        loop {
            let bytes = self.source.fill_buf().await?;
            let end = memchr(b'\n', bytes);
            if self.line.len() + end.unwrap_or(bytes.len()) > self.line_max {
                self.state = LineState::TooLong;
                let too_long = ContentError::from(ContentFault::TooLong("a line"));
                return Err(blamed(too_long, self.is_of_request).into());
            }
            let taken = end.map_or(bytes.len(), |at| at + 1);
            self.line.extend_from_slice(&bytes[..taken]);
            self.source.consume(taken);
            if end.is_some() || taken == 0 {
                self.state = LineState::Complete;
                return Ok(!self.line.is_empty());
            }
        }
    }

    /// Reads to the end of a line that is too long.
    async fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.source.fill_buf().await?;
            let end = memchr(b'\n', bytes);
            let taken = end.map_or(bytes.len(), |at| at + 1);
            self.source.consume(taken);
            if end.is_some() || taken == 0 {
                self.begin_line();
                return Ok(());
            }
        }
    }

    fn begin_line(&mut self) {
        self.line.clear();
        self.state = LineState::Partial;
    }
}

/// The error of a line, with its sender to blame if that is the peer.
fn blamed(error: ContentError, is_of_request: bool) -> ContentError {
    if is_of_request { error.of_request() } else { error }
}

const LINE_MAX: usize = 1 << 20;
const REQUEST_LINE_MAX: usize = 64 << 10;

impl<R> fmt::Debug for JsonLines<R> {
    /// Does not show the line, since it may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonLines").field("line_max", &self.line_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// The values of a stream that comes in pieces of `size` bytes, and how many lines were refused.
    async fn values(stream: &'static str, size: usize, line_max: usize) -> (Vec<u32>, usize) {
        let (mut sender, source) = tokio::io::duplex(size);
        tokio::spawn(async move { sender.write_all(stream.as_bytes()).await });
        let mut lines = JsonLines::new(source);
        lines.line_max = line_max;
        let (mut values, mut refused) = (Vec::new(), 0);
        loop {
            match lines.next::<u32>().await {
                Ok(Some(value)) => values.push(value),
                Ok(None) => return (values, refused),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
                    refused += 1;
                }
            }
        }
    }

    #[tokio::test]
    async fn each_line_is_a_value() {
        for (stream, line_max, expected, refused) in [
            ("", 9, &[][..], 0),
            ("1", 9, &[1], 0),
            ("1\n2\r\n\n \n3", 9, &[1, 2, 3], 0),
            ("1\nx\n2 3\n4\n", 9, &[1, 4], 2),
            ("123\n1234\n5\n", 3, &[123, 5], 1),
            ("123", 3, &[123], 0),
            ("1234", 3, &[], 1),
            ("1234567890123\n4\n", 3, &[4], 1),
        ] {
            for size in 1..=stream.len().max(1) {
                let read = values(stream, size, line_max).await;
                assert_eq!(read, (expected.to_vec(), refused), "{stream:?} in pieces of {size}");
            }
        }
    }

    /// A source that never ends its line takes no more memory than a line.
    #[tokio::test]
    async fn a_line_without_an_end_is_bounded() {
        let mut lines = JsonLines::new(tokio::io::repeat(b'1'));
        assert_eq!(lines.next::<u32>().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(lines.line.capacity() <= 4 * LINE_MAX);
    }
}
