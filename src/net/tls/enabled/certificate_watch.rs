//! [`CertificateWatch`]: looks out for certificates of a server that are refused or expire.

use std::future::pending;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::Identity;
use super::certificates::CertResolver;
use crate::net::tls::CertificateFault;
use crate::runtime::{Instant, now, timeout_at};

/// Looks out for certificates of a server that expire, and for those that are refused when they are replaced.
#[derive(Clone)]
pub(crate) struct CertificateWatch {
    resolver: Arc<CertResolver>,
    /// Whether it matters when they expire.
    checks_dates: bool,
    /// Changes with each replacement.
    refused: watch::Receiver<Option<Arc<str>>>,
    looks_at: Instant,
    /// The faults that the last look has found.
    found: Vec<CertificateFault>,
}

impl CertificateWatch {
    pub(super) fn new(resolver: Arc<CertResolver>, checks_dates: bool) -> CertificateWatch {
        let mut refused = resolver.refused();
        // A refusal while the server started is not lost.
        refused.mark_changed();
        CertificateWatch { resolver, checks_dates, refused, looks_at: now(), found: Vec::new() }
    }

    /// Waits for the next look or replacement, and returns the faults that it shows. After a replacement, these are the new
    /// ones alone: a program may replace its certificates by the same ones again and again.
    ///
    /// The resolver, which is kept here, has the sender, so there is an end only to a wait that is dropped.
    pub(crate) async fn faults(&mut self) -> Vec<CertificateFault> {
        match timeout_at(self.looks_at, self.refused.changed()).await {
            Ok(Err(_)) => pending().await,
            Ok(Ok(())) => self.faults_of_replacement(),
            Err(_) => self.faults_of_look(),
        }
    }

    /// Returns the faults of [`CertificateWatch::faults`], but none if it would wait.
    pub(crate) fn faults_now(&mut self) -> Vec<CertificateFault> {
        if self.refused.has_changed().unwrap_or(false) {
            return self.faults_of_replacement();
        }
        if now() < self.looks_at { Vec::new() } else { self.faults_of_look() }
    }

    fn faults_of_look(&mut self) -> Vec<CertificateFault> {
        self.look();
        self.found.clone()
    }

    fn faults_of_replacement(&mut self) -> Vec<CertificateFault> {
        let refused = self.refused.borrow_and_update().clone();
        if let Some(reason) = refused {
            return vec![CertificateFault::Refused(reason.to_string())];
        }
        let before = mem::take(&mut self.found);
        self.look();
        self.found.iter().filter(|fault| !before.contains(fault)).cloned().collect()
    }

    /// Finds the certificates that expire soon, or have expired, and decides about the next look.
    fn look(&mut self) {
        let at = SystemTime::now();
        let table = self.resolver.table();
        let checked = || table.identities().filter(|_| self.checks_dates);
        self.looks_at = now() + checked().map(|identity| until_next_fault(at, identity)).min().unwrap_or(DAY);
        self.found = checked().filter_map(|identity| fault_at(at, identity)).collect();
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
    let days_left = left.as_secs() / DAY.as_secs();
    (left < left_min(identity)).then_some(CertificateFault::ExpiresSoon { names, not_after, days_left })
}

/// With less time than this, the renewal of a certificate is late.
fn left_min(identity: &Identity) -> Duration {
    let whole = identity.not_after().duration_since(identity.not_before()).unwrap_or_default();
    LEFT_MIN.min(whole / 6)
}

/// The time until a certificate has its next fault, which shows a moment later; at most a day.
fn until_next_fault(now: SystemTime, identity: &Identity) -> Duration {
    let not_after = identity.not_after();
    let faults = [not_after - left_min(identity), not_after];
    let left = faults.into_iter().filter_map(|fault| fault.duration_since(now).ok()).min();
    left.map_or(DAY, |left| (left + MOMENT).min(DAY))
}

/// Clocks are no more exact than timers.
const MOMENT: Duration = Duration::from_millis(100);

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
            let fault_in = until_next_fault(began + whole - left, &identity);
            let next = match expected {
                Some(_) => left,
                None => left - (14 * DAY).min(whole / 6),
            };
            assert_eq!(fault_in, (next + MOMENT).min(DAY), "{left:?}");
            assert_eq!(until_next_fault(began + whole + HOUR, &identity), DAY);
            let after = fault_at(began + whole + HOUR, &identity).unwrap().to_string();
            assert!(after.starts_with("the certificate for a.example expired on "), "{after}");
        }
    }
}
