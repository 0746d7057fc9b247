//! [`Forwarded`]: a request as its client has sent it, before proxies passed it on (RFC 7239, RFC 9110 §3.7).

use std::borrow::Cow;
use std::mem;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use super::trusted_proxies::{ForwardedHeader, TrustedProxies};
use crate::message::{Authority, FieldName, Headers, Parameters, Request, Scheme, trim};
use crate::net::PeerAddr;

/// A request as its client has sent it to the first of the proxies: the client's address, and the scheme and the host.
/// Returned by [`Context::forwarded`](crate::Context::forwarded).
///
/// A peer that is no proxy is the client. Values that the proxies have not written are those of the connection and of
/// the request itself. Malformed or hidden values (`unknown`, `_hidden`) are `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forwarded<'r> {
    /// The address of the client.
    pub client: Option<IpAddr>,
    /// `http` or `https`.
    pub scheme: Option<&'static str>,
    /// The host, as in the field `host`. Its port follows unless the scheme implies it.
    pub authority: Option<&'r str>,
}

impl<'r> Forwarded<'r> {
    /// Reads the fields of a request that `peer` has sent.
    pub(crate) fn from_request(
        request: &'r Request,
        peer: PeerAddr,
        is_secure: bool,
        proxies: &TrustedProxies,
    ) -> Forwarded<'r> {
        let scheme = if is_secure { Scheme::Https } else { Scheme::Http };
        let direct = Forwarded {
            client: client_ip(peer, &request.headers, proxies),
            scheme: Some(scheme.as_str()),
            authority: request.authority(),
        };
        match FieldSource::new(peer, &request.headers, proxies) {
            FieldSource::Peer => direct,
            FieldSource::Hops => direct.with_hop(&client_hop(&request.headers, proxies)),
            FieldSource::Lists => direct.with_lists(&request.headers, proxies),
        }
    }

    /// Takes what the first proxy has written in `forwarded`.
    fn with_hop(self, hop: &Parameters<'r>) -> Forwarded<'r> {
        let Forwarded { client, scheme, authority } = self;
        let text = |value: Cow<'r, [u8]>| match value {
            Cow::Borrowed(text) => self::authority(text),
            // No host has a character that must be escaped.
            Cow::Owned(_) => None,
        };
        Forwarded {
            client,
            scheme: hop.get("proto").map_or(None, |proto| proto.map_or(scheme, |proto| self::scheme(&proto))),
            authority: hop.get("host").map_or(None, |host| host.map_or(authority, text)),
        }
    }

    /// Takes what proxies have written in `x-forwarded-proto` and `x-forwarded-host`.
    ///
    /// The scheme is that of the hop at which `x-forwarded-for` names the client: in `https, http`, the client has come by
    /// `https` to the first of two proxies. Of hosts, the last counts, since those before it may be the client's: some
    /// proxies append, and others pass on what they have received. A wrong scheme deceives only the client that sends it,
    /// but a wrong host ends up in links for others.
    fn with_lists(self, headers: &'r Headers, proxies: &TrustedProxies) -> Forwarded<'r> {
        let Forwarded { client, scheme, authority } = self;
        let members = |field, name| list(headers, name).filter(move |_| proxies.names(field));
        let schemes = || members(ForwardedHeader::XForwardedProto, X_FORWARDED_PROTO);
        let client_at = schemes().count().saturating_sub(hops(headers, proxies));
        Forwarded {
            client,
            scheme: schemes().nth(client_at).map_or(scheme, self::scheme),
            authority: members(ForwardedHeader::XForwardedHost, X_FORWARDED_HOST)
                .next_back()
                .map_or(authority, self::authority),
        }
    }
}

/// How many hops the client is away, by `x-forwarded-for`: 1, if the peer has it for a peer of its own.
fn hops(headers: &Headers, proxies: &TrustedProxies) -> usize {
    match proxies.names(ForwardedHeader::XForwardedFor) {
        true => last_hops(headers, proxies).count().max(1),
        false => 1,
    }
}

