//! [`Request`]: a method and a target, with headers, a body and trailers (RFC 9110 §6, §9); [`RequestDraft`], one whose
//! head is being parsed (RFC 9112 §3, §5).

use std::borrow::Cow;
use std::mem;

use bytes::Bytes;

use super::matched_route::MatchedRoute;
use crate::memory::Reset;
use crate::message::content::{ContentFault, FORM_TYPE, decode_text, essence};
use crate::message::{
    Body, BodyLength, ContentError, CookieFault, Cookies, FieldName, Form, FormBuf, Headers, HeadersDraft,
    MessageError, Method, Target, TargetError, TargetForm, ValueError, Version, cookie, is_token, split_port,
    uri,
};

/// A request, either received or to be sent. The same type serves in both directions.
///
/// Method, target and version are accessed through methods, and always agree. Headers, body and trailers are whole
/// values that can be swapped, taken or assigned.
///
/// # Examples
///
/// ```
/// use corehttp::{Method, Request};
///
/// let mut request = Request::post("http://example.com/items?page=2")?;
/// request.headers.set("content-type", "application/json")?;
/// request.body.set_bytes(r#"{"a":1}"#);
/// assert_eq!((request.method(), request.path()), (Method::Post, "/items"));
/// assert_eq!(request.query().get("page").as_deref(), Some("2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    pub(super) method: Method,
    version: Version,
    target: Target,
    pub(super) matched_route: MatchedRoute,
    /// The header fields (RFC 9110 §6.3).
    pub headers: Headers,
    /// The content (RFC 9110 §6.4).
    pub body: Body,
    /// The trailer fields, always kept apart from the headers (RFC 9110 §6.5). A client sends them after the content,
    /// which then goes in chunks. Without content, they are left out. So are fields that are not allowed there, such
    /// as `content-type` (§6.5.1).
    pub trailers: Headers,
}

impl Request {
    /// Creates a request for `url`, an absolute `http` or `https` URL, or only a path with an optional query.
    ///
    /// A URL is read and escaped as in browsers. [`Target`](Target#urls) lists the changes, and [`Request::target`] has
    /// the result. To put a text into a path, use [`Target::escape_segment`], and into a query [`FormBuf`].
    ///
    /// User and password in the URL are sent as `authorization: Basic`, unless the request has that field. They are
    /// neither shown nor part of [`Target::as_str`].
    ///
    /// # Errors
    ///
    /// Fails for a method that [`Method::parse`] refuses, and for a URL with another scheme or no valid host. A host
    /// beyond ASCII (`http://bücher.example/`) needs the feature `idna`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let request = Request::get("HTTP://joe:secret@Example.com:80/a/../100% café?q=a b#top")?;
    /// assert_eq!(request.target().as_str(), "http://example.com/100%25%20caf%C3%A9?q=a%20b");
    /// assert_eq!(request.basic_auth().unwrap().user_id, "joe");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new<M: TryInto<Method>>(method: M, url: &str) -> Result<Request, MessageError>
    where
        MessageError: From<M::Error>,
    {
        let mut request = Request { method: method.try_into()?, ..Request::default() };
        request.set_url(url)?;
        Ok(request)
    }

    /// Creates a GET request (RFC 9110 §9.3.1).
    ///
    /// # Errors
    ///
    /// As [`Request::new`].
    pub fn get(url: &str) -> Result<Request, MessageError> {
        Request::new(Method::Get, url)
    }

    /// Creates a GET request for a path.
    ///
    /// # Errors
    ///
    /// Fails with [`TargetError::Path`] for a URL, and for a path without `/` at its front.
    pub(crate) fn from_path(path: &str) -> Result<Request, MessageError> {
        match Request::get(path) {
            Ok(request) if request.target().form() == TargetForm::Origin => Ok(request),
            Err(error) if path.starts_with('/') => Err(error),
            Ok(_) | Err(_) => Err(MessageError::from_url(TargetError::Path, path)),
        }
    }

    /// Creates a HEAD request (RFC 9110 §9.3.2).
    ///
    /// # Errors
    ///
    /// As [`Request::new`].
    pub fn head(url: &str) -> Result<Request, MessageError> {
        Request::new(Method::Head, url)
    }

