//! What a message becomes when it is sent on: a request to an origin, and what comes back (RFC 9110 §7.6).

use super::{Headers, InvalidTarget, Name, Request, Response, Target, TargetForm, members};

impl Request {
    /// This request as it is to be sent on to another server: the same method, path, query and fields, but for those
    /// that were meant for this connection only (RFC 9110 §7.6.1), and for `host`, which the new target says. The body
    /// is not copied: [`Client::open`](crate::Client::open) lets it be written as it comes, framed as it was here. For
    /// the way back there is [`Response::forwarded`].
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
        onward.headers = forward(&self.headers, &self.headers);
        Ok(onward)
    }
}

impl Response {
    /// This response as it is to be sent on to whoever has asked: without the fields that its server meant for its
    /// connection only, in the headers and in the trailers (RFC 9110 §7.6.1).
    ///
    /// A response that is sent on without this hands them on too. A `connection: close` of its server would then close
    /// the connection to the peer.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Response;
    ///
    /// let mut response = Response::new();
    /// response.text("Hello");
    /// response.headers.set("connection", "close, x-only-here")?;
    /// response.headers.set("x-only-here", 1)?;
    /// response.headers.set("etag", "\"1\"")?;
    /// let response = response.forwarded();
    /// assert_eq!(response.body.bytes(), b"Hello");
    /// assert!(response.headers.contains("etag") && response.headers.contains("content-type"));
    /// assert!(!response.headers.contains("connection") && !response.headers.contains("x-only-here"));
    /// # Ok::<(), corehttp::InvalidField>(())
    /// ```
    #[must_use = "the response that was given is gone, and this is what is left of it"]
    pub fn forwarded(mut self) -> Response {
        self.trailers = forward(&self.trailers, &self.headers);
        self.headers = forward(&self.headers, &self.headers);
        self
    }
}

/// The lines of `fields` that another hop may see, by what the message's `headers` list; those that say how a body is
/// framed are among them, since the same body follows.
fn forward(fields: &Headers, headers: &Headers) -> Headers {
    let mut onward = Headers::new();
    for (name, value) in fields {
        if !HOP_BY_HOP.iter().any(|hop| hop.eq_ignore_ascii_case(name)) {
            onward.push(Name::new(name), value);
        }
    }
    // The options are gone through once, and not for each field: a peer can list tens of thousands of them.
    for option in headers.named(Name::CONNECTION).flat_map(members) {
        if let Ok(option) = str::from_utf8(option) {
            onward.remove(option);
        }
    }
    onward
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Status;

    /// Of these lines only the `expected` names go on, with a request and with a response.
    #[track_caller]
    fn check(lines: &[(&str, &str)], expected: &[&str]) {
        let mut request = Request::get("/").unwrap();
        lines.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
        let response = Response { headers: request.headers.clone(), ..Response::new() };
        let onward = request.target_to("http://a").unwrap();
        for headers in [onward.headers, response.forwarded().headers] {
            assert!(
                headers.iter().map(|(name, _)| name).eq(expected.iter().copied()),
                "{lines:?}: {headers:?}"
            );
        }
    }

    #[test]
    fn what_one_hop_says_to_the_next_stays_there_7_6_1() {
        check(&[("Connection", "close")], &[]);
        check(&[("connection", "X-A"), ("x-a", "1"), ("x-b", "2")], &["x-b"]);
        check(&[("a", "1"), ("A", "2"), ("connection", "a"), ("b", "3")], &["b"]);
        check(&[("b", "1"), ("connection", "x, , b"), ("connection", "C"), ("c", "2"), ("d", "3")], &["d"]);
        check(&[("keep-alive", "timeout=5"), ("Proxy-Connection", "close"), ("upgrade", "x")], &[]);
        check(&[("Proxy-Authenticate", "Basic"), ("proxy-authorization", "Basic eA==")], &[]);
        check(&[("te", "trailers"), ("expect", "100-continue"), ("host", "b")], &[]);
    }

    #[test]
    fn what_is_meant_for_all_goes_on_in_order_and_as_it_is_spelled() {
        check(&[], &[]);
        check(&[("X-B", "1"), ("x-a", "2"), ("X-b", "3")], &["X-B", "x-a", "X-b"]);
        check(&[("connection", "\"x-a\""), ("x-a", "1")], &["x-a"]);
        check(&[("connectionx", "x-a"), ("x-a", "1")], &["connectionx", "x-a"]);
        check(&[("WWW-Authenticate", "Basic"), ("set-cookie", "a=b")], &["WWW-Authenticate", "set-cookie"]);
        let framing = ["content-length", "transfer-encoding", "content-type", "content-encoding", "trailer"];
        check(&framing.map(|name| (name, "1")), &framing);
    }

    #[test]
    fn trailers_are_no_way_around_it_7_6_1() {
        let mut response = Response::new();
        response.status = Status::CREATED;
        response.body.set("body");
        response.headers.set("connection", "x-a").unwrap();
        for name in ["x-a", "X-Sum", "keep-alive"] {
            response.trailers.set(name, 1).unwrap();
        }
        let onward = response.clone().forwarded();
        assert!(onward.trailers.iter().map(|(name, _)| name).eq(["X-Sum"]));
        assert_eq!((onward.status, &onward.body), (response.status, &response.body));
    }
}
