//! [`Form`]: builds a body of parts (RFC 7578 §4).

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{self, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, ReadBuf};

use crate::message::{Headers, InvalidField, Request, Source};
use crate::runtime::random_token;

/// Builds a `multipart/form-data` body of texts and files, in order.
///
/// Names are escaped as in browsers: `%22` for a quote, `%0D` and `%0A` for the ends of lines. Backslashes are doubled,
/// which browsers do not do: to most readers, a single one escapes what follows it (RFC 2183 §2).
///
/// The boundary is random, 128 bits that are drawn after the content was added, so no content can contain it, not even
/// by design.
///
/// # Examples
///
/// ```
/// use corehttp::Request;
/// use corehttp::multipart::Form;
///
/// let mut form = Form::new();
/// form.text("title", "A cat")?;
/// form.file("photo", "cat.jpg", "image/jpeg", &b"..."[..])?;
/// let mut request = Request::post("http://example.com/upload")?;
/// form.attach(&mut request)?;
/// assert!(request.headers.content_type().unwrap().starts_with("multipart/form-data; boundary="));
/// assert!(request.body.text()?.contains("name=\"photo\"; filename=\"cat.jpg\"\r\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct Form {
    parts: Vec<(String, Content)>,
}

/// The content of a part.
enum Content {
    Bytes(Bytes),
    Stream { source: Source, left: Option<u64> },
}

impl Form {
    /// Creates a form without parts.
    pub fn new() -> Form {
        Form::default()
    }

    /// Adds a text field.
    ///
    /// # Errors
    ///
    /// Fails if the name contains a control character other than CR, LF and HTAB.
    pub fn text(&mut self, name: &str, text: &str) -> Result<(), InvalidField> {
        self.push(name, None, Content::Bytes(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Adds a file from memory. The bytes are copied once, by [`Form::attach`], unless the form contains a stream.
    ///
    /// # Errors
    ///
    /// Fails if a name is invalid, as for [`Form::text`], or the content type contains a control character other than
    /// HTAB.
    pub fn file(
        &mut self,
        name: &str,
        file_name: &str,
        content_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<(), InvalidField> {
        self.push(name, Some((file_name, content_type)), Content::Bytes(bytes.into()))
    }

    /// Adds a file that is read while it is sent.
    ///
    /// If the length of all such files is given, the length of the body is known; a source that yields more or less
    /// then fails the request.
    ///
    /// # Errors
    ///
    /// As [`Form::file`].
    pub fn stream(
        &mut self,
        name: &str,
        file_name: &str,
        content_type: &str,
        source: impl AsyncRead + Send + 'static,
        len: Option<u64>,
    ) -> Result<(), InvalidField> {
        let content = Content::Stream { source: Box::pin(source), left: len };
        self.push(name, Some((file_name, content_type)), content)
    }

    /// Makes the form the body of `request`, and sets the content type.
    ///
    /// A form without streams becomes bytes, which can be sent more than once.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no randomness.
    pub fn attach(self, request: &mut Request) -> io::Result<()> {
        let boundary = random_token()?;
        let content_type = format!("multipart/form-data; boundary={boundary}");
        request.headers.set("content-type", content_type).map_err(io::Error::other)?;
        let (pieces, len) = self.pieces(&boundary);
        match pieces.iter().all(|piece| matches!(piece, Content::Bytes(_))) {
            true => request.body.share(joined(&pieces)),
            false => request.body.stream(Pieces(pieces), len),
        }
        Ok(())
    }

    /// Adds a part. A file has a name of its own and a content type.
    fn push(&mut self, name: &str, file: Option<(&str, &str)>, content: Content) -> Result<(), InvalidField> {
        let (mut disposition, mut head) = (format!("form-data; name=\"{}\"", escaped(name)), Headers::new());
        if let Some((file_name, content_type)) = file {
            disposition.push_str(&format!("; filename=\"{}\"", escaped(file_name)));
            head.set("Content-Type", content_type)?;
        }
        head.set("Content-Disposition", &disposition)?;
        let content_type =
            head.content_type().map(|content_type| format!("Content-Type: {content_type}\r\n"));
        let lines = format!("Content-Disposition: {disposition}\r\n{}\r\n", content_type.unwrap_or_default());
        self.parts.push((lines, content));
        Ok(())
    }

    /// Everything that goes on the wire, and its length, if known.
    fn pieces(self, boundary: &str) -> (VecDeque<Content>, Option<u64>) {
        let (mut pieces, mut before) = (VecDeque::new(), format!("--{boundary}\r\n"));
        for (head, content) in self.parts {
            before.push_str(&head);
            pieces.extend([Content::Bytes(before.into()), content]);
            before = format!("\r\n--{boundary}\r\n");
        }
        before.truncate(before.len() - "\r\n".len());
        before.push_str("--\r\n");
        pieces.push_back(Content::Bytes(before.into()));
        let len = pieces.iter().try_fold(0u64, |sum, piece| sum.checked_add(piece.len()?));
        (pieces, len)
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|(head, _)| head)).finish()
    }
}

impl Content {
    fn len(&self) -> Option<u64> {
        match self {
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            Content::Stream { left, .. } => *left,
        }
    }
}

/// Escapes `name`, which is put in quotes (HTML, "multipart/form-data encoding algorithm").
fn escaped(name: &str) -> String {
    // One at the end would escape the closing quote, and all behind it would become part of the name.
    name.replace('\\', r"\\").replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The bytes of all `pieces`.
fn joined(pieces: &VecDeque<Content>) -> Vec<u8> {
    let bytes = pieces.iter().filter_map(|piece| match piece {
        Content::Bytes(bytes) => Some(&bytes[..]),
        Content::Stream { .. } => None,
    });
    bytes.collect::<Vec<_>>().concat()
}

/// A form that is being sent: what is left of it.
struct Pieces(VecDeque<Content>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut task::Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while out.remaining() > 0 {
            let Some(piece) = self.0.front_mut() else { break };
            let before = out.filled().len();
            match piece {
                Content::Bytes(bytes) => {
                    let count = bytes.len().min(out.remaining());
                    out.put_slice(&bytes[..count]);
                    bytes.advance(count);
                }
                Content::Stream { source, left } => {
                    ready!(source.as_mut().poll_read(cx, out))?;
                    count_down(left, out.filled().len() - before)?;
                }
            }
            if out.filled().len() > before {
                break;
            }
            self.0.pop_front();
        }
        Poll::Ready(Ok(()))
    }
}

/// Counts what a source has yielded, which is 0 at its end.
fn count_down(left: &mut Option<u64>, count: usize) -> io::Result<()> {
    let Some(left) = left else { return Ok(()) };
    match left.checked_sub(count as u64) {
        None => Err(io::Error::new(io::ErrorKind::InvalidData, "a source is longer than was said")),
        Some(1..) if count == 0 => {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "a source is shorter than was said"))
        }
        Some(rest) => {
            *left = rest;
            Ok(())
        }
    }
}