/// The addresses in `x-forwarded-for`, the last one first, up to that of the client: the first which is no proxy's. As each
/// proxy appends a member, all further ones may be the client's.
fn last_hops(headers: &Headers, proxies: &TrustedProxies) -> impl Iterator<Item = Option<IpAddr>> {
    let mut by_proxy = true;
    let addresses = list(headers, X_FORWARDED_FOR).rev().map(address);
    addresses.take_while(move |ip| mem::replace(&mut by_proxy, ip.is_some_and(|ip| proxies.contains(ip))))
}

pub(crate) const FORWARDED: FieldName<'static> = FieldName::new("forwarded");
pub(crate) const X_FORWARDED_FOR: FieldName<'static> = FieldName::new("x-forwarded-for");
pub(crate) const X_FORWARDED_PROTO: FieldName<'static> = FieldName::new("x-forwarded-proto");
pub(crate) const X_FORWARDED_HOST: FieldName<'static> = FieldName::new("x-forwarded-host");

/// See [`Context::client_ip`](crate::server::Context::client_ip).
pub(crate) fn client_ip(peer: PeerAddr, headers: &Headers, proxies: &TrustedProxies) -> Option<IpAddr> {
    if proxies.trusts(peer) { forwarded_ip(peer, headers, proxies) } else { peer.ip() }
}

/// The address of the client of this peer, which is a proxy.
fn forwarded_ip(peer: PeerAddr, headers: &Headers, proxies: &TrustedProxies) -> Option<IpAddr> {
    match FieldSource::new(peer, headers, proxies) {
        FieldSource::Hops => node(&client_hop(headers, proxies)),
        FieldSource::Lists if proxies.names(ForwardedHeader::XForwardedFor) => {
            last_hops(headers, proxies).last().unwrap_or_else(|| peer.ip())
        }
        FieldSource::Lists | FieldSource::Peer => peer.ip(),
    }
}

/// Where the client of a request is named.
enum FieldSource {
    /// The peer is the client.
    Peer,
    /// In `forwarded`.
    Hops,
    /// In the fields that begin with `x-forwarded-`.
    Lists,
}

impl FieldSource {
    fn new(peer: PeerAddr, headers: &Headers, proxies: &TrustedProxies) -> FieldSource {
        let has_hops = || list(headers, FORWARDED).next().is_some();
        match proxies.trusts(peer) {
            false => FieldSource::Peer,
            true if proxies.names(ForwardedHeader::Forwarded) && has_hops() => FieldSource::Hops,
            true => FieldSource::Lists,
        }
    }
}

/// The member of `forwarded` that the proxy has written to which the client is connected: the last one whose `for` is not
/// the address of a proxy, because each proxy appends a member about its own peer. If a proxy has sent the request of its
/// own accord, the first one.
///
/// A quoted-string that the client does not close swallows the members behind it, in the same line. The member that
/// results is malformed, and so the client is not known.
fn client_hop<'r>(headers: &'r Headers, proxies: &TrustedProxies) -> Parameters<'r> {
    let hops = headers.named(FORWARDED).flat_map(crate::message::members).map(Parameters::new);
    let is_proxy = |hop: &Parameters<'_>| node(hop).is_some_and(|ip| proxies.contains(ip));
    let hop = hops.reduce(|client, next| if is_proxy(&next) { client } else { next });
    hop.unwrap_or_else(|| Parameters::new(b""))
}

/// The address in the `for` of a hop (RFC 7239 §6).
fn node(hop: &Parameters<'_>) -> Option<IpAddr> {
    let node = hop.get("for").ok()??;
    let name = match node.iter().rposition(|octet| *octet == b':') {
        Some(colon) if is_obfuscated(&node[colon + 1..]) => &node[..colon],
        _ => &node,
    };
    // An IPv6 address is in brackets, so that a port can be told from it.
    address(name).filter(|ip| name.starts_with(b"[") || name.contains(&b'.') && ip.is_ipv4())
}

