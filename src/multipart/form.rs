//! [`Form`]: builds a body of parts (RFC 7578 §4).

use std::fmt;
use std::io;

use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::message::{Headers, InvalidField, Piece, Pieces, Request, multipart};
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
    /// The head of each part, and its content.
    parts: Vec<(String, Piece)>,
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
        self.push(name, None, Piece::Bytes(Bytes::copy_from_slice(text.as_bytes())))
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
        self.push(name, Some((file_name, content_type)), Piece::Bytes(bytes.into()))
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
        let content = Piece::Stream { source: Box::pin(source), left: len };
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
        let pieces = multipart(&boundary, self.parts);
        match joined(&pieces) {
            Some(bytes) => request.body.share(bytes),
            None => Pieces::new(pieces).fill(&mut request.body),
        }
        Ok(())
    }

    /// Adds a part. A file has a name of its own and a content type.
    fn push(&mut self, name: &str, file: Option<(&str, &str)>, content: Piece) -> Result<(), InvalidField> {
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
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|(head, _)| head)).finish()
    }
}

/// Escapes `name`, which is put in quotes (HTML, "multipart/form-data encoding algorithm").
fn escaped(name: &str) -> String {
    // One at the end would escape the closing quote, and all behind it would become part of the name.
    name.replace('\\', r"\\").replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The bytes of all `pieces`, if they are in memory.
fn joined(pieces: &[Piece]) -> Option<Vec<u8>> {
    let bytes = pieces.iter().map(|piece| match piece {
        Piece::Bytes(bytes) => Some(&bytes[..]),
        Piece::Stream { .. } => None,
    });
    Some(bytes.collect::<Option<Vec<_>>>()?.concat())
}
