//! [`Response`]: a status, with headers, a body and trailers (RFC 9110 §6, §15).

use bytes::Bytes;

use super::{Body, Headers, InvalidCookie, InvalidField, Name, SetCookie, Status, Timings};
use crate::memory::Reset;

/// A response: one to send, or one that was received. The same type serves in both directions.
///
/// Everything may be set in any order until the handler returns.
///
/// # Examples
///
/// ```
/// use corehttp::{Response, Status};
///
/// let mut response = Response::new();
/// response.text("Hello, World!");
/// response.status = Status::CREATED;
/// response.headers.set("x-size", 13)?;
/// assert_eq!(response.headers.content_type(), Some("text/plain; charset=utf-8"));
/// # Ok::<(), corehttp::InvalidField>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status, 200 unless set (RFC 9110 §15).
    pub status: Status,
    /// The header fields (RFC 9110 §6.3).
    pub headers: Headers,
    /// The content (RFC 9110 §6.4).
    pub body: Body,
    /// The trailer fields (RFC 9110 §6.5). A response that has some is sent in chunks, or without them to a peer
    /// that speaks HTTP/1.0.
    pub trailers: Headers,
    /// The URL that redirects led to, if a client has followed some: references in the content are relative to it. None
    /// if there were no redirects.
    pub url: Option<Box<str>>,
    /// Read it by [`Response::timings`]. It is public only because `..Response::new()` is to work outside of this
    /// crate; and boxed, because a server's responses have none.
    #[doc(hidden)]
    pub timings: Option<Box<Timings>>,
}

impl Response {
    /// 200, no fields, no content, no memory.
    pub fn new() -> Response {
        Response::default()
    }

    /// Makes it like new: 200, without fields and content. Its memory is kept and used again.
    pub fn clear(&mut self) {
        self.reset();
    }

    /// Makes a copy of `text` the content, as `text/plain` in UTF-8.
    #[inline]
    pub fn text(&mut self, text: impl AsRef<str>) {
        self.content_type("text/plain; charset=utf-8");
        self.body.set(text.as_ref());
    }

    /// Makes a copy of `page` the content, as `text/html` in UTF-8.
    pub fn html(&mut self, page: impl AsRef<str>) {
        self.content_type("text/html; charset=utf-8");
        self.body.set(page.as_ref());
    }

    /// Makes `bytes` the content without copying them: something static, a [`Bytes`], a `Vec<u8>` or a `String`.
    ///
    /// # Errors
    ///
    /// A content type that could not stand in a field.
    pub fn bytes(&mut self, content_type: &str, bytes: impl Into<Bytes>) -> Result<(), InvalidField> {
        self.headers.set("content-type", content_type)?;
        self.body.share(bytes);
        Ok(())
    }

    /// Sends the peer elsewhere, with no content (RFC 9110 §15.4).
    ///
    /// # Errors
    ///
    /// A location that could not stand in a field, such as one that would inject another field. Nothing is changed
    /// then.
    pub fn redirect(&mut self, status: Status, location: &str) -> Result<(), InvalidField> {
        self.headers.set("location", location)?;
        self.status = status;
        self.body.clear();
        Ok(())
    }

    /// 304: what the peer has is still good (RFC 9110 §15.4.5). The fields that say so, such as `etag`, stay.
    pub fn not_modified(&mut self) {
        self.status = Status::NOT_MODIFIED;
        self.body.clear();
        self.headers.remove_each(&["content-type", "content-length", "content-encoding"]);
    }

    /// Sets a cookie, beside those that are set already. Give each name once: of two, user agents keep the last.
    ///
    /// # Errors
    ///
    /// A cookie that [`SetCookie::check`] refuses: one that could break out of its field, say more than it should, or
    /// be dropped by the user agent.
    pub fn set_cookie(&mut self, cookie: &SetCookie<'_>) -> Result<(), InvalidCookie> {
        cookie.check()?;
        cookie.append_to(&mut self.headers);
        Ok(())
    }

    /// The cookies that are set, read as browsers read them; what a browser ignores is not among them.
    pub fn cookies(&self) -> impl Iterator<Item = SetCookie<'_>> {
        self.headers.named(Name::SET_COOKIE).filter_map(SetCookie::parse)
    }

    /// How long the exchange took that brought this response, phase by phase; all zero if no client has received it.
    pub fn timings(&self) -> Timings {
        self.timings.as_deref().copied().unwrap_or_default()
    }

    /// The timings, to be written.
    pub(crate) fn timings_mut(&mut self) -> &mut Timings {
        self.timings.get_or_insert_default()
    }

    #[inline]
    fn content_type(&mut self, value: &str) {
        self.headers.put(Name::CONTENT_TYPE, value.as_bytes());
    }
}

impl PartialEq for Response {
    /// The same status, fields and content; how long it took, and where it came from, does not count.
    fn eq(&self, other: &Response) -> bool {
        self.status == other.status
            && self.headers == other.headers
            && self.body == other.body
            && self.trailers == other.trailers
    }
}

impl Reset for Response {
    fn reset(&mut self) {
        let Self { status, headers, body, trailers, timings, url } = self;
        (*status, *url) = (Status::OK, None);
        if let Some(timings) = timings {
            **timings = Timings::default();
        }
        headers.reset();
        body.reset();
        trailers.reset();
    }

    fn shrink(&mut self) {
        self.headers.shrink();
        self.body.shrink();
        self.trailers.shrink();
    }
}
