//! [`LogFormat`]: what the lines of an access log contain.

use std::cell::Cell;
use std::fmt;
use std::io::Write;
use std::net::IpAddr;
use std::str::from_utf8;
use std::sync::Arc;
use std::time::SystemTime;

use crate::message::{HttpDate, write_json_string};
use crate::server::ExchangeReport;

/// The format of an access log's lines. Targets and fields are cut at 2 KiB.
#[derive(Clone)]
#[non_exhaustive]
pub enum LogFormat {
    /// The Common Log Format of NCSA and Apache: `192.0.2.1 - - [26/Nov/2026:03:40:01 +0000] "GET /a HTTP/1.1" 200 12`.
    ///
    /// The time is the end of the exchange, the last number is [`ExchangeReport::sent`], which includes the head, and an
    /// exchange without a response has the status 499.
    Common,
    /// The same with the fields `referer` and `user-agent` behind it.
    Combined,
    /// A JSON object (RFC 8259) with the members `time`, `client`, `method`, `target`, `route`, `status`, `cut`,
    /// `received`, `sent`, `until_handler_us`, `until_response_us`, `duration_us`, `connection` and `exchange`. Members
    /// without a value are left out. `time` is written as in `Common`; members that end in `_us` are in microseconds.
    Json,
    /// The application's: the function writes a line, without its end. Ends of lines in it become spaces.
    Custom(Arc<FormatFn>),
}

/// The function of a custom format.
type FormatFn = dyn Fn(&ExchangeReport<'_>, &mut Vec<u8>) + Send + Sync;

impl LogFormat {
    /// Makes a format of a function, which writes a line without its end. It finds the client by
    /// [`ExchangeReport::client_ip`] itself; the proxies of [`AccessLog::recorder`](super::AccessLog::recorder) have
    /// no effect on it.
    pub fn from_fn(write: impl Fn(&ExchangeReport<'_>, &mut Vec<u8>) + Send + Sync + 'static) -> LogFormat {
        LogFormat::Custom(Arc::new(write))
    }

    /// Writes the line of an exchange. A line cannot be forged: characters that end one are escaped.
    pub(super) fn write(&self, report: &ExchangeReport<'_>, client: Option<IpAddr>, line: &mut Vec<u8>) {
        // A vector takes all that is written to it.
        let _ = match self {
            LogFormat::Common => write_common(report, client, line),
            LogFormat::Combined => write_common(report, client, line).and_then(|()| {
                for name in ["referer", "user-agent"] {
                    let value = report.request.headers.get(name).unwrap_or(b"-");
                    write!(line, " \"{}\"", Quoted(&value[..value.len().min(VALUE_LEN_MAX)]))?;
                }
                Ok(())
            }),
            LogFormat::Json => write_json(report, client, line),
            LogFormat::Custom(write) => {
                write(report, line);
                line.iter_mut()
                    .filter(|octet| matches!(octet, b'\n' | b'\r'))
                    .for_each(|octet| *octet = b' ');
                Ok(())
            }
        };
        line.push(b'\n');
    }
}

impl fmt::Debug for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LogFormat::Common => "Common",
            LogFormat::Combined => "Combined",
            LogFormat::Json => "Json",
            LogFormat::Custom(_) => "Custom(..)",
        })
    }
}

fn write_common(
    report: &ExchangeReport<'_>,
    client: Option<IpAddr>,
    line: &mut Vec<u8>,
) -> std::io::Result<()> {
    match client {
        Some(client) => write!(line, "{client}")?,
        None => write!(line, "-")?,
    }
    // A user-id of RFC 1413, which nobody sends, and a user, whom only the application knows.
    write!(line, " - - [{}] ", ClfTime(SystemTime::now()))?;
    match report.method {
        Some(method) => {
            write!(line, "\"{method} {} {}\"", Quoted(front(report.target).as_bytes()), report.version)?
        }
        None => write!(line, "\"-\"")?,
    }
    match report.status {
        Some(status) => write!(line, " {}", status.as_u16())?,
        // As nginx logs a peer that has closed before it was answered.
        None => write!(line, " 499")?,
    }
    write!(line, " {}", report.sent)
}

fn write_json(
    report: &ExchangeReport<'_>,
    client: Option<IpAddr>,
    line: &mut Vec<u8>,
) -> std::io::Result<()> {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    write!(line, "{{\"time\":\"{}\"", ClfTime(SystemTime::now()))?;
    if let Some(client) = client {
        write!(line, ",\"client\":\"{client}\"")?;
    }
    if let Some(method) = report.method {
        write!(line, ",\"method\":\"{method}\",\"target\":")?;
        write_json_string(line, front(report.target))?;
    }
    if let Some(route) = report.matched_pattern() {
        line.extend_from_slice(b",\"route\":");
        write_json_string(line, route)?;
    }
    if let Some(status) = report.status {
        write!(line, ",\"status\":{}", status.as_u16())?;
    }
    if let Some(cut) = report.cut {
        write!(line, ",\"cut\":\"{cut}\"")?;
    }
    write!(line, ",\"received\":{},\"sent\":{}", report.received, report.sent)?;
    for (name, time) in
        [("until_handler_us", report.until_handler), ("until_response_us", report.until_response)]
    {
        if let Some(time) = time {
            write!(line, ",\"{name}\":{}", micros(time))?;
        }
    }
    let (connection, exchange) = (report.connection_id, report.exchange_number);
    write!(
        line,
        ",\"duration_us\":{},\"connection\":{connection},\"exchange\":{exchange}}}",
        micros(report.duration)
    )
}

/// The front of a text that may be long: lines that wait must not fill the memory.
fn front(text: &str) -> &str {
    let mut len = text.len().min(VALUE_LEN_MAX);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// How many bytes of a target or of a field are logged.
const VALUE_LEN_MAX: usize = 2 << 10;

/// Text of a peer between quotes, escaped as nginx and Apache do: what is not printable ASCII, quotes and backslashes
/// become `\xHH`.
struct Quoted<'a>(&'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.iter().position(|octet| matches!(octet, b'"' | b'\\' | ..b' ' | 0x7f..)) {
            write_ascii(f, &rest[..at])?;
            write!(f, "\\x{:02X}", rest[at])?;
            rest = &rest[at + 1..];
        }
        write_ascii(f, rest)
    }
}

/// Writes octets of ASCII at once.
fn write_ascii(f: &mut fmt::Formatter<'_>, octets: &[u8]) -> fmt::Result {
    f.write_str(from_utf8(octets).unwrap_or_default())
}

/// A time as logs of this kind have it: `26/Nov/2026:03:40:01 +0000`.
struct ClfTime(SystemTime);

impl fmt::Display for ClfTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.0.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let date = match LAST_DATE.get() {
            Some((of, date)) if of == second => date,
            _ => HttpDate::new(self.0),
        };
        LAST_DATE.set(Some((second, date)));
        // `Sun, 06 Nov 1994 08:49:37 GMT`
        let date = date.as_str();
        write!(f, "{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25])
    }
}

thread_local! {
    /// The date of the line before and its second, since most lines of a core are of the same one.
    static LAST_DATE: Cell<Option<(u64, HttpDate)>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn text_of_a_peer_forges_no_line() {
        let quoted = Quoted(b"a\"b\\c\r\nd\x7f\xc3\xa9 e").to_string();
        assert_eq!(quoted, "a\\x22b\\x5Cc\\x0D\\x0Ad\\x7F\\xC3\\xA9 e");
    }

    #[test]
    fn times_are_those_of_the_common_log_format() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        assert_eq!(ClfTime(time).to_string(), "06/Nov/1994:08:49:37 +0000");
    }
}
