//! [`Hsts`]: has browsers use a host with TLS alone (RFC 6797).

use std::time::Duration;

use super::https_redirect::is_secure;
use crate::message::{FieldName, delta_seconds};
use crate::server::{Context, Handler, Middleware, Result};

/// Adds the field `strict-transport-security` to responses over TLS (RFC 6797 §6.1). Browsers then use this host by `https`
/// alone for a while.
///
/// [`HttpsRedirect`](super::HttpsRedirect) alone leaves the first request of each visit in the clear. With the field, a browser
/// sends no more requests in the clear. An invalid certificate cannot be clicked away (§12.1). Without TLS there is no field,
/// as §7.2 demands. Behind [proxies](crate::Server::trusted_proxies), the scheme counts that the client has used.
///
/// The field is set before the handler runs. It stays if the handler fails. A field of this name that the handler sets replaces
/// it. A field of a server behind a [gateway](crate::Context::forward) does not.
///
/// The field cannot be taken back. Until `max_age` is over, browsers refuse to use this host without TLS. Begin with an hour,
/// and raise it to a year later. With a `max_age` of zero, browsers forget the host at their next visit with TLS (§6.1.1).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::{Hsts, HttpsRedirect, wrap};
/// use corehttp::{Context, Server};
///
/// let hsts = Hsts::new(Duration::from_secs(365 * 24 * 60 * 60)).include_subdomains();
/// let app = wrap((HttpsRedirect::new(), hsts), |ctx: &mut Context| ctx.response.set_text("securely"));
/// let service = Server::new().service(app); // or `Server::run`
/// ```
#[doc(alias("strict-transport-security", "HSTS", "secure headers", "helmet"))]
#[derive(Clone, Debug)]
#[must_use]
pub struct Hsts {
    /// The value of the field.
    value: Box<str>,
}

impl Hsts {
    /// Creates a field for this host alone, which browsers remember for `max_age` from each response on, in seconds rounded
    /// up.
    pub fn new(max_age: Duration) -> Hsts {
        Hsts { value: format!("max-age={}", delta_seconds(max_age)).into() }
    }

    /// Includes all names below the host, even those that other servers answer for (RFC 6797 §6.1.2).
    pub fn include_subdomains(self) -> Hsts {
        self.with_directive("includeSubDomains")
    }

    /// Consents to be on the list that browsers ship with. Then even the first visit is secure.
    ///
    /// Enter the host at <https://hstspreload.org>. The list requires a `max_age` of a year at least and
    /// [`Hsts::include_subdomains`], and takes months to leave. No RFC has this directive.
    pub fn preload(self) -> Hsts {
        self.with_directive("preload")
    }

    /// Adds a directive, unless it is there: none may appear twice (§6.1).
    fn with_directive(self, directive: &str) -> Hsts {
        match self.value.split("; ").any(|known| known == directive) {
            true => self,
            false => Hsts { value: format!("{}; {directive}", self.value).into() },
        }
    }

    fn set(&self, ctx: &mut Context) {
        if is_secure(ctx) {
            let name = FieldName::new("strict-transport-security");
            ctx.response.headers.put(name, self.value.as_bytes());
        }
    }
}

impl Middleware for Hsts {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        self.set(ctx);
        next.handle(ctx).await
    }

    fn call_now(&self, ctx: &mut Context, next: &impl Handler) -> Option<Result> {
        self.set(ctx);
        next.handle_now(ctx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_in_order_and_once_rfc6797_6_1() {
        let year = Duration::from_secs(31_536_000);
        for (hsts, expected) in [
            (Hsts::new(year), "max-age=31536000"),
            (Hsts::new(Duration::ZERO), "max-age=0"),
            (Hsts::new(Duration::from_millis(1999)), "max-age=2"),
            (Hsts::new(Duration::MAX), "max-age=18446744073709551615"),
            (Hsts::new(year).include_subdomains(), "max-age=31536000; includeSubDomains"),
            (
                Hsts::new(year).include_subdomains().preload().preload().include_subdomains(),
                "max-age=31536000; includeSubDomains; preload",
            ),
            (Hsts::new(year).preload(), "max-age=31536000; preload"),
        ] {
            assert_eq!(&*hsts.value, expected);
        }
    }
}
