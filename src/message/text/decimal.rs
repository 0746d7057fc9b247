//! [`decimal`] and [`saturating_decimal`]: numbers as messages carry them (RFC 9110 §8.6).

/// Parses `1*DIGIT`, checked. (`str::parse` would accept a sign.)
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

/// Parses `1*DIGIT`, where a number that is too large becomes the largest one.
pub(crate) fn saturating_decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_number.then(|| decimal(text).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_only_rfc9110_8_6() {
        for (text, expected) in
            [("0", Some(0)), ("00042", Some(42)), ("18446744073709551615", Some(u64::MAX))]
        {
            assert_eq!(decimal(text.as_bytes()), expected);
        }
        for text in ["", "+5", "-1", "0x5", "5 5", "1nope", "5.0", "1_0", "18446744073709551616", "٣"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_number_too_large_to_count_saturates() {
        for text in ["18446744073709551615", "18446744073709551616", "99999999999999999999999"] {
            assert_eq!(saturating_decimal(text.as_bytes()), Some(u64::MAX), "{text}");
        }
        assert_eq!(saturating_decimal(b"00042"), Some(42));
        for text in ["", "-1", "+5", "99999999999999999999999x", "x99999999999999999999999", "1 2"] {
            assert_eq!(saturating_decimal(text.as_bytes()), None, "{text}");
        }
    }
}
