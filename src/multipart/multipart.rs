//! [`Multipart`]: reads a body part by part (RFC 7578 §4).

use std::fmt;
use std::future::poll_fn;
use std::io;

use tokio::io::AsyncRead;

use super::boundary::Boundary;
use super::error::{MultipartError, MultipartLimits};
use super::form::Form;
use super::parser::{Parser, PartMemory, body_too_large};
use super::part::Part;
use crate::client::request_builder::RequestBuilder;
use crate::message::{Headers, MessageError, Request};
use crate::server::{BodyReader, Context};

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
    parser: Parser<R>,
}

impl<R: AsyncRead + Unpin> Multipart<R> {
    /// Reads the parts that `source` yields. The boundary and the length are taken from `headers`. Use this for a body
    /// that was decoded, for example.
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`](crate::Context::multipart), but a content coding in `headers` is not looked at.
    pub fn from_headers(
        source: R,
        headers: &Headers,
        limits: MultipartLimits,
    ) -> Result<Multipart<R>, MultipartError> {
        let boundary = Boundary::from_headers(headers)?;
        // Before a byte is read, and before `100 Continue` invites the peer to send any.
        if headers.content_length().is_some_and(|length| length > limits.bytes_max) {
            return Err(body_too_large(limits.bytes_max));
        }
        Ok(Multipart { parser: Parser::new(source, boundary, limits) })
    }

    /// Reads the parts that `source` yields, separated by `boundary`.
    ///
    /// The [status](MultipartError::status) of each error blames the peer that sends `source`. A handler that reads the
    /// response of another server gives the error a status of its own, such as 502.
    ///
    /// # Errors
    ///
    /// Fails if the boundary is malformed (RFC 2046 §5.1.1).
    pub fn new(source: R, boundary: &str, limits: MultipartLimits) -> Result<Multipart<R>, MultipartError> {
        Ok(Multipart { parser: Parser::new(source, Boundary::new(boundary.as_bytes())?, limits) })
    }

    /// Returns the next part once its head has arrived. The rest of the previous part is skipped. `None` after the last part,
    /// when the whole body has been read.
    ///
    /// # Errors
    ///
    /// Fails if the body cannot be read, breaks the rules, or exceeds a limit. All further calls then fail too.
    pub async fn part(&mut self) -> io::Result<Option<Part<'_, R>>> {
        match poll_fn(|cx| self.parser.poll_part(cx)).await? {
            true => Ok(Some(Part::new(&mut self.parser))),
            false => Ok(None),
        }
    }
}

impl<R> fmt::Debug for Multipart<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multipart")
            .field("boundary", &self.parser.boundary)
            .field("state", &self.parser.state)
            .finish_non_exhaustive()
    }
}

impl Context {
    /// Reads the parts of the request's body, within [`MultipartLimits::default`]. The parts of a
    /// [streamed](crate::BodyPlan::Stream) body are read as they arrive. Until the last one, no other reader can go on with such a
    /// body: what follows a part has been taken ahead.
    ///
    /// # Errors
    ///
    /// Fails if the body is not `multipart/form-data` (415) with a boundary (400), has a content coding (415), or
    /// announces a length beyond the limit (413). Reading the parts fails with 500 if a part of the body was read before, and so
    /// does each other read after such a failure, or after a failure of the parts.
    pub fn multipart(&mut self) -> Result<Multipart<BodyReader<'_>>, MultipartError> {
        self.multipart_up_to(MultipartLimits::default())
    }

    /// Reads the parts of the request's body as [`Context::multipart`] does, within other limits.
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`].
    pub fn multipart_up_to(
        &mut self,
        limits: MultipartLimits,
    ) -> Result<Multipart<BodyReader<'_>>, MultipartError> {
        let memory = PartMemory::new(self.memory_budget(), self.timeouts().body);
        // The window takes content ahead.
        let body = self.body_reader().claimed();
        let headers = &body.request.headers;
        refuse_coded(headers)?;
        let mut multipart = Multipart::from_headers(body, headers, limits)?;
        multipart.parser.memory = memory;
        multipart.parser.on_end = Some(BodyReader::release);
        Ok(multipart)
    }
}

impl Request {
    /// Reads the parts of a body that has been received, from [`Body::bytes`](crate::Body::bytes), within
    /// [`MultipartLimits::default`].
    ///
    /// # Errors
    ///
    /// As [`Context::multipart`]. Also fails if the content is a stream or has not been received (500).
    pub fn multipart(&self) -> Result<Multipart<&[u8]>, MultipartError> {
        self.multipart_up_to(MultipartLimits::default())
    }

    /// Reads the parts of a received body as [`Request::multipart`] does, within other limits.
    ///
    /// # Errors
    ///
    /// As [`Request::multipart`].
    pub fn multipart_up_to(&self, limits: MultipartLimits) -> Result<Multipart<&[u8]>, MultipartError> {
        refuse_coded(&self.headers)?;
        let parts = Multipart::from_headers(self.body.bytes(), &self.headers, limits)?;
        if self.is_unread() { Err(MultipartError::Unread) } else { Ok(parts) }
    }

    /// Makes `form` the content, and sets the content type.
    ///
    /// A form without streams becomes bytes, which can be sent more than once.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no randomness.
    pub fn set_multipart(&mut self, form: Form) -> io::Result<()> {
        form.write_to(self)
    }
}

impl<S> RequestBuilder<S> {
    /// Makes `form` the content: see [`Request::set_multipart`].
    ///
    /// The `.await` fails if the operating system provides no randomness.
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::Client;
    /// use corehttp::multipart::Form;
    ///
    /// # let listener = MemoryListener::new();
    /// # let client = Client::builder().connect_to(&listener).build();
    /// # let server = Server::bind(listener).cores(1).start(async |ctx: &mut Context| -> corehttp::Result {
    /// #     assert_eq!(ctx.request.multipart()?.part().await?.unwrap().name(), "title");
    /// #     Ok(())
    /// # })?;
    /// # corehttp::block_on(async {
    /// let mut form = Form::new();
    /// form.append_text("title", "milk")?;
    /// client.post("http://example.com/notes").multipart(form).await?.error_for_status()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn multipart(self, form: Form) -> Self {
        self.change(|request| {
            let set = request.set_multipart(form);
            set.map_err(|error| MessageError::Value(format!("no boundary can be made: {error}").into()))
        })
    }
}

/// Fails if the body has a content coding: it must be decoded first.
fn refuse_coded(headers: &Headers) -> Result<(), MultipartError> {
    match headers.codings().next() {
        Some(_) => Err(MultipartError::ContentCoding),
        None => Ok(()),
    }
}
