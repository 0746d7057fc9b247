//! [`UriHost`]: an address, or a name to look up (RFC 9110 §4.2, RFC 3986 §3.2.2).

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr};

/// The host of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UriHost<'a> {
    /// An IPv4 address, or an IPv6 address with or without brackets.
    Address(IpAddr),
    /// A name to look up: not empty, not too long, and no resolver takes it for an address.
    Name(&'a str),
}

impl<'a> UriHost<'a> {
    /// Parses a host, and distinguishes addresses from names.
    ///
    /// # Errors
    ///
    /// Fails if `text` is neither. So do `127.1`, `0x7f000001` and `2130706433`: the resolvers of most systems take
    /// them for 127.0.0.1, which a check against an address would miss.
    pub(crate) fn parse(text: &'a str) -> Result<UriHost<'a>, InvalidHost> {
        if let Some(literal) = text.strip_prefix('[') {
            let address = literal.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
            return address.map(|address| UriHost::Address(address.into())).ok_or(InvalidHost);
        }
        if let Ok(address) = text.parse() {
            return Ok(UriHost::Address(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        let is_name = matches!(name.len(), 1..=NAME_BYTES_MAX)
            && name.bytes().all(|octet| octet.is_ascii_graphic() && !DELIMITERS.contains(&octet))
            && !ends_in_number(name);
        is_name.then_some(UriHost::Name(text)).ok_or(InvalidHost)
    }
}

/// The maximum length of a DNS name (RFC 1035 §2.3.4), without the final dot.
const NAME_BYTES_MAX: usize = 253;
const _: () = assert!(NAME_BYTES_MAX < u8::MAX as usize, "with its dot it fits SOCKS5 (RFC 1928 §5)");

/// `gen-delims` (RFC 3986 §2.2), and `\`, which some take for a `/`. Text with one of them is more than a host.
const DELIMITERS: &[u8] = b":/?#[]@\\";

/// Whether the last label is a number, which is so in addresses, but never in DNS names (RFC 1123 §2.1).
fn ends_in_number(name: &str) -> bool {
    let label = name.rsplit('.').next().unwrap_or_default().as_bytes();
    match label {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

/// A host that is neither an address nor a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidHost;

impl fmt::Display for InvalidHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the host is neither an address nor a name")
    }
}

impl Error for InvalidHost {}

impl From<InvalidHost> for io::Error {
    fn from(error: InvalidHost) -> io::Error {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_distinguished_from_names_rfc3986_3_2_2() {
        for (text, expected) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("[::1]", "::1"),
            ("[2001:DB8::7]", "2001:db8::7"),
            ("[::ffff:192.0.2.1]", "::ffff:192.0.2.1"),
        ] {
            assert_eq!(UriHost::parse(text), Ok(UriHost::Address(expected.parse().unwrap())), "{text}");
        }
        let longest = ["a".repeat(253), format!("{}.", "a".repeat(253))];
        let names =
            ["a", "localhost", "example.com", "example.com.", "1.a", "1.2.3.4a", "0xg", "_a-b", "caf%C3%A9"];
        for name in names.into_iter().chain(longest.iter().map(String::as_str)) {
            assert_eq!(UriHost::parse(name), Ok(UriHost::Name(name)), "{name}");
        }
    }

    #[test]
    fn a_name_that_resembles_an_address_is_refused_rfc1123_2_1() {
        let numbers =
            ["1", "127.1", "2130706433", "0x7f000001", "0X7F.1", "0x", "0x7f", "1.2.3.4.5", "256.1.1.1"];
        let dotted = ["127.0.0.1.", "127.0.0.01", "a.1", "a.0x1", "a..", ".", "..", "1."];
        let bracketed = ["[", "[]", "]", "[::1", "[127.0.0.1]", "[a]", "[::1]]", "[v1.a]", "[::1%25lo]"];
        let long = "a".repeat(254);
        let odd = ["", "a b", "a\0b", "a\r\nb", "é", "a:80", "u@a", "a/", "a\\b", "a?", "a#", &long];
        for text in [&numbers[..], &dotted, &bracketed, &odd].concat() {
            assert_eq!(UriHost::parse(text), Err(InvalidHost), "{text:?}");
        }
    }
}
