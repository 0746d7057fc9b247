//! [`CrossOriginProtection`]: refuses requests that pages of other origins make a browser send (CSRF).

use std::collections::HashSet;

use crate::message::{FieldName, MessageError, Request, Status, Target, is_origin_of};
use crate::server::{BodyPlan, Context, Error, GuardKind, Handler, Middleware, Result, plan_guarded};

/// Refuses requests that a page of another origin makes a browser send, with the cookies of this one (cross-site
/// request forgery, CSRF).
///
/// Browsers report where a request comes from. Forms need no tokens. The rules are:
///
/// 1. A request with a safe method (GET, HEAD, OPTIONS, TRACE, QUERY) passes, unless it has a field `upgrade`, as for a
///    WebSocket. So a handler must not change anything on GET or QUERY. No form sends a QUERY. A script of another origin has
///    to send a preflight first, which [`Cors`](crate::middleware::Cors) answers (RFC 10008 §4).
/// 2. A request passes if its [`sec-fetch-site`](https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header) is `same-origin`,
///    or `none` for an act of the user. One with another value passes if its `origin` is
///    [trusted](CrossOriginProtection::trust_origin).
/// 3. A request without `sec-fetch-site` comes from a browser of before 2023, from one that uses `http` without TLS, or from no
///    browser at all. It passes without an `origin`, with a trusted one, and with one that has the host and port of
///    [`Request::authority`]. Behind [proxies](crate::Server::trusted_proxies), these are the host and port that the client has
///    used. The default port may be left out or not.
///
/// All others are answered with 403, and reported to [`Server::on_error`](crate::Server::on_error). These are the rules of
/// `http.CrossOriginProtection` in Go 1.25, but for the rule for `upgrade`, and for TRACE and QUERY, which are not safe there.
/// A field that occurs twice or has an unusual spelling is no reason to pass.
///
/// The guard protects from forged requests only. A page of the same origin can send anything, and has to escape the texts of
/// its users. `SameSite` cookies protect from other sites, but not from other origins of one site, such as `http://` or another
/// subdomain.
///
/// # Pages of other origins
///
/// Three parts of a server have lists of origins. List an origin in each part that its pages need:
///
/// | list | its pages may | pages of all others |
/// |---|---|---|
/// | [`Cors`](crate::middleware::Cors) | read responses, and send JSON, DELETE and the like | get responses they cannot read |
/// | `CrossOriginProtection` | send what changes something, such as forms, and open WebSockets | get 403 |
/// | `websocket::Options::origins` | open WebSockets | get 403, except those of the server's own origin |
///
/// A server without pages of other origins leaves out `Cors`, and lists no origin in the other two.
///
/// # Examples
///
/// The guard is put around the handlers that browsers use. A webhook, which other programs call, may stay outside.
///
/// ```
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Server};
/// use corehttp::middleware::CrossOriginProtection;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let save = |ctx: &mut Context| ctx.response.set_text("saved");
/// let protection = CrossOriginProtection::new().trust_origin("https://admin.example.com")?;
/// let service = Server::new().service(wrap(protection, save));
///
/// let mut request = corehttp::Request::post("/save")?;
/// request.headers.set("origin", "https://evil.example")?;
/// request.headers.set("sec-fetch-site", "cross-site")?;
/// assert_eq!(service.respond(request.clone()).await.status.as_u16(), 403);
///
/// request.headers.set("origin", "https://admin.example.com")?;
/// assert_eq!(service.respond(request).await.text()?, "saved");
/// # Ok(())
/// # }
/// ```
#[doc(alias("csrf", "xsrf", "sec-fetch-site"))]
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CrossOriginProtection {
    /// Normalized, as browsers write them.
    trusted: HashSet<Box<str>>,
}

impl CrossOriginProtection {
    /// Creates a guard that trusts no other origin.
    pub fn new() -> CrossOriginProtection {
        CrossOriginProtection::default()
    }

    /// Trusts an origin, such as `https://admin.example.com` or `http://localhost:3000`. Its pages may send any request.
    ///
    /// # Errors
    ///
    /// Fails if `origin` is not `http://` or `https://` with a host and an optional port, and nothing else. No `*` stands for
    /// hosts here: each origin that is trusted has a name.
    pub fn trust_origin(mut self, origin: &str) -> Result<CrossOriginProtection, MessageError> {
        if origin.contains('*') {
            let is_not = "one origin: trust each by its own name, without `*`";
            return Err(MessageError::from_setting(origin, is_not));
        }
        let trusted =
            Target::from_origin(origin).map_err(|invalid| MessageError::from_origin(invalid, origin))?;
        self.trusted.insert(trusted.as_str().into());
        Ok(self)
    }

