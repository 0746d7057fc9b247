//! [`Cors`]: lets the pages of other origins use the responses of a handler (Fetch, "CORS protocol").

use std::sync::Arc;
use std::time::Duration;

use super::origin::OriginSet;
use crate::error_text::Excerpt;
use crate::message::{
    FieldName, MessageError, Method, Request, Response, Status, delta_seconds, is_token, trim,
};
use crate::server::{BodyPlan, Context, Handler, HeadFields, Middleware, Result};

/// Lets the pages of other origins send requests and read the responses, by the [CORS
/// protocol](https://fetch.spec.whatwg.org/#http-cors-protocol) of the Fetch standard.
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::{Cors, wrap};
/// use corehttp::{Context, Request, Server, Status, routes};
///
/// let cors = Cors::new()
///     .trust_origin("https://app.example")? // its pages may send cookies
///     .allow_origin("https://*.example.org")? // theirs may not
///     .expose_fields(["link"])?
///     .max_age(Duration::from_secs(60 * 60));
/// let router = routes! {
///     GET "/notes" => |ctx: &mut Context| ctx.response.set_text("none"),
///     DELETE "/notes/{id}" => |ctx: &mut Context| ctx.response.status = Status::NO_CONTENT,
/// };
/// let service = Server::new().service(wrap(cors, router));
/// # corehttp::block_on(async {
/// let mut request = Request::get("/notes")?;
/// request.headers.set("origin", "https://app.example")?;
/// let response = service.respond(request).await;
/// assert_eq!(response.headers.get("access-control-allow-origin"), Some("https://app.example"));
/// assert_eq!(response.headers.get("access-control-allow-credentials"), Some("true"));
///
/// let mut preflight = Request::new("OPTIONS", "/notes/7")?;
/// preflight.headers.set("origin", "https://wiki.example.org")?;
/// preflight.headers.set("access-control-request-method", "DELETE")?;
/// let response = service.respond(preflight).await;
/// assert_eq!(response.status, Status::NO_CONTENT);
/// assert_eq!(response.headers.get("access-control-allow-methods"), Some("DELETE"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A browser hides a response from pages of other origins, unless the response has the fields of this protocol. Before a
/// request that a form could not send, such as a DELETE, a QUERY or one with JSON, it sends a *preflight*: an OPTIONS with
/// `origin` and `access-control-request-method`.
///
/// # Which origins
///
/// | the page may | by |
/// |---|---|
/// | read responses, and send no cookies | [`Cors::allow_origin`], [`Cors::allow_origin_if`], [`Cors::allow_any_origin`] |
/// | do so with credentials of the user, such as cookies | [`Cors::trust_origin`], [`Cors::trust_origin_if`] |
///
/// No setting allows credentials for any origin whatever, because the standard forbids that. An origin of both kinds is
/// trusted. A page needs no trust for a token that its script sends in `authorization`.
///
/// CORS refuses nothing. A request of another origin is answered, and the browser hides the response. Guards have [lists of
/// their own](crate::middleware::CrossOriginProtection#pages-of-other-origins) of trusted origins. Name a trusted origin there,
/// too.
///
/// # What is answered
///
/// Preflights are answered with 204, and neither the handler nor middleware beneath this one sees them. Other requests with
/// OPTIONS reach the handler. The fields are set with the head of the response. They replace those of the handler, except
/// `access-control-expose-headers`. Refusals, errors, files, streams, upgrades and forwarded responses have them as well.
/// Responses to a malformed or too large head (400, 431) have none. `vary` gets the member `origin` if the response depends on
/// it, even without an `origin` in the request. The other members of `vary` stay.
///
/// # Where it goes
///
/// Around the router, since a group of [`routes!`](crate::routes) sees no preflight. Also around guards, rates and sessions. A
/// browser shows the reason of a refusal only if it has these fields. A preflight has neither cookies nor `authorization`, so a
/// guard around this one would refuse it. Of several that are nested, only the outermost one counts.
///
/// For a part of the paths, `Cors` goes around the mounted handler. The guards and sessions beneath it go along:
///
/// ```
/// # use corehttp::middleware::{Cors, CrossOriginProtection, wrap};
/// # use corehttp::{Context, routes};
/// # fn notes(ctx: &mut Context) { ctx.response.set_text("none") }
/// let cors = Cors::new().trust_origin("https://app.example")?;
/// let protection = CrossOriginProtection::new().trust_origin("https://app.example")?;
/// let router = routes! {
///     GET "/" => |ctx: &mut Context| ctx.response.set_text("for all"),
///     mount "/api" => wrap((cors, protection), routes! { GET "/notes" => notes }), // sessions: in the tuple, last
/// };
/// # let _ = corehttp::Server::new().service(router);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Logs and metrics name the route of a preflight there `/api/{*rest}`.
///
/// A request without `origin` allocates nothing.
#[doc(alias(
    "CorsLayer",
    "access-control-allow-origin",
    "access-control-allow-credentials",
    "preflight",
    "cross-origin"
))]
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Cors {
    rules: Arc<CorsRules>,
}

