//! [`client_ip`]: the address of the client, if a proxy connects for it (RFC 9110 §3.7).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::message::{Headers, trim};
use crate::net::PeerAddr;

/// See [`Context::client_ip`](super::Context::client_ip).
pub(super) fn client_ip(
    peer: PeerAddr,
    fields: &Headers,
    is_proxy: impl Fn(IpAddr) -> bool,
) -> Option<IpAddr> {
    let is_claim_taken = peer.ip().map_or(peer == PeerAddr::Unix, &is_proxy);
    if !is_claim_taken {
        return peer.ip();
    }
    let lines = fields.all("x-forwarded-for");
    let names = lines.flat_map(|line| line.split(|&octet| octet == b',')).map(trim);
    let addresses = names.filter(|name| !name.is_empty()).map(address);
    let client = addresses.reduce(|client, next| if next.is_some_and(&is_proxy) { client } else { next });
    client.unwrap_or_else(|| peer.ip())
}

/// Reads an address as proxies write it: some add a port.
fn address(name: &[u8]) -> Option<IpAddr> {
    let name = std::str::from_utf8(name).ok()?;
    let with_port = || Some(name.parse::<SocketAddr>().ok()?.ip());
    let in_brackets = || Some(name.strip_prefix('[')?.strip_suffix(']')?.parse::<Ipv6Addr>().ok()?.into());
    let address = name.parse().ok().or_else(with_port).or_else(in_brackets)?;
    Some(IpAddr::to_canonical(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "10.0.0.1";

    /// With 10.0.0.0/8 and ::1 as proxies, a request from `peer` with these lines comes from `expected`.
    #[track_caller]
    fn check(peer: &str, lines: &[&str], expected: Option<&str>) {
        let is_proxy = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.octets()[0] == 10,
            IpAddr::V6(ip) => ip.is_loopback(),
        };
        let peer = match peer {
            "unix" => PeerAddr::Unix,
            "memory" => PeerAddr::Memory,
            ip => SocketAddr::new(ip.parse().unwrap(), 4711).into(),
        };
        let mut fields = Headers::new();
        lines.iter().for_each(|line| fields.append("x-forwarded-for", *line).unwrap());
        assert_eq!(client_ip(peer, &fields, is_proxy), expected.map(|ip| ip.parse().unwrap()), "{lines:?}");
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
}
