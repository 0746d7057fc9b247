//! [`DefaultFields`]: the fields that a client adds to its requests, with or without credentials.

use crate::client::exchange::{CREDENTIALS, RedirectTaint};
use crate::client::route::Proxy;
use crate::message::{FieldName, Headers, Method};

/// The fields that requests to one origin have unless they have others.
pub(super) struct DefaultFields {
    all: Headers,
    /// The same without the credentials for the origin.
    public: Headers,
}

impl DefaultFields {
    /// Makes them of the `fields` of the client, and of the credentials for the proxy that reads the requests, if one
    /// does.
    pub(super) fn new(fields: &Headers, reader: Option<&Proxy>) -> DefaultFields {
        let (mut all, mut public) = (fields.clone(), fields.clone());
        public.remove_each(&CREDENTIALS);
        if let Some(authorization) = reader.and_then(Proxy::authorization) {
            for fields in [&mut all, &mut public] {
                fields.put(FieldName::new("proxy-authorization"), authorization.as_bytes());
            }
        }
        DefaultFields { all, public }
    }

    /// The fields of a request with this method: without credentials where a redirect to another origin leads, and for
    /// TRACE, whose fields are sent back (RFC 9110 §9.3.8).
    pub(super) fn of(&self, taint: RedirectTaint, method: Method) -> &Headers {
        match (taint, method) {
            (RedirectTaint::CrossOrigin, _) | (RedirectTaint::SameOrigin, Method::Trace) => &self.public,
            (RedirectTaint::SameOrigin, _) => &self.all,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_stay_at_their_origin_and_are_not_echoed_rfc9110_9_3_8() {
        let mut fields = Headers::new();
        for name in ["authorization", "cookie", "x-own"] {
            fields.set(name, "1").unwrap();
        }
        let proxy = Proxy::new("http://user:password@proxy").unwrap();
        // The proxy reads its own credentials, wherever a redirect leads.
        for (reader, added) in [(None, 0), (Some(&proxy), 1)] {
            let fields = DefaultFields::new(&fields, reader);
            for (taint, method, kept) in [
                (RedirectTaint::SameOrigin, Method::Get, 3),
                (RedirectTaint::SameOrigin, Method::Trace, 1),
                (RedirectTaint::CrossOrigin, Method::Get, 1),
            ] {
                let sent = fields.of(taint, method);
                assert_eq!(
                    (sent.len(), sent.contains("x-own")),
                    (kept + added, true),
                    "{taint:?} {method:?}"
                );
            }
        }
    }
}
