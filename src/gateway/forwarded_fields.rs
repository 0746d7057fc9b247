//! [`Context::set_forwarded`]: what a gateway passes on about its client (RFC 7239).

use std::iter::zip;
use std::net::IpAddr;

use crate::message::{Authority, FieldName, Headers, Request, Scheme};
use crate::server::{
    Context, FORWARDED, ForwardedField, X_FORWARDED_FOR, X_FORWARDED_HOST, X_FORWARDED_PROTO,
};

impl Context {
    /// Sets the fields of a request to forward in which the server behind finds the client, and the scheme and host that
    /// the client has used: those that [`TrustedProxies::fields`](crate::TrustedProxies::fields) names.
    ///
    /// If the peer is one of the [proxies](crate::Server::trusted_proxies) in front of this server, what they have written
    /// is passed on: `forwarded` and `x-forwarded-for` get a member for the peer, and `x-forwarded-proto` and
    /// `x-forwarded-host` keep the member that [`Context::forwarded`] finds, or are left out if that is malformed. Any other
    /// peer is the client, and is not believed.
    ///
    /// Of such fields, all that are not passed on are removed, because the server behind may read one that this gateway does
    /// not write: `forwarded`, those that begin with `x-forwarded`, `x-real-ip`, `x-client-ip`, `cf-connecting-ip`,
    /// `true-client-ip` and others that frameworks read, however they are spelled: `X_Real_IP` is one of them. A gateway
    /// behind a network that writes such a field sets it again.
    ///
    /// # Examples
    ///
    /// A gateway that clients reach through a balancer in 10.0.0.0/8:
    ///
    /// ```
    /// use corehttp::{Context, Server, TrustedProxies};
    /// use corehttp::client::Host;
    /// use corehttp::server::ForwardedField;
    ///
    /// async fn pass(api: &Host, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.forwarded_to("/")?;
    ///     ctx.set_forwarded(&mut onward);
    ///     ctx.forward(api.open(&onward)).await
    /// }
    ///
    /// let proxies = TrustedProxies::new(["10.0.0.0/8"])?.fields([ForwardedField::Forwarded]);
    /// let server = Server::new().trusted_proxies(proxies);
    /// # let _ = |api: Host| server.service(async move |ctx: &mut Context| pass(&api, ctx).await);
    /// # Ok::<(), corehttp::server::InvalidNetwork>(())
    /// ```
    #[doc(alias("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "set_xforwarded"))]
    pub fn set_forwarded(&self, onward: &mut Request) {
        let proxies = self.trusted_proxies();
        let is_believed = proxies.trusts(self.peer_addr());
        let is_kept = |name: &[u8]| {
            is_believed && FIELDS.iter().any(|(field, kept)| kept.is(name) && proxies.names(*field))
        };
        onward.headers.retain(|name| is_kept(name) || !describes_client(name));
        let seen = self.forwarded();
        for (field, name) in FIELDS.into_iter().filter(|(field, _)| proxies.names(*field)) {
            let headers = &mut onward.headers;
            match field {
                ForwardedField::Forwarded => self.append_hop(headers),
                ForwardedField::XForwardedFor => self.append_peer(headers),
                ForwardedField::XForwardedProto => set_or_remove(headers, name, seen.scheme),
                ForwardedField::XForwardedHost => {
                    set_or_remove(headers, name, seen.authority.filter(|host| is_plain(host)));
                }
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

const FIELDS: [(ForwardedField, FieldName<'static>); 4] = [
    (ForwardedField::Forwarded, FORWARDED),
    (ForwardedField::XForwardedFor, X_FORWARDED_FOR),
    (ForwardedField::XForwardedProto, X_FORWARDED_PROTO),
    (ForwardedField::XForwardedHost, X_FORWARDED_HOST),
];

/// Whether a server may take a field of this name for one in which proxies describe their client. Servers that make
/// variables of names read `_` as `-` (RFC 3875 §4.1.18).
pub(super) fn describes_client(name: &[u8]) -> bool {
    const PREFIX: &[u8] = b"x-forwarded";
    let begins_with = |known: &[u8]| {
        name.len() >= known.len()
            && zip(name, known).all(|(octet, known)| match known {
                b'-' => !octet.is_ascii_alphanumeric(),
                known => octet.eq_ignore_ascii_case(known),
            })
    };
    begins_with(PREFIX) || CLIENT_FIELDS.iter().any(|known| known.len() == name.len() && begins_with(known))
}

/// The other fields from which frameworks and their libraries take the address or the scheme of a client.
const CLIENT_FIELDS: [&[u8]; 23] = [
    b"forwarded",
    b"forwarded-for",
    b"x-real-ip",
    b"x-client-ip",
    b"client-ip",
    b"x-cluster-client-ip",
    b"x-original-forwarded-for",
    b"x-scheme",
    b"front-end-https",
    b"true-client-ip",
    b"cf-connecting-ip",
    b"cf-connecting-ipv6",
    b"cf-pseudo-ipv4",
    b"fastly-client-ip",
    b"x-appengine-user-ip",
    b"x-proxyuser-ip",
    b"x-azure-clientip",
    b"x-azure-socketip",
    b"x-envoy-external-address",
    b"fly-client-ip",
    b"do-connecting-ip",
    b"proxy-client-ip",
    b"wl-proxy-client-ip",
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
