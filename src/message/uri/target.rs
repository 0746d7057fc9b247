//! [`Target`]: the target of a request, in one of four forms (RFC 9112 §3.2).

use std::borrow::Cow;
use std::fmt;

use super::components::{Components, Scheme, TargetForm, split_port};
use super::url::{self, Url};
use crate::memory::{Reset, Span, clear_cold, free_text_beyond};
use crate::message::text::{Plus, percent};
use crate::message::{Form, MessageError, Method, OctetSet, TargetError, ValueError};

/// The target of a request: what it is about, in one of [four forms](TargetForm). The default is `/`.
///
/// The target of a received request is as it came. Its path and query may hold octets that user agents do not escape,
/// against RFC 3986: ``"<>^`{|}``, UTF-8 beyond ASCII, and in a query `\`. Controls, spaces, `#`, and a `\` in a path
/// are refused with 400. Readers would disagree on the end of such a target, or on its segments.
///
/// # URLs
///
/// A target to be sent is made of a URL ([`Request`], [`Target::join`]). The URL is read as in browsers (the URL Standard of
/// WHATWG), and spelled as RFC 3986 requires:
///
/// | written | sent |
/// |---|---|
/// | controls and spaces around a URL, tabs and ends of lines anywhere, a fragment | nothing |
/// | `HTTP:\\Example.COM:80\a`, `http:example.com/a`, `http:///example.com/a` | `http://example.com/a` |
/// | `/a/./b/../c`, `/a/%2e%2E/c` | `/a/c`, `/c` |
/// | a space, `"`, `<`, `>`, `[`, `]`, `^`, `` ` ``, `{`, `\|`, `}`, a control | its escape: `/a b` is `/a%20b` |
/// | an octet beyond ASCII | its escape, in UTF-8: `/é` is `/%C3%A9` |
/// | a `%` without two digits | its escape: `/100%` is `/100%25` |
/// | in a query, `\` and `'` | `%5C`, `%27` |
/// | `http://bücher.example/` | `http://xn--bcher-kva.example/`, with the feature `idna`, or else an error |
/// | `http://0x7f.1/`, `http://2130706433/`, `http://%31%32%37.1/` | `http://127.0.0.1/` |
/// | `http://[1:0::0]/` | `http://[1::]/` |
/// | `http://joe:secret@host/` | `http://host/`, and `authorization: Basic am9lOnNlY3JldA==` |
///
/// Everything else stays as it was written. [`Target::as_str`] is the result, and has neither user nor password.
/// Compare it to find changes. Check addresses ([`Target::host`]) there, and not in the written URL.
///
/// These are refused, though browsers take them: a host with `"`, `` ` ``, `{` or `}` (RFC 3986), and a user with a
/// colon or a control in it (RFC 7617).
///
/// [`Request`]: crate::Request::new
#[derive(Clone, Default)]
pub struct Target {
    /// The target as it was or will be sent, always valid; empty for a new target.
    text: String,
    components: Components,
    /// The user and the password of a URL, as the value of `authorization`. A received target has none.
    authorization: Option<Box<str>>,
}

impl Target {
    /// Parses the target of a request line.
    #[inline]
    pub(crate) fn parse(&mut self, method: &Method, target: &str) -> Result<(), TargetError> {
        let components = match (method, target.as_bytes()) {
            (Method::Connect, authority) => Components::authority_form(authority)?,
            (_, origin @ [b'/', ..]) => Components::origin_form(origin)?,
            (Method::Options, b"*") => Components::asterisk_form(),
            (_, absolute) => Components::absolute_form(absolute)?,
        };
        // Some controls are beyond ASCII, such as one that begins a command to a terminal (U+009B).
        if !target.is_ascii() && target.chars().any(char::is_control) {
            return Err(TargetError::Byte);
        }
        self.set(target, components);
        Ok(())
    }