    /// Creates a POST request (RFC 9110 §9.3.3).
    ///
    /// # Errors
    ///
    /// As [`Request::new`].
    pub fn post(url: &str) -> Result<Request, MessageError> {
        Request::new(Method::Post, url)
    }

    /// Creates a PUT request (RFC 9110 §9.3.4).
    ///
    /// # Errors
    ///
    /// As [`Request::new`].
    pub fn put(url: &str) -> Result<Request, MessageError> {
        Request::new(Method::Put, url)
    }

    /// Creates a PATCH request (RFC 5789).
    ///
    /// # Errors
    ///
    /// As [`Request::new`].
    pub fn patch(url: &str) -> Result<Request, MessageError> {
        Request::new(Method::Patch, url)
    }

    /// Creates a DELETE request (RFC 9110 §9.3.5).
    ///
    /// # Errors
    ///
    /// As [`Request::new`].
    pub fn delete(url: &str) -> Result<Request, MessageError> {
        Request::new(Method::Delete, url)
    }

    /// Creates a request for a target that is known to be valid.
    pub(crate) fn with_target(method: Method, target: Target) -> Request {
        Request { method, target, ..Request::default() }
    }

    /// Makes the request like new: a GET for `/` without fields. Its memory is kept and reused.
    pub fn clear(&mut self) {
        self.reset();
    }

