//! [`Renewal`]: loads, obtains and renews a certificate, for as long as it is shown.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use super::account_store::AccountStore;
use super::acme_client::WINDOW_ASKED_DEFAULT;
use super::authority::{Authority, RenewalWindow, asked_wait, refuses_account};
use super::challenge::ChallengeTable;
use super::error::{AcmeError, AcmeReport};
use super::folder::Folder;
use super::settings::Settings;
use crate::client::{Backoff, random_share};
use crate::net::tls::enabled::{ConfigError, Identity, ServerTls};
use crate::runtime::sleep;

/// The renewal of one certificate.
pub(super) struct Renewal {
    settings: Settings,
    account: AccountStore,
    folder: Option<Folder>,
    /// The settings of the servers that show the certificate.
    tls: ServerTls,
    table: Arc<ChallengeTable>,
    is_ready: Arc<watch::Sender<bool>>,
    current: Option<Current>,
    /// When the file was written that was looked at last.
    loaded: Option<SystemTime>,
    /// The text of the certificate that is shown, until it is in the folder.
    unwritten: Option<String>,
    failures: u32,
}

/// The certificate that is shown.
struct Current {
    certificate: CertificateDer<'static>,
    not_after: SystemTime,
    /// When it is renewed, but not before `due_min`.
    due: SystemTime,
    /// One that was just issued is not renewed at once, even if the authority asks for it.
    due_min: SystemTime,
    /// One that is about to expire is not put off, even if the authority asks for it.
    due_max: SystemTime,
    /// When the authority is asked about that next.
    asked_at: SystemTime,
}

impl Current {
    /// Puts off the renewal of one that was just issued: for half of its time, in case a clock is wrong, but only for some
    /// hours if the authority asks for it, which may have revoked it.
    fn put_off(&mut self, now: SystemTime) {
        let left = self.not_after.duration_since(now).unwrap_or_default();
        let pause = (left / 2).max(ISSUED_PAUSE_MIN);
        self.due = self.due.max(now + pause);
        self.due_min = now + pause.min(WINDOW_PAUSE);
    }

    /// Moves the renewal into the window that the authority suggests (RFC 9773 §4.2), as far as that ends in time. With a
    /// clock that is wrong, a window may begin after the certificate has expired.
    fn move_into(&mut self, window: &RenewalWindow) {
        let is_outside = !(window.start..=window.end).contains(&self.due);
        if is_outside && let Ok(width) = window.end.duration_since(window.start) {
            self.due = (window.start + random_share(width)).min(self.due_max);
        }
    }

    /// The time until it is renewed. `None` if that is due.
    fn until_due(&self, now: SystemTime) -> Option<Duration> {
        self.due.max(self.due_min).duration_since(now).ok()
    }
}

impl Renewal {
    pub(super) fn new(
        settings: Settings,
        folder: Option<Folder>,
        tls: ServerTls,
        table: Arc<ChallengeTable>,
        is_ready: Arc<watch::Sender<bool>>,
    ) -> Renewal {
        Renewal {
            account: AccountStore::new(&settings),
            settings,
            folder,
            tls,
            table,
            is_ready,
            current: None,
            loaded: None,
            unwritten: None,
            failures: 0,
        }
    }

    /// Shows the certificate of the folder, if there is one, from the first handshake on.
    pub(super) fn load_at_start(&mut self) {
        // The thread tries again, and reports the failure.
        let _ = self.load();
    }

    /// Renews the certificate whenever that is due.
    pub(super) async fn run(&mut self) {
        loop {
            let pause = match self.step().await {
                Ok(pause) => {
                    self.failures = 0;
                    pause
                }
                Err(error) => {
                    self.failures = self.failures.saturating_add(1);
                    let asked = asked_wait(&error).unwrap_or_default();
                    let retried_after = back_off(self.failures, self.left()).max(asked);
                    self.settings.report(&AcmeReport::Failed { error, retried_after });
                    retried_after
                }
            };
            self.wait(pause).await;
        }
    }

    /// Waits until the next step is due, or another server has renewed the certificate.
    async fn wait(&mut self, pause: Duration) {
        let mut left = pause;
        while !left.is_zero() {
            let part = left.min(STEP_MAX);
            sleep(part).await;
            left -= part;
            if matches!(self.load(), Ok(true)) {
                return;
            }
        }
    }

    /// For how long the certificate is still valid.
    fn left(&self) -> Duration {
        let left =
            |current: &Current| current.not_after.duration_since(SystemTime::now()).unwrap_or_default();
        self.current.as_ref().map(left).unwrap_or_default()
    }

    /// Does what is due. Returns the time until the next step.
    async fn step(&mut self) -> Result<Duration, AcmeError> {
        self.load()?;
        self.write()?;
        let now = SystemTime::now();
        self.ask_for_window(now).await;
        if let Some(left) = self.current.as_ref().and_then(|current| current.until_due(now)) {
            return Ok(left.min(STEP_MAX));
        }
        let locked = self.folder.as_ref().map(Folder::try_lock).transpose()?;
        if matches!(locked, Some(None)) {
            return Ok(LOCKED_PAUSE);
        }
        // Another server may have renewed it before this one had the lock.
        if self.load()? {
            return Ok(Duration::ZERO);
        }
        let old = self.current.as_ref().map(|current| current.certificate.clone());
        let text = self.obtain(old.as_ref()).await?;
        self.show(&text)?;
        self.report_shown(|not_after| AcmeReport::Issued { not_after });
        self.current.iter_mut().for_each(|current| current.put_off(SystemTime::now()));
        self.unwritten = Some(text);
        self.write()?;
        Ok(Duration::ZERO)
    }

