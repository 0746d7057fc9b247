//! [`HttpsRedirect`]: sends clients that came without TLS to `https` (RFC 9110 §15.4.9).

use crate::message::{Request, Scheme, Status, split_port};
use crate::server::{BodyPlan, Context, Error, Handler, Middleware, Result, plan_guarded};

/// Answers requests that came over a connection without TLS with 308 and the same URL with `https`, before a body is
/// received.
///
/// A request that names no host, as HTTP/1.0 allows, is answered with 400. Clients keep the method and the body of the
/// request. They have sent it in the clear by then, so a form is better kept from the clear by a page that is secure.
/// Behind [proxies](crate::Server::trusted_proxies), the scheme and the host count that the client has used.
///
/// # Examples
///
/// With `Server::and_bind_tls`, one server listens on both ports.
///
/// ```
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Request, Server};
/// use corehttp::middleware::HttpsRedirect;
///
/// let app = |ctx: &mut Context| ctx.response.set_text("hello, securely");
/// let service = Server::new().service(wrap(HttpsRedirect::new(), app));
/// let mut request = Request::get("/a?b=c")?;
/// request.headers.set("host", "example.com:8080")?;
/// let response = corehttp::block_on(service.respond(request))?;
/// assert_eq!(response.status.as_u16(), 308);
/// assert_eq!(response.headers.get("location"), Some("https://example.com/a?b=c"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("hsts", "force_ssl", "redirect"))]
#[derive(Clone, Debug)]
#[must_use]
pub struct HttpsRedirect {
    port: u16,
}

impl HttpsRedirect {
    /// Creates a redirect to port 443.
    pub fn new() -> HttpsRedirect {
        HttpsRedirect { port: HTTPS_PORT }
    }

    /// Sets the port of the URLs. Default: 443, which URLs leave out.
    pub fn port(mut self, port: u16) -> HttpsRedirect {
        self.port = port;
        self
    }

    /// The URL of the request, with `https`. This keeps the path and the query, whatever form the target has.
    fn location(&self, ctx: &Context) -> Option<Request> {
        let authority = ctx.forwarded().authority?;
        let host = split_port(authority).0;
        let base = match self.port {
            HTTPS_PORT => format!("https://{host}"),
            port => format!("https://{host}:{port}"),
        };
        ctx.request.forwarded_to(&base).ok()
    }

    fn check(&self, ctx: &mut Context) -> Result {
        if self.is_secure(ctx) { Ok(()) } else { Err(self.redirect(ctx)) }
    }

    fn redirect(&self, ctx: &mut Context) -> Error {
        let Some(there) = self.location(ctx) else { return Status::BAD_REQUEST.into() };
        match ctx.response.set_redirect(Status::PERMANENT_REDIRECT, there.target().as_str()) {
            Ok(()) => Status::PERMANENT_REDIRECT.into(),
            Err(_) => Status::BAD_REQUEST.into(),
        }
    }

    /// Whether the client has sent the request over TLS.
    fn is_secure(&self, ctx: &Context) -> bool {
        ctx.forwarded().scheme == Some(Scheme::Https.as_str())
    }
}

/// The port of `https` (RFC 9110 §4.2.2).
const HTTPS_PORT: u16 = 443;

impl Default for HttpsRedirect {
    /// [`HttpsRedirect::new`].
    fn default() -> HttpsRedirect {
        HttpsRedirect::new()
    }
}

impl Middleware for HttpsRedirect {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        plan_guarded(ctx, next, |ctx| self.check(ctx))
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.check(ctx)?;
        next.handle(ctx).await
    }
}
