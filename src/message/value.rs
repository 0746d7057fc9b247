//! [`FieldValue`]: what a field can be set to.

use std::borrow::Cow;

use bytes::Bytes;

/// A field value as Rust programs have it: text, bytes or an integer.
///
/// Whether the bytes may stand in a field (RFC 9110 §5.5) is checked when they are set.
pub trait FieldValue {
    /// Lends the value's bytes to `then`.
    fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R;
}

impl<V: FieldValue + ?Sized> FieldValue for &V {
    #[inline]
    fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        (**self).lend(then)
    }
}

macro_rules! bytes_are_values {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline]
            fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
                then(self.as_ref())
            }
        }
    )*};
}

macro_rules! integers_are_values {
    ($($type:ty),*) => {$(
        impl FieldValue for $type {
            #[inline]
            fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
                then(itoa::Buffer::new().format(*self).as_bytes())
            }
        }
    )*};
}

bytes_are_values!(str, String, Vec<u8>, [u8], Bytes);
integers_are_values!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

impl<const N: usize> FieldValue for [u8; N] {
    fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self)
    }
}

impl FieldValue for Cow<'_, str> {
    fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self.as_bytes())
    }
}

impl FieldValue for Cow<'_, [u8]> {
    fn lend<R>(&self, then: impl FnOnce(&[u8]) -> R) -> R {
        then(self)
    }
}
