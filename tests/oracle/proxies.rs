//! Proxies and their clients: PROXY headers (versions 1 and 2 of its specification), replies of SOCKS5 (RFC 1928, RFC 1929), and
//! the fields that name a client (RFC 7239).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::from_utf8;

use super::grammar::{elements, trim};
use super::reader::Next;

/// A PROXY header.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProxyHeader {
    /// The address of the client, and the one that it has connected to, if the proxy has named them.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
    /// How many octets it has.
    pub len: usize,
}

/// Reads the PROXY header that `wire` begins with. A checksum is not verified, and fields need only be whole.
pub fn proxy_header(wire: &[u8]) -> Next<ProxyHeader> {
    let begins = |signature: &[u8]| wire.iter().zip(signature).all(|(one, other)| one == other);
    match wire {
        [] => Next::Nothing,
        _ if begins(b"PROXY ") => version_1(wire),
        _ if begins(SIGNATURE) => version_2(wire),
        _ => Next::Refused(None, "2: a header begins with one of two signatures"),
    }
}

const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Section 2.1.
fn version_1(wire: &[u8]) -> Next<ProxyHeader> {
    let seen = &wire[..wire.len().min(LINE_MAX)];
    let Some(end) = seen.iter().position(|octet| *octet == b'\n') else {
        return match seen.len() {
            LINE_MAX => Next::Refused(None, "2.1: a line has 107 octets at most"),
            _ => Next::Partial(None),
        };
    };
    let Some(line) = seen[..end].strip_suffix(b"\r").filter(|line| !line.contains(&b'\r')) else {
        return Next::Refused(None, "2.1: a line ends with CRLF");
    };
    let fields: Vec<&[u8]> = line.split(|octet| *octet == b' ').collect();
    let addresses = match fields[..] {
        [_, b"UNKNOWN", ..] => Some(None),
        [_, b"TCP4", source, destination, source_port, port] => {
            let ip = |text: &[u8]| Some(IpAddr::V4(from_utf8(text).ok()?.parse::<Ipv4Addr>().ok()?));
            pair(ip(source), ip(destination), number(source_port), number(port)).map(Some)
        }
        [_, b"TCP6", source, destination, source_port, port] => {
            let ip = |text: &[u8]| Some(IpAddr::V6(from_utf8(text).ok()?.parse::<Ipv6Addr>().ok()?));
            pair(ip(source), ip(destination), number(source_port), number(port)).map(Some)
        }
        _ => None,
    };
    match addresses {
        Some(addresses) => Next::Whole(ProxyHeader { addresses, len: end + 1 }),
        None => Next::Refused(None, "2.1: a line has a protocol, two addresses and two ports"),
    }
}

const LINE_MAX: usize = 107;

fn pair(
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
    source_port: Option<u16>,
    port: Option<u16>,
) -> Option<(SocketAddr, SocketAddr)> {
    Some((SocketAddr::new(source?, source_port?), SocketAddr::new(destination?, port?)))
}

/// A port, without zeros in front.
fn number(text: &[u8]) -> Option<u16> {
    let is_canonical = text == b"0" || text.first().is_some_and(|digit| matches!(digit, b'1'..=b'9'));
    let is_number = is_canonical && text.iter().all(u8::is_ascii_digit);
    from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

/// Section 2.2.
fn version_2(wire: &[u8]) -> Next<ProxyHeader> {
    let Some([command, family, high, low]) = wire.get(12..16) else { return Next::Partial(None) };
    let len = usize::from(u16::from_be_bytes([*high, *low]));
    if len > REST_MAX {
        return Next::Refused(None, "more than proxies write");
    }
    let Some(rest) = wire.get(16..16 + len) else { return Next::Partial(None) };
    let whole = |addresses| Next::Whole(ProxyHeader { addresses, len: 16 + len });
    match command {
        0x20 => return whole(None),
        0x21 => {}
        _ => return Next::Refused(None, "2.2: a command is LOCAL or PROXY, of version 2"),
    }
    let read = match (family, rest) {
        (0x00, fields) => Some((None, fields)),
        (0x11, _) => rest.split_first_chunk::<12>().map(|(octets, fields)| {
            let ip = |at: usize| IpAddr::from(<[u8; 4]>::try_from(&octets[at..at + 4]).unwrap());
            let port = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
            (pair(Some(ip(0)), Some(ip(4)), Some(port(8)), Some(port(10))), fields)
        }),
        (0x21, _) => rest.split_first_chunk::<36>().map(|(octets, fields)| {
            let ip = |at: usize| IpAddr::from(<[u8; 16]>::try_from(&octets[at..at + 16]).unwrap());
            let port = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
            (pair(Some(ip(0)), Some(ip(16)), Some(port(32)), Some(port(34))), fields)
        }),
        (0x31, _) => rest.split_at_checked(216).map(|(_, fields)| (None, fields)),
        _ => return Next::Refused(None, "2.2: a connection is a stream of a known family"),
    };
    match read {
        Some((addresses, fields)) if are_fields(fields) => whole(addresses),
        Some(_) => Next::Refused(None, "2.2: a field has the length that it states"),
        None => Next::Refused(None, "2.2: a header has room for its addresses"),
    }
}

const REST_MAX: usize = 16 << 10;

/// Whether these are whole fields (TLV), those with a meaning in the form that they need.
fn are_fields(mut fields: &[u8]) -> bool {
    while let [kind, high, low, rest @ ..] = fields {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, rest)) = rest.split_at_checked(len) else { return false };
        let is_good = match kind {
            0x02 | 0x21..=0x25 | 0x30 => from_utf8(value).is_ok(),
            0x03 => len == 4,
            0x20 => len >= 5,
            _ => true,
        };
        if !is_good {
            return false;
        }
        fields = rest;
    }
    fields.is_empty()
}

