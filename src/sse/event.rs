//! [`Event`]: one event of a stream, and its format (HTML §9.2.5, §9.2.6).

use std::time::Duration;

use crate::message::MessageError;

/// An event. Fields that are `None` are absent from the stream.
///
/// All fields are public and stay so. A later release may add fields. Literals with `..Event::new(data)` and patterns with `..`
/// work with both.
///
/// # Examples
///
/// ```
/// use corehttp::sse::Event;
///
/// let plain = Event::new("two\nlines");
/// let full = Event { id: Some("7"), event: Some("tick"), ..plain };
/// # assert_eq!((plain.id, full.data), (None, Some("two\nlines")));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event<'a> {
    /// The id. The browser sends it as `Last-Event-ID` when it reconnects. An empty id clears the last one.
    pub id: Option<&'a str>,
    /// The type of the event, which selects the browser's listeners. Without a type it is a `message`.
    pub event: Option<&'a str>,
    /// The data, which may have any number of lines. The browser gets LF for each end of a line. An event without data is not
    /// dispatched. Only its id and its delay take effect.
    pub data: Option<&'a str>,
    /// How long the browser should wait before another connection, to the millisecond.
    pub retry: Option<Duration>,
}

impl<'a> Event<'a> {
    /// Creates an event with `data`, and nothing else.
    pub fn new(data: &'a str) -> Event<'a> {
        Event { data: Some(data), ..Event::default() }
    }

    /// Appends the event to `out`, or nothing if it is not valid.
    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), MessageError> {
        let Event { id, event, data, retry } = *self;
        if !is_one_line(id) {
            return Err(MessageError::EventId);
        }
        if !is_one_line(event) {
            return Err(MessageError::EventType);
        }
        if let Some(retry) = retry {
            field(out, "retry: ", itoa::Buffer::new().format(retry.as_millis()));
        }
        if let Some(id) = id {
            field(out, "id: ", id);
        }
        if let Some(event) = event {
            field(out, "event: ", event);
        }
        if let Some(data) = data {
            lines(out, "data: ", data);
        }
        out.push(b'\n');
        Ok(())
    }
}

/// Appends a comment, of any number of lines.
pub(super) fn comment(out: &mut Vec<u8>, text: &str) {
    lines(out, ": ", text);
}

fn is_one_line(text: Option<&str>) -> bool {
    text.is_none_or(|text| !text.contains(['\r', '\n', '\0']))
}

/// Appends each line of `text`. A line ends with CR, LF or CRLF, as in browsers; otherwise data could break out of its
/// field.
fn lines(out: &mut Vec<u8>, name: &str, text: &str) {
    let mut rest = text;
    while let Some(end) = rest.find(['\r', '\n']) {
        let (line, after) = rest.split_at(end);
        field(out, name, line);
        rest = after.strip_prefix("\r\n").unwrap_or(&after[1..]);
    }
    field(out, name, rest);
}

/// Appends a line. Browsers remove one space before the value, so there always is one.
fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    debug_assert!(!value.contains(['\r', '\n']), "the end of a line would begin another field");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(value.as_bytes());
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(event: Event<'_>, expected: Result<&str, MessageError>) {
        let mut out = b"before".to_vec();
        let encoded = event.encode(&mut out);
        let text = str::from_utf8(&out).unwrap().strip_prefix("before").unwrap();
        assert!(encoded.is_ok() || text.is_empty(), "{event:?}");
        assert_eq!(encoded.map(|()| text), expected, "{event:?}");
    }

    #[test]
    fn an_event_is_lines_that_end_with_a_blank_one_html_9_2_5() {
        let full = Event {
            id: Some("7"),
            event: Some("tick"),
            retry: Some(Duration::from_millis(1500)),
            data: Some("x"),
        };
        check(full, Ok("retry: 1500\nid: 7\nevent: tick\ndata: x\n\n"));
        check(Event { id: Some(""), ..Event::default() }, Ok("id: \n\n"));
        check(Event::new(""), Ok("data: \n\n"));
        check(Event::new(" x: \u{e9}\0"), Ok("data:  x: \u{e9}\0\n\n"));
        check(Event::default(), Ok("\n"));
    }

    #[test]
    fn data_of_many_lines_cannot_break_out_html_9_2_6() {
        check(Event::new("a\nb"), Ok("data: a\ndata: b\n\n"));
        check(Event::new("a\r\nb\rc"), Ok("data: a\ndata: b\ndata: c\n\n"));
        check(Event::new("\n"), Ok("data: \ndata: \n\n"));
        check(Event::new("a\n\nevent: own\n\n"), Ok("data: a\ndata: \ndata: event: own\ndata: \ndata: \n\n"));
        check(Event::new("\n\r"), Ok("data: \ndata: \ndata: \n\n"));
    }

    #[test]
    fn ids_and_types_are_one_line_html_9_2_6() {
        for text in ["\n", "\r", "\r\n", "a\nb", "a\rdata: x", "\0", "a\0", "a\n\ndata: own\n\n"] {
            check(Event { id: Some(text), ..Event::new("x") }, Err(MessageError::EventId));
            check(Event { event: Some(text), ..Event::new("x") }, Err(MessageError::EventType));
        }
    }

    #[test]
    fn comments_of_many_lines_cannot_break_out_html_9_2_5() {
        let mut out = Vec::new();
        comment(&mut out, "a\n\ndata: own\r\n");
        assert_eq!(str::from_utf8(&out), Ok(": a\n: \n: data: own\n: \n"));
    }
}