    fn admit(&self, ctx: &mut Context) -> Result {
        self.check(ctx).map_err(|forgery| {
            ctx.count_refusal(GuardKind::CrossOrigin);
            forgery.into()
        })
    }

    /// Decides whether a page of the request's origin may send it.
    fn check(&self, ctx: &Context) -> Result<(), Forgery> {
        self.check_request(&ctx.request, || ctx.forwarded().authority)
    }

    /// Decides as [`CrossOriginProtection::check`] does. `authority` is the host that the client has used.
    fn check_request<'r>(
        &self,
        request: &'r Request,
        authority: impl Fn() -> Option<&'r str>,
    ) -> Result<(), Forgery> {
        let headers = &request.headers;
        if request.method().is_safe() && headers.first(FieldName::UPGRADE).is_none() {
            return Ok(());
        }
        let fetch_site = headers.single(FieldName::new("sec-fetch-site"));
        let origin = headers.single(FieldName::new("origin"));
        let is_trusted =
            |origin: &[u8]| str::from_utf8(origin).is_ok_and(|origin| self.trusted.contains(origin));
        let is_own = |origin: &[u8]| authority().is_some_and(|authority| is_origin_of(origin, authority));
        match (fetch_site, origin) {
            (Ok(Some(b"same-origin" | b"none")), _) | (Ok(None), Ok(None)) => Ok(()),
            (_, Ok(Some(origin))) if is_trusted(origin) => Ok(()),
            (Ok(None), Ok(Some(origin))) if is_own(origin) => Ok(()),
            (Ok(None), _) => Err(Forgery::Origin),
            _ => Err(Forgery::FetchSite),
        }
    }
}

impl Middleware for CrossOriginProtection {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        plan_guarded(ctx, next, |ctx| self.admit(ctx))
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.admit(ctx)?;
        next.handle(ctx).await
    }
}

impl From<Forgery> for Error {
    fn from(forgery: Forgery) -> Error {
        Error::new(Status::FORBIDDEN, forgery.as_str())
    }
}

/// The field by which a request could be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forgery {
    FetchSite,
    Origin,
}

impl Forgery {
    fn as_str(self) -> &'static str {
        match self {
            Forgery::FetchSite => "a page of another origin caused the request, by its sec-fetch-site",
            Forgery::Origin => "a page of another origin caused the request, by its origin",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a request passes that is for `www.example.com`, if `https://app.example` is trusted.
    #[track_caller]
    fn check(method: &str, fields: &[(&str, &str)], expected: Result<(), Forgery>) {
        let protection = CrossOriginProtection::new().trust_origin("https://app.example").unwrap();
        let mut request = Request::new(method, "/").unwrap();
        request.headers.set("host", "www.example.com").unwrap();
        fields.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
        assert_eq!(
            protection.check_request(&request, || request.authority()),
            expected,
            "{method} {fields:?}"
        );
    }

    #[test]
    fn safe_methods_pass_without_an_upgrade() {
        let cross = [("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")];
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"] {
            check(method, &cross, Ok(()));
            check(method, &[cross[0], cross[1], ("upgrade", "websocket")], Err(Forgery::FetchSite));
            check(method, &[cross[1], ("Upgrade", "websocket")], Err(Forgery::Origin));
            check(method, &[("sec-fetch-site", "same-origin"), ("upgrade", "websocket")], Ok(()));
            check(method, &[("upgrade", "websocket")], Ok(()));
            // A name with the same hash is not the field.
            check(method, &[cross[0], cross[1], ("updrade", "websocket")], Ok(()));
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "PROPFIND", "get", "Head", "query"] {
            check(method, &cross, Err(Forgery::FetchSite));
        }
    }