    /// Takes an absolute `http` or `https` URL, or a path with an optional query. One that is spelled already as it is
    /// sent is copied.
    pub(crate) fn set_url(&mut self, url: &str) -> Result<(), TargetError> {
        match url::parse_normalized(url) {
            // A fragment is never sent (RFC 9110 §4.2.5).
            Some(components) => self.set(&url[..components.query.end()], components),
            None => *self = Url::parse(url.as_bytes())?.into(),
        }
        Ok(())
    }

    /// The target of a URL that was put together from parts which were parsed before.
    pub(crate) fn from_url(url: String) -> Result<Target, TargetError> {
        Ok(Target { components: Components::from_url(url.as_bytes())?, text: url, authorization: None })
    }

    /// Parses an origin: a scheme, a host and an optional port, and nothing else. The text of the target is as browsers
    /// write it in `origin` (RFC 6454 §6.2).
    pub(crate) fn from_origin(origin: &str) -> Result<Target, TargetError> {
        let mut target = Target::default();
        target.set_url(origin)?;
        match target.origin() == Some(target.as_str()) && target.authorization().is_none() {
            true => Ok(target),
            false => Err(TargetError::Form),
        }
    }

    /// Resolves `reference`, such as a link in a page or the `location` of a response, against this URL, as browsers
    /// do. [Above](Target#urls) is what is changed.
    ///
    /// An octet of no valid UTF-8 is escaped as it came. Servers send Latin-1 in `location`, and get back the same
    /// octets.
    ///
    /// # Errors
    ///
    /// Fails for a target in another form than absolute-form, and for a reference that leads to no `http` or `https`
    /// URL with a host. The error names whichever of the two is to blame.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let page = Request::get("http://example.com/shop/list?page=2")?; // or of `Response::url`, if that is set
    /// assert_eq!(page.target().join("?page=3")?.as_str(), "http://example.com/shop/list?page=3");
    /// assert_eq!(page.target().join("../about us#team")?.as_str(), "http://example.com/about%20us");
    /// assert!(page.target().join("mailto:ada@example.com").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "resolve")]
    pub fn join(&self, reference: impl AsRef<[u8]>) -> Result<Target, MessageError> {
        let reference = reference.as_ref();
        self.resolve(reference).map_err(|invalid| {
            let is_base_fit = self.authority().is_some() && self.scheme_kind().is_some();
            let at_fault =
                if is_base_fit { String::from_utf8_lossy(reference) } else { self.as_str().into() };
            MessageError::from_url(invalid, &at_fault)
        })
    }

    /// Resolves `reference` as [`Target::join`] does, for callers that name it themselves.
    pub(crate) fn resolve(&self, reference: &[u8]) -> Result<Target, TargetError> {
        let (Some(scheme), Some(authority)) = (self.scheme_kind(), self.authority()) else {
            return Err(TargetError::Form);
        };
        Url::join(scheme, authority, self.path_and_query_as_sent(), reference).map(Target::from)
    }

