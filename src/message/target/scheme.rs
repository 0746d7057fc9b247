//! [`Scheme`]: `http` or `https` (RFC 9110 §4.2).

/// The scheme of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// Parses a scheme, in any case (RFC 9110 §4.2.3).
    pub(crate) fn parse(text: &[u8]) -> Option<Scheme> {
        match text {
            http if http.eq_ignore_ascii_case(b"http") => Some(Scheme::Http),
            https if https.eq_ignore_ascii_case(b"https") => Some(Scheme::Https),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The default port.
    pub(crate) fn port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }

    pub(crate) fn port_text(self) -> &'static str {
        match self {
            Scheme::Http => "80",
            Scheme::Https => "443",
        }
    }
}
