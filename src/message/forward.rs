//! What a request becomes when it is sent on (RFC 9110 §7.6).

use super::{Headers, InvalidTarget, Name, Request, Target, TargetForm, members};

impl Request {
    /// This request as it is to be sent on to another server: the same method, path, query and fields, but for those
    /// that were meant for this connection only (RFC 9110 §7.6.1), and for `host`, which the new target says. The body
    /// is not copied: [`Client::open`](crate::Client::open) lets it be written as it comes, framed as it was here.
    ///
    /// `base` is an `http` or `https` URL; its path, if it has one, comes before the request's.
    ///
    /// # Errors
    ///
    /// A base that is no such URL, or has a query; or a request that is not for a path, but for `*` or a tunnel.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Request;
    ///
    /// let mut request = Request::get("http://front/items?page=2")?;
    /// request.headers.set("connection", "x-only-here")?;
    /// request.headers.set("x-only-here", 1)?;
    /// request.headers.set("accept", "text/plain")?;
    /// let onward = request.target_to("http://backend:8080/v1")?;
    /// assert_eq!(onward.target().as_str(), "http://backend:8080/v1/items?page=2");
    /// assert!(onward.headers.contains("accept") && !onward.headers.contains("x-only-here"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn target_to(&self, base: &str) -> Result<Request, InvalidTarget> {
        if !matches!(self.target().form(), TargetForm::Origin | TargetForm::Absolute)
            || base.contains(['?', '#'])
        {
            return Err(InvalidTarget::Form);
        }
        let mut url = String::with_capacity(base.len() + self.target().as_str().len());
        url.push_str(base.strip_suffix('/').unwrap_or(base));
        self.target().resource(self.method()).iter().for_each(|part| url.push_str(part));
        let mut target = Target::default();
        target.set_url(&url)?;
        target.origin().ok_or(InvalidTarget::Form)?;
        let mut onward = Request::for_target(self.method(), target);
        forward(&self.headers, &mut onward.headers);
        Ok(onward)
    }
}

/// Appends the lines of `from` that another hop may see to `to`; those that say how a body is framed are among them,
/// since the same body follows.
fn forward(from: &Headers, to: &mut Headers) {
    for (name, value) in from {
        let is_same = |other: &[u8]| other.eq_ignore_ascii_case(name.as_bytes());
        let is_listed = || from.named(Name::CONNECTION).flat_map(members).any(is_same);
        if !HOP_BY_HOP.iter().any(|hop| is_same(hop.as_bytes())) && !is_listed() {
            to.push(Name::new(name), value);
        }
    }
}

/// What one hop says to the next, and to nobody behind it; `host` is said anew.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "expect",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "upgrade",
];
