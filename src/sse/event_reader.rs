//! [`EventReader`]: events that another server sends (HTML §9.2.6).

use std::io;
use std::mem;
use std::time::Duration;

use memchr::{memchr, memchr2};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::event::Event;
use crate::message::content::ContentFault;
use crate::message::{ContentError, saturating_decimal};

/// Reads events as they come, for instance from a [`ResponseReader`](crate::client::ResponseReader) (HTML §9.2.6).
///
/// An [`EventSource`](super::EventSource) connects again when the stream ends.
///
/// # Examples
///
/// ```
/// use corehttp::sse::EventReader;
///
/// # corehttp::block_on(async {
/// let mut events = EventReader::new(&b"id: 7\ndata: milk\n\n"[..]); // a file, or the body of a response
/// while let Some(event) = events.event().await? {
///     assert_eq!((event.id, event.data), (Some("7"), Some("milk")));
/// }
/// # Ok::<(), std::io::Error>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct EventReader<R> {
    /// How many bytes an event may have. Default: 1 MiB, and 64 KiB for events of a request. Their memory is no part of
    /// [`Limits::memory_max`](crate::Limits::memory_max), and each peer may withhold the end of an event.
    pub event_max: usize,
    source: BufReader<R>,
    decoder: EventDecoder,
    is_of_request: bool,
}

impl<R: AsyncRead + Unpin> EventReader<R> {
    /// Reads from `source`, which should be the content of a response with status 200 and the type `text/event-stream`.
    pub fn new(source: R) -> EventReader<R> {
        EventReader {
            event_max: EVENT_MAX,
            source: BufReader::new(source),
            decoder: EventDecoder::default(),
            is_of_request: false,
        }
    }

    /// Reads from the body of a request. An event that is too long is the fault of the peer. In a handler, `?` makes it 413.
    /// For other sources it is 500.
    ///
    /// Read all events of a body with the same `EventReader`: it reads ahead, and content that it has taken is lost when it is
    /// dropped.
    pub fn from_request(source: R) -> EventReader<R> {
        EventReader { event_max: REQUEST_EVENT_MAX, is_of_request: true, ..EventReader::new(source) }
    }

    /// Waits for the next event that has data. Returns `None` at the end of the stream, where an event without its blank line
    /// is dropped. Octets that are not UTF-8 become U+FFFD.
    ///
    /// A client waits no longer than [`ClientTimeouts::receive`](crate::client::ClientTimeouts::receive) for anything, even a
    /// comment. If the future is dropped, nothing is lost.
    ///
    /// # Errors
    ///
    /// Fails if reading does. Fails with [`io::ErrorKind::InvalidData`] around a [`ContentError`](crate::error::ContentError)
    /// if an event is longer than [`EventReader::event_max`].
    pub async fn event(&mut self) -> io::Result<Option<Event<'_>>> {
        Ok(if self.advance().await? { self.current() } else { None })
    }

    /// The event that was read last, until the next one begins.
    pub(super) fn current(&self) -> Option<Event<'_>> {
        self.decoder.is_complete.then(|| self.decoder.event())
    }

    /// Reads to the end of the next event that has data. Returns whether there was one.
    pub(super) async fn advance(&mut self) -> io::Result<bool> {
        loop {
            let bytes = self.source.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let (len, status) = self.decoder.decode(bytes, self.event_max);
            self.source.consume(len);
            match status {
                DecodeStatus::Partial => {}
                DecodeStatus::Complete => return Ok(true),
                DecodeStatus::TooLong => {
                    let too_long = ContentError::from(ContentFault::TooLong("an event"));
                    return Err(if self.is_of_request { too_long.of_request() } else { too_long }.into());
                }
            }
        }
    }

    /// Returns the id of the last event that had one.
    ///
    /// A request that continues the stream has it as `last-event-id` (HTML §9.2.4). With `None`, the id of an earlier stream
    /// still holds. An empty id clears that.
    pub fn last_id(&self) -> Option<&str> {
        self.decoder.last_id.as_deref()
    }

    /// Returns the wait before such a request, if the server has set one.
    pub fn last_retry(&self) -> Option<Duration> {
        self.decoder.last_retry
    }
}

const EVENT_MAX: usize = 1024 * 1024;
const REQUEST_EVENT_MAX: usize = 64 << 10;

/// Reads a stream of events, in whatever pieces it comes.
#[derive(Debug, Default)]
struct EventDecoder {
    /// The line that has begun.
    line: Vec<u8>,
    position: Position,
    /// The event that has begun.
    event: PartialEvent,
    /// Whether that event is complete, and the next one has not begun.
    is_complete: bool,
    /// The last id and the last delay. An id counts once its event is complete, with or without data.
    last_id: Option<String>,
    last_retry: Option<Duration>,
}

/// Where the next byte of a stream stands.
#[derive(Debug, Default)]
enum Position {
    /// In the first line, which alone may begin with a byte order mark.
    #[default]
    FirstLine,
    /// After the CR of a line. An LF that follows is a part of the same line end.
    AfterCr,
    /// In another line.
    Line,
}

