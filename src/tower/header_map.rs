//! Conversion between [`Headers`] and the `HeaderMap` of the crate `http`.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::message::{Headers, InvalidField};

/// Converts the fields of a request. All values share one allocation.
pub(super) fn to_header_map(headers: &Headers) -> http::Result<HeaderMap> {
    let mut text = Vec::with_capacity(headers.lines().map(|(_, value)| value.len()).sum());
    headers.lines().for_each(|(_, value)| text.extend_from_slice(value));
    let (mut text, mut map) = (Bytes::from(text), HeaderMap::try_with_capacity(headers.len())?);
    for (name, value) in headers.lines() {
        let value = HeaderValue::from_maybe_shared(text.split_to(value.len()))?;
        map.try_append(HeaderName::from_bytes(name)?, value)?;
    }
    Ok(map)
}

/// Appends the fields of a response.
pub(super) fn append_header_map(headers: &mut Headers, map: &HeaderMap) -> Result<(), InvalidField> {
    map.iter().try_for_each(|(name, value)| headers.append(name.as_str(), value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_is_accepted_has_its_like_rfc9110_5_5() {
        let (mut headers, octets) = (Headers::new(), 0..=u8::MAX);
        for octet in octets {
            let name = String::from(char::from(octet));
            let _ = headers.append(&name, [b'a', octet, b'z']);
            let _ = headers.append("value", [b'a', octet, b'z']);
        }
        let map = to_header_map(&headers).unwrap();
        assert!(map.len() > 50 && map.get_all("value").iter().count() == 256 - 32);
        for (name, _) in &headers {
            assert!(map.get_all(name).iter().eq(headers.all(name)), "{name}");
        }
        let mut back = Headers::new();
        append_header_map(&mut back, &map).unwrap();
        assert_eq!(back.len(), headers.len());
    }

    #[test]
    fn more_fields_than_a_map_holds_are_refused() {
        let mut headers = Headers::new();
        (0..24_576).for_each(|_| headers.append("a", "").unwrap());
        assert!(to_header_map(&headers).is_ok());
        headers.append("a", "").unwrap();
        assert!(to_header_map(&headers).is_err());
    }
}
