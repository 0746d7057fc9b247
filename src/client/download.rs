//! [`Download`]: content that arrives in a file, over as many connections as it takes (RFC 9110 §14).

use std::fs::File;
use std::io::{self, Seek, Write};
use std::mem;
use std::time::Duration;

use super::call::ResponseReader;
use super::send::RequestSender;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::retry::Backoff;
use crate::message::{FieldName, Headers, MessageError, Request, Response, Status, decimal};
use crate::runtime::{sleep, spawn_blocking};

/// Content that arrives in a file.
pub(super) struct Download {
    request: Request,
    response: Response,
    /// Absent while another thread writes to it.
    file: Option<File>,
    /// Content that is not in the file yet.
    buffer: Vec<u8>,
    /// How many bytes have arrived, in the file and in the buffer.
    received: u64,
    /// The length of the whole, if the server has told it.
    len: Option<u64>,
    /// Identifies the content that has begun to arrive, if that can be continued.
    validator: Option<Vec<u8>>,
    /// How often content that had begun to arrive has begun anew.
    restarts: u32,
}

impl Download {
    /// Begins a download into `file`.
    ///
    /// # Errors
    ///
    /// Fails if the request asks for a range, which would not be the content that the file is to have.
    pub(super) fn new(request: &Request, file: File) -> Result<Download, MessageError> {
        if let Some(field) = RANGE_FIELDS.into_iter().find(|field| request.headers.contains(field)) {
            let reason = format!("a download sets the field {field} by itself, from the first byte on");
            return Err(MessageError::Value(reason.into()));
        }
        let mut request = request.clone();
        request.headers.set("accept-encoding", "identity")?;
        Ok(Download {
            request,
            response: Response::new(),
            file: Some(file),
            buffer: Vec::new(),
            received: 0,
            len: None,
            validator: None,
            restarts: 0,
        })
    }

    /// Receives the whole content, and returns its length.
    pub(super) async fn run(mut self, sender: &RequestSender) -> Result<u64, ClientError> {
        let mut failed = 0;
        loop {
            let before = self.received;
            let Err(error) = self.attempt(sender).await else { return Ok(self.received) };
            failed = if self.received > before { 0 } else { failed + 1 };
            if failed == FAILED_MAX || self.restarts > RESTARTS_MAX || !is_passing(&error) {
                return Err(error);
            }
            sleep(Backoff::default().jittered(failed)).await;
        }
    }

    /// Receives the rest of the content over one connection.
    async fn attempt(&mut self, sender: &RequestSender) -> Result<(), ClientError> {
        match &self.validator {
            Some(validator) if self.received > 0 => {
                self.request.headers.set("range", format!("bytes={}-", self.received))?;
                self.request.headers.put(FieldName::new("if-range"), validator);
            }
            Some(_) | None => {
                self.request.headers.remove_each(&RANGE_FIELDS.map(FieldName::new));
            }
        }
        let mut reader = sender.open_response(None, &self.request, &mut self.response).await?;
        match self.response.status {
            Status::OK => {
                self.begin().await?;
                if reader.is_decoded() {
                    // A range would count octets of the coded content, of which none are here.
                    self.validator = None;
                }
            }
            Status::PARTIAL_CONTENT if self.received > 0 && self.continues() => {
                // The first response may have had no length, and a part may end before the whole (RFC 9110 §15.3.7).
                let (_, whole) = self.range().unwrap_or_default();
                self.len = self.len.or(whole);
            }
            // Of a whole without a length, only the end was missing.
            Status::RANGE_NOT_SATISFIABLE if self.is_whole() => return Ok(()),
            // The server has other content than before, or speaks of another part.
            Status::PARTIAL_CONTENT | Status::RANGE_NOT_SATISFIABLE if self.received > 0 => {
                self.begin().await?;
                self.validator = None;
                return Err(self.error(ClientCause::Closed));
            }
            status => return Err(self.error(ClientCause::Status(status))),
        }
        let received = self.receive(&mut reader).await;
        self.write().await?;
        received?;
        match self.len {
            Some(len) if len != self.received => Err(self.error(ClientCause::Closed)),
            Some(_) | None => Ok(()),
        }
    }

