//! [`TrustedProxies`]: the proxies in front of a server, and which of their fields are believed (RFC 7239 §8.1).

use std::cmp::Reverse;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::error_text::Excerpt;
use crate::message::decimal;
use crate::net::PeerAddr;

/// The proxies in front of a server: their networks, and their fields about the client.
///
/// Given to [`Server::trusted_proxies`](crate::Server::trusted_proxies), which lists the uses. A peer on a Unix socket
/// counts as a proxy, too, as a process of this machine. Only the [default](TrustedProxies::default) trusts none at
/// all.
///
/// Name only fields that each of the proxies sets, appends to or removes. Many proxies pass on the others unchanged. For
/// example, nginx passes on each field that its configuration does not set. A peer that is taken for a proxy can claim any
/// address. So let the networks contain no address that others can use.
///
/// # Examples
///
/// ```
/// use corehttp::{Context, Server, TrustedProxies};
/// use corehttp::server::ForwardedHeader;
///
/// let proxies = TrustedProxies::new(["10.0.0.0/8", "2001:db8:1::/48"])?
///     .headers([ForwardedHeader::XForwardedFor, ForwardedHeader::XForwardedProto]);
/// assert!(proxies.contains([10, 1, 2, 3].into()));
/// let service = Server::new().trusted_proxies(proxies).service(|ctx: &mut Context| {
///     let forwarded = ctx.forwarded();
///     ctx.response.set_text(format!("{:?} by {:?}", forwarded.client, forwarded.scheme));
/// });
/// # let _ = service;
/// # Ok::<(), corehttp::server::NetworkParseError>(())
/// ```
#[doc(alias("cidr", "forwarded headers", "realip", "ProxyFix"))]
#[derive(Clone)]
#[must_use]
pub struct TrustedProxies {
    /// `None` if no peer is a proxy, not even one of a Unix socket.
    is_proxy: Option<Arc<dyn Fn(IpAddr) -> bool + Send + Sync>>,
    /// Which fields are believed and written, by their position in [`ForwardedHeader`].
    fields: [bool; 4],
}

/// A field in which proxies pass on facts about the client. See [`TrustedProxies::headers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardedHeader {
    /// `forwarded`: address, scheme and host, for each hop (RFC 7239). If a request has it, it takes precedence.
    Forwarded,
    /// `x-forwarded-for`: addresses, one for each hop.
    XForwardedFor,
    /// `x-forwarded-proto`: the scheme. Of several, as in `https, http`, the one of the client's hop counts if
    /// `x-forwarded-for` is believed. Otherwise the last one counts.
    XForwardedProto,
    /// `x-forwarded-host`: the host, and perhaps the port. Of several, the last one counts.
    XForwardedHost,
}

impl TrustedProxies {
    /// Creates proxies in these networks, in CIDR notation (RFC 4632 §3.1, RFC 4291 §2.3) such as `10.0.0.0/8`, or with
    /// these addresses. An IPv4 address that is mapped to IPv6 is an IPv4 address.
    ///
    /// # Errors
    ///
    /// Fails for a malformed network or address, and for bits beyond the prefix, as in `10.0.0.1/8`. Such a network may
    /// be larger than intended.
    pub fn new<N: AsRef<str>>(
        networks: impl IntoIterator<Item = N>,
    ) -> Result<TrustedProxies, NetworkParseError> {
        let networks = networks.into_iter().map(|text| Network::parse(text.as_ref()));
        let networks = NetworkSet::new(networks.collect::<Result<_, _>>()?);
        Ok(TrustedProxies::from_fn(move |ip| networks.contains(ip)))
    }

    /// Creates proxies whose addresses `is_proxy` accepts. Networks can then change while the server runs.
    pub fn from_fn(is_proxy: impl Fn(IpAddr) -> bool + Send + Sync + 'static) -> TrustedProxies {
        TrustedProxies { is_proxy: Some(Arc::new(is_proxy)), ..TrustedProxies::default() }
    }

    /// Creates proxies that connect through Unix sockets, and no others.
    pub fn unix_sockets() -> TrustedProxies {
        TrustedProxies::from_fn(|_| false)
    }

    /// Sets which fields are believed, and written by [`Context::set_forwarded`](crate::Context::set_forwarded).
    /// Default: [`ForwardedHeader::XForwardedFor`].
    pub fn headers(mut self, fields: impl IntoIterator<Item = ForwardedHeader>) -> TrustedProxies {
        self.fields = [false; 4];
        fields.into_iter().for_each(|field| self.fields[field as usize] = true);
        self
    }

