//! [`FieldValue`]: types that a field can be set to.

use std::borrow::Cow;

use bytes::Bytes;

/// A type that a field can be set to: text, bytes, an integer, a `char`, or a `bool`, which becomes `true` or `false`.
///
/// Whether the bytes are valid in a field (RFC 9110 §5.5) is checked when they are set.
pub trait FieldValue {
    /// Calls `then` with the bytes of the value.
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R;
}

impl<V: FieldValue + ?Sized> FieldValue for &V {
    #[inline]
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        (**self).with_bytes(then)
    }
}

macro_rules! bytes_are_values {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline]
            fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
                then(self.as_ref())
            }
        }
    )*};
}

macro_rules! integers_are_values {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline]
            fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
                then(itoa::Buffer::new().format(*self).as_bytes())
            }
        }
    )*};
}

bytes_are_values!(str, String, Vec<u8>, [u8], Bytes);
integers_are_values!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl FieldValue for bool {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(if *self { b"true" } else { b"false" })
    }
}

impl FieldValue for char {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self.encode_utf8(&mut [0; 4]).as_bytes())
    }
}

impl<const N: usize> FieldValue for [u8; N] {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self)
    }
}

impl FieldValue for Cow<'_, str> {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self.as_bytes())
    }
}

impl FieldValue for Cow<'_, [u8]> {
    fn with_bytes<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Headers, InvalidField};

    #[track_caller]
    fn check(value: impl FieldValue, expected: Result<&str, InvalidField>) {
        let mut headers = Headers::new();
        let found = headers.set("a", value).map(|()| headers.text("a").unwrap());
        assert_eq!(found, expected);
    }

    #[test]
    fn bool_and_char_are_field_values_rfc9110_5_5() {
        check(true, Ok("true"));
        check(false, Ok("false"));
        check('c', Ok("c"));
        check('\u{20ac}', Ok("\u{20ac}"));
        check(' ', Ok(""));
        for control in ['\0', '\r', '\n', '\x1f', '\x7f'] {
            check(control, Err(InvalidField::Value("a".into())));
        }
    }
}
