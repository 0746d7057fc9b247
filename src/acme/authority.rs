//! [`Authority`]: the account at an authority, and the orders for certificates (RFC 8555 §7).

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use instant_acme::{
    Account, AccountBuilder, AccountCredentials, AuthorizationStatus, BodyWrapper, BytesResponse,
    CertificateIdentifier, ChallengeType, HttpClient, Identifier, NewAccount, NewOrder, Order, OrderStatus,
    Problem, RetryPolicy,
};
use tokio_rustls::rustls::pki_types::CertificateDer;

use super::account_store::AccountStore;
use super::challenge::{Challenge, ChallengeTable};
use super::error::AcmeError;
use super::settings::Settings;
use crate::client::client::Client;
use crate::http_types::HttpBody;
use crate::message::{FieldName, MessageError, Request, Response, saturating_decimal};

/// The account at an authority.
pub(super) struct Authority {
    account: Account,
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
        let account = builder(settings).from_credentials(credentials).await.map_err(refused)?;
        Ok(Some(Authority { account, credentials: text }))
    }

    /// Makes an account, if it can be kept.
    async fn make_account(settings: &Settings, store: &AccountStore) -> Result<Authority, AcmeError> {
        store.check_room()?;
        let contact: Vec<&str> = settings.contacts.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let (account, credentials) =
            builder(settings).create(&new, settings.directory.to_string(), None).await.map_err(refused)?;
        let credentials = serde_json::to_string(&credentials).map_err(|error| refused(error.into()))?;
        store.set_account(&credentials)?;
        Ok(Authority { account, credentials })
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
        let mut new = NewOrder::new(&names);
        if let Some(old) = old.and_then(identifier_of) {
            new = new.replaces(old);
        }
        let mut order = match self.account.new_order(&new).await {
            // The old certificate may be of another account, or replaced already (RFC 9773 §5).
            Err(error) if old.is_some() && refuses_old(&error) => {
                self.account.new_order(&NewOrder::new(&names)).await
            }
            ordered => ordered,
        }
        .map_err(refused_order)?;
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
            challenge.set_ready().await.map_err(refused)?;
        }
        let retries = RetryPolicy::new().timeout(VALIDATED_WITHIN);
        if order.poll_ready(&retries).await.map_err(refused)? == OrderStatus::Invalid {
            return Err(refused(failed_challenge(&mut order).await));
        }
        let key = order.finalize().await.map_err(refused)?;
        let chain = order.poll_certificate(&retries).await.map_err(refused)?;
        Ok(format!("{}\n{key}", chain.trim_end()))
    }

    /// When `certificate` is to be renewed; `None` if the authority does not say.
    pub(super) async fn renewal_window(&self, certificate: &CertificateDer<'_>) -> Option<RenewalWindow> {
        let id = identifier_of(certificate)?;
        let (info, asked_again_after) = self.account.renewal_info(&id).await.ok()?;
        let window = info.suggested_window;
        Some(RenewalWindow {
            start: window.start.into(),
            end: window.end.into(),
            asked_again_after: asked_again_after.clamp(WINDOW_ASKED_MIN, WINDOW_ASKED_MAX),
        })
    }
}

/// How long an authority may take to validate the names, and to issue the certificate.
const VALIDATED_WITHIN: Duration = Duration::from_secs(90);

/// Bounds of how often an authority is asked when to renew, whatever it says itself.
const WINDOW_ASKED_MIN: Duration = Duration::from_secs(60 * 60);
const WINDOW_ASKED_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The identifier of a certificate (RFC 9773 §4.1), if its issuer has given it one.
fn identifier_of(certificate: &CertificateDer<'_>) -> Option<CertificateIdentifier<'static>> {
    CertificateIdentifier::try_from(certificate).ok().map(CertificateIdentifier::into_owned)
}

fn builder(settings: &Settings) -> AccountBuilder {
    Account::builder_with_http(Box::new(AcmeClient(settings.client.clone().unwrap_or_default())))
}

/// Whether an authority refuses the certificate that an order is to replace.
fn refuses_old(error: &instant_acme::Error) -> bool {
    let instant_acme::Error::Api(problem) = error else { return false };
    problem.r#type.as_deref().is_some_and(|kind| {
        ["alreadyReplaced", "malformed", "unauthorized"].iter().any(|refusal| kind.ends_with(refusal))
    })
}

/// The failure of the challenge for which an order became invalid.
async fn failed_challenge(order: &mut Order) -> instant_acme::Error {
    let mut authorizations = order.authorizations();
    while let Some(Ok(authorization)) = authorizations.next().await {
        let mut problems = authorization.challenges.iter().filter_map(|challenge| challenge.error.clone());
        if let Some(problem) = problems.next() {
            return problem.into();
        }
    }
    instant_acme::Error::Str("the challenge that has failed")
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

/// The client of this crate, by which the crate `instant-acme` talks to an authority.
struct AcmeClient(Client);

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let client = self.0.clone();
        Box::pin(async move {
            // The whole response is received, up to what the client admits.
            let exchange = async {
                let request = Request::try_from(request)?;
                let mut response = Response::new();
                client.send(&request, &mut response).await?;
                bound_wait(&mut response)?;
                Ok(http::Response::<HttpBody>::try_from(response)?)
            };
            let response: Result<_, Box<dyn Error + Send + Sync>> = exchange.await;
            response.map(BytesResponse::from).map_err(instant_acme::Error::Other)
        })
    }
}

/// Bounds `retry-after`, whose seconds are added to a time, which might overflow.
fn bound_wait(response: &mut Response) -> Result<(), MessageError> {
    let seconds = response.headers.first(FieldName::RETRY_AFTER).and_then(saturating_decimal);
    if seconds.is_some_and(|seconds| seconds > WINDOW_ASKED_MAX.as_secs()) {
        response.headers.set(FieldName::RETRY_AFTER.as_str(), WINDOW_ASKED_MAX.as_secs())?;
    }
    Ok(())
}