impl Cors {
    /// Allows no other origin yet. Origins that are allowed later may use all methods and fields. The only exposed fields of
    /// responses are those of [the standard](https://fetch.spec.whatwg.org/#cors-safelisted-response-header-name).
    pub fn new() -> Cors {
        Cors::default()
    }

    /// Allows the pages of an origin to read responses, without credentials.
    ///
    /// An origin is written as `https://app.example`, with a port unless it is the default one.
    ///
    /// `*.` at the front of the host stands for all hosts below it: `https://*.example.com` has `https://a.b.example.com` but
    /// not `https://example.com`. `*` in place of the port stands for any port, as in `http://localhost:*`. The pages of an app
    /// have another scheme, such as `tauri://localhost`.
    ///
    /// # Errors
    ///
    /// Fails if `origin` is not a scheme, a host and an optional port. `null` fails as well, the origin of sandboxed pages and
    /// of files. Anybody can make such a page. [`allow_origin_if`](Cors::allow_origin_if) can allow it.
    pub fn allow_origin(mut self, origin: &str) -> Result<Cors, MessageError> {
        if origin == "*" {
            return Err(MessageError::Value("`*` is not an origin: `allow_any_origin()` allows all".into()));
        }
        self.rules_mut().allowed.add(origin)?;
        Ok(self)
    }

    /// Allows the origins for which `is_allowed` returns true, like [`Cors::allow_origin`]. The function is given the
    /// origin as the browser sent it, and the request, and may be called twice for one request.
    pub fn allow_origin_if(
        mut self,
        is_allowed: impl Fn(&str, &Request) -> bool + Send + Sync + 'static,
    ) -> Cors {
        self.rules_mut().allowed.add_check(is_allowed);
        self
    }

    /// Allows all origins, without credentials, as fits public content. All pages can then read the responses, even of a server
    /// that only the network of the user reaches.
    pub fn allow_any_origin(mut self) -> Cors {
        self.rules_mut().is_for_any = true;
        self
    }

    /// Allows the pages of an origin to send requests with credentials, and to read the responses. Credentials are cookies,
    /// passwords of the browser, and certificates of the client. Such pages can do all that the user can. The origin is written
    /// as for [`Cors::allow_origin`].
    ///
    /// For a page of another site, a cookie needs `SameSite=None`: see [`SetCookie`](crate::SetCookie).
    ///
    /// # Errors
    ///
    /// As [`Cors::allow_origin`].
    #[doc(alias("allow_credentials", "credentials"))]
    pub fn trust_origin(mut self, origin: &str) -> Result<Cors, MessageError> {
        self.rules_mut().trusted.add(origin)?;
        Ok(self)
    }

    /// Trusts the origins for which `is_trusted` returns true, like [`Cors::trust_origin`]. A function that compares a
    /// part of the text, as by `ends_with`, also finds it in origins of others.
    pub fn trust_origin_if(
        mut self,
        is_trusted: impl Fn(&str, &Request) -> bool + Send + Sync + 'static,
    ) -> Cors {
        self.rules_mut().trusted.add_check(is_trusted);
        self
    }

