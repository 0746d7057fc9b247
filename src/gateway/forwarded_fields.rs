//! [`Context::set_forwarded`]: what a gateway passes on about its client (RFC 7239); [`merge_heads`]: what it passes back.

use std::net::IpAddr;

use crate::message::{
    Authority, FieldName, Headers, Request, Response, SINGLE_FIELDS, Scheme, Status, describes_client,
};
use crate::server::{
    Context, FORWARDED, ForwardedHeader, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO,
};

impl Context {
    /// Sets the fields of a request to forward that describe the client to the server behind.
    ///
    /// They are those of [`TrustedProxies::headers`](crate::TrustedProxies::headers). They have the client's address and the
    /// scheme and host of its request.
    ///
    /// If the peer is one of the [proxies](crate::Server::trusted_proxies) in front of this server, its fields are passed on.
    /// `forwarded` and `x-forwarded-for` get a member for the peer. `x-forwarded-proto` and `x-forwarded-host` keep the member
    /// that [`Context::forwarded`] finds. They are left out if it is malformed. Any other peer is the client, and is not
    /// believed.
    ///
    /// All other such fields are removed, because the server behind may read one of them. They are `forwarded`, those that
    /// begin with `x-forwarded`, `x-real-ip`, `x-client-ip`, `cf-connecting-ip`, `true-client-ip` and others for frameworks.
    /// The spelling does not matter: `X_Real_IP` is one of them. A gateway behind a network that writes such a field sets it
    /// again.
    ///
    /// # Examples
    ///
    /// A gateway that clients reach through a balancer in 10.0.0.0/8:
    ///
    /// ```
    /// use corehttp::{Context, Server, TrustedProxies};
    /// use corehttp::client::Host;
    /// use corehttp::server::ForwardedHeader;
    ///
    /// async fn pass(api: &Host, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.forwarded_to("/")?;
    ///     ctx.set_forwarded(&mut onward);
    ///     ctx.forward(api.open_call(&onward)).await
    /// }
    ///
    /// let proxies = TrustedProxies::new(["10.0.0.0/8"])?.headers([ForwardedHeader::Forwarded]);
    /// let server = Server::new().trusted_proxies(proxies);
    /// # let _ = |api: Host| server.service(async move |ctx: &mut Context| pass(&api, ctx).await);
    /// # Ok::<(), corehttp::server::NetworkParseError>(())
    /// ```
    #[doc(alias("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "set_xforwarded"))]
    pub fn set_forwarded(&self, onward: &mut Request) {
        let proxies = self.trusted_proxies();
        let is_believed = proxies.trusts(self.peer_addr());
        let is_kept = |name: &[u8]| {
            is_believed && FIELDS.iter().any(|(field, kept)| kept.is(name) && proxies.names(*field))
        };
        onward.headers.retain(|name| is_kept(name) || !describes_client(name));
        if is_believed {
            self.copy_listed(&mut onward.headers);
        }
        let seen = self.forwarded();
        for (field, name) in FIELDS.into_iter().filter(|(field, _)| proxies.names(*field)) {
            let headers = &mut onward.headers;
            match field {
                ForwardedHeader::Forwarded => self.append_hop(headers),
                ForwardedHeader::XForwardedFor => self.append_peer(headers),
                ForwardedHeader::XForwardedProto => set_or_remove(headers, name, seen.scheme),
                ForwardedHeader::XForwardedHost => {
                    set_or_remove(headers, name, seen.authority.filter(|host| is_plain(host)));
                }
            }
        }
    }

    /// Copies the fields of a trusted proxy that its peer has listed in `connection`, to have gateways remove them.
    fn copy_listed(&self, onward: &mut Headers) {
        let proxies = self.trusted_proxies();
        let sent = &self.request.headers;
        for (_, name) in FIELDS.into_iter().filter(|(field, _)| proxies.names(*field)) {
            if sent.contains_token("connection", name.as_str()) && !onward.contains(name.as_str()) {
                sent.named(name).for_each(|line| onward.push(name, line));
            }
        }
    }

    /// Appends a member about the peer to `forwarded` (RFC 7239 §4). An IPv6 address and a port need quotes (§6).
    fn append_hop(&self, headers: &mut Headers) {
        let node = match self.peer_addr().ip() {
            Some(IpAddr::V4(ip)) => ip.to_string(),
            Some(IpAddr::V6(ip)) => format!("\"[{ip}]\""),
            // An unknown hop would hide the client that the proxy behind the Unix socket has named.
            None if headers.contains(FORWARDED.as_str()) => return,
            None => "unknown".into(),
        };
        let scheme = if self.is_secure_in_front() { Scheme::Https } else { Scheme::Http }.as_str();
        let hop = match self.request.authority().filter(|host| is_plain(host)) {
            Some(authority) => format!("for={node};host=\"{authority}\";proto={scheme}"),
            None => format!("for={node};proto={scheme}"),
        };
        headers.push(FORWARDED, hop.as_bytes());
    }

    /// Appends the address of the peer, if it has one, to the members of `x-forwarded-for`: in one line, since some servers
    /// read only the first.
    fn append_peer(&self, headers: &mut Headers) {
        let Some(ip) = self.peer_addr().ip() else { return };
        let mut line = Vec::new();
        for old in headers.named(X_FORWARDED_FOR).filter(|line| !line.is_empty()) {
            line.extend_from_slice(old);
            line.extend_from_slice(b", ");
        }
        line.extend_from_slice(ip.to_string().as_bytes());
        headers.put(X_FORWARDED_FOR, &line);
    }
}

const FIELDS: [(ForwardedHeader, FieldName<'static>); 4] = [
    (ForwardedHeader::Forwarded, FORWARDED),
    (ForwardedHeader::XForwardedFor, X_FORWARDED_FOR),
    (ForwardedHeader::XForwardedProto, X_FORWARDED_PROTO),
    (ForwardedHeader::XForwardedHost, X_FORWARDED_HOST),
];

/// Whether an authority can be written without being misread.
fn is_plain(authority: &str) -> bool {
    Authority::names_host(authority.as_bytes())
}

fn set_or_remove(headers: &mut Headers, name: FieldName<'_>, value: Option<&str>) {
    match value {
        Some(value) => headers.put(name, value.as_bytes()),
        None => drop(headers.remove(name.as_str())),
    }
}

/// Prepares the head `behind` to be sent: it loses the fields of the hop, whose `connection` lines are returned, and gets those
/// of the handler.
pub(super) fn merge_heads(behind: &mut Response, of_handler: &Headers) -> Headers {
    let connection_options = forward_fields(behind);
    for name in SINGLE_FIELDS.iter().filter(|name| of_handler.contains(name)) {
        behind.headers.remove(name);
    }
    behind.headers.append_all(of_handler);
    connection_options
}

/// Removes the fields of the response that are meant for this hop, and returns the lines of `connection`. A 426 keeps the
/// protocols, which it must name (RFC 9110 §15.5.22).
fn forward_fields(Response { status, headers, .. }: &mut Response) -> Headers {
    if *status != Status::UPGRADE_REQUIRED {
        return headers.forward();
    }
    let mut named = Headers::new();
    headers.named(FieldName::UPGRADE).for_each(|protocols| named.push(FieldName::UPGRADE, protocols));
    let connection_options = headers.forward();
    headers.append_all(&named);
    connection_options
}