    /// Escapes `text` for one segment of a path. The segment decodes to the same text.
    ///
    /// # Errors
    ///
    /// Fails for `.` and `..`, which lead elsewhere even with escapes. In a handler, `?` turns that into 400.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::{Request, Target};
    ///
    /// let name = "AC/DC?";
    /// let request = Request::get(&format!("http://example.com/bands/{}", Target::escape_segment(name)?))?;
    /// assert_eq!(request.path(), "/bands/AC%2FDC%3F");
    /// assert!(Target::escape_segment("..").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("percent_encode", "PathEscape"))]
    pub fn escape_segment(text: &str) -> Result<Cow<'_, str>, TargetError> {
        match text {
            "." | ".." => Err(TargetError::Outside),
            plain if OctetSet::UNRESERVED.contains_all(plain.as_bytes()) => Ok(Cow::Borrowed(plain)),
            text => Ok(Cow::Owned(percent::encode_segment(text.as_bytes()))),
        }
    }

    /// Replaces the query, and escapes what a query cannot contain. An empty one removes the `?` as well.
    pub(crate) fn set_query(&mut self, query: &str) -> Result<(), TargetError> {
        match self.components.form {
            TargetForm::Origin | TargetForm::Absolute => {}
            TargetForm::Authority | TargetForm::Asterisk => return Err(TargetError::Form),
        }
        if self.text.is_empty() {
            self.text.push('/');
            self.components.path = Span::new(0, "/".len());
        }
        self.text.truncate(self.components.path.end());
        if !query.is_empty() {
            self.text.push('?');
        }
        let start = self.text.len();
        percent::encode_once(query.as_bytes(), &url::QUERY, &mut self.text);
        self.components.query = Span::new(start, self.text.len() - start);
        Ok(())
    }

    #[inline]
    fn set(&mut self, text: &str, components: Components) {
        debug_assert_eq!(components.end(), text.len(), "the components are those of the text");
        self.text.clear();
        self.text.push_str(text);
        self.components = components;
        clear_cold(&mut self.authorization);
    }

    /// The value of `authorization` that stands for the user and the password of the URL, if it has any.
    #[inline]
    pub(crate) fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }

    /// Takes over the user and the password of `other`, a URL of the same origin, unless this one has its own.
    pub(crate) fn inherit_authorization(&mut self, other: &Target) {
        if self.authorization.is_none() {
            self.authorization.clone_from(&other.authorization);
        }
    }

    /// Whether this is a new target, which stands for `/`.
    pub(crate) fn is_unset(&self) -> bool {
        self.text.is_empty()
    }

    /// Returns which of the four forms the target has.
    #[inline]
    pub fn form(&self) -> TargetForm {
        self.components.form
    }

    /// Returns the target as it was sent.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &*self.text {
            "" => "/",
            text => text,
        }
    }

    /// Returns `http` or `https` in lower case, if the target is in absolute-form.
    #[inline]
    pub fn scheme(&self) -> Option<&str> {
        self.components.scheme.map(Scheme::as_str)
    }

    pub(crate) fn scheme_kind(&self) -> Option<Scheme> {
        self.components.scheme
    }

    /// Everything before the path, as it was sent, if the target is in absolute-form.
    #[inline]
    pub(crate) fn origin(&self) -> Option<&str> {
        self.components.scheme.map(|_| &self.text[..self.components.authority.end()])
    }

    /// Returns host and port as sent, if the target is in absolute-form or authority-form.
    #[inline]
    pub fn authority(&self) -> Option<&str> {
        match self.components.form {
            TargetForm::Absolute | TargetForm::Authority => Some(self.part(self.components.authority)),
            TargetForm::Origin | TargetForm::Asterisk => None,
        }
    }

    /// Returns the host as sent, with an IPv6 address in brackets, if the target is in absolute-form or authority-form.
    pub fn host(&self) -> Option<&str> {
        self.authority().map(|authority| split_port(authority).0)
    }

    /// Returns the path as it was sent, not decoded. `*` in asterisk-form, `""` in authority-form.
    #[inline]
    pub fn path(&self) -> &str {
        self.path_for(&Method::Get)
    }

    /// Whether the path is known to consist of octets that are never escaped, as most paths do.
    #[inline]
    pub(crate) fn has_plain_path(&self) -> bool {
        self.components.is_path_plain
    }

    /// Returns the path, decoded once.
    ///
    /// `%2F` becomes a `/` like any other. [`Target::segments`] keeps them apart.
    ///
    /// # Errors
    ///
    /// Fails if the decoded path is not UTF-8. In a handler, `?` turns that into 400.
    pub fn path_decoded(&self) -> Result<Cow<'_, str>, ValueError> {
        decode_path(self.path())
    }

    /// Returns the segments of the path, each decoded once. A decoded `/` or `..` stays within its segment.
    ///
    /// `/a/b%2Fc/` has the segments `a`, `b/c` and an empty one. A segment that is not UTF-8 is an error.
    ///
    /// # Examples
    ///
    /// Paths with parameters:
    ///
    /// ```
    /// use corehttp::{Context, Status};
    ///
    /// fn answer(ctx: &mut Context) -> corehttp::Result {
    ///     let Context { request, response, .. } = ctx;
    ///     let mut segments = request.target().segments();
    ///     let mut next = || segments.next().transpose();
    ///     match (next()?.as_deref(), next()?.as_deref(), next()?) {
    ///         (Some(""), None, None) => response.set_text("Hello, World!"),
    ///         (Some("users"), Some(name), None) => response.set_text(format!("Hello, {name}!")),
    ///         _ => return Err(Status::NOT_FOUND.into()),
    ///     }
    ///     Ok(())
    /// }
    /// # let service = corehttp::Server::new().service(answer);
    /// # let respond = async |path| service.respond(corehttp::Request::get(path).unwrap()).await;
    /// # corehttp::block_on(async {
    /// # assert_eq!(respond("/").await.body.bytes(), b"Hello, World!");
    /// # assert_eq!(respond("/users/A%2FB").await.body.bytes(), b"Hello, A/B!");
    /// # assert_eq!(respond("/users/Ada/").await.status, Status::NOT_FOUND);
    /// # assert_eq!(respond("/%ff").await.status, Status::BAD_REQUEST);
    /// # })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[doc(alias = "path parameters")]
    pub fn segments(&self) -> impl Iterator<Item = Result<Cow<'_, str>, ValueError>> {
        self.path().strip_prefix('/').into_iter().flat_map(|path| path.split('/')).map(decode_path)
    }

    /// Returns the query as a [`Form`].
    #[inline]
    pub fn query(&self) -> Form<'_> {
        Form::new(self.part(self.components.query))
    }

    /// Returns the path of a request with this method. For OPTIONS, a URL without a path stands for the whole server
    /// (RFC 9110 §4.2.3).
    #[inline]
    pub(in crate::message) fn path_for(&self, method: &Method) -> &str {
        match self.part(self.components.path) {
            "" => self.path_if_empty(method),
            path => path,
        }
    }

    #[cold]
    fn path_if_empty(&self, method: &Method) -> &str {
        match self.components.form {
            TargetForm::Origin | TargetForm::Absolute => self.path_and_query(*method)[0],
            TargetForm::Authority | TargetForm::Asterisk => "",
        }
    }

    /// Path and query as they are sent to an origin, in up to two parts (RFC 9112 §3.2.1, §3.2.4).
    pub(crate) fn path_and_query(&self, method: Method) -> [&str; 2] {
        match (self.path_and_query_as_sent(), method) {
            ("", Method::Options) if self.components.form == TargetForm::Absolute => ["*", ""],
            // An empty path is the same as "/" (RFC 9110 §4.2.3).
            ("", _) => ["/", ""],
            (query, _) if query.starts_with('?') => ["/", query],
            (resource, _) => [resource, ""],
        }
    }

    /// Path and query as they were sent.
    fn path_and_query_as_sent(&self) -> &str {
        let start = match self.components.form {
            TargetForm::Absolute => self.components.authority.end(),
            TargetForm::Origin | TargetForm::Authority | TargetForm::Asterisk => 0,
        };
        &self.text[start..]
    }

    #[inline]
    fn part(&self, span: Span) -> &str {
        &self.text[span.range()]
    }
}