    /// Sets the methods that preflights allow. Default: the requested one. GET, HEAD and POST need no preflight, so this is no
    /// guard against them. QUERY needs one (RFC 10008 §4). Methods are case-sensitive: `patch` is not PATCH.
    ///
    /// # Errors
    ///
    /// Fails if one is `*` or not a method.
    pub fn allow_only_methods<M: TryInto<Method>>(
        mut self,
        methods: impl IntoIterator<Item = M>,
    ) -> Result<Cors, MessageError>
    where
        MessageError: From<M::Error>,
    {
        let mut names = Vec::new();
        for method in methods {
            let method = method.try_into()?;
            if method.as_str() == "*" {
                return Err(MessageError::Method(Excerpt("*").to_string().into()));
            }
            names.push(method.as_str().to_owned());
        }
        self.rules_mut().methods = Permitted::Listed(names.join(", ").into());
        Ok(self)
    }

    /// Sets the fields of requests that preflights allow, such as `content-type` for JSON. Default: the requested ones.
    ///
    /// # Errors
    ///
    /// Fails if one is `*` or no name of a field.
    pub fn allow_only_fields<'n>(
        mut self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Cors, MessageError> {
        self.rules_mut().fields = Permitted::Listed(list_of_names(names)?);
        Ok(self)
    }

    /// Sets the fields of responses that scripts may read, such as `link` and `x-request-id`. A handler that sets
    /// `access-control-expose-headers` has its own. Default: none but those that the standard always exposes, such as
    /// `content-type`.
    ///
    /// # Errors
    ///
    /// Fails if one is `*` or no name of a field. With credentials, `*` would be a name.
    pub fn expose_fields<'n>(
        mut self,
        names: impl IntoIterator<Item = &'n str>,
    ) -> Result<Cors, MessageError> {
        self.rules_mut().exposed = Some(list_of_names(names)?).filter(|names| !names.is_empty());
        Ok(self)
    }

    /// Sets how long a browser may keep the answer to a preflight, in seconds rounded up. Chromium keeps none for longer than 2
    /// hours, and Firefox for 24. Default: not set, which means 5 seconds.
    pub fn max_age(mut self, max_age: Duration) -> Cors {
        self.rules_mut().max_age = Some(delta_seconds(max_age));
        self
    }

    /// Allows pages of public origins to reach this server in a private network ([Private Network
    /// Access](https://wicg.github.io/private-network-access/)), if their origin is allowed. Chromium has asked for this
    /// in preflights, and later versions ask the user instead. Default: not allowed.
    pub fn allow_private_network(mut self) -> Cors {
        self.rules_mut().allows_private_network = true;
        self
    }

    fn rules_mut(&mut self) -> &mut CorsRules {
        Arc::make_mut(&mut self.rules)
    }

    /// Returns the fields of the response to a request.
    fn fields_for(&self, request: &Request) -> Arc<dyn HeadFields> {
        match self.rules.grant(request) {
            Grant::Own { origin, is_trusted } => {
                let (rules, origin) = (self.rules.clone(), origin.into());
                Arc::new(OwnFields { rules, origin, is_trusted })
            }
            Grant::Any | Grant::None => self.rules.clone(),
        }
    }

    /// Sets the fields on what a handler has left in the context, and returns the context to the middleware around.
    fn finish(ctx: &mut Context) {
        let fields = ctx.head_filters.fields.take();
        if let Some(fields) = fields.filter(|_| !ctx.has_responded()) {
            fields.set_on(&mut ctx.response);
        }
    }
}

