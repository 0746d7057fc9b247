//! Conversions between [`Headers`] and [`HeaderMap`] (RFC 9110 §5).

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::conversion_error::ConversionError;
use crate::message::{Headers, MessageError};

impl TryFrom<&Headers> for HeaderMap {
    type Error = ConversionError;

    /// Converts fields. Their names become lower-case. Fields of one name stand together, in the order in which they
    /// were. All values share one allocation.
    ///
    /// # Errors
    ///
    /// Fails for more than 24,576 fields, or for a name of more than 65,535 bytes.
    fn try_from(headers: &Headers) -> Result<HeaderMap, ConversionError> {
        let mut text = Vec::with_capacity(headers.lines().map(|(_, value)| value.len()).sum());
        headers.lines().for_each(|(_, value)| text.extend_from_slice(value));
        let too_many = |_| ConversionError::TooManyFields(headers.len());
        let mut map = HeaderMap::try_with_capacity(headers.len()).map_err(too_many)?;
        let mut text = Bytes::from(text);
        for (name, value) in headers.lines() {
            let value = text.split_to(value.len());
            let value = HeaderValue::from_maybe_shared(value).expect("both types hold the same values");
            let name = HeaderName::from_bytes(name).map_err(|_| ConversionError::from_name(name))?;
            map.try_append(name, value).map_err(too_many)?;
        }
        Ok(map)
    }
}

impl TryFrom<&HeaderMap> for Headers {
    type Error = MessageError;

    /// Converts fields. Whitespace around a value is removed.
    ///
    /// # Errors
    ///
    /// Fails for a field that RFC 9110 §5 does not allow. The crate `http` also checks that.
    fn try_from(map: &HeaderMap) -> Result<Headers, MessageError> {
        let mut headers = Headers::new();
        append_header_map(&mut headers, map)?;
        Ok(headers)
    }
}

/// Appends the fields of `map`.
pub(crate) fn append_header_map(headers: &mut Headers, map: &HeaderMap) -> Result<(), MessageError> {
    map.iter().try_for_each(|(name, value)| headers.append(name.as_str(), value.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_that_is_accepted_has_its_like_rfc9110_5_5() {
        let mut headers = Headers::new();
        let octets = 0..=u8::MAX;
        for octet in octets {
            let name = String::from(char::from(octet));
            let is_name = headers.append(&name, [b'a', octet, b'z']).is_ok();
            assert_eq!(HeaderName::from_bytes(name.as_bytes()).is_ok(), is_name, "{octet}");
            let is_value = headers.append("value", [b'a', octet, b'z']).is_ok();
            assert_eq!(HeaderValue::from_bytes(&[b'a', octet, b'z']).is_ok(), is_value, "{octet}");
        }
        let map = HeaderMap::try_from(&headers).unwrap();
        assert!(map.len() > 50 && map.get_all("value").iter().count() == 256 - 32);
        for (name, _) in &headers {
            assert!(map.get_all(name).iter().eq(headers.all(name)), "{name}");
        }
        assert_eq!(Headers::try_from(&map).unwrap().len(), headers.len());
    }

    #[test]
    fn fields_of_one_name_keep_their_order_rfc9110_5_3() {
        let mut headers = Headers::new();
        for (name, value) in [("X-B", "1"), ("a", "2"), ("x-b", " 3 "), ("A", ""), ("x-B", "4")] {
            headers.append(name, value).unwrap();
        }
        let back = Headers::try_from(&HeaderMap::try_from(&headers).unwrap()).unwrap();
        let lines: Vec<_> = back.iter().map(|(name, value)| (name, str::from_utf8(value).unwrap())).collect();
        assert_eq!(lines, [("x-b", "1"), ("x-b", "3"), ("x-b", "4"), ("a", "2"), ("a", "")]);
    }

    #[test]
    fn more_or_longer_fields_than_a_map_holds_are_refused() {
        let mut headers = Headers::new();
        (0..24_576).for_each(|_| headers.append("a", "").unwrap());
        assert!(HeaderMap::try_from(&headers).is_ok());
        headers.append("a", "").unwrap();
        assert!(matches!(HeaderMap::try_from(&headers), Err(ConversionError::TooManyFields(24_577))));
        let mut headers = Headers::new();
        headers.append(&"a".repeat(65_535), "").unwrap();
        assert!(HeaderMap::try_from(&headers).is_ok());
        headers.append(&"b".repeat(65_536), "").unwrap();
        let error = HeaderMap::try_from(&headers).unwrap_err();
        assert!(matches!(&error, ConversionError::FieldName(name) if name.starts_with("`bbb")), "{error}");
    }
}
