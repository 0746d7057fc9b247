//! [`HttpsRedirect`]: sends clients that came without TLS to `https` (RFC 9110 §15.4.9).

use crate::message::{Authority, HostMap, MessageError, Scheme, Status, Target, split_port};
use crate::server::{BodyPlan, Context, Error, GuardKind, Handler, Middleware, Result, plan_guarded};

/// Answers requests without TLS with 308 and the same URL with `https`, before a body is received.
///
/// A request without a host, as HTTP/1.0 allows, is answered with 400. Clients keep the method and the body of the request,
/// which they have already sent in the clear. So a page with a form should be secure itself. Behind
/// [proxies](crate::Server::trusted_proxies), the scheme and the host count that the client has used.
///
/// The host of the URL is the one that the request names. A cache in front could be made to send others to a foreign host, if
/// its key leaves out the host. [`HttpsRedirect::allowed_hosts`] bounds that. With [`Hsts`](super::Hsts), browsers use TLS from
/// the second visit on.
///
/// # Examples
///
/// With `Server::and_bind_tls`, one server listens on both ports.
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::{Hsts, HttpsRedirect, wrap};
/// use corehttp::{Context, Request, Server};
///
/// let app = |ctx: &mut Context| ctx.response.set_text("hello, securely");
/// let redirect = HttpsRedirect::new().allowed_hosts(["example.com", "*.example.com"])?;
/// let year = Duration::from_secs(365 * 24 * 60 * 60);
/// let service = Server::new().service(wrap((redirect, Hsts::new(year)), app));
/// let mut request = Request::get("/a?b=c")?;
/// request.headers.set("host", "www.example.com:8080")?;
/// let response = corehttp::block_on(service.respond(request))?;
/// assert_eq!(response.status.as_u16(), 308);
/// assert_eq!(response.headers.get("location"), Some("https://www.example.com/a?b=c"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("force_ssl", "redirect", "host filtering", "server_name", "ALLOWED_HOSTS"))]
#[derive(Clone, Debug)]
#[must_use]
pub struct HttpsRedirect {
    port: u16,
    /// `None` if each host is allowed.
    allowed_hosts: Option<AllowedHosts>,
}

impl HttpsRedirect {
    /// Creates a redirect to port 443.
    pub fn new() -> HttpsRedirect {
        HttpsRedirect { port: HTTPS_PORT, allowed_hosts: None }
    }

    /// Sets the port of the URLs. Default: 443, which URLs leave out.
    pub fn port(mut self, port: u16) -> HttpsRedirect {
        self.port = port;
        self
    }

    /// Sets the hosts that requests may name, with TLS or without. Default: each host.
    ///
    /// A host is a name, an address, or `*.example.com` for each name below `example.com`, but not for `example.com`. The case
    /// of letters, a port and the dot at the end of a name do not matter.
    ///
    /// Other requests are answered with 421 (RFC 9110 §7.4, §15.5.20), those without a host with 400. As a rule, health checks
    /// name the address of the server. Allow it, or answer them outside of this middleware.
    ///
    /// # Errors
    ///
    /// Fails if one of `hosts` is no host: a URL, a name with a port, or empty.
    pub fn allowed_hosts<S: AsRef<str>>(
        mut self,
        hosts: impl IntoIterator<Item = S>,
    ) -> Result<HttpsRedirect, MessageError> {
        let mut allowed_hosts = AllowedHosts::default();
        hosts.into_iter().try_for_each(|host| allowed_hosts.add(host.as_ref()))?;
        self.allowed_hosts = Some(allowed_hosts);
        Ok(self)
    }

    /// The URL of the request, with `https`. This keeps the path and the query, whatever form the target has.
    fn location(&self, ctx: &Context) -> Option<Target> {
        let authority = ctx.forwarded().authority?;
        let host = split_port(authority).0;
        let base = match self.port {
            HTTPS_PORT => format!("https://{host}"),
            port => format!("https://{host}:{port}"),
        };
        ctx.request.target_at(&base).ok()
    }

    fn check(&self, ctx: &mut Context) -> Result {
        self.check_host(ctx).inspect_err(|_| ctx.count_refusal(GuardKind::HttpsRedirect))?;
        if is_secure(ctx) { Ok(()) } else { Err(self.redirect(ctx)) }
    }