impl Middleware for Cors {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        match is_preflight(&ctx.request) {
            // It has no body, and one of an odd client is discarded.
            true => {
                next.note_route(ctx);
                BodyPlan::Stream
            }
            false => next.on_head(ctx),
        }
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        if ctx.head_filters.fields.is_some() {
            return next.handle(ctx).await;
        }
        if is_preflight(&ctx.request) {
            return self.rules.answer(&ctx.request, &mut ctx.response);
        }
        ctx.head_filters.fields = Some(self.fields_for(&ctx.request));
        let within = FieldsWithin(ctx);
        let outcome = next.handle(within.0).await;
        Cors::finish(within.0);
        outcome
    }

    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        if ctx.head_filters.fields.is_some() {
            return next.handle_now(ctx);
        }
        if is_preflight(&ctx.request) {
            return Some(self.rules.answer(&ctx.request, &mut ctx.response));
        }
        ctx.head_filters.fields = Some(self.fields_for(&ctx.request));
        let outcome = next.handle_now(ctx);
        match outcome {
            Some(_) => Cors::finish(ctx),
            // The request is still to be answered, by `call`.
            None => ctx.head_filters.fields = None,
        }
        outcome
    }
}

/// A context whose responses have the fields of CORS within this call alone: middleware around it may drop the call, and send
/// a response of its own.
struct FieldsWithin<'c>(&'c mut Context);

impl Drop for FieldsWithin<'_> {
    fn drop(&mut self) {
        self.0.head_filters.fields = None;
    }
}

/// The rules, which all cores share.
#[derive(Clone, Debug, Default)]
struct CorsRules {
    trusted: OriginSet,
    allowed: OriginSet,
    is_for_any: bool,
    methods: Permitted,
    fields: Permitted,
    /// The value of `access-control-expose-headers`.
    exposed: Option<Box<str>>,
    /// In seconds.
    max_age: Option<u64>,
    allows_private_network: bool,
}

/// The methods, or the fields, that a preflight allows.
#[derive(Clone, Debug, Default)]
enum Permitted {
    #[default]
    Asked,
    /// A list, as it is sent.
    Listed(Box<str>),
}

/// The access of an origin to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grant<'r> {
    /// That of this origin alone.
    Own {
        origin: &'r str,
        is_trusted: bool,
    },
    Any,
    None,
}

impl CorsRules {
    /// The access of the request's origin.
    fn grant<'r>(&self, request: &'r Request) -> Grant<'r> {
        let rest = if self.is_for_any { Grant::Any } else { Grant::None };
        if !self.depend_on_origin() || !request.headers.may_have(ORIGIN) {
            return rest;
        }
        let Ok(Some(origin)) = request.headers.single(ORIGIN) else { return rest };
        let Ok(origin) = str::from_utf8(origin) else { return rest };
        match self.trusted.contains(origin, request) {
            true => Grant::Own { origin, is_trusted: true },
            false if self.allowed.contains(origin, request) => Grant::Own { origin, is_trusted: false },
            false => rest,
        }
    }

    /// Whether responses differ by the origin of their request (Fetch, "CORS protocol and HTTP caches").
    fn depend_on_origin(&self) -> bool {
        !self.trusted.is_empty() || !self.allowed.is_empty()
    }

    /// Sets the fields that all responses have, and removes those that the handler has set in their place.
    fn set_origin(&self, response: &mut Response, grant: Grant<'_>) {
        let headers = &mut response.headers;
        let (origin, is_trusted) = match grant {
            Grant::Own { origin, is_trusted } => (Some(origin), is_trusted),
            Grant::Any => (Some("*"), false),
            Grant::None => (None, false),
        };
        match origin {
            Some(origin) => headers.put(ALLOW_ORIGIN, origin.as_bytes()),
            None => headers.remove_each(&[ALLOW_ORIGIN]),
        }
        match is_trusted {
            true => headers.put(ALLOW_CREDENTIALS, b"true"),
            false => headers.remove_each(&[ALLOW_CREDENTIALS]),
        }
        if self.depend_on_origin() {
            headers.vary_by("origin");
        }
    }

    /// Sets the fields of a response to a request that is no preflight.
    fn set_actual(&self, response: &mut Response, grant: Grant<'_>) {
        self.set_origin(response, grant);
        let headers = &mut response.headers;
        if let (Some(exposed), false) = (&self.exposed, grant == Grant::None)
            && headers.first(EXPOSE_FIELDS).is_none()
        {
            headers.put(EXPOSE_FIELDS, exposed.as_bytes());
        }
    }

    /// Answers a preflight (Fetch, "CORS-preflight fetch").
    fn answer(&self, request: &Request, response: &mut Response) -> Result {
        response.status = Status::NO_CONTENT;
        let grant = self.grant(request);
        self.set_origin(response, grant);
        let headers = &mut response.headers;
        let asked =
            [(&self.methods, REQUEST_METHOD, ALLOW_METHODS), (&self.fields, REQUEST_FIELDS, ALLOW_FIELDS)];
        for (permitted, asked, allowed) in asked {
            match permitted {
                Permitted::Listed(list) if grant != Grant::None && !list.is_empty() => {
                    headers.put(allowed, list.as_bytes());
                }
                Permitted::Listed(_) => {}
                Permitted::Asked => {
                    headers.vary_by(asked.as_str());
                    let named = request.headers.named(asked).filter(|_| grant != Grant::None);
                    named.filter(|list| is_token_list(list)).for_each(|list| headers.push(allowed, list));
                }
            }
        }
        if self.allows_private_network {
            headers.vary_by(REQUEST_PRIVATE_NETWORK.as_str());
        }
        if grant == Grant::None {
            return Ok(());
        }
        if let Some(seconds) = self.max_age {
            headers.put(MAX_AGE, itoa::Buffer::new().format(seconds).as_bytes());
        }
        if self.allows_private_network && request.headers.single(REQUEST_PRIVATE_NETWORK) == Ok(Some(b"true"))
        {
            headers.put(ALLOW_PRIVATE_NETWORK, b"true");
        }
        Ok(())
    }
}