    /// Begins with the first byte of the content that the response has.
    async fn begin(&mut self) -> Result<(), ClientError> {
        self.restarts += u32::from(self.received > 0);
        self.received = 0;
        self.len = self.response.headers.content_length();
        self.validator = strong_validator(&self.response);
        self.buffer.clear();
        self.on_file(|mut file, _| {
            file.rewind()?;
            file.set_len(0)
        })
        .await
    }

    /// Whether a partial response continues the content that was received. A part of other content does not, and a coded one
    /// never does, as its range counts coded octets.
    fn continues(&self) -> bool {
        let headers = &self.response.headers;
        let is_same = self.validator.as_ref().is_some_and(|validator| is_of(headers, validator));
        if !is_same || headers.contains("content-encoding") {
            return false;
        }
        self.range().is_some_and(|(first, whole)| {
            first == self.received && (whole.is_none() || self.len.is_none() || whole == self.len)
        })
    }

    /// Whether no part is left, by the length in the response to a request for one (RFC 9110 §15.5.17).
    fn is_whole(&self) -> bool {
        let headers = &self.response.headers;
        let whole = headers.get_bytes("content-range").and_then(|range| range.strip_prefix(b"bytes */"));
        let is_same = self.validator.as_ref().is_some_and(|validator| is_of(headers, validator));
        is_same && self.received > 0 && whole.and_then(decimal) == Some(self.received)
    }

    /// The range of the part that the response has, as [`content_range`].
    fn range(&self) -> Option<(u64, Option<u64>)> {
        self.response.headers.get_bytes("content-range").and_then(content_range)
    }

    /// Receives the content of the response.
    async fn receive(&mut self, reader: &mut ResponseReader) -> Result<(), ClientError> {
        while let Some(piece) = reader.chunk().await? {
            self.buffer.extend_from_slice(piece);
            self.received += piece.len() as u64;
            if self.buffer.len() >= BUFFER {
                self.write().await?;
            }
        }
        Ok(())
    }

    /// Writes to the file what has been received.
    async fn write(&mut self) -> Result<(), ClientError> {
        self.on_file(|mut file, buffer| {
            file.write_all(buffer)?;
            buffer.clear();
            Ok(())
        })
        .await
    }

    /// Works on the file and the buffer, on a thread that may wait for a disk.
    async fn on_file(
        &mut self,
        work: impl FnOnce(&File, &mut Vec<u8>) -> io::Result<()> + Send + 'static,
    ) -> Result<(), ClientError> {
        let Some(file) = self.file.take() else { return Err(self.error(ClientCause::Closed)) };
        let mut buffer = mem::take(&mut self.buffer);
        let worked = spawn_blocking(move || {
            let worked = work(&file, &mut buffer);
            (file, buffer, worked)
        });
        let done = match worked.await {
            Ok((file, buffer, done)) => {
                (self.file, self.buffer) = (Some(file), buffer);
                done
            }
            Err(ended) => Err(ended),
        };
        done.map_err(|error| {
            let of_file = io::Error::new(error.kind(), format!("the file cannot be written: {error}"));
            self.error(ClientCause::Other(of_file.into()))
        })
    }

    fn error(&self, cause: ClientCause) -> ClientError {
        let url = self.response.url.as_deref().unwrap_or(self.request.target().as_str());
        ClientError::new(ClientPhase::Receive, cause).on_connection(false, true).with_url(url)
    }
}

/// The fields by which the rest of the content is asked for (RFC 9110 §14.2, §13.1.5).
const RANGE_FIELDS: [&str; 2] = ["range", "if-range"];

/// How many connections in a row bring nothing before the download fails.
const FAILED_MAX: u32 = 5;

/// How often content begins anew before the download fails. The servers behind one name may differ for ever.
const RESTARTS_MAX: u32 = 5;

/// How many bytes are written to the file at once.
const BUFFER: usize = 256 << 10;