    fn check_host(&self, ctx: &Context) -> Result {
        let Some(allowed_hosts) = &self.allowed_hosts else { return Ok(()) };
        let host = ctx.forwarded().authority.map_or("", |authority| split_port(authority).0);
        if host.is_empty() {
            return Err(Status::BAD_REQUEST.into());
        }
        match allowed_hosts.has(host) {
            true => Ok(()),
            false => Err(Status::MISDIRECTED_REQUEST.into()),
        }
    }

    fn redirect(&self, ctx: &mut Context) -> Error {
        let Some(there) = self.location(ctx) else { return Status::BAD_REQUEST.into() };
        match ctx.response.set_redirect(Status::PERMANENT_REDIRECT, there.as_str()) {
            Ok(()) => Status::PERMANENT_REDIRECT.into(),
            Err(_) => Status::BAD_REQUEST.into(),
        }
    }
}

/// Whether the client has sent the request over TLS.
pub(super) fn is_secure(ctx: &Context) -> bool {
    ctx.forwarded().scheme == Some(Scheme::Https.as_str())
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

/// The hosts that requests may name.
#[derive(Clone, Debug, Default)]
struct AllowedHosts {
    /// Hosts that are allowed as they are.
    exact: HostMap<()>,
    /// Domains whose names below are allowed, written `*.`.
    domains: HostMap<()>,
}

impl AllowedHosts {
    fn add(&mut self, host: &str) -> Result<(), MessageError> {
        let (name, is_itself) = host.strip_prefix("*.").map_or((host, true), |above| (above, false));
        let is_host = Authority::names_host(name.as_bytes()) && split_port(name).1.is_none();
        if !is_host || name.contains('*') {
            let is_not = "a host without scheme and port, such as example.com, *.example.com or [::1]";
            return Err(MessageError::from_setting(host, is_not));
        }
        let hosts = if is_itself { &mut self.exact } else { &mut self.domains };
        hosts.add(name, ());
        Ok(())
    }

    fn has(&self, host: &str) -> bool {
        self.exact.get(host).is_some() || self.domains.has_above(host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(allowed: &str, host: &str, expected: bool) {
        let mut hosts = AllowedHosts::default();
        hosts.add(allowed).unwrap();
        assert_eq!(hosts.has(host), expected, "{allowed}: {host}");
    }

    #[test]
    fn a_host_is_allowed_as_a_whole_rfc9110_4_2_3() {
        for host in ["example.com", "Example.COM", "example.com."] {
            check("example.com", host, true);
            check("EXAMPLE.com.", host, true);
            check("*.example.com", host, false);
        }
        for host in
            ["", ".", "example.co", "example.comm", "an-example.com", "a.example.com", "example.com.."]
        {
            check("example.com", host, false);
        }
        check("[::1]", "[::1]", true);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.1", "127.0.0.10", false);
    }

    #[test]
    fn a_star_is_each_name_below() {
        for (host, expected) in [
            ("a.example.com", true),
            ("A.B.Example.Com.", true),
            ("example.com", false),
            (".example.com", false),
            ("an-example.com", false),
            ("a.example.com.evil.example", false),
            ("example.com.evil.example", false),
            ("é.example.com", true),
            ("éxample.com", false),
            ("", false),
        ] {
            check("*.example.com", host, expected);
        }
    }

    #[test]
    fn a_host_that_no_request_can_name_is_an_error() {
        for host in [
            "",
            "*",
            "*.",
            "**.example.com",
            "*example.com",
            "a.*.com",
            "https://example.com",
            "example.com:443",
            "*.example.com:80",
            "example.com/",
            "user@example.com",
            "a b",
            "[::1",
            "*.[::1]:1",
        ] {
            assert!(AllowedHosts::default().add(host).is_err(), "{host}");
        }
        for host in ["https://example.com", "example.com:443", "*", "::1"] {
            let expected =
                "is not a host without scheme and port, such as example.com, *.example.com or [::1]";
            let refused = HttpsRedirect::new().allowed_hosts([host]).unwrap_err();
            assert_eq!(format!("{refused:#}"), format!("`{host}` {expected}"));
        }
    }
}
