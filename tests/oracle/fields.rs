//! Fields that are read one by one: weights (RFC 9110 §12.4.2), cookies (RFC 6265 §5.4), and traces (W3C Trace Context).

use std::str::from_utf8;

use super::grammar::{is_token, trim, trim_start};

/// The members of a list with their weights in thousandths. `None` if one of them is not a token, a range or a language
/// with a weight at most: what else there is, other readers may understand otherwise.
pub fn weights(list: &[u8]) -> Option<Vec<(String, u16)>> {
    let mut all = Vec::new();
    for member in list.split(|octet| *octet == b',').map(trim).filter(|member| !member.is_empty()) {
        let (name, weight) = match member.iter().position(|octet| *octet == b';') {
            None => (member, 1000),
            Some(at) => (trim(&member[..at]), weight(trim_start(&member[at + 1..]))?),
        };
        let is_name = !name.is_empty() && name.split(|octet| *octet == b'/').all(is_token);
        all.push((String::from_utf8(name.to_vec()).ok().filter(|_| is_name)?, weight));
    }
    Some(all)
}

/// `"q=" qvalue`.
fn weight(text: &[u8]) -> Option<u16> {
    let value = text.strip_prefix(b"q=").or(text.strip_prefix(b"Q="))?;
    let (whole, decimals) = match value {
        [whole] => (*whole, &b""[..]),
        [whole, b'.', decimals @ ..] => (*whole, decimals),
        _ => return None,
    };
    let is_good =
        decimals.len() <= 3 && decimals.iter().all(u8::is_ascii_digit) && matches!(whole, b'0' | b'1');
    let digits = format!("{}{:0<3}", whole as char, from_utf8(decimals).ok()?);
    digits.parse::<u16>().ok().filter(|weight| is_good && *weight <= 1000)
}

/// The values of all cookies of that name in these fields, if they are text.
pub fn cookie_values(fields: &[&[u8]], name: &str) -> Vec<Vec<u8>> {
    let pairs = fields.iter().flat_map(|field| field.split(|octet| *octet == b';')).take(1024).map(trim);
    let named = pairs.filter_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    named.filter(|value| from_utf8(value).is_ok()).map(<[u8]>::to_vec).collect()
}

/// The ids and the flag `sampled` of a `traceparent` (§3.2).
pub fn trace_parent(value: &[u8]) -> Option<(u128, u64, bool)> {
    // A later version may add anything.
    let value = String::from_utf8_lossy(trim(value));
    let parts: Vec<&str> = value.split('-').collect();
    let [version, trace, span, flags, more @ ..] = &parts[..] else { return None };
    let is_hex = |text: &str, len: usize| {
        text.len() == len && text.bytes().all(|octet| matches!(octet, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_good = is_hex(version, 2) && is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2);
    if !is_good || *version == "ff" || *version == "00" && !more.is_empty() {
        return None;
    }
    let (trace, span) = (u128::from_str_radix(trace, 16).ok()?, u64::from_str_radix(span, 16).ok()?);
    let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    (trace != 0 && span != 0).then_some((trace, span, is_sampled))
}

/// The members of all `tracestate`, joined (§3.3). `None` if one of them is not strictly valid, or if there are many.
pub fn trace_state(values: &[&[u8]]) -> Option<String> {
    let members = values.iter().flat_map(|value| value.split(|octet| *octet == b','));
    let members: Vec<&[u8]> = members.map(trim).filter(|member| !member.is_empty()).collect();
    let is_member = |member: &&[u8]| {
        let Some(at) = member.iter().position(|octet| *octet == b'=') else { return false };
        let (key, value) = (&member[..at], &member[at + 1..]);
        let is_value = |octet: &u8| matches!(octet, b' '..=b'~') && !b",=".contains(octet);
        is_key(key) && (1..=256).contains(&value.len()) && value.iter().all(is_value)
    };
    let joined = members.join(&b',');
    let is_good = members.len() <= 32 && joined.len() <= 512 && members.iter().all(is_member);
    String::from_utf8(joined).ok().filter(|_| is_good)
}

/// `simple-key` or `multi-tenant-key` (§3.3.1.3.1).
fn is_key(key: &[u8]) -> bool {
    let is_part = |part: &[u8], most: usize, may_begin: fn(&u8) -> bool| {
        let is_rest = |octet: &u8| matches!(octet, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
        part.len() <= most && part.first().is_some_and(may_begin) && part.iter().all(is_rest)
    };
    match key.iter().position(|octet| *octet == b'@') {
        None => is_part(key, 256, u8::is_ascii_lowercase),
        Some(at) => {
            let may_begin = |octet: &u8| octet.is_ascii_lowercase() || octet.is_ascii_digit();
            is_part(&key[..at], 241, may_begin) && is_part(&key[at + 1..], 14, u8::is_ascii_lowercase)
        }
    }
}