    /// Writes the certificate that was issued to the folder, unless it is there. After a failure, as on a full disk, the next
    /// step tries again.
    fn write(&mut self) -> Result<(), AcmeError> {
        if let (Some(folder), Some(text)) = (&self.folder, &self.unwritten) {
            folder.set_certificate(text)?;
            self.loaded = folder.certificate_time();
        }
        self.unwritten = None;
        Ok(())
    }

    /// Obtains a certificate, with another account if the authority refuses the one that is kept.
    async fn obtain(&self, old: Option<&CertificateDer<'_>>) -> Result<String, AcmeError> {
        let authority = Authority::sign_in(&self.settings, &self.account).await?;
        match authority.obtain(&self.settings, &self.table, old).await {
            Err(error) if refuses_account(&error) => {
                self.account.forget_account(authority.credentials()).await?;
            }
            outcome => return outcome,
        }
        let authority = Authority::sign_in(&self.settings, &self.account).await?;
        authority.obtain(&self.settings, &self.table, old).await
    }

    /// Shows the certificate of the folder, if it is another one than before. Returns whether it is.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or if its certificate is not valid yet: with a clock that is wrong, a new one would
    /// not be, either. Of one that is damaged or has expired, there will be a new one.
    fn load(&mut self) -> Result<bool, AcmeError> {
        let Some(folder) = &self.folder else { return Ok(false) };
        let written = folder.certificate_time();
        if written.is_none() || written == self.loaded {
            return Ok(false);
        }
        let Some(text) = folder.certificate()? else { return Ok(false) };
        match self.show(&text) {
            Ok(()) => {
                self.loaded = written;
                self.unwritten = None;
                self.report_shown(|not_after| AcmeReport::Loaded { not_after });
                Ok(true)
            }
            Err(error @ AcmeError::Certificate(ConfigError::NotYetValid { .. })) => Err(error),
            Err(_) => {
                self.loaded = written;
                Ok(false)
            }
        }
    }

    /// Shows the certificate that `text` has, with its chain and its key, from the next handshake on.
    fn show(&mut self, text: &str) -> Result<(), AcmeError> {
        let unusable = |_| AcmeError::Certificate(ConfigError::NoCertificate);
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).map_err(unusable)?;
        let identity = Identity::from_pem(text, text).map_err(AcmeError::Certificate)?;
        let names = identity.names();
        if !self.settings.names.iter().all(|name| names.contains(name)) {
            return Err(AcmeError::OtherNames);
        }
        let not_after = identity.not_after();
        let not_before = identity.not_before();
        self.tls.replace_identities([identity]).map_err(AcmeError::Certificate)?;
        self.current = Some(Current {
            certificate,
            not_after,
            due: due(not_before, not_after),
            due_min: SystemTime::UNIX_EPOCH,
            due_max: due_max(not_before, not_after),
            asked_at: SystemTime::UNIX_EPOCH,
        });
        self.is_ready.send_replace(true);
        Ok(())
    }

    fn report_shown(&self, report: impl FnOnce(SystemTime) -> AcmeReport) {
        if let Some(current) = &self.current {
            self.settings.report(&report(current.not_after));
        }
    }

    /// Asks the authority when the certificate is to be renewed, if it is time to. Without an answer, what was decided before
    /// holds.
    async fn ask_for_window(&mut self, now: SystemTime) {
        let Some(current) = &mut self.current else { return };
        if now < current.asked_at {
            return;
        }
        current.asked_at = now + WINDOW_ASKED_DEFAULT;
        // An account is made only to obtain a certificate.
        let known = Authority::sign_in_again(&self.settings, &self.account).await;
        let Ok(Some(authority)) = known else { return };
        if let Some(window) = authority.renewal_window(&current.certificate).await {
            current.asked_at = now + window.asked_again_after;
            current.move_into(&window);
        }
    }
}

/// When a certificate is renewed that is valid for so long: when a third of that is left, and a little earlier, at random, so
/// that those of many servers are not renewed at once.
fn due(not_before: SystemTime, not_after: SystemTime) -> SystemTime {
    let valid = not_after.duration_since(not_before).unwrap_or_default();
    not_after - valid / 3 - random_share(valid / 100)
}

/// When such a certificate is renewed at the latest: when a twentieth of its time is left.
fn due_max(not_before: SystemTime, not_after: SystemTime) -> SystemTime {
    not_after - not_after.duration_since(not_before).unwrap_or_default() / 20
}

/// How long to wait after so many failures in a row, with a certificate that is valid for so long.
fn back_off(failures: u32, left: Duration) -> Duration {
    let most = (left / 4).clamp(BACK_OFF_IN_NEED, BACK_OFF_MAX);
    Backoff { first: BACK_OFF_MIN, most }.bound(failures)
}

const BACK_OFF_MIN: Duration = Duration::from_secs(60);
const BACK_OFF_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest wait without a certificate that is valid. Let's Encrypt admits five failures an hour.
const BACK_OFF_IN_NEED: Duration = Duration::from_secs(60 * 60);

/// The least time between two certificates, whose authority may issue them for seconds.
const ISSUED_PAUSE_MIN: Duration = Duration::from_secs(5);

/// The least time between two certificates, whose authority asks again and again for another one.
const WINDOW_PAUSE: Duration = Duration::from_secs(6 * 60 * 60);

/// How long a step may wait: others that share the folder may renew the certificate, and clocks may be set.
const STEP_MAX: Duration = Duration::from_secs(60);

/// The time until a lock is tried again that another server has.
const LOCKED_PAUSE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