/// Whether this is an `obfport` (RFC 7239 §6.3).
fn is_obfuscated(port: &[u8]) -> bool {
    let is_letter = |octet: &u8| octet.is_ascii_alphanumeric() || b"._-".contains(octet);
    port.len() > 1 && port[0] == b'_' && port.iter().all(is_letter)
}

/// Reads an address as proxies write it: some add a port.
fn address(name: &[u8]) -> Option<IpAddr> {
    let name = str::from_utf8(name).ok()?;
    let with_port = || Some(name.parse::<SocketAddr>().ok()?.ip());
    let in_brackets = || Some(name.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into());
    let address = name.parse().ok().or_else(with_port).or_else(in_brackets)?;
    Some(IpAddr::to_canonical(&address))
}

/// Reads a scheme. Some proxies write that of WebSocket for a connection that is to be upgraded.
fn scheme(text: &[u8]) -> Option<&'static str> {
    match text {
        ws if ws.eq_ignore_ascii_case(b"ws") => Some(Scheme::Http.as_str()),
        wss if wss.eq_ignore_ascii_case(b"wss") => Some(Scheme::Https.as_str()),
        scheme => Scheme::parse(scheme).map(Scheme::as_str),
    }
}

fn authority(text: &[u8]) -> Option<&str> {
    str::from_utf8(text).ok().filter(|text| Authority::names_host(text.as_bytes()))
}

