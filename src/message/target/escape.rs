//! [`escape_resource`]: a received path and query as RFC 3986 has them, for those who take nothing else.
//!
//! A leaf for `fs`, whose redirects are references, and for `tower`, whose targets are types of the crate `http`.

use crate::message::{OctetSet, percent};

/// Escapes what RFC 3986 does not allow in a URI, but for a `%`.
pub(crate) fn escape_resource(resource: &[u8]) -> String {
    static PLAIN: OctetSet = OctetSet::URI_PLAIN.with(b"/:@%?[]");
    let mut escaped = String::with_capacity(resource.len());
    percent::encode(resource, &PLAIN, &mut escaped);
    escaped
}