    /// Changes the target to another `url`, of the kind that [`Request::new`] takes. The user and the password of the
    /// last one are gone. Everything else stays, even a `host` field that was set.
    ///
    /// # Errors
    ///
    /// Fails for a URL that [`Request::new`] refuses. The request is then unchanged.
    ///
    /// # Examples
    ///
    /// One request for several URLs, which reuses its memory:
    ///
    /// ```
    /// # use corehttp::{Context, Server};
    /// # use corehttp::net::MemoryListener;
    /// use corehttp::{Client, Request, Response, Status};
    ///
    /// # let listener = MemoryListener::new();
    /// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
    /// # corehttp::block_on(async {
    /// let client = Client::new();
    /// # let client = Client::builder().connect_to(listener).build();
    /// let (mut request, mut response) = (Request::default(), Response::new());
    /// request.headers.set("accept", "text/plain")?;
    /// for url in ["http://example.com/a", "http://example.com/b?page=2", "http://example.org/"] {
    ///     request.set_url(url)?;
    ///     client.send(&request, &mut response).await?;
    ///     assert_eq!(response.status, Status::OK);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_url(&mut self, url: &str) -> Result<(), MessageError> {
        let set = self.replace_target(|target| target.set_url(url));
        set.map_err(|invalid| MessageError::from_url(invalid, url))
    }

    /// Replaces the method. The target stays. The target of a CONNECT and the `*` of OPTIONS fit no other method. A
    /// client refuses to send such a request.
    pub fn set_method(&mut self, method: Method) {
        self.matched_route.clear_choices();
        self.method = method;
    }

    /// Returns the method.
    #[inline]
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns the version that the peer speaks.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the request target, as it was sent (RFC 9112 §3.2).
    #[inline]
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the path as it was sent, not decoded. The path is `*` for `OPTIONS *`, even if spelled as a URL without
    /// a path (RFC 9112 §3.2.4). For CONNECT, it is empty.
    #[inline]
    pub fn path(&self) -> &str {
        self.target.path_for(&self.method)
    }

    /// Returns the path with its percent-escapes decoded once.
    ///
    /// A decoded `/` looks like any other. To route by segments, use [`Target::segments`].
    ///
    /// # Errors
    ///
    /// Fails if the escapes do not decode to UTF-8. In a handler, `?` turns that into 400.
    pub fn path_decoded(&self) -> Result<Cow<'_, str>, ValueError> {
        uri::decode_path(self.path())
    }

    /// Returns the query as a [`Form`], which decodes a pair at look-up.
    #[inline]
    pub fn query(&self) -> Form<'_> {
        self.target.query()
    }

    /// Returns the content as bytes. Empty for a body that was not received. [`Request::text`] and its like refuse such
    /// a body.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.body.bytes()
    }

    /// Returns the content as text.
    ///
    /// The body must have been received, as for [`Request::form`].
    ///
    /// # Errors
    ///
    /// Fails if the content is not UTF-8. In a handler, `?` turns that into 400 (that of [`Body::text`] into 500). Also
    /// fails, with 500, if the content has not been received.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// fn shout(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     response.set_text(request.text()?.to_uppercase());
    ///     Ok(())
    /// }
    /// ```
    pub fn text(&self) -> Result<&str, ContentError> {
        let content = self.received().ok_or(ContentFault::Unread)?;
        std::str::from_utf8(content).map_err(|_| ContentError::from(ContentFault::Text(None)).of_request())
    }

    /// Returns the content as text, decoded from the charset in `content-type`, by default UTF-8.
    ///
    /// The body must have been received, as for [`Request::form`]. A byte order mark is removed, and counts more than
    /// the name of a charset. Charsets of browsers other than UTF-8 need the feature `charset`. A charset in a `<meta>`
    /// of the page is not read.
    ///
    /// # Errors
    ///
    /// Fails for content that is not text in that charset, and for an unknown charset. In a handler, `?` turns the
    /// first into 400, and the second into 415. Also fails, with 500, if the content has not been received.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// fn shout(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     response.set_text(request.text_decoded()?.to_uppercase());
    ///     Ok(())
    /// }
    /// ```
    pub fn text_decoded(&self) -> Result<Cow<'_, str>, ContentError> {
        decode_text(&self.headers, self.received()).map_err(ContentError::of_request)
    }

    /// Returns the content as an `application/x-www-form-urlencoded` form.
    ///
    /// The body must have been received. After a plan to stream it, call
    /// [`Context::buffer_body`](crate::Context::buffer_body) first.
    ///
    /// # Errors
    ///
    /// Fails if the content is of another type, with a content coding, not UTF-8, or of more than [`Form::PAIRS_MAX`]
    /// pairs. In a handler, `?` turns that into 415 or 400. Also fails, with 500, if the content has not been received.
    /// To allow more pairs: `Form::new(request.text()?).up_to(10_000)?`.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Context;
    ///
    /// fn sign_in(ctx: &mut Context) -> corehttp::Result {
    ///     let name = ctx.request.form()?.get("name").unwrap_or_default();
    ///     ctx.response.set_text(format!("Hello, {name}!"));
    ///     Ok(())
    /// }
    /// ```
    pub fn form(&self) -> Result<Form<'_>, ContentError> {
        self.content_of(FORM_TYPE, |essence| essence.eq_ignore_ascii_case(FORM_TYPE.as_bytes()))?;
        let form = Form::new(self.text()?).up_to(Form::PAIRS_MAX);
        form.map_err(|_| ContentError::from(ContentFault::TooManyPairs(Form::PAIRS_MAX)).of_request())
    }

    /// Replaces the query. An empty one removes it. Octets that no query has, such as `#`, a space or `é`, are escaped.
    /// Escapes stay as they are. So do the separators `&`, `=` and `+`. [`FormBuf`] escapes them in values.
    ///
    /// # Errors
    ///
    /// Fails if the target cannot have a query, as that of CONNECT and `*`.
    pub fn set_query(&mut self, query: impl AsRef<str>) -> Result<(), TargetError> {
        self.target.set_query(query.as_ref())
    }

    /// Sets the content to a copy of `text`, as `text/plain` in UTF-8.
    pub fn set_text(&mut self, text: impl AsRef<str>) {
        self.headers.put(FieldName::CONTENT_TYPE, b"text/plain; charset=utf-8");
        self.body.set_bytes(text.as_ref());
    }

    /// Sets the content to a copy of `bytes`, in memory that is reused. [`Request::set_shared_bytes`] does not copy.
    ///
    /// # Errors
    ///
    /// Fails if the content type is not a valid field value. The request is then unchanged.
    pub fn set_bytes(&mut self, content_type: &str, bytes: impl AsRef<[u8]>) -> Result<(), MessageError> {
        self.headers.put_value(FieldName::CONTENT_TYPE, content_type)?;
        self.body.set_bytes(bytes);
        Ok(())
    }

    /// Sets the content to `bytes` without copying them: static data, a [`Bytes`], a `Vec<u8>` or a `String`.
    /// [`Request::set_bytes`] copies, and therefore takes borrowed bytes.
    ///
    /// # Errors
    ///
    /// Fails if the content type is not a valid field value. The request is then unchanged.
    pub fn set_shared_bytes(
        &mut self,
        content_type: &str,
        bytes: impl Into<Bytes>,
    ) -> Result<(), MessageError> {
        self.headers.put_value(FieldName::CONTENT_TYPE, content_type)?;
        self.body.set_shared_bytes(bytes);
        Ok(())
    }

    /// Makes `form` the content, and sets the content type.
    pub fn set_form(&mut self, form: &FormBuf) {
        self.headers.put(FieldName::CONTENT_TYPE, FORM_TYPE.as_bytes());
        self.body.set_bytes(form.as_str());
    }

    /// Returns a view of the cookies of the request.
    #[inline]
    pub fn cookies(&self) -> Cookies<'_> {
        Cookies::new(&self.headers)
    }

    /// Appends a cookie to the `cookie` field.
    ///
    /// # Errors
    ///
    /// Fails for a name that is not a token, or for a value unfit for a cookie.
    pub fn append_cookie(&mut self, name: &str, value: &str) -> Result<(), MessageError> {
        if !is_token(name.as_bytes()) {
            return Err(MessageError::from_cookie(CookieFault::Name, name));
        }
        if !cookie::is_value(value.as_bytes()) {
            return Err(MessageError::from_cookie(CookieFault::Value, name));
        }
        // There must be only one line (RFC 6265bis §5.8.1).
        let mut line = Vec::new();
        for old in self.headers.named(FieldName::COOKIE) {
            line.extend_from_slice(old);
            line.extend_from_slice(b"; ");
        }
        for piece in [name, "=", value] {
            line.extend_from_slice(piece.as_bytes());
        }
        self.headers.put(FieldName::COOKIE, &line);
        Ok(())
    }

    /// Replaces the Host field by the host and port of an absolute target (RFC 9112 §3.2.2). Code that reads the field
    /// would otherwise see a host that no check of [`Request::authority`] has allowed.
    #[inline]
    pub(crate) fn replace_host(&mut self) {
        let Request { target, headers, .. } = self;
        if let Some(authority) = target.authority()
            && headers.first(FieldName::HOST).is_some_and(|host| host != authority.as_bytes())
        {
            headers.put(FieldName::HOST, authority.as_bytes());
        }
    }

    /// Returns the host and port that the request is for: those of an absolute target, otherwise the Host field (RFC
    /// 9112 §3.3).
    pub fn authority(&self) -> Option<&str> {
        self.target.authority().or_else(|| self.headers.host())
    }

    /// Returns the host that the request is for: [`Request::authority`] without the port. An IPv6 address keeps its
    /// brackets.
    ///
    /// # Examples
    ///
    /// Two sites of one server. (From http to https, [`HttpsRedirect`](crate::middleware::HttpsRedirect) redirects.)
    ///
    /// ```
    /// use corehttp::{Context, Status};
    ///
    /// fn site(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     match request.host() {
    ///         Some("a.example") => response.set_text("the one"),
    ///         Some("b.example") => response.set_text("the other"),
    ///         _ => return Err(Status::MISDIRECTED_REQUEST.into()),
    ///     }
    ///     Ok(())
    /// }
    /// # let service = corehttp::Server::new().service(site);
    /// # corehttp::block_on(async {
    /// # for url in ["http://b.example:8080/", "/"] {
    /// #     let mut request = corehttp::Request::get(url)?;
    /// #     request.headers.set("host", "b.example:8080")?;
    /// #     assert_eq!(service.respond(request).await.text()?, "the other");
    /// # }
    /// # let nowhere = service.respond(corehttp::Request::get("/")?).await;
    /// # assert_eq!(nowhere.status, Status::MISDIRECTED_REQUEST);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn host(&self) -> Option<&str> {
        self.authority().map(|authority| split_port(authority).0)
    }

    /// Returns the content, if it is of the `expected` type, which `is_type` accepts by its [`essence`].
    pub(crate) fn content_of(
        &self,
        expected: &'static str,
        is_type: impl FnOnce(&[u8]) -> bool,
    ) -> Result<&[u8], ContentError> {
        let fault = match self.headers.single(FieldName::CONTENT_TYPE) {
            Ok(Some(content_type)) if is_type(essence(content_type)) => {
                match (self.headers.codings().next(), self.received()) {
                    (None, Some(content)) => return Ok(content),
                    (Some(_), _) => ContentFault::Coding,
                    (None, None) => ContentFault::Unread,
                }
            }
            _ => ContentFault::MediaType(expected),
        };
        Err(ContentError::from(fault).of_request())
    }

    /// The content, unless it has not been received.
    fn received(&self) -> Option<&[u8]> {
        (!self.is_unread()).then(|| self.body.bytes())
    }

    /// Whether there is content that is not in memory: a stream, or content that was declared but not received, or only in
    /// part.
    pub(crate) fn is_unread(&self) -> bool {
        let is_coming = self.headers.content_length().is_some_and(|len| len > 0);
        // A chunked body may turn out to be empty. Once that is known, it counts as received.
        let is_chunked = self.headers.first(FieldName::TRANSFER_ENCODING).is_some();
        let is_missing = self.body.declared_length() == BodyLength::NoContent;
        let is_declared = (is_coming && self.body.is_empty()) || (is_chunked && is_missing);
        self.body.is_stream() || self.body.is_partial() || is_declared
    }

    /// Whether the request has a line that was received, or a target that was set.
    pub(crate) fn has_line(&self) -> bool {
        !self.target.is_unset()
    }

    #[allow(dead_code, reason = "unused without the feature `http`")]
    pub(crate) fn set_version(&mut self, version: Version) {
        self.version = version;
    }

    #[inline]
    pub(super) fn target_mut(&mut self) -> &mut Target {
        &mut self.target
    }

    /// Begins a draft of another head for this request.
    #[inline]
    pub(crate) fn draft(&mut self) -> RequestDraft<'_> {
        let Request { method, target, version, headers, .. } = self;
        RequestDraft { line: RequestLineDraft { method, target, version }, fields: headers.draft() }
    }
}

