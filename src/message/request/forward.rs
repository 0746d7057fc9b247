//! [`Request::forwarded_to`]: how a request is forwarded to an origin (RFC 9110 §7.6).

use super::request::Request;
use crate::message::text::percent;
use crate::message::{
    FieldName, Headers, Method, OctetSet, Target, TargetBase, TargetError, Version, members,
    saturating_decimal,
};

impl Request {
    /// Returns this request as a gateway or proxy forwards it to the server at `base`.
    ///
    /// The method, path, query and fields are the same, except fields for this connection only (RFC 9110 §7.6.1). The
    /// new target determines `host`.
    ///
    /// The body is not copied. To forward it as it arrives, use [`Client::open_call`](crate::Client::open_call), with
    /// the framing of this request. A request without content has `content-length: 0` if its method suggests content.
    /// For the way back there is [`Response::forwarded`](crate::Response::forwarded).
    ///
    /// `base` is an `http` or `https` URL. For a [`Host`](crate::client::Host) or a
    /// [`Balancer`](crate::client::Balancer), a path is enough, and `/` changes nothing. The path of `base` is put
    /// before the request's, which cannot leave it. `OPTIONS *` is about a server as a whole, and becomes a request
    /// about everything below `base`. Without a path, `base` stands for the server as a whole again (RFC 9112 §3.2.4).
    ///
    /// [`Context::forward`](crate::Context::forward) passes trailers and WebSocket on. The new request takes trailers
    /// if the peer does (`te: trailers`, §10.1.4). A request for WebSocket without content stays one, and asks for no
    /// other protocol (`upgrade: websocket`).
    ///
    /// Fields whose names have other octets than letters, digits and `-` are left out, as by nginx. CGI and its heirs,
    /// such as WSGI and PHP, read `X_User` as `x-user`. With such a name, a client could add to the fields of this
    /// gateway. If the server behind needs such a field, copy it.
    ///
    /// The `max-forwards` of OPTIONS and TRACE is decremented (RFC 9110 §7.6.2). [`Request::add_via`] adds this gateway
    /// to `via`. Set other fields of a proxy in the returned request yourself. In this one, a peer could have them removed
    /// as fields for its connection.
    ///
    /// # Errors
    ///
    /// Fails if:
    ///
    /// - `base` is not a URL or path, or has a query ([`TargetError::Base`]).
    /// - The request is a CONNECT.
    /// - The request is for `*` with `/` as `base`, the name of no server.
    ///
    /// Fails with [`TargetError::Outside`] for a request with a segment `..`, escaped or not, if `base` has a path. In
    /// a handler, `?` turns that into 400.
    ///
    /// Fails with [`TargetError::MaxForwards`] if an OPTIONS or TRACE may not be forwarded any more. In a handler, `?`
    /// turns that into 501. The handler had better answer it itself.
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
    /// let forwarded = request.forwarded_to("http://backend:8080/v1")?;
    /// assert_eq!(forwarded.target().as_str(), "http://backend:8080/v1/items?page=2");
    /// assert!(forwarded.headers.contains("accept") && !forwarded.headers.contains("x-only-here"));
    /// assert_eq!(request.forwarded_to("/")?.target().as_str(), "/items?page=2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn forwarded_to(&self, base: &str) -> Result<Request, TargetError> {
        self.retargeted(base, self.resource()?)
    }

    /// Returns the target that this request has at the server at `base`, whatever form it has here.
    pub(crate) fn target_at(&self, base: &str) -> Result<Target, TargetError> {
        self.target_below(base, self.resource()?)
    }

    /// The path and the query of this request.
    fn resource(&self) -> Result<[&str; 2], TargetError> {
        match (self.method(), self.target().path_and_query(self.method())) {
            // The server as a whole is a URL without a path (RFC 9112 §3.3).
            (Method::Options, ["*", _]) => Ok(["", ""]),
            (_, resource) if resource[0].starts_with('/') => Ok(resource),
            _ => Err(TargetError::Form),
        }
    }

    /// Returns this request as [`Request::forwarded_to`] does, without the `prefix` of its path. The rest of the path
    /// is put behind that of `base`. So a gateway offers a server below a path of its own.
    ///
    /// A prefix is one or more whole segments, spelled as in the request: below `/v1` are `/v1`, `/v1/` and
    /// `/v1/items`, but not `/v1x`, `/v1%2Fitems` and `/%761/items`. Neither the prefix nor `base` can be left by what
    /// the peer sends.
    ///
    /// The response is forwarded unchanged, unless [`Response::rewrite_below`](crate::Response::rewrite_below) changes
    /// its URLs and cookies back.
    ///
    /// # Errors
    ///
    /// Fails like [`Request::forwarded_to`], and:
    ///
    /// - If `prefix` is neither empty nor begins with a `/`.
    /// - With [`TargetError::Prefix`] if the path is not below the prefix. In a handler, `?` turns that into 404.
    /// - With [`TargetError::Outside`] if the rest of the path has a segment `..`, escaped or not. In a handler, `?`
    ///   turns that into 400. The same goes for an empty first segment, as in `/v1//host/path`. Some servers read it as
    ///   the name of a host.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::middleware::wrap;
    /// use corehttp::{BodyPlan, Client, Context, Request, Server, Status};
    ///
    /// async fn pass(client: &Client, ctx: &mut Context) -> corehttp::Result {
    ///     let forwarded = match ctx.request.target().segments().next().transpose()?.as_deref() {
    ///         Some("users") => ctx.request.forwarded_below("/users", "http://127.0.0.1:9001/v1")?,
    ///         Some("shop") => ctx.request.forwarded_below("/shop", "http://127.0.0.1:9002")?,
    ///         _ => return Err(Status::NOT_FOUND.into()),
    ///     };
    ///     ctx.forward(client.open_call(&forwarded)).await
    /// }
    /// # let _ = |client: Client| {
    /// # Server::bind("127.0.0.1:8080")
    /// #     .run(wrap(BodyPlan::Stream, async move |ctx: &mut Context| pass(&client, ctx).await))
    /// # };
    ///
    /// let forwarded = Request::get("/users/7?full")?.forwarded_below("/users", "http://127.0.0.1:9001/v1")?;
    /// assert_eq!(forwarded.target().as_str(), "http://127.0.0.1:9001/v1/7?full");
    /// assert!(Request::get("/users/../admin")?.forwarded_below("/users", "http://127.0.0.1:9001").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "strip_prefix")]
    pub fn forwarded_below(&self, prefix: &str, base: &str) -> Result<Request, TargetError> {
        let resource = self.target().path_and_query(self.method()).concat();
        let (path, query) = resource.split_at(resource.find('?').unwrap_or(resource.len()));
        // No path begins with another prefix: the gateway is at fault, and not its peer.
        if !path.starts_with('/') || !matches!(prefix.as_bytes(), [] | [b'/', ..]) {
            return Err(TargetError::Form);
        }
        let rest = match path.strip_prefix(prefix.strip_suffix('/').unwrap_or(prefix)) {
            Some("") => "/",
            Some(rest) if rest.starts_with('/') => rest,
            Some(_) | None => return Err(TargetError::Prefix),
        };
        let octets = percent::decode_octets(rest);
        let names_host = rest != "/" && segments(&octets).nth(1) == Some(b"");
        match names_host || has_dot_dot(&octets) {
            true => Err(TargetError::Outside),
            false => self.retargeted(base, [rest, query]),
        }
    }

    /// The target of a path and a query below `base`.
    fn target_below(&self, base: &str, resource: [&str; 2]) -> Result<Target, TargetError> {
        // The base is parsed alone, or the path could become the host of a base without one.
        let base = TargetBase::parse(base).map_err(|error| match error {
            TargetError::Form | TargetError::Scheme if !base.contains("://") || base.contains(['?', '#']) => {
                TargetError::Base
            }
            error => error,
        })?;
        if base.has_path() && has_dot_dot(&percent::decode_octets(self.target().path())) {
            return Err(TargetError::Outside);
        }
        base.target(resource)
    }

    /// Copies the request for a path and a query below `base`.
    fn retargeted(&self, base: &str, resource: [&str; 2]) -> Result<Request, TargetError> {
        let target = self.target_below(base, resource)?;
        let mut forwarded = Request::with_target(self.method(), target);
        forwarded.headers = self.headers.forwarded();
        forwarded.headers.remove_ambiguous();
        // Without a length, the request would be sent in chunks, which servers of HTTP/1.0 do not understand (RFC 9112
        // §6.1).
        if self.method().suggests_content() && !self.may_have_content() {
            forwarded.headers.put(FieldName::CONTENT_LENGTH, b"0");
        }
        // The trailers of the response are forwarded, unless the peer cannot receive chunks (§6.5, §10.1.4).
        // The filter is asked first, since the name is hashed at compile time.
        if self.headers.may_have(FieldName::TE)
            && self.version() == Version::Http11
            && self.headers.contains_token("te", "trailers")
        {
            forwarded.headers.put(FieldName::TE, b"trailers");
        }
        if self.headers.may_have(FieldName::UPGRADE) && self.asks_for_websocket() {
            forwarded.headers.put(FieldName::UPGRADE, b"websocket");
            // The length is 0, if there is one.
            forwarded.headers.remove(FieldName::CONTENT_LENGTH.as_str());
        }
        if matches!(self.method(), Method::Options | Method::Trace) {
            decrement_max_forwards(&mut forwarded.headers)?;
        }
        Ok(forwarded)
    }

    /// Whether the request asks for WebSocket (RFC 6455 §4.1), perhaps among others (RFC 9110 §7.8). No other protocol is
    /// passed on, as every server may ignore such a wish: in a tunnel for h2c, for example, requests would pass that the
    /// gateway does not see.
    fn asks_for_websocket(&self) -> bool {
        self.headers.contains_token("upgrade", "websocket")
            && self.headers.contains_token("connection", "upgrade")
            && self.method() == Method::Get
            && self.version() == Version::Http11
            && !self.may_have_content()
    }

    /// Has gateways pass on the field with this name, which the application has set. They remove the fields that `connection`
    /// names (RFC 9110 §7.6.1), so it names this one no more.
    pub(crate) fn pass_on(&mut self, name: &str) {
        if !self.headers.contains_token("connection", name) {
            return;
        }
        let options = self.headers.named(FieldName::CONNECTION).flat_map(members);
        let others = options.filter(|option| !option.eq_ignore_ascii_case(name.as_bytes()));
        let others = Vec::from_iter(others).join(&b", "[..]);
        self.headers.remove("connection");
        if !others.is_empty() {
            self.headers.push(FieldName::CONNECTION, &others);
        }
    }

    /// Whether there is content, or may be (RFC 9112 §6.3).
    pub(crate) fn may_have_content(&self) -> bool {
        !self.body.is_empty()
            || self.headers.contains("transfer-encoding")
            || !matches!(self.headers.single(FieldName::CONTENT_LENGTH), Ok(None | Some(b"0")))
    }

    /// Announces the length of a body in memory that has taken the place of the received one, unless that came in chunks.
    /// Without a field that announces it, a gateway would forward no content.
    pub(crate) fn announce_length(&mut self) {
        let has_length = self.headers.contains("content-length") || !self.body.is_empty();
        if has_length && !self.headers.contains("transfer-encoding") {
            let length = self.body.len();
            self.headers.put(FieldName::CONTENT_LENGTH, itoa::Buffer::new().format(length).as_bytes());
        }
    }
}

