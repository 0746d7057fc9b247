//! The host of a URL that people or pages wrote (WHATWG URL §3.5).

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{InvalidTarget, idna};
use crate::message::OctetSet;
use crate::message::percent;

/// The only spelling of `host`: a name in lower case and in ASCII, an IPv4 address as four decimal numbers (`127.1`,
/// `0x7f000001` and `2130706433` are the loopback address to browsers, to curl and to most resolvers), an IPv6 address as
/// in RFC 5952.
///
/// # Errors
///
/// Fails if it is neither a name nor an address.
pub(crate) fn uri_host(host: &str) -> Result<String, InvalidTarget> {
    if let Some(literal) = host.strip_prefix('[') {
        let address = literal.strip_suffix(']').and_then(|address| address.parse::<Ipv6Addr>().ok());
        return Ok(format!("[{}]", address.ok_or(InvalidTarget::Authority)?));
    }
    let name = idna::to_ascii(percent::decode_octets(host))?;
    if name.is_empty() || !NORMALIZED.contains_all(name.as_bytes()) {
        return Err(InvalidTarget::Authority);
    }
    match ends_in_number(&name) {
        true => Ok(ipv4(&name).ok_or(InvalidTarget::Authority)?.to_string()),
        false => Ok(name),
    }
}

/// The length of the host at the front of `text`, if it is there in its only spelling.
pub(super) fn normalized_len(text: &str) -> Option<usize> {
    if let Some(literal) = text.strip_prefix('[') {
        let (literal, _) = literal.split_once(']')?;
        let address = literal.parse::<Ipv6Addr>().ok()?;
        return is_displayed_as(address, literal).then_some(literal.len() + "[]".len());
    }
    let host = &text[..NORMALIZED.prefix_len(text.as_bytes())];
    let may_be_number = matches!(host.as_bytes().last(), Some(b'0'..=b'9' | b'a'..=b'f' | b'x' | b'.'));
    let is_normalized = match may_be_number && ends_in_number(host) {
        // Without leading zeros, and with four numbers.
        true => host.parse::<Ipv4Addr>().is_ok(),
        // A label in Punycode may stand for nothing.
        false => memchr::memchr(b'-', host.as_bytes()).is_none() || !host.contains("xn--"),
    };
    (is_normalized && !host.is_empty()).then_some(host.len())
}

/// The octets of a `reg-name` (RFC 3986 §3.2.2), in lower case and without escapes. Browsers take `"`, `` ` ``, `{` and `}`
/// as well; no resolver finds such a name.
static NORMALIZED: OctetSet = OctetSet::URI_PLAIN.without(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ");

/// Whether a name is meant as an IPv4 address (WHATWG URL §3.5): its last label is a number, as in no name of DNS (RFC
/// 1123 §2.1).
fn ends_in_number(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = name.rsplit('.').next().unwrap_or_default().as_bytes();
    match label {
        [b'0', b'x', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => !digits.is_empty() && digits.iter().all(u8::is_ascii_digit),
    }
}

/// One to four numbers, each in decimal, octal or hexadecimal, of which the last fills what is left of the address.
fn ipv4(name: &str) -> Option<Ipv4Addr> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let numbers = name.split('.').map(number).collect::<Option<Vec<u32>>>()?;
    let (last, front) = numbers.split_last()?;
    let free_bits = u32::BITS.checked_sub(8 * u32::try_from(front.len()).ok()?)?;
    let is_valid = front.iter().all(|number| *number <= 255) && last.checked_shr(free_bits).unwrap_or(0) == 0;
    let high = front.iter().fold(0, |high, number| high << 8 | number);
    is_valid.then(|| Ipv4Addr::from(high.checked_shl(free_bits).unwrap_or(0) | last))
}

fn number(label: &str) -> Option<u32> {
    let (digits, radix) = match label.as_bytes() {
        [] => return None,
        [b'0', b'x', digits @ ..] => (digits, 16),
        [b'0', digits @ ..] => (digits, 8),
        digits => (digits, 10),
    };
    digits.iter().try_fold(0_u32, |number, digit| {
        number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)
    })
}

/// Whether `value` is displayed as `text`. Nothing is allocated.
fn is_displayed_as(value: impl fmt::Display, text: &str) -> bool {
    struct Unmatched<'a>(&'a str);
    impl Write for Unmatched<'_> {
        fn write_str(&mut self, shown: &str) -> fmt::Result {
            self.0 = self.0.strip_prefix(shown).ok_or(fmt::Error)?;
            Ok(())
        }
    }
    let mut rest = Unmatched(text);
    write!(rest, "{value}").is_ok() && rest.0.is_empty()
}