impl Reset for Request {
    fn reset(&mut self) {
        let Self { method, version, target, matched_route, headers, body, trailers } = self;
        (*method, *version) = Default::default();
        target.reset();
        matched_route.clear();
        headers.reset();
        body.reset();
        trailers.reset();
    }

    fn shrink(&mut self) -> usize {
        self.target.shrink() + self.headers.shrink() + self.body.shrink() + self.trailers.shrink()
    }
}

/// A request whose head is being parsed, in the memory of the request.
///
/// The request has a head once the draft is committed, and that head is a whole one. A request whose draft is dropped has
/// the method, the target and the fields of a new one.
pub(crate) struct RequestDraft<'r> {
    pub(crate) line: RequestLineDraft<'r>,
    pub(crate) fields: HeadersDraft<'r>,
}

/// The request line of a [`RequestDraft`].
pub(crate) struct RequestLineDraft<'r> {
    pub(crate) method: &'r mut Method,
    pub(crate) target: &'r mut Target,
    pub(crate) version: &'r mut Version,
}

impl RequestDraft<'_> {
    /// Makes this the head of the request. `text` is that head.
    #[inline]
    pub(crate) fn commit(self, text: &[u8]) {
        let RequestDraft { line, fields } = self;
        mem::forget(line);
        fields.commit(text);
    }
}