    /// Returns whether this is the address of a proxy.
    pub fn contains(&self, ip: IpAddr) -> bool {
        self.is_proxy.as_ref().is_some_and(|is_proxy| is_proxy(ip.to_canonical()))
    }

    /// Whether the fields that this peer sends are believed.
    pub(crate) fn trusts(&self, peer: PeerAddr) -> bool {
        self.is_proxy.is_some() && peer.ip().map_or(peer == PeerAddr::Unix, |ip| self.contains(ip))
    }

    /// Whether this field is believed, and written.
    pub(crate) fn names(&self, field: ForwardedHeader) -> bool {
        self.fields[field as usize]
    }
}

impl Default for TrustedProxies {
    /// No proxies: each peer is the client. Nothing that it writes about another one is believed. A gateway at the edge
    /// writes the [fields](TrustedProxies::headers) of these.
    fn default() -> TrustedProxies {
        TrustedProxies { is_proxy: None, fields: [false; 4] }.headers([ForwardedHeader::XForwardedFor])
    }
}

impl fmt::Debug for TrustedProxies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrustedProxies { is_proxy: _, fields } = self;
        f.debug_struct("TrustedProxies").field("fields", fields).finish_non_exhaustive()
    }
}

/// Networks in the order of their addresses, none of which is a part of another. A cloud has thousands, which a binary
/// search finds.
struct NetworkSet(Vec<Network>);

impl NetworkSet {
    fn new(mut networks: Vec<Network>) -> NetworkSet {
        networks.sort_unstable_by_key(|network| (network.first, Reverse(network.last)));
        // Two networks are apart, or one contains the other.
        networks.dedup_by(|next, before| next.last <= before.last);
        NetworkSet(networks)
    }

    fn contains(&self, ip: IpAddr) -> bool {
        let begun = self.0.partition_point(|network| network.first <= ip);
        self.0[..begun].last().is_some_and(|network| ip <= network.last)
    }
}

/// The addresses with one prefix, from the first to the last.
struct Network {
    first: IpAddr,
    last: IpAddr,
}

impl Network {
    fn parse(text: &str) -> Result<Network, NetworkParseError> {
        let parsed = match text.split_once('/') {
            None => text.parse().ok().map(|address: IpAddr| Network::new(address.to_canonical(), u32::MAX)),
            Some((address, len)) => Network::with_prefix(address, len),
        };
        parsed.ok_or_else(|| NetworkParseError(Excerpt(text).to_string().into()))
    }

    fn with_prefix(address: &str, len: &str) -> Option<Network> {
        let address: IpAddr = address.parse().ok()?;
        let len = u32::try_from(decimal(len.as_bytes())?).ok()?;
        let (bits, zeros) = match address {
            IpAddr::V4(address) => (32, address.to_bits().trailing_zeros()),
            IpAddr::V6(address) => (128, address.to_bits().trailing_zeros()),
        };
        // No prefix of mapped addresses is shorter than that which all of them have in common.
        let is_mapped = address.is_ipv6() && address.to_canonical().is_ipv4();
        let mapped_len = if is_mapped { MAPPED_LEN } else { 0 };
        let is_valid = (mapped_len..=bits).contains(&len) && zeros >= bits - len;
        is_valid.then(|| Network::new(address.to_canonical(), len - mapped_len))
    }

    fn new(first: IpAddr, prefix_len: u32) -> Network {
        let last = match first {
            IpAddr::V4(ip) => {
                (ip | Ipv4Addr::from_bits(u32::MAX.checked_shr(prefix_len).unwrap_or(0))).into()
            }
            IpAddr::V6(ip) => {
                (ip | Ipv6Addr::from_bits(u128::MAX.checked_shr(prefix_len).unwrap_or(0))).into()
            }
        };
        Network { first, last }
    }
}

/// The length of the prefix of IPv4 addresses that are mapped to IPv6 (RFC 4291 §2.5.5.2).
const MAPPED_LEN: u32 = 96;

/// A text is not a network of IP addresses in CIDR notation, nor an address. It is in quotes here, and may be cut short.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NetworkParseError(Box<str>);

impl fmt::Display for NetworkParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is neither an IP address nor a network such as 10.0.0.0/8, without bits beyond its prefix",
            self.0
        )
    }
}

