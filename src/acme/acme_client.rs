//! [`AcmeClient`]: the client of this crate, by which the crate `instant-acme` talks to an authority; [`Refusal`]: an error
//! that is no problem of ACME, or that asks to wait (RFC 8555 §6.6).

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use instant_acme::{Account, AccountBuilder, BodyWrapper, BytesResponse, HttpClient, Problem};

use super::settings::Settings;
use crate::client::client::Client;
use crate::client::retry_after;
use crate::http_types::HttpBody;
use crate::memory::lock;
use crate::message::{FieldName, MessageError, Method, Request, Response, Status};

/// A client for requests to an authority. Clones share what they note.
#[derive(Clone)]
pub(super) struct AcmeClient {
    client: Client,
    /// The URL of the order or the account that the last request has made.
    made: Arc<Mutex<Option<String>>>,
}

impl AcmeClient {
    pub(super) fn new(settings: &Settings) -> AcmeClient {
        AcmeClient { client: settings.client.clone().unwrap_or_default(), made: Arc::default() }
    }

    /// Returns a builder of an account that uses this client.
    pub(super) fn builder(&self) -> AccountBuilder {
        Account::builder_with_http(Box::new(self.clone()))
    }

    /// Takes the URL of the order or the account that the last request has made, if it has made one (RFC 8555 §7.3, §7.4).
    pub(super) fn take_made(&self) -> Option<String> {
        lock(&self.made).take()
    }

    /// Sends a request, and receives the whole response, up to what the client admits.
    async fn send(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Result<BytesResponse, Box<dyn Error + Send + Sync>> {
        *lock(&self.made) = None;
        let request = Request::try_from(request)?;
        let mut response = Response::new();
        self.client.send(&request, &mut response).await?;
        if let Some(refusal) = Refusal::of(&request, &response) {
            return Err(Box::new(refusal));
        }
        if response.status == Status::CREATED {
            *lock(&self.made) = response.headers.get("location").map(str::to_owned);
        }
        set_wait(&request, &mut response)?;
        Ok(http::Response::<HttpBody>::try_from(response)?.into())
    }
}

impl HttpClient for AcmeClient {
    fn request(
        &self,
        request: http::Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let client = self.clone();
        Box::pin(async move { client.send(request).await.map_err(instant_acme::Error::Other) })
    }
}

/// How long an authority wants a client to wait, up to a day. `None` if it does not say so.
fn wait(response: &Response) -> Option<Duration> {
    retry_after(&response.headers, SystemTime::now).map(|wait| wait.min(WAIT_MAX))
}

/// Sets `retry-after` to the seconds that count. instant-acme adds them to a time, which might overflow, and ignores a window
/// for a renewal without them. Only windows and directories are asked for by `GET`.
fn set_wait(request: &Request, response: &mut Response) -> Result<(), MessageError> {
    let default = (request.method() == Method::Get).then_some(WINDOW_ASKED_DEFAULT);
    let field = FieldName::RETRY_AFTER.as_str();
    match wait(response).or(default) {
        Some(wait) => response.headers.set(field, wait.as_secs()),
        None => {
            response.headers.remove(field);
            Ok(())
        }
    }
}

/// The longest wait that an authority may ask for.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How long an authority is not asked when to renew, if it does not say so (RFC 9773 §4.3).
pub(super) const WINDOW_ASKED_DEFAULT: Duration = Duration::from_secs(6 * 60 * 60);

/// An error of an authority, or of a server in front of it, that instant-acme could not tell from nonsense, or whose wait it
/// would lose.
#[derive(Debug)]
pub(super) struct Refusal {
    status: Status,
    wait: Option<Duration>,
    problem: Option<Problem>,
}

impl Refusal {
    /// The error that `response` is. `None` if it is none, or one that instant-acme reads.
    fn of(request: &Request, response: &Response) -> Option<Refusal> {
        let status = response.status;
        if !status.is_client_error() && !status.is_server_error() {
            return None;
        }
        let problem = serde_json::from_slice::<Problem>(response.body.bytes()).ok();
        let problem = problem.filter(|problem| problem.r#type.is_some() || problem.detail.is_some());
        let is_busy = [Status::TOO_MANY_REQUESTS, Status::SERVICE_UNAVAILABLE].contains(&status);
        let is_read = request.method() == Method::Post && problem.is_some() && !is_busy;
        (!is_read).then(|| Refusal { status, wait: wait(response), problem })
    }

    /// The refusal that is the cause of `error`, if one is.
    pub(super) fn cause_of(error: &instant_acme::Error) -> Option<&Refusal> {
        match error {
            instant_acme::Error::Other(cause) => cause.downcast_ref(),
            _ => None,
        }
    }

    /// The wait after which the authority may do what it has refused.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.wait
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the response is {}", self.status)
    }
}

impl Error for Refusal {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.problem.as_ref().map(|problem| problem as _)
    }
}