/// Whether another connection may help.
fn is_passing(error: &ClientError) -> bool {
    let is_of_connection = matches!(
        error.cause(),
        ClientCause::TimedOut | ClientCause::Io(_) | ClientCause::Closed | ClientCause::Exchange(_)
    );
    is_of_connection && !matches!(error.phase(), ClientPhase::Prepare | ClientPhase::Redirect)
}

/// A value for `if-range` that stands for the very octets of a response: its tag, or its date if the content has not changed
/// for long before (RFC 9110 §13.1.5). Content that is coded all the same is decoded, and its ranges would be others.
fn strong_validator(response: &Response) -> Option<Vec<u8>> {
    let headers = &response.headers;
    if headers.contains("content-encoding") || headers.get("accept-ranges") == Some("none") {
        return None;
    }
    if let Some(tag) = headers.get_bytes("etag") {
        return tag.starts_with(b"\"").then(|| tag.to_owned());
    }
    let age = headers.date("date")?.duration_since(headers.date("last-modified")?).ok()?;
    (age >= SETTLED).then(|| headers.get_bytes("last-modified").map(<[u8]>::to_owned))?
}

/// Whether a part with these fields is of the content that `validator` stands for (RFC 9110 §15.3.7.3). Some parts lack the
/// field, and then only the server has compared it, with `if-range`.
fn is_of(headers: &Headers, validator: &[u8]) -> bool {
    let name = if validator.starts_with(b"\"") { "etag" } else { "last-modified" };
    headers.all(name).all(|value| value == validator)
}

/// The age from which the date of a change is a strong validator (RFC 9110 §8.8.2.2).
const SETTLED: Duration = Duration::from_secs(60);

/// The first position of a part, and the length of the whole if it is known (RFC 9110 §14.4).
fn content_range(value: &[u8]) -> Option<(u64, Option<u64>)> {
    let range = value.strip_prefix(b"bytes ")?;
    let at = |octet: u8| range.iter().position(|other| *other == octet);
    let (dash, slash) = (at(b'-')?, at(b'/')?);
    let (first, last) = (decimal(&range[..dash])?, decimal(range.get(dash + 1..slash)?)?);
    let whole = match &range[slash + 1..] {
        b"*" => None,
        whole => Some(decimal(whole)?),
    };
    (first <= last && whole.is_none_or(|whole| last < whole)).then_some((first, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_of_a_part_is_read_rfc9110_14_4() {
        for (value, expected) in [
            ("bytes 5-9/10", Some((5, Some(10)))),
            ("bytes 0-0/*", Some((0, None))),
            ("bytes 5-10/10", None),
            ("bytes 9-5/10", None),
            ("bytes */10", None),
            ("bytes 5/10-9", None),
            ("bytes -9/10", None),
            ("bytes 5-/10", None),
            ("bytes=5-9/10", None),
            ("bytes 5-18446744073709551616/*", None),
            ("", None),
        ] {
            assert_eq!(content_range(value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn only_a_strong_validator_continues_rfc9110_13_1_5() {
        const EARLY: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
        const LATE: &str = "Sun, 06 Nov 1994 08:50:37 GMT";
        for (fields, expected) in [
            (&[("etag", "\"a\"")][..], Some("\"a\"")),
            (&[("etag", "W/\"a\"")], None),
            (&[("etag", "W/\"a\""), ("last-modified", EARLY), ("date", LATE)], None),
            (&[("last-modified", EARLY), ("date", LATE)], Some(EARLY)),
            (&[("last-modified", EARLY), ("date", EARLY)], None),
            (&[("last-modified", EARLY)], None),
            (&[("etag", "\"a\""), ("accept-ranges", "none")], None),
            (&[("etag", "\"a\""), ("content-encoding", "gzip")], None),
            (&[], None),
        ] {
            let mut response = Response::new();
            fields.iter().for_each(|(name, value)| response.headers.set(name, *value).unwrap());
            let validator = strong_validator(&response);
            assert_eq!(validator.as_deref(), expected.map(str::as_bytes), "{fields:?}");
        }
    }
}
