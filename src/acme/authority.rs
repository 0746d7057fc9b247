//! [`Authority`]: the account at an authority, and the orders for certificates (RFC 8555 §7).

use std::error::Error;
use std::fmt;
use std::time::{Duration, SystemTime};

use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType, Identifier,
    NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use tokio_rustls::rustls::pki_types::{CertificateDer, CertificateSigningRequestDer};

use super::account_store::AccountStore;
use super::acme_client::{AcmeClient, Refusal, WAIT_MAX};
use super::challenge::{Challenge, ChallengeTable};
use super::error::AcmeError;
use super::settings::Settings;
use crate::runtime::{now, sleep};

/// The account at an authority.
pub(super) struct Authority {
    account: Account,
    client: AcmeClient,
    credentials: String,
}

/// When a certificate is to be renewed, as the authority suggests (RFC 9773 §4.2).
pub(super) struct RenewalWindow {
    pub(super) start: SystemTime,
    pub(super) end: SystemTime,
    /// How long the suggestion holds.
    pub(super) asked_again_after: Duration,
}

impl Authority {
    /// Signs in with the account that is kept, or makes one.
    pub(super) async fn sign_in(settings: &Settings, store: &AccountStore) -> Result<Authority, AcmeError> {
        if let Some(authority) = Authority::sign_in_again(settings, store).await? {
            return Ok(authority);
        }
        let _locked = store.lock().await?;
        // Another certificate of the folder may have made one before this one had the lock.
        match Authority::sign_in_again(settings, store).await? {
            Some(authority) => Ok(authority),
            None => Authority::make_account(settings, store).await,
        }
    }

    /// Signs in with the account that is kept, if there is one.
    pub(super) async fn sign_in_again(
        settings: &Settings,
        store: &AccountStore,
    ) -> Result<Option<Authority>, AcmeError> {
        let Some(text) = store.account()? else { return Ok(None) };
        // A file that was damaged is no reason to be without a certificate.
        let Ok(credentials) = serde_json::from_str::<AccountCredentials>(&text) else { return Ok(None) };
        let client = AcmeClient::new(settings);
        match client.builder().from_credentials(credentials).await {
            Ok(account) => Ok(Some(Authority { account, client, credentials: text })),
            Err(instant_acme::Error::Crypto | instant_acme::Error::KeyRejected) => Ok(None),
            Err(error) => Err(refused(error)),
        }
    }

    /// Makes an account, if it can be kept.
    async fn make_account(settings: &Settings, store: &AccountStore) -> Result<Authority, AcmeError> {
        store.check_room()?;
        let contact: Vec<&str> = settings.contacts.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let client = AcmeClient::new(settings);
        let (account, credentials) =
            client.builder().create(&new, settings.directory.to_string(), None).await.map_err(refused)?;
        let credentials = serde_json::to_string(&credentials).map_err(|error| refused(error.into()))?;
        store.set_account(&credentials)?;
        Ok(Authority { account, client, credentials })
    }

    /// The text by which the account is kept.
    pub(super) fn credentials(&self) -> &str {
        &self.credentials
    }

    /// Obtains a certificate, and returns its chain and its key as PEM. It takes the place of `old`, if there is one.
    pub(super) async fn obtain(
        &self,
        settings: &Settings,
        table: &ChallengeTable,
        old: Option<&CertificateDer<'_>>,
    ) -> Result<String, AcmeError> {
        let outcome = self.order(settings, table, old).await;
        table.clear();
        outcome
    }

    async fn order(
        &self,
        settings: &Settings,
        table: &ChallengeTable,
        old: Option<&CertificateDer<'_>>,
    ) -> Result<String, AcmeError> {
        let names: Vec<_> = settings.names.iter().map(|name| Identifier::Dns(name.clone())).collect();
        let mut order = self.new_order(&names, old).await.map_err(refused_order)?;
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(refused)?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let name = authorization.identifier().to_string();
            let kind = match settings.challenge {
                Challenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
                Challenge::Http01 => ChallengeType::Http01,
            };
            let Some(mut challenge) = authorization.challenge(kind) else {
                return Err(AcmeError::Challenge(name.into()));
            };
            let key_authorization = challenge.key_authorization();
            match settings.challenge {
                Challenge::TlsAlpn01 => table.set_handshake(&name, key_authorization.digest().as_ref())?,
                Challenge::Http01 => table.set_response(&challenge.token, key_authorization.as_str()),
            }
            patiently(async || challenge.set_ready().await).await?;
        }
        let retries = RetryPolicy::new().timeout(VALIDATED_WITHIN);
        if patiently(async || order.poll_ready(&retries).await).await? == OrderStatus::Invalid {
            return Err(refused(failed_challenge(&mut order).await));
        }
        // The key of the first request is that of the certificate, however often it is sent.
        let (request, key) = signing_request(settings).map_err(|error| AcmeError::Authority(error.into()))?;
        patiently(async || order.finalize_csr(&request).await).await?;
        let chain = patiently(async || order.poll_certificate(&retries).await).await?;
        Ok(format!("{}\n{key}", chain.trim_end()))
    }

    /// Orders a certificate that takes the place of `old`, if there is one and the authority wants to know (RFC 9773 §5).
    async fn new_order(
        &self,
        names: &[Identifier],
        old: Option<&CertificateDer<'_>>,
    ) -> Result<Order, instant_acme::Error> {
        let plain = NewOrder::new(names);
        let Some(old) = old.and_then(identifier_of) else { return self.account.new_order(&plain).await };
        match self.account.new_order(&NewOrder::new(names).replaces(old)).await {
            // The directory names no renewal information. Or the old certificate is of another account, or replaced already.
            Err(instant_acme::Error::Unsupported(_) | instant_acme::Error::Api(_)) => {
                self.account.new_order(&plain).await
            }
            // The order that was made does not repeat the old certificate, which is no reason to leave it pending.
            Err(error @ instant_acme::Error::Other(_)) => match self.client.take_made() {
                Some(url) => self.account.order(url).await,
                None => Err(error),
            },
            ordered => ordered,
        }
    }

    /// When `certificate` is to be renewed; `None` if the authority does not say.
    pub(super) async fn renewal_window(&self, certificate: &CertificateDer<'_>) -> Option<RenewalWindow> {
        let id = identifier_of(certificate)?;
        let (info, asked_again_after) = self.account.renewal_info(&id).await.ok()?;
        let window = info.suggested_window;
        Some(RenewalWindow {
            start: window.start.into(),
            end: window.end.into(),
            asked_again_after: asked_again_after.clamp(WINDOW_ASKED_MIN, WAIT_MAX),
        })
    }
}

