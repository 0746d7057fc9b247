//! [`Scheme`]: `http` or `https` (RFC 9110 §4.2).

/// How an origin is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// A scheme's case does not count (RFC 9110 §4.2.3).
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

    /// The port that an authority without one means.
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