impl Headers {
    /// Removes the fields whose names some server reads as others: CGI makes a variable of a name, in which `-`, `_` and
    /// whatever else is no letter are one (RFC 3875 §4.1.18).
    pub(crate) fn remove_ambiguous(&mut self) {
        static PLAIN: OctetSet = OctetSet::ALPHANUMERIC.with(b"-");
        if !self.lines().all(|(name, _)| PLAIN.contains_all(name)) {
            self.retain(|name| PLAIN.contains_all(name));
        }
    }
}

/// Decrements `max-forwards`, if the request has that field (RFC 9110 §7.6.2). A value that is not a number is an
/// error, because the field is there to end loops.
fn decrement_max_forwards(headers: &mut Headers) -> Result<(), TargetError> {
    let left = match &*Vec::from_iter(headers.named(FieldName::MAX_FORWARDS)) {
        [] => return Ok(()),
        [only] => saturating_decimal(only).and_then(|left| left.checked_sub(1)),
        [_, ..] => None,
    };
    let left = left.ok_or(TargetError::MaxForwards)?;
    headers.put(FieldName::MAX_FORWARDS, itoa::Buffer::new().format(left).as_bytes());
    Ok(())
}

/// Whether any server could read a segment of `path` as `..`. How far up the path leads does not matter, because
/// servers disagree on whether `%2F` and `\` separate segments, on `//`, and on what follows a `;`. Honest clients have
/// resolved such segments (RFC 3986 §6.2.2.3).
fn has_dot_dot(path: &[u8]) -> bool {
    segments(path).any(|segment| segment == b".." || segment.starts_with(b"..;"))
}