/// How long an authority may take to validate the names, and to issue the certificate.
const VALIDATED_WITHIN: Duration = Duration::from_secs(90);

/// The least time until an authority is asked again when to renew, whatever it says itself.
const WINDOW_ASKED_MIN: Duration = Duration::from_secs(60 * 60);

/// Does a step of an order, once more after each wait that a busy authority asks for (RFC 8555 §6.6).
async fn patiently<T>(mut step: impl AsyncFnMut() -> Result<T, instant_acme::Error>) -> Result<T, AcmeError> {
    let end = now() + VALIDATED_WITHIN;
    loop {
        let error = match step().await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        match Refusal::cause_of(&error).and_then(Refusal::wait) {
            Some(wait) if now() + wait < end => sleep(wait.max(BUSY_PAUSE_MIN)).await,
            _ => return Err(refused(error)),
        }
    }
}

/// The least time until a step is done again, whatever the authority says itself.
const BUSY_PAUSE_MIN: Duration = Duration::from_millis(250);

/// The request for a certificate with a new key (RFC 2986), and the key as PEM.
fn signing_request(
    settings: &Settings,
) -> Result<(CertificateSigningRequestDer<'static>, String), rcgen::Error> {
    let mut params = CertificateParams::new(settings.names.clone())?;
    params.distinguished_name = DistinguishedName::new();
    let key = KeyPair::generate()?;
    Ok((params.serialize_request(&key)?.into(), key.serialize_pem()))
}

/// The identifier of a certificate (RFC 9773 §4.1), if its issuer has given it one.
fn identifier_of(certificate: &CertificateDer<'_>) -> Option<CertificateIdentifier<'static>> {
    CertificateIdentifier::try_from(certificate).ok().map(CertificateIdentifier::into_owned)
}

/// Why an order became invalid: the failure of a challenge, if one has failed.
async fn failed_challenge(order: &mut Order) -> instant_acme::Error {
    let mut authorizations = order.authorizations();
    while let Some(Ok(authorization)) = authorizations.next().await {
        let mut problems = authorization.challenges.iter().filter_map(|challenge| challenge.error.clone());
        if let Some(problem) = problems.next() {
            return problem.into();
        }
        let status = authorization.status;
        if ![AuthorizationStatus::Pending, AuthorizationStatus::Valid].contains(&status) {
            let status = format!("{status:?}").to_ascii_lowercase();
            let name = authorization.identifier();
            return instant_acme::Error::Other(format!("the authorization of {name} is {status}").into());
        }
    }
    instant_acme::Error::Other("the order is invalid".into())
}

fn refused(error: instant_acme::Error) -> AcmeError {
    AcmeError::Authority(Box::new(error))
}

/// A refusal of the account itself: it was deactivated, or the authority has lost it (RFC 8555 §7.3.6).
#[derive(Debug)]
struct RefusedAccount(Problem);

impl fmt::Display for RefusedAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for RefusedAccount {}

/// The error of a new order. Only here does `unauthorized` concern the account. Of a challenge that has failed it is the type,
/// too (RFC 8555 §8.2).
fn refused_order(error: instant_acme::Error) -> AcmeError {
    match error {
        instant_acme::Error::Api(problem) if concerns_account(&problem) => {
            AcmeError::Authority(Box::new(RefusedAccount(problem)))
        }
        error => refused(error),
    }
}

fn concerns_account(problem: &Problem) -> bool {
    problem.r#type.as_deref().is_some_and(|kind| {
        ["urn:ietf:params:acme:error:accountDoesNotExist", "urn:ietf:params:acme:error:unauthorized"]
            .contains(&kind)
    })
}

/// Whether an authority refuses the account itself, so that another one is to be made.
pub(super) fn refuses_account(error: &AcmeError) -> bool {
    matches!(error, AcmeError::Authority(cause) if cause.is::<RefusedAccount>())
}

/// The wait that the authority asks for which has refused something.
pub(super) fn asked_wait(error: &AcmeError) -> Option<Duration> {
    let AcmeError::Authority(cause) = error else { return None };
    cause.downcast_ref().and_then(Refusal::cause_of).and_then(Refusal::wait)
}