impl std::error::Error for NetworkParseError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_contains_the_addresses_with_its_prefix_rfc4632_3_1() {
        for (network, inside, outside) in [
            (
                "10.0.0.0/8",
                &["10.0.0.0", "10.255.255.255", "::ffff:10.1.2.3"][..],
                &["11.0.0.0", "9.255.255.255", "::a00:0"][..],
            ),
            ("192.0.2.128/25", &["192.0.2.128", "192.0.2.255"], &["192.0.2.127", "192.0.3.128"]),
            ("192.0.2.1", &["192.0.2.1", "::ffff:192.0.2.1"], &["192.0.2.0", "192.0.2.3"]),
            ("192.0.2.1/32", &["192.0.2.1"], &["192.0.2.0"]),
            ("0.0.0.0/0", &["0.0.0.0", "255.255.255.255"], &["::", "::1"]),
            ("::ffff:10.0.0.0/104", &["10.1.2.3", "::ffff:10.1.2.3"], &["11.0.0.0"]),
            ("::ffff:192.0.2.1", &["192.0.2.1"], &["192.0.2.2"]),
            ("2001:db8::/32", &["2001:db8::", "2001:db8:ffff::1"], &["2001:db9::", "::", "32.1.13.184"]),
            ("fe80::/10", &["fe80::1", "febf::1"], &["fec0::1"]),
            ("::1", &["::1"], &["::", "::2", "127.0.0.1"]),
            ("::/0", &["::", "ffff::"], &["10.0.0.1", "::ffff:10.0.0.1"]),
        ] {
            let proxies = TrustedProxies::new([network]).unwrap();
            let contains = |ip: &&&str| proxies.contains(ip.parse().unwrap());
            assert_eq!(inside.iter().find(|ip| !contains(ip)), None, "{network}");
            assert_eq!(outside.iter().find(contains), None, "{network}");
        }
        assert!(!TrustedProxies::new([""; 0]).unwrap().contains([10, 0, 0, 1].into()));
    }

    /// As a list that is read from its start finds it.
    #[test]
    fn networks_of_all_sizes_are_found_among_many() {
        let texts = [
            "10.0.0.0/8",
            "10.1.0.0/16",
            "9.9.9.9",
            "9.9.9.9/32",
            "10.255.255.255",
            "11.0.0.0/31",
            "::/96",
            "::1",
            "2001:db8::/32",
            "2001:db8:1::/48",
            "255.255.255.255",
            "ffff::/16",
        ];
        let singles = texts.map(|text| TrustedProxies::new([text]).unwrap());
        for (from, to) in [(0, 6), (3, 12), (6, 12), (0, 12)] {
            let reversed = TrustedProxies::new(texts[from..to].iter().rev()).unwrap();
            for ip in [
                "0.0.0.0",
                "9.9.9.8",
                "9.9.9.9",
                "9.9.9.10",
                "10.0.0.0",
                "10.1.2.3",
                "10.2.0.0",
                "10.255.255.255",
                "11.0.0.0",
                "11.0.0.1",
                "11.0.0.2",
                "255.255.255.254",
                "255.255.255.255",
                "::",
                "::1",
                "::ffff",
                "::1:0:0",
                "2001:db7::1",
                "2001:db8::1",
                "2001:db8:1::1",
                "2001:db8:2::1",
                "2001:db9::",
                "fffe::",
                "ffff::1",
            ] {
                let ip = ip.parse().unwrap();
                let expected = singles[from..to].iter().any(|proxies| proxies.contains(ip));
                assert_eq!(reversed.contains(ip), expected, "{ip} in {from}..{to}");
            }
        }
    }

    #[test]
    fn a_peer_of_a_unix_socket_is_a_proxy_unless_none_is() {
        for (proxies, expected) in [
            (TrustedProxies::default(), false),
            (TrustedProxies::unix_sockets(), true),
            (TrustedProxies::new(["10.0.0.0/8"]).unwrap(), true),
        ] {
            assert_eq!(proxies.trusts(PeerAddr::Unix), expected, "{proxies:?}");
            assert!(!proxies.trusts(PeerAddr::Memory) && !proxies.contains([192, 0, 2, 1].into()));
        }
    }

    #[test]
    fn a_malformed_network_is_an_error() {
        for text in [
            "",
            "/",
            "/8",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/8/8",
            "10.0.0.0 /8",
            "10.0.0.1/8",
            "10/8",
            "10.0.0/24",
            "010.0.0.0/8",
            "10.0.0.0/4294967304",
            "2001:db8::/129",
            "2001:db8::1/64",
            "[2001:db8::]/32",
            "fe80::%eth0/10",
            "::ffff:0:0/95",
            "::ffff:10.0.0.0/8",
            "localhost",
        ] {
            let error = TrustedProxies::new(["10.0.0.0/8", text]).map(drop).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "`{text}` is neither an IP address nor a network such as 10.0.0.0/8, without bits beyond its prefix"
                )
            );
        }
    }
}