    #[test]
    fn sec_fetch_site_decides_where_there_is_one() {
        let evil = ("origin", "https://evil.example");
        for (site, expected) in [
            ("same-origin", Ok(())),
            ("none", Ok(())),
            ("same-site", Err(Forgery::FetchSite)),
            ("cross-site", Err(Forgery::FetchSite)),
            ("", Err(Forgery::FetchSite)),
            ("Same-Origin", Err(Forgery::FetchSite)),
            ("same-origin, none", Err(Forgery::FetchSite)),
            ("\"same-origin\"", Err(Forgery::FetchSite)),
            ("same-origin;a", Err(Forgery::FetchSite)),
            ("unknown", Err(Forgery::FetchSite)),
        ] {
            check("POST", &[("sec-fetch-site", site)], expected);
            check("POST", &[("sec-fetch-site", site), evil], expected);
            check("POST", &[("sec-fetch-site", site), ("origin", "https://www.example.com")], expected);
            check("POST", &[("Sec-Fetch-Site", site), ("Origin", "https://app.example")], Ok(()));
        }
        let twice = [("sec-fetch-site", "same-origin"), ("sec-fetch-site", "same-origin")];
        check("POST", &twice, Err(Forgery::FetchSite));
    }

    #[test]
    fn else_the_origin_is_of_the_host_or_trusted() {
        for origin in ["https://www.example.com", "http://www.example.com", "https://WWW.example.com"] {
            check("POST", &[("origin", origin)], Ok(()));
        }
        for origin in [
            "null",
            "",
            "www.example.com",
            "//www.example.com",
            "https:www.example.com",
            "https:/www.example.com",
            "HTTPS://www.example.com",
            "ftp://www.example.com",
            "https://www.example.com/",
            "https://www.example.com.",
            "https://www.example.com:443",
            "https://www.example.com:8443",
            "https://www.example.com@evil.example",
            "https://evil.example@www.example.com",
            "https://www.example.com.evil.example",
            "https://www.example.com https://evil.example",
            "https://evil.example/www.example.com",
            "https://evil.example#www.example.com",
            "https://xwww.example.com",
            "https://example.com",
            "https://app.example/",
            "http://app.example",
            "https://app.example.evil.example",
            "https://xapp.example",
        ] {
            check("POST", &[("origin", origin)], Err(Forgery::Origin));
        }
        check("POST", &[("origin", "https://app.example")], Ok(()));
        check("POST", &[], Ok(()));
        let twice = [("origin", "https://www.example.com"), ("origin", "https://evil.example")];
        check("POST", &twice, Err(Forgery::Origin));
        check("POST", &[twice[1], twice[0]], Err(Forgery::Origin));
        check("POST", &[twice[0], twice[0]], Err(Forgery::Origin));
    }

    #[test]
    fn the_host_is_that_of_an_absolute_target_rfc9112_3_2_2() {
        let mut request = Request::post("http://www.example.com/").unwrap();
        request.headers.set("host", "evil.example").unwrap();
        for (origin, expected) in
            [("http://www.example.com", Ok(())), ("http://evil.example", Err(Forgery::Origin))]
        {
            request.headers.set("origin", origin).unwrap();
            let checked = CrossOriginProtection::new().check_request(&request, || request.authority());
            assert_eq!(checked, expected);
        }
        let mut request = Request::post("/").unwrap();
        request.headers.set("origin", "https://").unwrap();
        let checked = CrossOriginProtection::new().check_request(&request, || request.authority());
        assert_eq!(checked, Err(Forgery::Origin), "no host");
    }

    #[test]
    fn a_trusted_origin_is_spelled_as_browsers_do() {
        for (written, normalized) in [
            ("https://app.example", "https://app.example"),
            ("HTTPS://App.Example:443", "https://app.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("http://[0::1]:80", "http://[::1]"),
        ] {
            let protection = CrossOriginProtection::new().trust_origin(written).unwrap();
            assert_eq!(protection.trusted, HashSet::from([normalized.into()]));
        }
        for written in
            ["", "*", "null", "/", "app.example", "https://", "https://a/", "https://a?b", "https://b:c@a"]
        {
            CrossOriginProtection::new().trust_origin(written).unwrap_err();
        }
        for (written, cause) in [
            ("app.example", ""),
            ("https://app.example/", ""),
            ("app.example:443", ": the scheme is neither http nor https"),
        ] {
            let invalid = CrossOriginProtection::new().trust_origin(written).unwrap_err();
            let text = format!("the origin `{written}` is not a scheme, a host and an optional port, as");
            assert_eq!(format!("{invalid:#}"), format!("{text} https://app.example.com is{cause}"));
        }
        let pattern = CrossOriginProtection::new().trust_origin("https://*.example.com").unwrap_err();
        let text = "`https://*.example.com` is not one origin: trust each by its own name, without `*`";
        assert_eq!(pattern.to_string(), text);
    }
}