/// The fields of an event that have come.
#[derive(Debug, Default)]
struct PartialEvent {
    /// The data, of which each line ends with LF.
    data: String,
    name: String,
    id: String,
    has_id: bool,
    retry: Option<Duration>,
}

impl PartialEvent {
    fn clear(&mut self) {
        // The id is written before `has_id` is set again.
        let PartialEvent { data, name, id: _, has_id, retry } = self;
        data.clear();
        name.clear();
        (*has_id, *retry) = Default::default();
    }
}

/// The result of decoding a piece of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecodeStatus {
    /// The whole piece was read, and the event is incomplete.
    Partial,
    /// An event is complete. The bytes after it are unread.
    Complete,
    /// An event is longer than it may be. The stream cannot be read any further.
    TooLong,
}

impl EventDecoder {
    /// Reads `bytes` up to the end of an event of at most `max` bytes. Returns how many were read.
    fn decode(&mut self, bytes: &[u8], max: usize) -> (usize, DecodeStatus) {
        if mem::take(&mut self.is_complete) {
            self.event.clear();
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Position::AfterCr = self.position {
                self.position = Position::Line;
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
                continue;
            }
            let end = memchr2(b'\r', b'\n', rest).unwrap_or(rest.len());
            if self.line.len() + self.event.data.len() + end > max {
                return (bytes.len() - rest.len(), DecodeStatus::TooLong);
            }
            self.line.extend_from_slice(&rest[..end]);
            let Some((terminator, after)) = rest[end..].split_first() else { break };
            rest = after;
            if self.end_line(*terminator) {
                return (bytes.len() - rest.len(), DecodeStatus::Complete);
            }
        }
        (bytes.len(), DecodeStatus::Partial)
    }

    /// Returns the event that is complete.
    fn event(&self) -> Event<'_> {
        let PartialEvent { data, name, id: _, has_id, retry } = &self.event;
        debug_assert!(self.is_complete && data.ends_with('\n'), "an event has data, and was read to its end");
        Event {
            id: self.last_id.as_deref().filter(|_| *has_id),
            event: Some(name.as_str()).filter(|name| !name.is_empty()),
            data: data.strip_suffix('\n'),
            retry: *retry,
        }
    }

    /// Processes a line, which ends with CR or LF. Returns whether the line ends an event with data.
    fn end_line(&mut self, terminator: u8) -> bool {
        let next = if terminator == b'\r' { Position::AfterCr } else { Position::Line };
        let line = match mem::replace(&mut self.position, next) {
            Position::FirstLine => self.line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.line),
            Position::AfterCr | Position::Line => &self.line[..],
        };
        if line.is_empty() {
            self.line.clear();
            return self.end_event();
        }
        let (name, value) = line.split_at(memchr(b':', line).unwrap_or(line.len()));
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                self.event.data.push_str(&String::from_utf8_lossy(value));
                self.event.data.push('\n');
            }
            b"event" => replace(&mut self.event.name, value),
            b"id" if memchr(b'\0', value).is_none() => {
                replace(&mut self.event.id, value);
                self.event.has_id = true;
            }
            b"retry" => {
                if let Some(millis) = saturating_decimal(value) {
                    self.event.retry = Some(Duration::from_millis(millis));
                    self.last_retry = self.event.retry;
                }
            }
            // A comment, or an unknown field.
            _ => {}
        }
        self.line.clear();
        false
    }

    fn end_event(&mut self) -> bool {
        let event = &mut self.event;
        if event.has_id {
            mem::swap(&mut event.id, self.last_id.get_or_insert_default());
        }
        self.is_complete = !event.data.is_empty();
        if !self.is_complete {
            event.clear();
        }
        self.is_complete
    }
}