impl Drop for RequestLineDraft<'_> {
    #[cold]
    fn drop(&mut self) {
        (*self.method, *self.version) = Default::default();
        self.target.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> Request {
        let mut request = Request::post("http://a/b?c").unwrap();
        request.headers.set("host", "c").unwrap();
        request.trailers.set("x-sum", 1).unwrap();
        request.body.set_bytes("hello");
        request
    }

    #[test]
    fn a_new_url_replaces_the_target_and_nothing_else() {
        let mut aimed = filled();
        for url in ["http://other:81/d", "/e?f", "https://a", "http://a?b#c", "/"] {
            aimed.set_url(url).unwrap();
            assert_eq!(aimed.target(), Request::get(url).unwrap().target());
            assert_eq!((&aimed.headers, &aimed.body), (&filled().headers, &filled().body), "{url}");
        }
        aimed.set_url("http://a/b?c").unwrap();
        assert_eq!(aimed, filled());
        aimed.set_method("PROPFIND".parse().unwrap());
        assert_eq!((aimed.method().as_str(), aimed.target().as_str()), ("PROPFIND", "http://a/b?c"));
    }

    #[test]
    fn a_url_that_is_refused_leaves_the_request_as_it_was() {
        for (url, reason) in [
            ("", TargetError::Form),
            ("*", TargetError::Form),
            ("d", TargetError::Form),
            ("?d", TargetError::Form),
            ("a:80", TargetError::Scheme),
            ("ftp://a/", TargetError::Scheme),
            ("http://", TargetError::Authority),
            ("http://a b/", TargetError::Authority),
            ("http://a:x/", TargetError::Authority),
            ("http://a:b%0a@c/", TargetError::Userinfo),
        ] {
            let mut request = filled();
            let refused = MessageError::from_url(reason, url);
            assert_eq!(request.set_url(url), Err(refused.clone()), "{url:?}");
            assert_eq!(request, filled(), "{url:?}");
            assert_eq!(Request::get(url), Err(refused), "{url:?}");
        }
    }

    #[test]
    fn a_user_and_a_password_are_those_of_one_url_and_never_shown_rfc7617() {
        let mut request = filled();
        request.set_url("http://joe:s%40cret@a/b?c").unwrap();
        let auth = request.basic_auth().unwrap();
        assert_eq!((&*auth.user_id, &*auth.password), ("joe", "s@cret"));
        for shown in [format!("{request:?}"), request.target().to_string(), format!("{:?}", request.target())]
        {
            assert!(!shown.contains("joe") && !shown.contains("cret") && !shown.contains("Basic"), "{shown}");
        }
        assert_ne!(request, filled());
        request.headers.set("authorization", "Bearer x").unwrap();
        assert_eq!((request.basic_auth(), request.bearer_auth()), (None, Some("x")));
        request.headers.remove("authorization");
        for url in ["http://a/b?c", "http://a/b?c ", "/"] {
            request.set_url("http://joe@a/").unwrap();
            request.set_url(url).unwrap();
            assert_eq!(request.basic_auth(), None, "{url}");
        }
        request.set_url("http://joe@a/").unwrap();
        request.clear();
        assert_eq!(request.basic_auth(), None);
    }

    #[test]
    fn the_host_comes_from_the_target_or_the_field_without_a_port_rfc9112_3_3() {
        for (url, field, expected) in [
            ("/", Some("a"), Some("a")),
            ("/", Some("A.b:80"), Some("A.b")),
            ("/", Some("a:"), Some("a")),
            ("/", Some("[::1]"), Some("[::1]")),
            ("/", Some("[::1]:80"), Some("[::1]")),
            ("/", Some(""), Some("")),
            ("/", None, None),
            ("http://a:80/", None, Some("a")),
            ("http://a:80/", Some("b:81"), Some("a")),
            ("https://[fe80::1]:8443/", Some("b"), Some("[fe80::1]")),
        ] {
            let mut request = Request::get(url).unwrap();
            if let Some(host) = field {
                request.headers.set("host", host).unwrap();
            }
            assert_eq!(request.host(), expected, "{url} {field:?}");
        }
    }

    #[test]
    fn a_cleared_request_equals_a_new_one() {
        let mut request = filled();
        request.clear();
        assert_eq!((&request, request.target().as_str()), (&Request::default(), "/"));
        assert_eq!(request, Request::get("/").unwrap());
    }
}
