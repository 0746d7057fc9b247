//! [`CertificateFault`]: a fault of a certificate that a server shows, or should show (RFC 5280 §4.1.2.5).

use std::fmt;
use std::time::SystemTime;

/// A fault of a server's certificate, in use or new. Clients refuse the certificate, now or soon.
///
/// A running server reports it as [`ErrorCause::Certificate`](crate::server::ErrorCause::Certificate), a line of an
/// error log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// `ServerTls::replace_identities` has refused new certificates, for this reason. The earlier ones stay.
    Refused(String),
    /// A certificate expires soon: in 14 days or a sixth of its whole time, whichever is less. Its renewal is late.
    ExpiresSoon {
        /// The host names that it is for.
        names: Vec<String>,
        /// The last second in which it is valid.
        not_after: SystemTime,
        /// How many whole days are left.
        days_left: u64,
    },
    /// A certificate has expired.
    Expired {
        /// The host names that it is for.
        names: Vec<String>,
        /// The last second in which it was valid.
        not_after: SystemTime,
    },
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateFault::Refused(reason) => {
                write!(f, "new certificates were refused, and the earlier ones stay: {reason}")
            }
            CertificateFault::ExpiresSoon { names, not_after, days_left } => {
                write_certificate(f, names)?;
                let date = httpdate::fmt_http_date(*not_after);
                match days_left {
                    0 => write!(f, " expires within a day, on {date}"),
                    1 => write!(f, " expires in 1 day, on {date}"),
                    days => write!(f, " expires in {days} days, on {date}"),
                }
            }
            CertificateFault::Expired { names, not_after } => {
                write_certificate(f, names)?;
                write!(f, " expired on {}", httpdate::fmt_http_date(*not_after))
            }
        }
    }
}

/// Writes which certificate it is, by the first of its names.
pub(super) fn write_certificate(f: &mut fmt::Formatter<'_>, names: &[String]) -> fmt::Result {
    match names.first() {
        Some(name) => write!(f, "the certificate for {name}"),
        None => f.write_str("the certificate"),
    }
}
