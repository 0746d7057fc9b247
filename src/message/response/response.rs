//! [`Response`]: a status, with headers, a body and trailers (RFC 9110 §6, §15).

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::client_info::{ClientInfo, Redirect, Timings};
use super::rewrite::rewrite_below;
use crate::memory::{Reset, clear_cold};
use crate::message::content::decode_text;
use crate::message::request::{
    PreconditionResult, RangeSelection, Validators, evaluate_preconditions, may_send_range,
};
use crate::message::text::{InvalidReference, attachment, encode_reference};
use crate::message::{
    Body, CONTENT_FIELDS, ContentError, FieldName, Headers, MessageError, Method, Problem, Request,
    SetCookie, Status, TargetError, Version, remove_freshness,
};

/// A response, either to be sent or received. The same type serves in both directions.
///
/// A handler can set everything, in any order, until it returns.
///
/// All fields are public and stay so. As a later release may add some, end literals in `..Response::new()`, and
/// patterns in `..`.
///
/// # Examples
///
/// ```
/// use corehttp::{Response, Status};
///
/// let mut response = Response::new();
/// response.set_text("Hello, World!");
/// response.status = Status::CREATED;
/// response.headers.set("x-size", 13)?;
/// assert_eq!(response.headers.content_type(), Some("text/plain; charset=utf-8"));
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// The status, 200 unless set (RFC 9110 §15).
    pub status: Status,
    /// The header fields (RFC 9110 §6.3).
    pub headers: Headers,
    /// The content (RFC 9110 §6.4).
    pub body: Body,
    /// The trailer fields (RFC 9110 §6.5). A response that has some is sent in chunks. A peer that speaks HTTP/1.0 does
    /// not get them. Fields that are not allowed there, such as `content-type`, are left out (§6.5.1).
    pub trailers: Headers,
    /// The URL that a client received the response from after redirects, without a fragment. References in the content
    /// are relative to it: see [`Target::join`](crate::message::Target::join). `None` without redirects.
    pub url: Option<Box<str>>,
    /// How a client has received this response: [`Response::timings`], [`Response::version`] and
    /// [`Response::connection`] read it. Boxed, because the responses of a server have none.
    pub client_info: Option<Box<ClientInfo>>,
}

impl Response {
    /// Creates a response with status 200, without fields and content. Allocates nothing.
    pub fn new() -> Response {
        Response::default()
    }

    /// Makes the response like new: status 200, without fields and content. Its memory is kept and reused.
    pub fn clear(&mut self) {
        self.reset();
    }

    /// Sets the content to a copy of `text`, as `text/plain` in UTF-8.
    #[inline]
    pub fn set_text(&mut self, text: impl AsRef<str>) {
        self.set_content_type("text/plain; charset=utf-8");
        self.body.set_bytes(text.as_ref());
    }

    /// Sets the content to a copy of `page`, as `text/html` in UTF-8.
    pub fn set_html(&mut self, page: impl AsRef<str>) {
        self.set_content_type("text/html; charset=utf-8");
        self.body.set_bytes(page.as_ref());
    }