/// The segments of `path`, which is decoded, separated wherever some server does. Before a first slash is an empty one.
fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|octet| matches!(octet, b'/' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Response, Status};

    /// A request and a response with these lines are forwarded with the `expected` names only.
    #[track_caller]
    fn check(lines: &[(&str, &str)], expected: &[&str]) {
        let mut request = Request::get("/").unwrap();
        lines.iter().for_each(|(name, value)| request.headers.append(name, *value).unwrap());
        let response = Response { headers: request.headers.clone(), ..Response::new() };
        let forwarded = request.forwarded_to("http://a").unwrap();
        for headers in [forwarded.headers, response.forwarded().headers] {
            assert!(
                headers.iter().map(|(name, _)| name).eq(expected.iter().copied()),
                "{lines:?}: {headers:?}"
            );
        }
    }

    #[test]
    fn fields_for_one_hop_are_not_forwarded_rfc9110_7_6_1() {
        check(&[("a", "1"), ("connection", "close"), ("close", "2")], &["a"]);
        check(&[("Connection", "close")], &[]);
        check(&[("connection", "X-A"), ("x-a", "1"), ("x-b", "2")], &["x-b"]);
        check(&[("a", "1"), ("A", "2"), ("connection", "a"), ("b", "3")], &["b"]);
        check(&[("b", "1"), ("connection", "x, , b"), ("connection", "C"), ("c", "2"), ("d", "3")], &["d"]);
        check(&[("keep-alive", "timeout=5"), ("Proxy-Connection", "close"), ("upgrade", "x")], &[]);
        check(&[("Proxy-Authenticate", "Basic"), ("proxy-authorization", "Basic eA==")], &[]);
        check(&[("upgrade", "websocket"), ("sec-websocket-version", "13")], &["sec-websocket-version"]);
        check(&[("te", "gzip"), ("expect", "100-continue"), ("host", "b")], &[]);
    }

    /// A server behind a gateway may read each of them as `x-user`.
    #[test]
    fn a_request_is_forwarded_without_names_that_pass_for_others_rfc3875_4_1_18() {
        let mut request = Request::get("/").unwrap();
        for name in ["X_User", "x-user", "x.user", "X_Forwarded_For", "x~real|ip", "connection", "X-1"] {
            request.headers.append(name, "x-1").unwrap();
        }
        let forwarded = request.forwarded_to("http://a").unwrap();
        assert_eq!(forwarded.headers.iter().collect::<Vec<_>>(), [("x-user", &b"x-1"[..])]);
        // A response is read by no CGI.
        let response = Response { headers: request.headers.clone(), ..Response::new() };
        assert_eq!(response.forwarded().headers.len(), 5);
    }

    #[test]
    fn all_other_fields_are_forwarded_in_order_as_they_are_spelled() {
        check(&[], &[]);
        check(&[("X-B", "1"), ("x-a", "2"), ("X-b", "3")], &["X-B", "x-a", "X-b"]);
        check(&[("connection", "\"x-a\""), ("x-a", "1")], &["x-a"]);
        check(&[("connectionx", "x-a"), ("x-a", "1")], &["connectionx", "x-a"]);
        check(&[("WWW-Authenticate", "Basic"), ("set-cookie", "a=b")], &["WWW-Authenticate", "set-cookie"]);
        let framing = ["content-length", "transfer-encoding", "content-type", "content-encoding", "trailer"];
        check(&framing.map(|name| (name, "1")), &framing);
        let framing = ["content-length", "transfer-encoding"];
        check(
            &[(framing[0], "1"), (framing[1], "1"), ("connection", "Content-Length, transfer-encoding")],
            &framing,
        );
    }

    #[test]
    fn websocket_is_asked_for_alone_rfc9110_7_8() {
        for (lines, expected) in [
            (&["websocket"][..], true),
            (&["WebSocket,"], true),
            (&[", websocket"], true),
            (&["h2c, websocket"], true),
            (&["websocket, foo/1"], true),
            (&["h2c", "websocket"], true),
            (&["websocket/13"], false),
            (&["websocket h2c"], false),
            (&["\"websocket\""], false),
            (&["h2c"], false),
            (&[""], false),
            (&[], false),
        ] {
            let mut request = Request::get("/").unwrap();
            request.headers.set("connection", "keep-alive, Upgrade").unwrap();
            lines.iter().for_each(|line| request.headers.append("upgrade", *line).unwrap());
            let onward = request.forwarded_to("/").unwrap().headers;
            let asked = onward.all("upgrade").collect::<Vec<_>>();
            assert_eq!(asked, if expected { vec![&b"websocket"[..]] } else { vec![] }, "{lines:?}");
        }
    }

    /// A request of `version` with these lines goes on with this `te`.
    #[test]
    fn trailers_are_accepted_on_behalf_of_a_peer_that_takes_them_rfc9110_10_1_4() {
        for (version, lines, expected) in [
            (Version::Http11, &["trailers"][..], Some("trailers")),
            (Version::Http11, &["gzip;q=0.5, , Trailers"], Some("trailers")),
            (Version::Http11, &["gzip", "trailers,trailers"], Some("trailers")),
            (Version::Http11, &["", "trailers;q=1", "\"trailers\"", "xtrailers"], None),
            (Version::Http11, &[], None),
            (Version::Http10, &["trailers"], None),
        ] {
            let mut request = Request::get("/").unwrap();
            request.set_version(version);
            request.headers.set("connection", "te, close").unwrap();
            lines.iter().for_each(|line| request.headers.append("TE", *line).unwrap());
            let forwarded = request.forwarded_to("http://b").unwrap();
            assert_eq!(forwarded.headers.get("te"), expected, "{version} {lines:?}");
            assert!(!forwarded.headers.contains("connection"));
        }
    }

    #[test]
    fn a_target_goes_on_as_it_came() {
        for target in ["/a|b^c", "/\"<>`{}é", "/?q=\\d\"<>`{|}^é", "/%zz"] {
            for front in ["", "http://front"] {
                let request = received(Method::Get, &format!("{front}{target}"));
                assert_eq!(
                    request.forwarded_to("http://b/v1").unwrap().target().as_str(),
                    format!("http://b/v1{target}")
                );
                assert_eq!(request.forwarded_to("/").unwrap().target().as_str(), target);
            }
        }
    }

    /// A request for `path` goes on to `expected`, below `base`.
    #[track_caller]
    fn check_target(base: &str, path: &str, expected: Result<&str, TargetError>) {
        let forwarded = received(Method::Get, path).forwarded_to(base);
        assert_eq!(
            forwarded.as_ref().map(|forwarded| forwarded.target().as_str()),
            expected.as_ref().copied()
        );
    }

    #[test]
    fn no_request_leaves_the_path_of_the_base() {
        for path in ["/", "/a", "/a/b?..=/../c", "/a..b/...", "/..a/;..", "/.", "/a/./b", "/a%252e%252e/%2e"]
        {
            check_target("http://b/v1", path, Ok(&format!("http://b/v1{path}")));
            check_target("/v1/", path, Ok(&format!("/v1{path}")));
            check_target("/", &format!("http://front{path}"), Ok(path));
        }
        check_target("/", "//evil/a", Ok("//evil/a"));
        assert_eq!(Request::get("//evil/a").unwrap().forwarded_to("/").unwrap().target().host(), None);
        for path in [
            "/..",
            "/../",
            "/../admin",
            "/a/../b",
            "/a/../../b",
            "/%2e%2e/admin",
            "/.%2E/admin",
            "/a%2f..%2fb",
            "/..%5cadmin",
            "/..;/admin",
            "/%2e.%3Bx=y/admin",
            "//../admin",
            "http://front/../admin",
        ] {
            for base in
                ["http://b/v1", "http://b/v1/", "https://b:8443/a/b", "http://b//", "/v1", "//", "/a/b/"]
            {
                check_target(base, path, Err(TargetError::Outside));
            }
            let path = path.strip_prefix("http://front").unwrap_or(path);
            check_target("/", path, Ok(path));
            check_target("http://b", path, Ok(&format!("http://b{path}")));
            check_target("http://B:80/", path, Ok(&format!("http://b{path}")));
        }
    }

    #[track_caller]
    fn check_below(prefix: &str, url: &str, expected: Result<&str, TargetError>) {
        let forwarded = |base| received(Method::Get, url).forwarded_below(prefix, base);
        for base in ["http://b", "http://b/"] {
            let found = forwarded(base).map(|forwarded| forwarded.target().as_str().to_owned());
            assert_eq!(
                found,
                expected.map(|path| format!("http://b{path}")),
                "{url} below {prefix} to {base}"
            );
        }
        let found = forwarded("http://b/base").map(|forwarded| forwarded.target().as_str().to_owned());
        assert_eq!(found, expected.map(|path| format!("http://b/base{path}")), "{url} below {prefix}");
        let found = forwarded("/").map(|forwarded| forwarded.target().as_str().to_owned());
        assert_eq!(found, expected.map(str::to_owned), "{url} below {prefix}");
    }

    #[test]
    fn a_prefix_of_whole_segments_is_left_out() {
        for prefix in ["/v1", "/v1/"] {
            check_below(prefix, "/v1", Ok("/"));
            check_below(prefix, "/v1/", Ok("/"));
            check_below(prefix, "/v1?a=../b", Ok("/?a=../b"));
            check_below(prefix, "http://front/v1/a/b?c", Ok("/a/b?c"));
            check_below(prefix, "/v1/v1", Ok("/v1"));
            check_below(prefix, "/v1/a//b", Ok("/a//b"));
            check_below(prefix, "/v1/a%2fb/...", Ok("/a%2fb/..."));
            for other in [
                "/", "/v", "/v1x", "/v1%2fx", "/v1%2Fx", "/v1;a/x", "/V1/x", "/%761/x", "//v1/x", "/a/v1/x",
                "/v1%00",
            ] {
                check_below(prefix, other, Err(TargetError::Prefix));
            }
        }
        check_below("/a/b", "/a/b/c", Ok("/c"));
        check_below("/a/b", "/a/bc", Err(TargetError::Prefix));
        for no_path in ["v1", "http://b", "?", " /v1"] {
            check_below(no_path, "/v1/a", Err(TargetError::Form));
        }
        for all in ["", "/"] {
            check_below(all, "/a/b?c", Ok("/a/b?c"));
            check_below(all, "/", Ok("/"));
        }
    }

    /// A gateway that cuts the prefix off as text forwards `/v1/../x` as `/../x`.
    #[test]
    fn a_prefix_cannot_be_left() {
        for rest in [
            "/..",
            "/../x",
            "/a/../x",
            "/%2e%2e/x",
            "/.%2E/x",
            "/%2e%2e%2fx",
            "/..%5cx",
            "/..;/x",
            "/a/..%3bx/y",
            "//x",
            "///x",
            "//",
            "//..",
            "/%2fx",
            "/%2F%2fx",
            "/%5cx",
            "//host/path",
            "/%5C%5chost",
        ] {
            for prefix in ["/v1", "/v1/", "/a/b"] {
                check_below(
                    prefix,
                    &format!("{}{rest}", prefix.trim_end_matches('/')),
                    Err(TargetError::Outside),
                );
            }
            check_below("", rest, Err(TargetError::Outside));
        }
        for method in [Method::Options, Method::Connect] {
            let target = if method == Method::Options { "*" } else { "front:443" };
            for prefix in ["", "/", "/v1", "*"] {
                let forwarded = received(method, target).forwarded_below(prefix, "http://b");
                assert_eq!(forwarded.err(), Some(TargetError::Form), "{method} {prefix}");
            }
        }
    }

    #[test]
    fn a_base_is_read_as_any_url_is() {
        for (base, expected) in [
            (" HTTP:\\\\B:80\\v 1\\ ", "http://b/v%201/a?x"),
            ("http://0x7f.1:8080", "http://127.0.0.1:8080/a?x"),
            ("/v1/./x/..", "/v1/a?x"),
        ] {
            let mut request = received(Method::Get, "/a");
            request.set_query("x").unwrap();
            let forwarded = request.forwarded_to(base).unwrap();
            assert_eq!(forwarded.target().as_str(), expected);
        }
        check_target("http://u@b", "/a", Err(TargetError::Userinfo));
    }

    #[test]
    fn a_target_without_a_path_is_not_forwarded() {
        for base in
            ["", "b", "/v1?c", "/#c", "ftp://b", "http://", "http://b?c", "http://b#c", "http://u@b", "*"]
        {
            assert!(Request::get("/a").unwrap().forwarded_to(base).is_err(), "{base}");
        }
        for base in ["http://b", "http://b/", "http://b/v1", "http://b:80", "/", "/v1"] {
            for base in ["127.0.0.1:9000", "localhost:9000", "backend", "", "http://b?x", "/v1#x"] {
                let refused = received(Method::Get, "/a").forwarded_to(base);
                assert_eq!(refused.err(), Some(TargetError::Base), "{base}");
            }
            // Other methods take neither the `*` of OPTIONS nor the target of CONNECT.
            for (method, target, other) in [
                (Method::Connect, "front:443", Method::Connect),
                (Method::Connect, "front:443", Method::Options),
                (Method::Connect, "front:443", Method::Get),
                (Method::Options, "*", Method::Get),
                (Method::Options, "*", Method::Connect),
            ] {
                let mut request = received(method, target);
                request.set_method(other);
                assert_eq!(
                    request.forwarded_to(base).err(),
                    Some(TargetError::Form),
                    "{target} under {other}"
                );
            }
        }
    }

    fn received(method: Method, target: &str) -> Request {
        let mut parsed = Target::default();
        parsed.parse(&method, target).unwrap();
        Request::with_target(method, parsed)
    }

    #[test]
    fn options_of_a_whole_server_is_for_all_below_the_base_rfc9112_3_2_4() {
        for (target, base, expected) in [
            ("*", "http://b", ("http://b", "*")),
            ("*", "http://b/", ("http://b", "*")),
            ("*", "https://b:8443", ("https://b:8443", "*")),
            ("*", "http://b/v1", ("http://b/v1", "/v1")),
            ("*", "http://b/v1/", ("http://b/v1", "/v1")),
            ("http://front", "http://b", ("http://b", "*")),
            ("http://front", "http://b/v1", ("http://b/v1", "/v1")),
            ("http://front/", "http://b", ("http://b/", "/")),
            ("http://front?a", "http://b", ("http://b/?a", "/?a")),
            ("http://front/*", "http://b", ("http://b/*", "/*")),
            ("/*", "http://b", ("http://b/*", "/*")),
            ("*", "/v1", ("/v1", "/v1")),
            ("/*", "/", ("/*", "/*")),
        ] {
            let forwarded = received(Method::Options, target).forwarded_to(base).unwrap();
            let sent = forwarded.target().path_and_query(forwarded.method()).concat();
            assert_eq!((forwarded.target().as_str(), &*sent), expected, "{target} to {base}");
        }
        assert_eq!(received(Method::Options, "*").forwarded_to("/").err(), Some(TargetError::Form));
    }

    /// A request with these lines of `max-forwards` goes on with those `expected`, or not at all.
    #[track_caller]
    fn check_count(method: Method, lines: &[&str], expected: Result<&[&str], TargetError>) {
        let mut request = Request::new(method, "/a").unwrap();
        lines.iter().for_each(|value| request.headers.append("Max-Forwards", *value).unwrap());
        let forwarded = request.forwarded_to("http://b");
        let left = forwarded.map(|forwarded| {
            let left =
                forwarded.headers.all("max-forwards").map(|value| String::from_utf8(value.to_vec()).unwrap());
            left.collect::<Vec<_>>()
        });
        assert_eq!(
            left,
            expected.map(|lines| lines.iter().map(|&line| line.to_owned()).collect()),
            "{method} {lines:?}"
        );
    }

    #[test]
    fn max_forwards_is_counted_down_and_kept_rfc9110_7_6_2() {
        for method in [Method::Options, Method::Trace] {
            check_count(method, &[], Ok(&[]));
            for (value, expected) in [
                ("1", "0"),
                ("10", "9"),
                ("0010", "9"),
                ("18446744073709551615", "18446744073709551614"),
                ("99999999999999999999999", "18446744073709551614"),
            ] {
                check_count(method, &[value], Ok(&[expected]));
            }
            for bad in ["0", "000", "", "-1", "+1", "1.0", "0x1", "1 0", "1, 1", "one"] {
                check_count(method, &[bad], Err(TargetError::MaxForwards));
            }
            check_count(method, &["1", "1"], Err(TargetError::MaxForwards));
            check_count(method, &["2", "x"], Err(TargetError::MaxForwards));
        }
        // The field means nothing in requests of other methods.
        for method in [Method::Get, Method::Post, "OPTION".parse().unwrap()] {
            for value in ["0", "7", "x"] {
                check_count(method, &[value], Ok(&[value]));
            }
        }
    }

    #[test]
    fn a_request_without_content_has_a_length_if_its_method_suggests_content_rfc9110_8_6() {
        for (method, framing, expected) in [
            ("POST", None, Some("0")),
            ("PUT", None, Some("0")),
            ("PROPFIND", None, Some("0")),
            ("QUERY", None, Some("0")),
            ("QUERY", Some(("content-length", "3")), Some("3")),
            ("POST", Some(("content-length", "3")), Some("3")),
            ("POST", Some(("transfer-encoding", "chunked")), None),
            ("GET", None, None),
            ("DELETE", None, None),
            ("OPTIONS", None, None),
        ] {
            let mut request = Request::new(method, "/").unwrap();
            framing.iter().for_each(|(name, value)| request.headers.set(name, *value).unwrap());
            let forwarded = request.forwarded_to("/").unwrap();
            assert_eq!(forwarded.headers.get("content-length"), expected, "{method} {framing:?}");
        }
        let mut request = Request::post("/").unwrap();
        request.body.set_bytes("abc");
        assert!(!request.forwarded_to("/").unwrap().headers.contains("content-length"));
    }

    #[test]
    fn trailers_for_one_hop_are_not_forwarded_rfc9110_7_6_1() {
        let mut response = Response::new();
        response.status = Status::CREATED;
        response.body.set_bytes("body");
        response.headers.set("connection", "x-a").unwrap();
        for name in ["x-a", "X-Sum", "keep-alive"] {
            response.trailers.set(name, 1).unwrap();
        }
        let forwarded = response.clone().forwarded();
        assert!(forwarded.trailers.iter().map(|(name, _)| name).eq(["X-Sum"]));
        assert_eq!((forwarded.status, &forwarded.body), (response.status, &response.body));
    }
}
