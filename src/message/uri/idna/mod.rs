//! The name of a host in ASCII, as DNS has it (UTS 46, RFC 5890), if the feature is on.

#[cfg(not(feature = "idna"))]
mod disabled;
#[cfg(feature = "idna")]
mod enabled;

#[cfg(not(feature = "idna"))]
pub(super) use disabled::to_ascii;
#[cfg(feature = "idna")]
pub(super) use enabled::to_ascii;
