//! [`FromText`]: types that can be parsed from text off the wire, and its numbers (RFC 9110 §8.6).

/// A type that can be parsed from text, strictly.
///
/// [`FromStr`](std::str::FromStr) would accept the numbers `+5` and `inf`. Here an integer consists of digits, with an
/// optional `-` if it is signed. A float is decimal and finite, with an optional exponent. A `bool` is `true`, `1` or
/// `on`, or else `false`, `0` or `off`. A `char` is one character. Nothing may surround them.
///
/// # Examples
///
/// ```
/// use corehttp::Form;
/// use corehttp::message::FromText;
///
/// #[derive(Debug, PartialEq)]
/// enum Order {
///     Rising,
///     Falling,
/// }
///
/// impl FromText for Order {
///     fn from_text(text: &str) -> Option<Order> {
///         match text {
///             "rising" => Some(Order::Rising),
///             "falling" => Some(Order::Falling),
///             _ => None,
///         }
///     }
/// }
///
/// assert_eq!(Form::new("order=rising").get_as("order")?, Some(Order::Rising));
/// assert!(Form::new("order=Rising").get_as::<Order>("order").is_err());
/// # Ok::<(), corehttp::message::InvalidForm>(())
/// ```
pub trait FromText: Sized {
    /// Parses the whole of `text`. Returns `None` if it is not a value of this type.
    fn from_text(text: &str) -> Option<Self>;
}

macro_rules! integers {
    ($parse:ident: $($type:ty),*) => {$(
        impl FromText for $type {
            fn from_text(text: &str) -> Option<$type> {
                $parse(text.as_bytes())?.try_into().ok()
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl FromText for $type {
            fn from_text(text: &str) -> Option<$type> {
                if !is_float(text.as_bytes()) {
                    return None;
                }
                text.parse().ok().filter(|number: &$type| number.is_finite())
            }
        }
    )*};
}

integers!(decimal: u8, u16, u32, u64, usize);
integers!(signed: i8, i16, i32, i64, isize);
floats!(f32, f64);

impl FromText for bool {
    fn from_text(text: &str) -> Option<bool> {
        match text {
            // Browsers send `on` for a checked box that has no value of its own.
            "true" | "1" | "on" => Some(true),
            "false" | "0" | "off" => Some(false),
            _ => None,
        }
    }
}

impl FromText for char {
    fn from_text(text: &str) -> Option<char> {
        let mut chars = text.chars();
        chars.next().filter(|_| chars.next().is_none())
    }
}

impl FromText for String {
    fn from_text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }
}

/// `["-"] 1*DIGIT`, checked.
fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(decimal(digits)?),
        None => decimal(text)?.try_into().ok(),
    }
}

/// Whether `text` is a decimal float, with digits at both ends, which all parsers accept; `str::parse` accepts more.
fn is_float(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_valid = |octet: &u8| octet.is_ascii_digit() || b".eE+-".contains(octet);
    let ends = digits.first().zip(digits.last());
    ends.is_some_and(|(first, last)| first.is_ascii_digit() && last.is_ascii_digit())
        && digits.iter().all(is_valid)
}

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
    use std::fmt::Debug;

    use super::*;

    #[track_caller]
    fn check<T: FromText + PartialEq + Debug>(good: &[(&str, T)], bad: &[&str]) {
        for (text, expected) in good {
            assert_eq!(T::from_text(text).as_ref(), Some(expected), "{text:?}");
        }
        for text in bad.iter().chain(&["", " ", "1 ", " 1", "1\n", "\u{663}3", "1_0", "0x10", "--1"]) {
            assert_eq!(T::from_text(text), None, "{text:?}");
        }
    }

    #[test]
    fn integers_are_digits_that_fit() {
        check(&[("0", 0u8), ("255", 255), ("00042", 42)], &["256", "+5", "-1", "-0", "1.0", "1e2"]);
        check(&[("18446744073709551615", u64::MAX)], &["18446744073709551616"]);
        check(&[("-128", i8::MIN), ("127", 127), ("-0", 0)], &["-129", "128", "+5", "-", "- 1"]);
        check(
            &[("-9223372036854775808", i64::MIN), ("9223372036854775807", i64::MAX)],
            &["-9223372036854775809", "9223372036854775808"],
        );
    }

    #[test]
    fn floats_are_decimal_and_finite() {
        check(
            &[("0", 0.0), ("-1.5", -1.5), ("1e3", 1e3), ("25E-1", 2.5), ("1e+3", 1e3)],
            &[
                "inf", "-inf", "nan", "NaN", "infinity", "+5", ".5", "5.", "-.5", "1e", "1e999", "1-2",
                "1.2.3", "1,5", "1e+-3",
            ],
        );
        check(&[("0.5", 0.5f32)], &["1e39"]);
    }

    #[test]
    fn bools_are_words_and_a_char_is_one_letter() {
        check(
            &[("true", true), ("1", true), ("on", true), ("false", false), ("0", false), ("off", false)],
            &["True", "yes", "t", "2", "01", "on "],
        );
        assert_eq!(["€", "", "ab", "e\u{301}"].map(char::from_text), [Some('€'), None, None, None]);
        assert_eq!(String::from_text(" a"), Some(" a".into()));
    }

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
