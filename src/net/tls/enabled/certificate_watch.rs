//! [`CertificateWatch`]: looks out for certificates of a server that are refused or expire.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::Identity;
use super::certificates::CertResolver;
use crate::net::tls::CertificateFault;

/// Looks out for certificates of a server that expire, and for those that are refused when they are replaced.
#[derive(Clone)]
pub(crate) struct CertificateWatch {
    resolver: Arc<CertResolver>,
    /// Whether it matters when they expire.
    checks_dates: bool,
    refused: watch::Receiver<Option<Arc<str>>>,
}

impl CertificateWatch {
    pub(super) fn new(resolver: Arc<CertResolver>, checks_dates: bool) -> CertificateWatch {
        let mut refused = resolver.refused();
        // A refusal while the server started is not lost.
        refused.mark_changed();
        CertificateWatch { resolver, checks_dates, refused }
    }

    /// Waits for the next replacement that is refused. The resolver, which is kept here, has the sender, so there is an end
    /// only to a wait that is dropped.
    pub(crate) async fn refusal(&mut self) -> CertificateFault {
        loop {
            if self.refused.changed().await.is_err() {
                return pending().await;
            }
            if let Some(reason) = self.refused.borrow_and_update().as_deref() {
                return CertificateFault::Refused(reason.to_owned());
            }
        }
    }

    /// The certificates that expire soon, or have expired.
    pub(crate) fn expiring(&self) -> Vec<CertificateFault> {
        let now = SystemTime::now();
        let table = self.resolver.table();
        let checked = table.identities().filter(|_| self.checks_dates);
        checked.filter_map(|identity| fault_at(now, identity)).collect()
    }

    /// Whether the other looks out for the same certificates.
    pub(crate) fn is_same(&self, other: &CertificateWatch) -> bool {
        Arc::ptr_eq(&self.resolver, &other.resolver)
    }
}

fn fault_at(now: SystemTime, identity: &Identity) -> Option<CertificateFault> {
    let names = identity.names();
    let not_after = identity.not_after();
    let Ok(left) = not_after.duration_since(now) else {
        return Some(CertificateFault::Expired { names, not_after });
    };
    let whole = not_after.duration_since(identity.not_before()).unwrap_or_default();
    let days_left = left.as_secs() / DAY.as_secs();
    (left < LEFT_MIN.min(whole / 6)).then_some(CertificateFault::ExpiresSoon { names, not_after, days_left })
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Renewals are due a third of the time before the end, which is a month for most certificates and 15 days for those of
/// 47 days. With less than this or half of that, they have failed for a while.
const LEFT_MIN: Duration = Duration::from_secs(14 * 24 * 60 * 60);

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn a_certificate_that_nobody_renews_is_a_fault_rfc5280_4_1_2_5() {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        let began = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        for (whole, left, expected) in [
            (90 * DAY, 15 * DAY, None),
            (90 * DAY, 14 * DAY, None),
            (90 * DAY, 14 * DAY - HOUR, Some("expires in 13 days")),
            (90 * DAY, DAY, Some("expires in 1 day")),
            (90 * DAY, HOUR, Some("expires within a day")),
            (47 * DAY, 8 * DAY, None),
            (47 * DAY, 7 * DAY, Some("expires in 7 days")),
            (6 * DAY, DAY, None),
            (6 * DAY, 23 * HOUR, Some("expires within a day")),
        ] {
            let mut params = CertificateParams::new(vec!["a.example".into()]).unwrap();
            params.not_before = began.into();
            params.not_after = (began + whole).into();
            let key = KeyPair::generate().unwrap();
            let certificate = params.self_signed(&key).unwrap();
            let identity = Identity::from_pem(certificate.pem(), key.serialize_pem()).unwrap();
            let found = fault_at(began + whole - left, &identity).map(|fault| fault.to_string());
            let sentence = expected.map(|expected| format!("the certificate for a.example {expected}, on "));
            let fits =
                found.as_deref().zip(sentence.as_deref()).map(|(found, start)| found.starts_with(start));
            assert_eq!(
                (found.is_some(), fits.unwrap_or(true)),
                (expected.is_some(), true),
                "{found:?} {left:?}"
            );
            let after = fault_at(began + whole + HOUR, &identity).unwrap().to_string();
            assert!(after.starts_with("the certificate for a.example expired on "), "{after}");
        }
    }
}