impl PartialEq for Target {
    /// Compares the spelling, and the user and the password of URLs: `/a` and `/%61` are different targets.
    fn eq(&self, other: &Target) -> bool {
        // No text has two forms.
        self.as_str() == other.as_str() && self.authorization == other.authorization
    }
}

impl Eq for Target {}

impl Reset for Target {
    fn reset(&mut self) {
        let Target { text, components, authorization } = self;
        text.clear();
        *components = Components::default();
        clear_cold(authorization);
    }

    fn shrink(&mut self) -> usize {
        free_text_beyond(&mut self.text, TEXT_KEPT_MAX);
        self.text.capacity()
    }
}

/// How much memory is kept.
const TEXT_KEPT_MAX: usize = 1 << 10;

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl From<Url> for Target {
    fn from(url: Url) -> Target {
        let Url { text, components, authorization } = url;
        debug_assert!(
            text.is_ascii() && percent::is_well_formed(&text),
            "a URL is spelled as RFC 3986 requires"
        );
        debug_assert_eq!(components.end(), text.len(), "the components are those of the text");
        Target { text, components, authorization }
    }
}

/// The URL, or only the path, that the targets of forwarded requests are appended to.
pub(crate) struct TargetBase<'a> {
    /// Without the slash at its end.
    text: Cow<'a, str>,
    components: Components,
}