/// The members of a field that has no quoted-strings, over all its lines, except those that are empty.
fn list<'h>(headers: &'h Headers, name: FieldName<'static>) -> impl DoubleEndedIterator<Item = &'h [u8]> {
    let members = headers.named(name).flat_map(|line| line.split(|octet| *octet == b','));
    members.map(trim).filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    /// The client of a request from `peer` with these lines, where 10.0.0.0/8 and ::1 are proxies.
    fn client(peer: &str, name: &str, field: ForwardedHeader, lines: &[&str]) -> Option<IpAddr> {
        let proxies = TrustedProxies::new(["10.0.0.0/8", "::1"]).unwrap().headers([field]);
        let peer = match peer {
            "unix" => PeerAddr::Unix,
            "memory" => PeerAddr::Memory,
            ip => SocketAddr::new(ip.parse().unwrap(), 4711).into(),
        };
        let mut fields = Headers::new();
        lines.iter().for_each(|line| fields.append(name, *line).unwrap());
        client_ip(peer, &fields, &proxies)
    }

    /// A request from `peer` with these lines of `x-forwarded-for` comes from `expected`.
    #[track_caller]
    fn check(peer: &str, lines: &[&str], expected: Option<&str>) {
        let found = client(peer, "x-forwarded-for", ForwardedHeader::XForwardedFor, lines);
        assert_eq!(found, expected.map(|ip| ip.parse().unwrap()), "{lines:?}");
    }

    /// A request from a proxy with these lines of `forwarded` comes from `expected`.
    #[track_caller]
    fn check_hops(lines: &[&str], expected: Option<&str>) {
        for peer in [PROXY, "unix"] {
            let found = client(peer, "forwarded", ForwardedHeader::Forwarded, lines);
            assert_eq!(found, expected.map(|ip| ip.parse().unwrap()), "{lines:?}");
        }
        let peer = "192.0.2.7".parse().unwrap();
        assert_eq!(client("192.0.2.7", "forwarded", ForwardedHeader::Forwarded, lines), Some(peer));
        assert_eq!(client(PROXY, "forwarded", ForwardedHeader::XForwardedFor, lines), PROXY.parse().ok());
    }

    #[test]
    fn a_peer_that_is_no_proxy_is_the_client_whatever_it_claims() {
        for lines in [&[][..], &["192.0.2.66"], &["10.0.0.1"], &["192.0.2.66, 10.0.0.1", "junk"]] {
            check("192.0.2.1", lines, Some("192.0.2.1"));
            check("2001:db8::1", lines, Some("2001:db8::1"));
            check("memory", lines, None);
        }
    }

    #[test]
    fn the_last_address_that_is_no_proxys_is_the_clients() {
        for lines in [
            &["192.0.2.1"][..],
            &["192.0.2.66, 192.0.2.1"],
            &["192.0.2.66", "192.0.2.1"],
            &["192.0.2.66, 10.0.0.3", "192.0.2.1", "10.0.0.2 ,\t::1"],
            &["192.0.2.1:443"],
            &["::ffff:192.0.2.1, ::ffff:10.0.0.2"],
            &["[::ffff:192.0.2.1]:443"],
            // Anything before the first proxy was sent by the client.
            &["junk, 192.0.2.1"],
            &["\"192.0.2.66, 192.0.2.1"],
            &["é", ",,192.0.2.1, ,"],
        ] {
            check(PROXY, lines, Some("192.0.2.1"));
            check("::ffff:10.0.0.1", lines, Some("192.0.2.1"));
            check("unix", lines, Some("192.0.2.1"));
        }
        check(PROXY, &["[2001:db8::1]"], Some("2001:db8::1"));
        check(PROXY, &["[2001:db8::1]:443, [::1]:80"], Some("2001:db8::1"));
    }

    #[test]
    fn a_proxy_may_send_a_request_of_its_own() {
        check(PROXY, &[], Some(PROXY));
        check(PROXY, &[""], Some(PROXY));
        check(PROXY, &["10.0.0.3, 10.0.0.2"], Some("10.0.0.3"));
        check("unix", &[], None);
        check_hops(&["for=10.0.0.3, for=10.0.0.2"], Some("10.0.0.3"));
    }

    #[test]
    fn a_malformed_address_is_not_guessed() {
        for name in [
            "unknown",
            "_hidden",
            "192.0.2.1.",
            "192.0.2.01",
            "192.0.2.1:",
            "192.0.2.1:65536",
            "[192.0.2.1]",
            "[2001:db8::1",
            "2001:db8::1%eth0",
            "\"192.0.2.1\"",
            "192.0.2.1 192.0.2.2",
            "for=192.0.2.1",
        ] {
            check(PROXY, &["192.0.2.66", name], None);
            check(PROXY, &["192.0.2.66", name, "10.0.0.2"], None);
        }
    }

    #[test]
    fn the_last_hop_that_is_no_proxys_names_the_client_rfc7239_4() {
        for lines in [
            &["for=192.0.2.1"][..],
            &["FOR=\"192.0.2.1\" ; proto=http;by=203.0.113.43"],
            &["For=\"192.0.2.1:4711\""],
            &["for=\"192.0.2.1:_port\""],
            &["for=\"[::ffff:192.0.2.1]\""],
            &["for=192.0.2.66, for=192.0.2.1"],
            &["for=192.0.2.66", "for=192.0.2.1, for=10.0.0.2", "for=\"[::1]:80\",for=\"10.0.0.3:_x\""],
            // The client's lies end before what the first proxy has written.
            &["for=192.0.2.66;host=\"a,for=10.0.0.9\", for=192.0.2.1, for=10.0.0.2"],
            &["junk, =, for=, for=\"\", for=_hidden, for=192.0.2.1"],
            &["for=10.0.0.9, for=10.0.0.8, for=192.0.2.1, for=10.0.0.2"],
            &["for=\"192.0.2.66", "for=192.0.2.1"],
            &["\"", "for=192.0.2.1,,"],
        ] {
            check_hops(lines, Some("192.0.2.1"));
        }
        check_hops(&["for=\"[2001:db8:cafe::17]:4711\", for=10.0.0.2"], Some("2001:db8:cafe::17"));
    }

    #[test]
    fn a_malformed_hop_is_not_guessed_rfc7239_6() {
        for hop in [
            "for=unknown",
            "for=_hidden",
            "for=\"_hidden:_port\"",
            "by=192.0.2.1",
            "proto=https",
            "192.0.2.1",
            "for=",
            "for=\"\"",
            "for=192.0.2.1;for=192.0.2.2",
            "for=192.0.2.1;for=192.0.2.1",
            "for =192.0.2.1",
            "for=192.0.2.1 for=192.0.2.2",
            "for=\"192.0.2.1\"x",
            "for=192.0.2.1;x",
            "for=\"192.0.2.1:\"",
            "for=\"192.0.2.1:_\"",
            "for=\"192.0.2.1:_po rt\"",
            "for=192.0.2.1:80",
            "for=[2001:db8::1]",
            "for=\"2001:db8::1\"",
            "for=\"[2001:db8::1\"",
            "for=\"[192.0.2.1]\"",
            "for=\"192.0.2.1, 192.0.2.2\"",
            "for=\"é\"",
            "for*=192.0.2.1",
        ] {
            check_hops(&["for=192.0.2.66", hop], None);
            check_hops(&[&format!("for=192.0.2.66, {hop}"), "for=10.0.0.2"], None);
        }
        // A quoted-string that the client has not closed swallows the hop that the proxy has appended to the line.
        for appended in [
            "for=192.0.2.1",
            "for=\"[2001:db8::1]\";host=\"a\"",
            "for=192.0.2.1;host=\"a, for=192.0.2.2;x=\"",
        ] {
            for lie in ["for=192.0.2.66;x=\"", "for=192.0.2.66, \"", "for=192.0.2.66;x=\"\\"] {
                check_hops(&[&format!("{lie}, {appended}")], None);
            }
        }
    }

    /// A request in the clear, with `host: inner` and the `lines` of a proxy, has this scheme and this host.
    #[track_caller]
    fn check_origin(fields: &[ForwardedHeader], lines: &[(&str, &str)], expected: [Option<&str>; 2]) {
        let proxies = TrustedProxies::new(["10.0.0.0/8"]).unwrap().headers(fields.iter().copied());
        let mut request = Request::get("/").unwrap();
        request.headers.set("host", "inner").unwrap();
        lines.iter().for_each(|(name, line)| request.headers.append(name, *line).unwrap());
        let seen = |peer: [u8; 4]| {
            Forwarded::from_request(&request, SocketAddr::from((peer, 1)).into(), false, &proxies)
        };
        let found = seen([10, 0, 0, 1]);
        assert_eq!([found.scheme, found.authority], expected, "{lines:?}");
        // Another peer is not believed.
        let direct = seen([192, 0, 2, 7]);
        assert_eq!([direct.scheme, direct.authority], [Some("http"), Some("inner")], "{lines:?}");
        assert_eq!(direct.client, Some([192, 0, 2, 7].into()));
    }

    #[test]
    fn scheme_and_host_are_those_that_the_client_saw() {
        let all = [
            ForwardedHeader::XForwardedFor,
            ForwardedHeader::XForwardedProto,
            ForwardedHeader::XForwardedHost,
        ];
        let (for_, proto, host) = ("x-forwarded-for", "x-forwarded-proto", "x-forwarded-host");
        let own = [Some("http"), Some("inner")];
        let seen = [Some("https"), Some("example.com:8443")];
        check_origin(&all, &[], own);
        check_origin(&all, &[(proto, "https"), (host, "example.com:8443")], seen);
        check_origin(&all, &[(proto, "WSS"), (host, "example.com:8443")], seen);
        // Only the last is certainly a proxy's.
        check_origin(&all, &[(proto, "http"), (proto, "x, https ,"), (host, "evil, example.com:8443")], seen);
        // Each of two proxies has appended a scheme, or only one of them has.
        for (addresses, schemes) in [
            ("192.0.2.1, 10.0.0.2", "https, http"),
            ("192.0.2.66, 192.0.2.1, 10.0.0.2", "http, https, http"),
            ("192.0.2.1, 10.0.0.3, 10.0.0.2", "https, http, http"),
            ("192.0.2.1, 10.0.0.3, 10.0.0.2", "https, http"),
            ("192.0.2.1, 10.0.0.2", "https"),
            ("192.0.2.1", "http, https"),
            ("10.0.0.3, 10.0.0.2", "https, http"),
            ("junk, 10.0.0.2", "https, http"),
        ] {
            let lines = [(for_, addresses), (proto, schemes), (host, "example.com:8443")];
            check_origin(&all, &lines, seen);
        }
        // Without addresses, the hops are not known.
        let unnamed = [(for_, "192.0.2.1, 10.0.0.2"), (proto, "https, http")];
        check_origin(&[ForwardedHeader::XForwardedProto], &unnamed, own);
        for malformed in ["ftp", "https:", "\"https\"", "https http", "é"] {
            check_origin(&all, &[(proto, "https"), (proto, malformed)], [None, Some("inner")]);
        }
        for malformed in
            ["a b", "a@b", "a/b", "\"a\"", ":80", "a:x", "a:65536", "[::1", "a%62", "a?b", "é", "<a>"]
        {
            check_origin(&all, &[(host, "example.com"), (host, malformed)], [Some("http"), None]);
        }
        check_origin(&all, &[(host, "[2001:db8::1]:80")], [Some("http"), Some("[2001:db8::1]:80")]);
        // A field that is not named may be the client's.
        let lies = [(proto, "https"), (host, "evil"), ("forwarded", "for=192.0.2.1;proto=https;host=evil")];
        check_origin(&[ForwardedHeader::XForwardedFor], &lies, own);
        check_origin(&[], &lies, own);
        check_origin(&all, &lies[2..], own);
    }

    #[test]
    fn the_hop_of_the_client_names_scheme_and_host_rfc7239_5() {
        let hops = [ForwardedHeader::Forwarded];
        let own = [Some("http"), Some("inner")];
        let seen = [Some("https"), Some("example.com:8443")];
        let check = |lines: &[&str], expected| {
            let lines: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
            check_origin(&hops, &lines, expected);
        };
        check(&["for=192.0.2.1"], own);
        check(&["for=192.0.2.1;proto=https;host=\"example.com:8443\""], seen);
        check(&["host=\"example.com:8443\";proto=\"HTTPS\";for=_hidden"], seen);
        // The claims of the client come before that hop, and those that inner proxies have seen behind it.
        check(
            &[
                "for=192.0.2.66;proto=http;host=evil, for=192.0.2.1;proto=https;host=\"example.com:8443\"",
                "for=10.0.0.2;proto=http;host=b",
            ],
            seen,
        );
        check(&["for=192.0.2.66;proto=https;host=evil, for=192.0.2.1, for=10.0.0.2;proto=https;host=b"], own);
        check(&["for=10.0.0.3;proto=https;host=\"example.com:8443\", for=10.0.0.2;host=b"], seen);
        check(&["for=192.0.2.1;proto=gopher;host=\"a b\""], [None, None]);
        check(&["for=192.0.2.1;host=\"a\\\"b\""], [Some("http"), None]);
        check(&["for=192.0.2.1;proto=https;proto=https;host=a"], [None, Some("a")]);
        check(&["for=192.0.2.1;proto=https;host=a;host=b"], [Some("https"), None]);
        check(&["for=192.0.2.1;proto=https;host=a;\"junk\""], [None, None]);
        check(&["for=192.0.2.66;x=\", for=192.0.2.1;proto=https"], [None, None]);
        // The other fields are the client's, even if they are named, as long as the proxies write this one.
        let both = [ForwardedHeader::Forwarded, ForwardedHeader::XForwardedProto];
        check_origin(&both, &[("forwarded", "for=192.0.2.1"), ("x-forwarded-proto", "https")], own);
        check_origin(&both, &[("x-forwarded-proto", "https")], [Some("https"), Some("inner")]);
    }
}