const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fn replace(text: &mut String, value: &[u8]) {
    text.clear();
    text.push_str(&String::from_utf8_lossy(value));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 64;

    /// All events of `stream`, which comes in pieces of `size` bytes, as text; and the last id and delay.
    fn decoded(stream: &[u8], size: usize) -> (Vec<String>, Option<String>, Option<u128>) {
        let mut decoder = EventDecoder::default();
        let mut decoded = Vec::new();
        for mut piece in stream.chunks(size) {
            while !piece.is_empty() {
                let (len, status) = decoder.decode(piece, MAX);
                match status {
                    DecodeStatus::Partial => assert_eq!(len, piece.len()),
                    DecodeStatus::Complete => decoded.push(text(decoder.event())),
                    DecodeStatus::TooLong => {
                        decoded.push("too long".to_owned());
                        assert_eq!(decoder.decode(&piece[len..], MAX), (0, status), "it stays so");
                        return (decoded, decoder.last_id, None);
                    }
                }
                piece = &piece[len..];
            }
        }
        (decoded, decoder.last_id, decoder.last_retry.map(|delay| delay.as_millis()))
    }

    fn text(Event { id, event, data, retry }: Event<'_>) -> String {
        let mut text = format!("{:?}", data.unwrap());
        let retry = retry.map(|delay| delay.as_millis().to_string());
        for (name, value) in [("id", id), ("event", event), ("retry", retry.as_deref())] {
            text.extend(value.map(|value| format!(" {name}={value}")));
        }
        text
    }

    #[track_caller]
    fn check_all(stream: &[u8], events: &[&str], last_id: Option<&str>, last_retry: Option<u128>) {
        for size in 1..=stream.len().max(1) {
            let (decoded, id, retry) = decoded(stream, size);
            let shown = stream.escape_ascii();
            assert_eq!(decoded, events, "{shown} in pieces of {size}");
            assert_eq!((id.as_deref(), retry), (last_id, last_retry), "{shown} in pieces of {size}");
        }
    }

    #[track_caller]
    fn check(stream: &str, events: &[&str]) {
        check_all(stream.as_bytes(), events, None, None);
    }

    #[test]
    fn an_event_ends_with_a_blank_line_html_9_2_6() {
        check("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\r\n\n", &["\"a\"", "\"b\"", "\"c\"", "\"d\""]);
        check("data: a\n\r\ndata: b\n\rdata: c\n\n", &["\"a\"", "\"b\"", "\"c\""]);
        check("data: a\rdata: b\r\ndata\n\n", &["\"a\\nb\\n\""]);
        check("data\n\ndata\ndata\n\ndata:", &["\"\"", "\"\\n\""]);
        check("data: a\ndata: never ended\n", &[]);
        check("\n\r\n\r\n", &[]);
        check("", &[]);
    }

    #[test]
    fn a_field_is_a_name_and_a_value_html_9_2_6() {
        check("data:a\n\ndata: b\n\ndata:  c\n\ndata:d:e\n\n", &["\"a\"", "\"b\"", "\" c\"", "\"d:e\""]);
        check(": data: comment\n:\ndata: a\n:data: b\n\n", &["\"a\""]);
        check("event: x\nevent: y\ndata: a\n\ndata: b\n\n", &["\"a\" event=y", "\"b\""]);
        check("event: x\n\ndata: a\n\n", &["\"a\""]);
        check("Data: a\n data: b\ndata : c\ndataset: d\nx\n\n", &[]);
        check("event:\ndata: a\n\n", &["\"a\""]);
    }

    #[test]
    fn ids_and_delays_outlive_their_event_html_9_2_6() {
        check_all(
            b"id: 1\nretry: 5\ndata: a\n\ndata: b\n\n",
            &["\"a\" id=1 retry=5", "\"b\""],
            Some("1"),
            Some(5),
        );
        check_all(b"id: 1\nretry: 5\n\ndata: a\n\n", &["\"a\""], Some("1"), Some(5));
        check_all(b"id: 1\n\nid\ndata: a\n\n", &["\"a\" id="], Some(""), None);
        check_all(b"id: 1\n\nid: 2\ndata: never ended\nretry: 7\n", &[], Some("1"), Some(7));
        check_all(b": none\n\nid: 1\n", &[], None, None);
        check_all(b"id: 1\nid: a\0b\ndata: a\n\n", &["\"a\" id=1"], Some("1"), None);
        for retry in ["", "-1", "+1", "1.5", "5s", " 5"] {
            check(&format!("retry: {retry}\ndata: a\n\n"), &["\"a\""]);
        }
        let most = u128::from(u64::MAX);
        check_all(b"retry: 99999999999999999999999\n\n", &[], None, Some(most));
    }

    #[test]
    fn a_stream_is_decoded_as_utf_8_html_9_2_6() {
        check("\u{feff}data: a\n\n\u{feff}data: b\n\n", &["\"a\""]);
        check("\u{feff}\ndata: a\n\n\u{feff}data: b\n\n", &["\"a\""]);
        check_all(b"data: \xc3\xa9\xff\n\n", &["\"\u{e9}\u{fffd}\""], None, None);
        check_all(b"data: \xc3\ndata: \xa9\n\n", &["\"\u{fffd}\\n\u{fffd}\""], None, None);
    }

    #[test]
    fn an_event_has_a_greatest_length() {
        let line = |len| "x".repeat(len);
        check(&format!("data:{}\n\n", line(MAX - 5)), &[&format!("{:?}", line(MAX - 5))]);
        check(&format!("data:{}\n\n", line(MAX - 4)), &["too long"]);
        check(&format!(":{}\n:{}\ndata: a\n\n", line(MAX - 1), line(MAX - 1)), &["\"a\""]);
        check(&format!("data: a\n\n:{}", line(MAX)), &["\"a\"", "too long"]);
        check(&"data: a\n".repeat(MAX), &["too long"]);
        check(&format!("data: a\n\n{}", "data\n".repeat(MAX)), &["\"a\"", "too long"]);
    }
}