    /// Sets the content to a copy of `bytes`, in memory that is reused. [`Response::set_shared_bytes`] does not copy.
    ///
    /// # Errors
    ///
    /// Fails if the content type is not a valid field value. The response is then unchanged.
    ///
    /// # Examples
    ///
    /// The bytes may be borrowed, even from the request:
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// fn echo(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     response.set_bytes("text/plain", request.body.bytes())?;
    ///     Ok(())
    /// }
    /// # let service = corehttp::Server::new().service(echo);
    /// # let mut request = corehttp::Request::post("/")?;
    /// # request.set_text("Hello");
    /// # let response = corehttp::block_on(service.respond(request))?;
    /// # assert_eq!((response.bytes(), response.headers.content_type()), (&b"Hello"[..], Some("text/plain")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_bytes(&mut self, content_type: &str, bytes: impl AsRef<[u8]>) -> Result<(), MessageError> {
        self.headers.put_value(FieldName::CONTENT_TYPE, content_type)?;
        self.body.set_bytes(bytes);
        Ok(())
    }

    /// Sets the content to `bytes` without copying them: static data, a [`Bytes`], a `Vec<u8>` or a `String`.
    /// [`Response::set_bytes`] copies, and therefore takes borrowed bytes.
    ///
    /// # Errors
    ///
    /// Fails if the content type is not a valid field value. The response is then unchanged.
    pub fn set_shared_bytes(
        &mut self,
        content_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<(), MessageError> {
        self.headers.put_value(FieldName::CONTENT_TYPE, content_type)?;
        self.body.set_shared_bytes(bytes);
        Ok(())
    }

    /// Returns the content as bytes. Empty for a stream, which [`Response::text`] refuses.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.body.bytes()
    }

    /// Returns the content as text.
    ///
    /// # Errors
    ///
    /// Fails if the content is a stream or not UTF-8. In a handler, `?` turns that into 500, because the peer is not at
    /// fault. For text in the charset of its `content-type`, use [`Response::text_decoded`].
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new(); // or one that a client received
    /// response.set_text("Hello, World!");
    /// assert_eq!(response.text()?, "Hello, World!");
    /// # Ok::<(), corehttp::error::ContentError>(())
    /// ```
    pub fn text(&self) -> Result<&str, ContentError> {
        self.body.text()
    }

    /// Returns the content as text, decoded from the charset in `content-type`, by default UTF-8.
    ///
    /// A byte order mark is removed, and counts more than the name of a charset. Charsets of browsers other than UTF-8
    /// need the feature `charset`. A charset in a `<meta>` of the page is not read.
    ///
    /// # Errors
    ///
    /// Fails if the content is a stream, not in that charset, or in an unknown one. `?` turns that into 500.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new(); // or one that a client received
    /// response.set_shared_bytes("text/plain; charset=ISO-8859-1", &b"caf\xe9"[..])?;
    /// match response.text_decoded() {
    ///     Ok(text) => assert_eq!(text, "café"), // with the feature `charset`
    ///     Err(error) => assert_eq!(error.charset(), Some("ISO-8859-1")),
    /// }
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[doc(alias = "text_with_charset")]
    pub fn text_decoded(&self) -> Result<Cow<'_, str>, ContentError> {
        decode_text(&self.headers, (!self.body.is_stream()).then(|| self.body.bytes()))
    }

    /// Makes this a redirection to `location` (RFC 9110 §15.4). Removes the content, its fields, and trailers.
    ///
    /// The location is a URI, or a reference such as `/a?b#c` (§10.2.2). Escapes stay as they are. Octets that no URI
    /// has are escaped. So are spaces that browsers drop. (` //a.example` becomes the path `%20//a.example`.) A
    /// location of users must begin with a single `/`, as `//a.example` leads to another host.
    ///
    /// # Errors
    ///
    /// Fails if the location has a control character. It could inject another field or, as a tab, be dropped by
    /// browsers. Also fails for a `\` at its front or in its host, a `/` for browsers. The response is then unchanged.
    /// In a handler, `?` turns that into 500. A location that users choose is better refused with 400.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Response, Status};
    ///
    /// let mut response = Response::new();
    /// response.set_redirect(Status::SEE_OTHER, "/café?page=2")?;
    /// assert_eq!(response.headers.get("location"), Some("/caf%C3%A9?page=2"));
    /// for elsewhere in ["/\t/evil.example", "/\\evil.example", "/\r\nset-cookie: a=b"] {
    ///     assert!(response.set_redirect(Status::SEE_OTHER, elsewhere).is_err());
    /// }
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    pub fn set_redirect(&mut self, status: Status, location: &str) -> Result<(), MessageError> {
        let location = encode_reference(location).map_err(|invalid| match invalid {
            InvalidReference::Control => MessageError::FieldValue("location".into()),
            InvalidReference::Backslash => MessageError::Reference("location".into()),
        })?;
        self.headers.put(FieldName::new("location"), location.as_bytes());
        self.status = status;
        self.remove_content();
        Ok(())
    }

    /// Sets `content-disposition` for user agents to save the content under `name` instead of showing it (RFC 6266).
    ///
    /// A name that is not plain ASCII is sent in both ways, for all recipients. Control characters and the separators of
    /// paths are replaced by `_`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// async fn invoice(ctx: &mut Context) -> corehttp::Result {
    ///     ctx.response.set_attachment("invoice 7 \u{20ac}.pdf");
    ///     ctx.response.set_bytes("application/pdf", b"%PDF-2.0")?;
    ///     Ok(())
    /// }
    /// # let service = corehttp::Server::new().service(invoice);
    /// # let response = corehttp::block_on(service.respond(corehttp::Request::get("/")?))?;
    /// # assert_eq!(
    /// #     response.headers.get("content-disposition"),
    /// #     Some(r#"attachment; filename="invoice 7 _.pdf"; filename*=UTF-8''invoice%207%20%E2%82%AC.pdf"#),
    /// # );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("content-disposition", "download"))]
    pub fn set_attachment(&mut self, name: &str) {
        let set = self.headers.set("content-disposition", attachment(name));
        debug_assert!(set.is_ok(), "the value has no control characters");
    }

    /// Makes this a 304, for which the stored response of the peer is still valid (RFC 9110 §15.4.5). Fields that
    /// identify it, such as `etag`, stay. [`Response::check_preconditions`] does this where a request asks for it.
    pub fn set_not_modified(&mut self) {
        self.status = Status::NOT_MODIFIED;
        self.body.clear();
        self.trailers.reset();
        self.headers.remove_each(&[
            FieldName::CONTENT_TYPE,
            FieldName::CONTENT_LENGTH,
            FieldName::CONTENT_ENCODING,
        ]);
    }

    /// Sets a cookie, in addition to those that are already set. Set each name only once: of two cookies with one name,
    /// user agents keep the last.
    ///
    /// # Errors
    ///
    /// Fails if [`SetCookie::check`] refuses the cookie.
    pub fn set_cookie(&mut self, cookie: &SetCookie<'_>) -> Result<(), MessageError> {
        cookie.check()?;
        cookie.append_to(&mut self.headers);
        Ok(())
    }

    /// Returns the cookies that are set, read as by [`SetCookie::parse`]. A browser would not keep all of them. The
    /// domain must be its own, for example, and the [prefix](SetCookie::has_valid_prefix) must be true.
    pub fn cookies(&self) -> impl Iterator<Item = SetCookie<'_>> {
        self.headers.named(FieldName::SET_COOKIE).filter_map(SetCookie::parse)
    }

    /// Returns the time of each phase of the exchange. All zero if no client has received this response.
    pub fn timings(&self) -> Timings {
        self.received_info().map(ClientInfo::timings).unwrap_or_default()
    }

    /// Returns the redirects that a client has followed to this response, the first one first. [`Response::url`] is where the
    /// last one led.
    pub fn redirects(&self) -> &[Redirect] {
        self.received_info().map(ClientInfo::redirects).unwrap_or_default()
    }

    /// Returns the version of HTTP of the server's answer (RFC 9110 §2.5). HTTP/1.1 if no client has received this.
    pub fn version(&self) -> Version {
        self.received_info().map(ClientInfo::version).unwrap_or_default()
    }

    /// The connection that this response came over, of the client's type.
    pub(crate) fn origin_connection(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.received_info()?.connection()
    }

    /// The attempts before the one that this response answers, as the client notes them.
    pub(crate) fn client_retries(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.received_info()?.retries()
    }

    /// How a client has received this response, if one has.
    fn received_info(&self) -> Option<&ClientInfo> {
        self.client_info.as_deref().filter(|info| info.is_set())
    }

    /// Makes this the response to a problem: its status, and its details in JSON (RFC 9457).
    ///
    /// To fail with a [`Problem`] is shorter, and sends a page to a browser.
    pub fn set_problem(&mut self, problem: &Problem) {
        self.status = problem.status();
        self.set_content_type("application/problem+json");
        self.body.clear();
        problem.write_json(&mut self.body).expect("a body in memory takes all that is written");
    }

    /// Makes the details of a problem a page. The status stays.
    pub(crate) fn set_problem_page(&mut self, problem: &Problem) {
        self.set_content_type("text/html; charset=utf-8");
        self.body.clear();
        problem.write_html(&mut self.body).expect("a body in memory takes all that is written");
    }

    /// Evaluates the preconditions of `request` against the `etag` and `last-modified` of this response, in the order
    /// of RFC 9110 §13.2.2. Returns whether all of them hold. If so, answer the request as if it had none.
    ///
    /// Otherwise this response becomes the whole response. If the peer has stored it already, it is a 304. If the
    /// resource is not in the required state, it is a 412. Neither has content. A 412 also loses the time for which
    /// caches may store the content, in `cache-control`, `expires` and their like. `no-store` stays.
    ///
    /// A weak etag never matches `if-match` (§13.1.1). `Compress` makes the etags of what it compresses weak.
    ///
    /// A response without either field stands for something that does not exist yet. `if-none-match: *` then holds. If
    /// the status is not 2xx, and for CONNECT, OPTIONS and TRACE, everything holds (§13.2.1). `if-range` is left to
    /// [`Response::check_range`].
    ///
    /// # Examples
    ///
    /// A page that is rendered only for clients without it, and changed only by clients with it:
    ///
    /// ```
    /// use std::sync::Mutex;
    /// use corehttp::{Context, Method, Request, Server, Status};
    ///
    /// let page = Mutex::new((1, String::from("first draft")));
    /// let service = Server::new().service(move |ctx: &mut Context| {
    ///     let Context { request, response, .. } = ctx;
    ///     let mut page = page.lock().unwrap();
    ///     response.headers.set("etag", format!("\"{}\"", page.0))?;
    ///     if !response.check_preconditions(request) {
    ///         return Ok(()); // 304 or 412
    ///     }
    ///     if request.method() == Method::Put {
    ///         *page = (page.0 + 1, request.body.text()?.to_owned());
    ///         response.headers.set("etag", format!("\"{}\"", page.0))?;
    ///     }
    ///     response.set_text(&page.1);
    ///     corehttp::Result::Ok(())
    /// });
    /// # corehttp::block_on(async {
    /// let mut get = Request::get("/")?;
    /// get.headers.set("if-none-match", "\"1\"")?;
    /// assert_eq!(service.respond(get).await.status, Status::NOT_MODIFIED);
    ///
    /// let mut put = Request::new(Method::Put, "/")?;
    /// put.headers.set("if-match", "\"1\"")?;
    /// assert_eq!(service.respond(put.clone()).await.status, Status::OK);
    /// assert_eq!(service.respond(put).await.status, Status::PRECONDITION_FAILED);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("if-none-match", "if-match", "if-modified-since", "if-unmodified-since"))]
    #[must_use = "if they do not hold, the response is complete, and nothing may be changed"]
    pub fn check_preconditions(&mut self, request: &Request) -> bool {
        if !self.status.is_success() {
            return true;
        }
        let modified = self.headers.date("last-modified");
        match evaluate_preconditions(
            request,
            Validators { etag: self.headers.first(FieldName::ETAG), modified },
        ) {
            PreconditionResult::Proceed => return true,
            PreconditionResult::NotModified => self.set_not_modified(),
            PreconditionResult::Failed => {
                self.status = Status::PRECONDITION_FAILED;
                self.body.clear();
                self.headers.remove_each(&CONTENT_FIELDS);
                remove_freshness(&mut self.headers);
                self.trailers.reset();
            }
        }
        false
    }

    /// Evaluates the `range` of `request` for content of `len` bytes. Returns the range of the content to send. Also
    /// sets `accept-ranges` (RFC 9110 §14).
    ///
    /// For a part of the content, this becomes a 206 with `content-range`. If none of the requested bytes exist, it
    /// becomes a whole 416. The range is then `None`.
    ///
    /// The range is that of the whole content, with the status unchanged, if:
    ///
    /// - The request is neither GET nor QUERY, or has no `range`.
    /// - The `range` is malformed, or has several ranges far apart.
    /// - The `if-range` is a date, or not the `etag` of this response. The client's part would not fit.
    /// - The status is not 200.
    ///
    /// Set the etag before, and call [`Response::check_preconditions`] first.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Context, Request, Server};
    ///
    /// fn video(ctx: &mut Context) -> corehttp::Result {
    ///     let (content, Context { request, response, .. }) = (b"0123456789", ctx);
    ///     response.headers.set("etag", "\"1\"")?;
    ///     if let Some(range) = response.check_range(request, content.len() as u64) {
    ///         response.set_bytes("video/mp4", &content[range.start as usize..range.end as usize])?;
    ///     }
    ///     Ok(())
    /// }
    /// # let service = Server::new().service(video);
    /// let mut request = Request::get("/video")?;
    /// request.headers.set("range", "bytes=2-4")?;
    /// # let response = corehttp::block_on(service.respond(request))?;
    /// assert_eq!((response.status.as_u16(), response.bytes()), (206, &b"234"[..]));
    /// assert_eq!(response.headers.get("content-range"), Some("bytes 2-4/10"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("content-range", "if-range", "partial content"))]
    #[must_use = "the range of the content is to be sent"]
    pub fn check_range(&mut self, request: &Request, len: u64) -> Option<Range<u64>> {
        if self.status != Status::OK {
            return Some(0..len);
        }
        self.headers.put(FieldName::new("accept-ranges"), b"bytes");
        let etag = self.headers.first(FieldName::ETAG).unwrap_or_default();
        // A range of a QUERY is one of its results (RFC 10008 §2.8).
        let is_ranged = matches!(request.method(), Method::Get | Method::Query);
        if !is_ranged || !may_send_range(&request.headers, etag, None) {
            return Some(0..len);
        }
        let content_range = FieldName::new("content-range");
        match RangeSelection::from_fields(&request.headers, len) {
            RangeSelection::Whole => Some(0..len),
            RangeSelection::Ranges(ranges) => {
                let [range] = &*ranges else { return Some(0..len) };
                self.status = Status::PARTIAL_CONTENT;
                let value = format!("bytes {}-{}/{len}", range.start, range.end - 1);
                self.headers.put(content_range, value.as_bytes());
                Some(range.clone())
            }
            RangeSelection::Unsatisfiable => {
                self.remove_content();
                self.status = Status::RANGE_NOT_SATISFIABLE;
                self.headers.put(content_range, format!("bytes */{len}").as_bytes());
                remove_freshness(&mut self.headers);
                None
            }
        }
    }

    /// Returns this response as a gateway or proxy forwards it. Fields that the server meant for its connection only
    /// are removed from headers and trailers (RFC 9110 §7.6.1).
    ///
    /// Otherwise, a `connection: close` of the server, for one, would close the connection to the peer.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new();
    /// response.set_text("Hello");
    /// response.headers.set("connection", "close, x-only-here")?;
    /// response.headers.set("x-only-here", 1)?;
    /// response.headers.set("etag", "\"1\"")?;
    /// let response = response.forwarded();
    /// assert_eq!(response.body.bytes(), b"Hello");
    /// assert!(response.headers.contains("etag") && response.headers.contains("content-type"));
    /// assert!(!response.headers.contains("connection") && !response.headers.contains("x-only-here"));
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[must_use = "the response that was given is gone, and this is what is left of it"]
    pub fn forwarded(mut self) -> Response {
        let connection = self.headers.forward();
        self.trailers = self.trailers.forwarded_trailers(&connection);
        self
    }

    /// Moves the URLs of this response of the server at `base` below the path `prefix` of a gateway. This is the way
    /// back of [`Request::forwarded_below`], with the same two values, for
    /// [`Context::forward_with`](crate::Context::forward_with).
    ///
    /// In `location`, `content-location` and `refresh`, a URL or a path at or below `base` becomes a path below
    /// `prefix`. Others and relative ones are left, and with a mere path as `base` all URLs with a host.
    ///
    /// In `set-cookie`, a path at or below that of `base` moves below `prefix`, and one above it becomes `prefix`. So
    /// no other server behind the gateway gets the cookie. A domain that has the host of `base` is removed, for a
    /// cookie of the gateway. A `__Host-` cookie keeps its path.
    ///
    /// # Errors
    ///
    /// Fails, without changes, if `base` is not a URL or path without a query. The same goes for a `prefix` that is not a path,
    /// begins with `//`, or has a `;` or `\`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new();
    /// response.headers.set("location", "http://127.0.0.1:9002/v1/items/7")?;
    /// response.headers.set("set-cookie", "id=1; path=/; secure")?;
    /// response.rewrite_below("/shop", "http://127.0.0.1:9002/v1")?;
    /// assert_eq!(response.headers.get("location"), Some("/shop/items/7"));
    /// assert_eq!(response.headers.get("set-cookie"), Some("id=1; path=/shop; secure"));
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[doc(alias("proxy_redirect", "proxy_cookie_path", "proxy_cookie_domain"))]
    pub fn rewrite_below(&mut self, prefix: &str, base: &str) -> Result<(), TargetError> {
        rewrite_below(&mut self.headers, prefix, base)
    }

    /// Removes the content, and the fields that describe it or follow it.
    pub(crate) fn remove_content(&mut self) {
        self.body.clear();
        self.headers.remove_each(&CONTENT_FIELDS);
        self.headers.remove_each(&[FieldName::ETAG]);
        self.trailers.reset();
    }

    /// Sets how a client has received this response: how long each phase took, the version that the server speaks, and
    /// the connection.
    #[inline]
    pub(crate) fn set_client_info<C: Any + Send + Sync>(
        &mut self,
        timings: &Timings,
        version: Version,
        connection: &Arc<C>,
    ) {
        self.client_info.get_or_insert_default().set(timings, version, connection);
    }

    /// Sets the attempts before the one that this response answers.
    pub(crate) fn set_client_retries<R: Any + Send + Sync>(&mut self, retries: &Arc<R>) {
        self.client_info.get_or_insert_default().set_retries(retries);
    }

    /// Sets the redirects that led to this response.
    pub(crate) fn set_redirects(&mut self, redirects: Vec<Redirect>) {
        self.client_info.get_or_insert_default().set_redirects(redirects.into());
    }

    #[inline]
    fn set_content_type(&mut self, value: &str) {
        self.headers.put(FieldName::CONTENT_TYPE, value.as_bytes());
    }
}

impl PartialEq for Response {
    /// Compares status, fields, content and trailers, but not the timings and the URL.
    fn eq(&self, other: &Response) -> bool {
        self.status == other.status
            && self.headers == other.headers
            && self.body == other.body
            && self.trailers == other.trailers
    }
}

impl Reset for Response {
    fn reset(&mut self) {
        let Self { status, headers, body, trailers, client_info, url } = self;
        *status = Status::OK;
        clear_cold(url);
        if let Some(info) = client_info {
            info.forget();
        }
        headers.reset();
        body.reset();
        trailers.reset();
    }

    fn shrink(&mut self) -> usize {
        self.headers.shrink() + self.body.shrink() + self.trailers.shrink()
    }
}
