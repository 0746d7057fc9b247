//! [`Form`]: builds a body of parts (RFC 7578 §4).

use std::fmt;
use std::io;

use bytes::Bytes;
use tokio::io::AsyncRead;

use crate::message::{Body, BodyChain, ChainLink, Headers, MessageError, Request, multipart};
use crate::runtime::random_token;

/// Builds a `multipart/form-data` body of texts and files, in order.
///
/// Names are escaped as in browsers: `%22` for a quote, `%0D` and `%0A` for the ends of lines. Backslashes are doubled, unlike
/// in browsers. To most readers, a single one escapes the next character (RFC 2183 §2).
///
/// The boundary is random, 128 bits drawn after all content was added. No content can contain it, not even by design.
///
/// # Examples
///
/// ```
/// use corehttp::Request;
/// use corehttp::multipart::Form;
///
/// let mut form = Form::new();
/// form.append_text("title", "A cat")?;
/// form.append_file("photo", "cat.jpg", "image/jpeg", &b"..."[..])?;
/// let mut request = Request::post("http://example.com/upload")?;
/// request.set_multipart(form)?;
/// assert!(request.headers.content_type().unwrap().starts_with("multipart/form-data; boundary="));
/// assert!(request.text()?.contains("name=\"photo\"; filename=\"cat.jpg\"\r\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct Form {
    /// The head of each part, and its content.
    parts: Vec<(Vec<u8>, ChainLink)>,
}

impl Form {
    /// Creates a form without parts.
    pub fn new() -> Form {
        Form::default()
    }

    /// Appends a text field.
    ///
    /// # Errors
    ///
    /// Fails if the name contains a control character other than CR, LF and HTAB.
    pub fn append_text(&mut self, name: &str, text: &str) -> Result<(), MessageError> {
        self.push(name, None, &Headers::new(), ChainLink::Bytes(Bytes::copy_from_slice(text.as_bytes())))
    }

    /// Appends a file from memory. [`Request::set_multipart`] copies the bytes, except in a form with a stream.
    ///
    /// # Errors
    ///
    /// Fails for an invalid name, as for [`Form::append_text`], or for a content type with a control character other
    /// than HTAB.
    pub fn append_file(
        &mut self,
        name: &str,
        file_name: &str,
        content_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<(), MessageError> {
        self.push(name, Some(file_name), &content_type_field(content_type)?, ChainLink::Bytes(bytes.into()))
    }

    /// Appends a file that is read during the sending.
    ///
    /// If the length of all such files is given, the length of the body is known. The request then fails if a source yields
    /// more or less.
    ///
    /// # Errors
    ///
    /// As [`Form::append_file`].
    pub fn append_stream(
        &mut self,
        name: &str,
        file_name: &str,
        content_type: &str,
        source: impl AsyncRead + Send + 'static,
        len: Option<u64>,
    ) -> Result<(), MessageError> {
        let content = ChainLink::Stream { source: Box::pin(source), left: len };
        self.push(name, Some(file_name), &content_type_field(content_type)?, content)
    }

    /// Appends a part with `fields` of its own, such as a content type without a file name, which many APIs want beside
    /// a file (RFC 7578 §4.4). The content is bytes or a stream, as [`Form::append_file`] and [`Form::append_stream`]
    /// take them.
    ///
    /// The form writes `content-disposition` itself. One among the fields is left out.
    ///
    /// # Errors
    ///
    /// Fails if a name is invalid, as for [`Form::append_text`].
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::multipart::Form;
    /// use corehttp::{Headers, Request};
    ///
    /// let (mut form, mut fields) = (Form::new(), Headers::new());
    /// fields.set("content-type", "application/json")?;
    /// form.append_part("metadata", None, &fields, r#"{"title":"A cat"}"#)?;
    /// form.append_file("photo", "cat.jpg", "image/jpeg", &b"..."[..])?;
    /// let mut request = Request::post("http://example.com/upload")?;
    /// request.set_multipart(form)?;
    /// assert!(request.text()?.contains("name=\"metadata\"\r\ncontent-type: application/json\r\n\r\n{"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn append_part(
        &mut self,
        name: &str,
        file_name: Option<&str>,
        fields: &Headers,
        content: impl Into<Body>,
    ) -> Result<(), MessageError> {
        self.push(name, file_name, fields, content.into().into())
    }

    /// Makes the form the body of `request`, and sets the content type.
    pub(super) fn write_to(self, request: &mut Request) -> io::Result<()> {
        let boundary = random_token()?;
        let content_type = format!("multipart/form-data; boundary={boundary}");
        request.headers.set("content-type", content_type).map_err(io::Error::other)?;
        let pieces = multipart(&boundary, self.parts);
        match joined(&pieces) {
            Some(bytes) => request.body.set_shared_bytes(bytes),
            None => BodyChain::new(pieces).fill(&mut request.body),
        }
        Ok(())
    }

    /// Adds a part, which is a file if it has a name for one.
    fn push(
        &mut self,
        name: &str,
        file_name: Option<&str>,
        fields: &Headers,
        content: ChainLink,
    ) -> Result<(), MessageError> {
        let file = file_name.map(|file_name| format!("; filename=\"{}\"", escaped(file_name)));
        let disposition = format!("form-data; name=\"{}\"{}", escaped(name), file.unwrap_or_default());
        let mut head = Headers::new();
        head.set("Content-Disposition", disposition)?;
        let own = fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-disposition"));
        own.for_each(|(name, value)| head.append(name, value).expect("it stands in a field already"));
        let lines = head.iter().map(|(name, value)| [name.as_bytes(), b": ", value, b"\r\n"].concat());
        self.parts.push(([lines.collect::<Vec<_>>().concat(), b"\r\n".to_vec()].concat(), content));
        Ok(())
    }
}

/// The fields of a part with this content type.
fn content_type_field(content_type: &str) -> Result<Headers, MessageError> {
    let mut fields = Headers::new();
    fields.set("Content-Type", content_type)?;
    Ok(fields)
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts.iter().map(|(head, _)| String::from_utf8_lossy(head))).finish()
    }
}

/// Escapes `name`, which is put in quotes (HTML, "multipart/form-data encoding algorithm").
fn escaped(name: &str) -> String {
    // A backslash at the end would escape the closing quote, and all that follows would become part of the name.
    name.replace('\\', r"\\").replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

/// The bytes of all `pieces`, if they are in memory.
fn joined(pieces: &[ChainLink]) -> Option<Vec<u8>> {
    let bytes = pieces.iter().map(|piece| match piece {
        ChainLink::Bytes(bytes) => Some(&bytes[..]),
        ChainLink::Stream { .. } => None,
    });
    Some(bytes.collect::<Option<Vec<_>>>()?.concat())
}
