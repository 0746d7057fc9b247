//! [`ForwardAuth`]: another server decides who may pass.

use std::sync::Arc;

use super::forwarded_fields::merge_heads;
use super::relay::gateway_error;
use crate::client::Balancer;
use crate::message::{FieldName, Headers, MessageError, Request, Response, Status};
use crate::server::middleware::{Middleware, defer_body, handle_deferred};
use crate::server::{BodyPlan, Context, Error, Handler, Result};

/// Has another server decide about each request, by its head: nginx's `auth_request`, Traefik's `ForwardAuth`.
///
/// That server gets a GET with the fields of the request and those of [`Context::set_forwarded`]. `x-forwarded-method` and
/// `x-forwarded-uri` have the method and target of the request. Fields about content, ranges and conditions are left out. So
/// are those in which such servers look for another target (`x-original-url`). If the server answers
///
/// - with 2xx, the request passes, with the fields of the answer that [`ForwardAuth::copy`] names;
/// - with 3xx or 4xx, the peer gets that answer, such as a redirect to a login page or a 401 with `www-authenticate`;
/// - with anything else, or not at all, the peer gets 502 or 504, and the request does not pass.
///
/// The body of the request is received only after the request has passed. Fields of the peer under a copied name are removed,
/// even if the answer has none. The spelling does not matter: `X_User` is `x-user`.
/// [`Context::forward`](crate::Context::forward) passes no trailers under such a name either.
///
/// # Examples
///
/// ```
/// # use corehttp::{Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::middleware::{ForwardAuth, wrap};
/// use corehttp::{Client, Context, Request, Status};
///
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().connect_to(&listener).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
/// #     match ctx.request.bearer_auth() {
/// #         Some("8f14e45f") => ctx.response.headers.set("x-user", "ada").unwrap(),
/// #         _ => ctx.response.status = Status::UNAUTHORIZED,
/// #     }
/// # })?;
/// let auth = client.balance(["http://auth:9091"])?.build();
/// let checked = ForwardAuth::new(auth, "/verify")?.copy(["x-user"]);
/// let app = wrap(checked, |ctx: &mut Context| {
///     let user = ctx.request.headers.get("x-user").unwrap_or("nobody").to_owned();
///     ctx.response.set_text(user);
/// });
/// # let service = Server::new().service(app);
/// # corehttp::block_on(async {
/// let mut request = Request::get("/")?;
/// request.headers.set("x-user", "root")?; // what a peer says does not count
/// assert_eq!(service.respond(request.clone()).await.status, Status::UNAUTHORIZED);
/// request.set_bearer_auth("8f14e45f")?;
/// assert_eq!(service.respond(request).await.text()?, "ada");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias("auth_request", "ext_authz", "forward_auth"))]
pub struct ForwardAuth {
    inner: Arc<Settings>,
}

#[derive(Clone, Debug)]
struct Settings {
    servers: Balancer,
    path: Box<str>,
    copied: Vec<Box<str>>,
}

impl ForwardAuth {
    /// Asks one of `servers`, at `path`, which may have a query. The client of the balancer bounds the time and the size of an
    /// answer.
    ///
    /// # Errors
    ///
    /// Fails if `path` is not a path.
    pub fn new(servers: Balancer, path: &str) -> Result<ForwardAuth, MessageError> {
        Request::from_path(path)?;
        Ok(ForwardAuth { inner: Arc::new(Settings { servers, path: path.into(), copied: Vec::new() }) })
    }

    /// Sets the fields of an answer that a request gets, in place of its own with these names. Default: none.
    #[must_use]
    pub fn copy<N: Into<Box<str>>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        Arc::make_mut(&mut self.inner).copied = names.into_iter().map(Into::into).collect();
        self
    }
}