impl<'a> TargetBase<'a> {
    /// Parses a base, which is written as [`Target::set_url`] takes it.
    ///
    /// # Errors
    ///
    /// Fails if it is no URL, or has a query, a fragment, a user or a password.
    pub(crate) fn parse(url: &'a str) -> Result<TargetBase<'a>, TargetError> {
        if url.contains(['?', '#']) {
            return Err(TargetError::Form);
        }
        // The usual base, which adds nothing.
        if url == "/" {
            return Ok(TargetBase { text: Cow::Borrowed(""), components: Components::default() });
        }
        if let Some(components) = url::parse_normalized(url) {
            return Ok(TargetBase { text: without_slash(url).into(), components });
        }
        match Url::parse(url.as_bytes())? {
            Url { authorization: Some(_), .. } => Err(TargetError::Userinfo),
            Url { text, components, authorization: None } => {
                Ok(TargetBase { text: without_slash(&text).to_owned().into(), components })
            }
        }
    }

    /// Whether the base has a path, which no target behind it may leave.
    pub(crate) fn has_path(&self) -> bool {
        self.text.len() > self.components.authority.end()
    }

    /// The target that consists of the base and a `resource`, which is the path and the query of another target, or
    /// nothing.
    ///
    /// # Errors
    ///
    /// Fails if neither names anything.
    pub(crate) fn target(&self, resource: [&str; 2]) -> Result<Target, TargetError> {
        let text = [&self.text, resource[0], resource[1]].concat();
        if text.is_empty() {
            return Err(TargetError::Form);
        }
        // The octets of both parts were checked before.
        let path_start = self.components.authority.end();
        let path_end = memchr::memchr(b'?', text.as_bytes()).unwrap_or(text.len());
        let query_start = text.len().min(path_end + "?".len());
        let components = Components {
            path: Span::new(path_start, path_end - path_start),
            query: Span::new(query_start, text.len() - query_start),
            ..self.components
        };
        debug_assert_eq!(
            Components::from_url(text.as_bytes()).map(|parsed| [parsed.authority, parsed.path, parsed.query]),
            Ok([components.authority, components.path, components.query]),
            "both parts were parsed before"
        );
        Ok(Target { text, components, authorization: None })
    }
}

fn without_slash(url: &str) -> &str {
    url.strip_suffix('/').unwrap_or(url)
}

/// Decodes a path, or a segment of one.
pub(in crate::message) fn decode_path(raw: &str) -> Result<Cow<'_, str>, ValueError> {
    percent::decode(raw, Plus::Literal).map_err(|_| ValueError::path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_target_equals_a_new_one_and_keeps_its_memory() {
        let mut target = Target::default();
        target.parse(&Method::Get, "http://example.com/a?b").unwrap();
        target.reset();
        assert_eq!((&target, target.as_str(), target.path()), (&Target::default(), "/", "/"));
        assert_eq!((target.authority(), target.query().is_empty()), (None, true));
        assert_eq!(target.path_and_query(Method::Options), ["/", ""]);
        assert!(target.text.capacity() >= 22);
        target.set_url(&format!("/{}", "a".repeat(TEXT_KEPT_MAX))).unwrap();
        target.reset();
        target.shrink();
        assert_eq!(target.text.capacity(), 0);
    }
}
