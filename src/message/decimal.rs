//! [`decimal`]: numbers as messages carry them (RFC 9110 §8.6).

/// `1*DIGIT`, checked: `str::parse` would take a sign.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(byte - b'0')),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_digits_only_9110_8_6() {
        for (text, expected) in
            [("0", Some(0)), ("00042", Some(42)), ("18446744073709551615", Some(u64::MAX))]
        {
            assert_eq!(decimal(text.as_bytes()), expected);
        }
        for text in ["", "+5", "-1", "0x5", "5 5", "1nope", "5.0", "1_0", "18446744073709551616", "٣"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }
}