/// How far a client gets with a SOCKS5 proxy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Socks {
    /// It may not go on with the handshake after its greeting, its credentials, or its request.
    Greeted,
    LoggingIn,
    Requested {
        with_login: bool,
    },
    /// It is connected. So many octets were the proxy's.
    Connected {
        with_login: bool,
        len: usize,
    },
}

/// Reads the replies of a proxy to a client that has credentials, and offers to do without.
pub fn socks_replies(wire: &[u8]) -> Socks {
    let (with_login, rest) = match wire {
        [5, 0, rest @ ..] => (false, rest),
        [5, 2, 1, 0, rest @ ..] => (true, rest),
        [5, 2, ..] => return Socks::LoggingIn,
        _ => return Socks::Greeted,
    };
    let address = match rest {
        [5, 0, 0, 1, ..] => Some(4),
        [5, 0, 0, 4, ..] => Some(16),
        [5, 0, 0, 3, len, ..] => Some(1 + usize::from(*len)),
        _ => None,
    };
    let end = address.map(|len| 4 + len + 2).filter(|end| *end <= rest.len());
    match end {
        Some(end) => Socks::Connected { with_login, len: wire.len() - rest.len() + end },
        None => Socks::Requested { with_login },
    }
}

/// The client of a request that came from a proxy, by the values of its `x-forwarded-for`: the last member that is not
/// the address of a proxy, or else the first. `None` if there is no member; a member that is no address is `Some(None)`.
pub fn forwarded_for(values: &[&[u8]], is_proxy: impl Fn(IpAddr) -> bool) -> Option<Option<IpAddr>> {
    let members: Vec<&[u8]> = values.iter().flat_map(|value| elements(value)).collect();
    let is_other = |member: &&&[u8]| !node(member, true).is_some_and(&is_proxy);
    let client = members.iter().rev().find(is_other).or(members.first())?;
    Some(node(client, true))
}

/// The client of a request by the values of its `forwarded`, likewise. The reader knows the simplest form alone: `None`
/// if another one is among them.
pub fn forwarded(values: &[&[u8]], is_proxy: impl Fn(IpAddr) -> bool) -> Option<Option<IpAddr>> {
    let mut members = Vec::new();
    for member in values.iter().flat_map(|value| elements(value)) {
        let (name, value) = member.split_at(member.iter().position(|octet| *octet == b'=')?);
        let value =
            value[1..].strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(&value[1..]);
        let is_simple = |octet: &u8| octet.is_ascii_alphanumeric() || b".:[]_-".contains(octet);
        let is_good = !value.is_empty() && value.iter().all(is_simple);
        let is_token = member.ends_with(b"\"") || !value.iter().any(|octet| b":[]".contains(octet));
        if !name.eq_ignore_ascii_case(b"for") || !is_good || !is_token {
            return None;
        }
        members.push(node(value, false));
    }
    let is_other = |member: &&Option<IpAddr>| !member.is_some_and(&is_proxy);
    members.iter().rev().find(is_other).or(members.first()).copied()
}

/// `node` (RFC 7239 §6): an address, and perhaps a port. In `x-forwarded-for`, no brackets are needed.
fn node(text: &[u8], is_bare: bool) -> Option<IpAddr> {
    let text = from_utf8(trim(text)).ok()?;
    let is_port =
        |port: &str| (1..=5).contains(&port.len()) && port.bytes().all(|octet| octet.is_ascii_digit());
    let is_name = |port: &str| {
        let is_octet = |octet: u8| octet.is_ascii_alphanumeric() || b"._-".contains(&octet);
        !is_bare && port.strip_prefix('_').is_some_and(|name| !name.is_empty() && name.bytes().all(is_octet))
    };
    let is_good = |port: &str| is_port(port) && port.parse::<u16>().is_ok() || is_name(port);
    let address: IpAddr = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => address.parse::<Ipv6Addr>().ok()?.into(),
        Some((address, port)) => {
            port.strip_prefix(':').filter(|port| is_good(port))?;
            address.parse::<Ipv6Addr>().ok()?.into()
        }
        None => match text.split_once(':') {
            Some((address, port)) if is_good(port) && address.parse::<Ipv4Addr>().is_ok() => {
                address.parse::<Ipv4Addr>().ok()?.into()
            }
            _ if is_bare => text.parse().ok()?,
            _ => text.parse::<Ipv4Addr>().ok()?.into(),
        },
    };
    Some(address.to_canonical())
}