impl Middleware for ForwardAuth {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        defer_body(ctx, next)
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        // A request that is refused is no reason to ask another server.
        if next.is_refusing() {
            return next.handle(ctx).await;
        }
        let mut answer = Response::new();
        let check = self.inner.check(ctx)?;
        self.inner.servers.send(&check, &mut answer).await.map_err(gateway_error)?;
        if answer.status.is_success() {
            self.inner.copy_fields(&answer, &mut ctx.request);
            CopiedNames::note(ctx, &self.inner.copied);
            return handle_deferred(ctx, next).await;
        }
        if !answer.status.is_redirection() && !answer.status.is_client_error() {
            return Err(Error::new(Status::BAD_GATEWAY, "the server that decides has failed"));
        }
        merge_heads(&mut answer, &ctx.response.headers);
        ctx.response.status = answer.status;
        ctx.response.headers = answer.headers;
        ctx.response.body = answer.body;
        Ok(())
    }
}

impl Settings {
    /// The request by which the other server decides about that of `ctx`.
    fn check(&self, ctx: &Context) -> Result<Request, MessageError> {
        let mut check = Request::get(&self.path)?;
        check.headers.append_all(&ctx.request.headers.forwarded());
        // The server that decides may read `x_user` as `x-user`, which this one has set (RFC 3875 §4.1.18).
        check.headers.remove_ambiguous();
        check.headers.retain(|name| !is_left_out(name));
        ctx.set_forwarded(&mut check);
        check.headers.put(X_FORWARDED_METHOD, ctx.request.method().as_str().as_bytes());
        // Without an authority that a peer may have put before, so that the path is first.
        let resource = ctx.request.target().path_and_query(ctx.request.method()).concat();
        check.headers.put(X_FORWARDED_URI, resource.as_bytes());
        Ok(check)
    }

    /// Gives `request` the fields that are to be copied, and takes those away that the peer has sent.
    fn copy_fields(&self, answer: &Response, request: &mut Request) {
        for name in &self.copied {
            request.headers.retain(|sent| !is_read_as(sent, name.as_bytes()));
            request.pass_on(name);
            for value in answer.headers.named(FieldName::new(name)) {
                request.headers.push(FieldName::new(name), value);
            }
        }
    }
}

const X_FORWARDED_METHOD: FieldName<'static> = FieldName::new("x-forwarded-method");
const X_FORWARDED_URI: FieldName<'static> = FieldName::new("x-forwarded-uri");

/// The names of copied fields, for gateways beneath: a trailer under one of them would pass for a field that was copied.
#[derive(Clone, Default)]
pub(super) struct CopiedNames(Vec<Box<str>>);

impl CopiedNames {
    /// Notes `names` for a request that may have trailers (RFC 9112 §7.1.2).
    fn note(ctx: &mut Context, names: &[Box<str>]) {
        if ctx.request.headers.contains("transfer-encoding") || !ctx.request.trailers.is_empty() {
            let mut copied: CopiedNames = ctx.extensions.remove().unwrap_or_default();
            copied.0.extend_from_slice(names);
            ctx.extensions.insert(copied);
        }
    }

    /// Removes the trailers that pass for a copied field.
    pub(super) fn remove_from(&self, trailers: &mut Headers) {
        for name in &self.0 {
            trailers.retain(|sent| !is_read_as(sent, name.as_bytes()));
        }
    }
}

/// Whether a program behind CGI, which knows no hyphens, takes the field `sent` for the one with this name.
fn is_read_as(sent: &[u8], name: &[u8]) -> bool {
    sent.iter().map(folded).eq(name.iter().map(folded))
}

fn folded(octet: &u8) -> u8 {
    if *octet == b'_' { b'-' } else { octet.to_ascii_lowercase() }
}

/// Whether the server that decides does not get a field: about content, a range or a condition, about codings of the answer, or
/// one in which it might look for the target of the request.
fn is_left_out(name: &[u8]) -> bool {
    let starts_with =
        |prefix: &&str| name.get(..prefix.len()).is_some_and(|start| is_read_as(start, prefix.as_bytes()));
    LEFT_OUT_FROM.iter().any(starts_with) || LEFT_OUT.iter().any(|field| is_read_as(name, field.as_bytes()))
}

const LEFT_OUT_FROM: [&str; 3] = ["content-", "if-", "x-original-"];

const LEFT_OUT: [&str; 8] =
    ["host", "range", "expect", "accept-encoding", "trailer", "digest", "max-forwards", "x-rewrite-url"];