const ORIGIN: FieldName<'_> = FieldName::new("origin");
const REQUEST_METHOD: FieldName<'_> = FieldName::new("access-control-request-method");
const REQUEST_FIELDS: FieldName<'_> = FieldName::new("access-control-request-headers");
const REQUEST_PRIVATE_NETWORK: FieldName<'_> = FieldName::new("access-control-request-private-network");
const ALLOW_ORIGIN: FieldName<'_> = FieldName::new("access-control-allow-origin");
const ALLOW_CREDENTIALS: FieldName<'_> = FieldName::new("access-control-allow-credentials");
const ALLOW_METHODS: FieldName<'_> = FieldName::new("access-control-allow-methods");
const ALLOW_FIELDS: FieldName<'_> = FieldName::new("access-control-allow-headers");
const ALLOW_PRIVATE_NETWORK: FieldName<'_> = FieldName::new("access-control-allow-private-network");
const EXPOSE_FIELDS: FieldName<'_> = FieldName::new("access-control-expose-headers");
const MAX_AGE: FieldName<'_> = FieldName::new("access-control-max-age");

/// The fields for all requests without an origin, or without one that has a grant of its own.
impl HeadFields for CorsRules {
    fn set_on(&self, response: &mut Response) {
        self.set_actual(response, if self.is_for_any { Grant::Any } else { Grant::None });
    }
}

/// The fields for one request, whose handler may replace the request.
struct OwnFields {
    rules: Arc<CorsRules>,
    origin: Box<str>,
    is_trusted: bool,
}

impl HeadFields for OwnFields {
    fn set_on(&self, response: &mut Response) {
        let grant = Grant::Own { origin: &self.origin, is_trusted: self.is_trusted };
        self.rules.set_actual(response, grant);
    }
}

/// Whether a browser asks what it may send (Fetch, "CORS-preflight request").
#[inline]
fn is_preflight(request: &Request) -> bool {
    request.method() == Method::Options
        && request.headers.first(ORIGIN).is_some()
        && request.headers.first(REQUEST_METHOD).is_some()
}

/// Whether `list` can be sent back as it is.
fn is_token_list(list: &[u8]) -> bool {
    list.split(|octet| *octet == b',').map(trim).all(|member| member.is_empty() || is_token(member))
}

/// Joins names of fields.
fn list_of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Box<str>, MessageError> {
    let names: Vec<&str> = names.into_iter().collect();
    match names.iter().find(|name| **name == "*" || !is_token(name.as_bytes())) {
        Some(name) => Err(MessageError::FieldName(Excerpt(name).to_string().into())),
        None => Ok(names.join(", ").into()),
    }
}
