//! [`Retry`]: the policy by which a client sends a request again.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::backoff::{Backoff, retry_after};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::exchange::ExchangeError;
use crate::message::{Request, Response, Status};

/// A policy for sending failed requests again.
///
/// ```
/// # use std::sync::atomic::{AtomicBool, Ordering};
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use std::time::Duration;
/// use corehttp::{Client, Status};
/// use corehttp::client::{Retry, RetryCause};
///
/// # let listener = MemoryListener::new();
/// # let is_ready = AtomicBool::new(false);
/// # let server = Server::bind(&listener).cores(1).start(move |ctx: &mut Context| {
/// #     if !is_ready.swap(true, Ordering::Relaxed) {
/// #         ctx.response.status = Status::SERVICE_UNAVAILABLE;
/// #         ctx.response.headers.set("retry-after", 0).unwrap();
/// #     }
/// # })?;
/// # corehttp::block_on(async {
/// let client = Client::builder().retry(Retry::new()).timeout(Duration::from_secs(20)).build();
/// # let client = Client::builder().connect_to(listener).retry(Retry::new()).build();
/// let response = client.get("http://example.com/").await?; // the server answers 503 with `retry-after: 0`, then 200
/// assert_eq!(response.status, Status::OK);
/// assert_eq!(response.retries()[0].cause, RetryCause::Status(Status::SERVICE_UNAVAILABLE));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A request is sent again if all of this is so:
///
/// - **It may help.** By default, the host could not be reached, or answered with 429 or 503 and a `retry-after`, with 502 or
///   504, or with 408 on a connection that had been idle. [`Retry::retry_if`] decides otherwise.
/// - **It does no harm.** This is so with an idempotent method (RFC 9110 §9.2.2), with an `idempotency-key` in the request
///   of the caller, or if not a byte of the request was sent. A key that middleware adds does not count.
///   [`Retry::assume_idempotent`] allows all requests.
/// - **The body can be sent again.** Bytes and files can, and so can a stream of
///   [`Body::set_stream_with`](crate::Body::set_stream_with). A stream of [`Body::set_stream`](crate::Body::set_stream)
///   that has been begun cannot.
/// - **There were fewer than [`attempts_max`](Retry::attempts_max) attempts,** three by default.
/// - **The wait is not too long.** The wait is random, up to a bound that doubles ([`Retry::backoff`]), and added to the
///   `retry-after` of a response. A response with a `retry-after` beyond [`Retry::retry_after_max`] is returned at once. So is
///   an outcome if the wait would exceed the [time limit](crate::ClientBuilder::timeout) of the whole exchange. All attempts
///   and waits count for this limit.
/// - **The host has a budget for it.** See [`RetryBudget`](crate::client::RetryBudget).
///
/// Otherwise the last response or the last error is the outcome. The reason is in [`Response::retry_stop`] or
/// [`ClientError::retry_stop`](crate::ClientError::retry_stop).
///
/// A client has no policy by default. Retries take time and make load, and a program may have a loop of its own around its
/// requests. Without a policy, a request is sent again only after a stale connection, at once and [if it does no
/// harm](crate::Client::send).
///
/// A policy is set for a client ([`ClientBuilder::retry`](crate::ClientBuilder::retry),
/// [`Client::with_retry`](crate::Client::with_retry)), a host ([`Host::with_retry`](crate::client::Host::with_retry)), a
/// balancer ([`BalancerBuilder::retry`](crate::client::BalancerBuilder::retry)), or a single request
/// ([`RequestBuilder::retry`](crate::RequestBuilder::retry)). Each request of a chain of redirects has attempts of its own. The
/// requests of a [`Pipeline`](crate::client::Pipeline) share their connections, and are not retried by a policy. A
/// [`Call`](crate::client::Call) is retried until its caller may write the body. One without a body is retried until the head
/// of its response is there. A request that opens a WebSocket is retried as any other GET.
#[doc(alias("max_retries", "backoff", "resilience", "RetryPolicy"))]
#[derive(Clone)]
#[must_use]
pub struct Retry {
    pub(super) attempts_max: u32,
    pub(super) backoff: Backoff,
    pub(super) retry_after_max: Duration,
    idempotency: Idempotency,
    /// The percentile of the latencies of the host after which a request is hedged, if it is.
    hedge_percentile: Option<u8>,
    may_help: Arc<MayHelp>,
}

/// Whether another attempt may have a better outcome.
type MayHelp = dyn Fn(Result<&Response, &ClientError>) -> bool + Send + Sync;

/// Which requests are idempotent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idempotency {
    /// The method and the fields of a request say whether it is.
    OfRequest,
    /// The caller says that all are.
    Assumed,
}

impl Retry {
    /// Creates a policy with the defaults: three attempts, waits of up to 100 ms and up to 200 ms, and `retry-after` up to
    /// 30 s.
    pub fn new() -> Retry {
        Retry {
            attempts_max: 3,
            backoff: Backoff::default(),
            retry_after_max: Duration::from_secs(30),
            idempotency: Idempotency::OfRequest,
            hedge_percentile: None,
            may_help: Arc::new(Retry::is_transient),
        }
    }

    /// Sets how often a request is sent at most, the first time included. Default: 3. With 0 and 1, none is sent again.
    pub fn attempts_max(self, most: u32) -> Retry {
        Retry { attempts_max: most, ..self }
    }

    /// Sets the waits between attempts. Each is a random time between zero and a bound. The bound is `first` at first, doubles
    /// with each attempt, and is at most `most`. Default: 100 ms and 10 s.
    pub fn backoff(self, first: Duration, most: Duration) -> Retry {
        Retry { backoff: Backoff { first, most }, ..self }
    }

    /// Sets the longest `retry-after` to wait for (RFC 9110 §10.2.3). A response with a longer one is the outcome, since the
    /// server would refuse an earlier attempt. Default: 30 s.
    pub fn retry_after_max(self, most: Duration) -> Retry {
        Retry { retry_after_max: most, ..self }
    }

    /// Sets when another attempt may help, by a function of the head of a response or of the error instead. Default:
    /// [`Retry::is_transient`].
    ///
    /// The function need not consider whether another attempt does harm. It is called once for each attempt, before the body of
    /// a response is received. A body that is cut afterwards is an error without a retry.
    /// [`Balancer::send`](crate::client::Balancer::send) calls it after the body, so that a cut one is an error of which it
    /// decides.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Status;
    /// use corehttp::client::{ClientCause, Retry};
    ///
    /// let retry = Retry::new().retry_if(|outcome| match outcome {
    ///     Ok(response) if response.status == Status::INTERNAL_SERVER_ERROR => true,
    ///     Err(error) if matches!(error.cause(), ClientCause::Closed) => true,
    ///     other => Retry::is_transient(other),
    /// });
    /// # drop(retry);
    /// ```
    #[doc(alias("classify", "retryable_statuses"))]
    pub fn retry_if(
        self,
        may_help: impl Fn(Result<&Response, &ClientError>) -> bool + Send + Sync + 'static,
    ) -> Retry {
        Retry { may_help: Arc::new(may_help), ..self }
    }

    /// Allows sending requests again with any method, even if the server may have acted on them. Default: only those with an
    /// idempotent method (RFC 9110 §9.2.2) or an `idempotency-key`.
    pub fn assume_idempotent(self) -> Retry {
        Retry { idempotency: Idempotency::Assumed, ..self }
    }

    /// Sends a slow request once more, and takes the first response, by its head. The other exchange is canceled. A hedge is
    /// sent after the time within which `percent` of the host's last 128 responses have come. Default: no.
    ///
    /// Only requests with a safe method (RFC 9110 §9.2.1) are hedged, once each, and only after 32 responses in the runtime.
    /// Neither a [`Call`](crate::client::Call) with a body nor a request for another protocol is. A hedge is an attempt, and a
    /// retry for the budget of the host.
    ///
    /// A [`Balancer`](crate::client::Balancer) sends the second request to another host, if there is another one. It counts the
    /// responses of all of its hosts. A host is [ejected](crate::client::Ejection::failures) if others keep answering its
    /// requests.
    ///
    /// A good `percent` leaves out somewhat more than the share of slow responses. With 5 % of them it is 90, since the 95th
    /// percentile may be the time of a slow one.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    /// use corehttp::client::Retry;
    ///
    /// let client = Client::builder().retry(Retry::new().hedge_after_percentile(95)).build();
    /// # drop(client);
    /// ```
    #[doc(alias("tail latency", "speculative retry", "hedging"))]
    pub fn hedge_after_percentile(self, percent: u8) -> Retry {
        Retry { hedge_percentile: Some(percent), ..self }
    }

    /// Whether another attempt may help, by default:
    ///
    /// - The host could not be resolved or connected to, also in place of a stale connection that had taken the request. Or the
    ///   connection failed before a byte of the request was sent. An invalid certificate or the refusal of a proxy is no such
    ///   case.
    /// - 408 on a reused connection: the server had given up waiting for a request (RFC 9110 §15.5.9).
    /// - 429 (RFC 6585 §4) and 503 (RFC 9110 §15.6.4) with a `retry-after`.
    /// - 502 and 504 (§15.6.3, §15.6.5).
    pub fn is_transient(outcome: Result<&Response, &ClientError>) -> bool {
        let response = match outcome {
            Ok(response) => response,
            Err(error) => return is_unreachable(error),
        };
        match response.status {
            Status::REQUEST_TIMEOUT => response.timings().reused,
            Status::TOO_MANY_REQUESTS | Status::SERVICE_UNAVAILABLE => {
                retry_after(&response.headers, || SystemTime::UNIX_EPOCH).is_some()
            }
            Status::BAD_GATEWAY | Status::GATEWAY_TIMEOUT => true,
            _ => false,
        }
    }

    /// The percentile of the latencies of the host after which a request is hedged, if it is.
    pub(super) fn hedge_percentile(&self) -> Option<u8> {
        self.hedge_percentile
    }

    /// Whether another attempt may have a better outcome.
    pub(super) fn may_help(&self, outcome: Result<&Response, &ClientError>) -> bool {
        (self.may_help)(outcome)
    }

    /// Whether sending `request` twice has the effect of sending it once.
    pub(super) fn is_idempotent(&self, request: &Request) -> bool {
        self.idempotency == Idempotency::Assumed
            || request.method().is_idempotent()
            || request.headers.contains("idempotency-key")
    }
}

/// Whether a request has failed because its host could not be reached. It may have been sent before, on a connection that turned
/// out to be stale.
fn is_unreachable(error: &ClientError) -> bool {
    match error.phase() {
        ClientPhase::Resolve | ClientPhase::Connect | ClientPhase::Tls => {}
        ClientPhase::Send if !error.is_sent() => {}
        ClientPhase::Send
        | ClientPhase::Prepare
        | ClientPhase::Queue
        | ClientPhase::Wait
        | ClientPhase::Receive
        | ClientPhase::Redirect => return false,
    }
    match error.cause() {
        ClientCause::TimedOut
        | ClientCause::Io(_)
        | ClientCause::Closed
        | ClientCause::Exchange(ExchangeError::Io(_) | ExchangeError::TimedOut(..)) => true,
        ClientCause::Tls(_) => matches!(
            error.kind(),
            ErrorKind::ConnectionReset
                | ErrorKind::ConnectionAborted
                | ErrorKind::BrokenPipe
                | ErrorKind::UnexpectedEof
                | ErrorKind::TimedOut
        ),
        _ => false,
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry::new()
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("attempts_max", &self.attempts_max)
            .field("backoff", &self.backoff)
            .field("retry_after_max", &self.retry_after_max)
            .field("idempotency", &self.idempotency)
            .field("hedge_percentile", &self.hedge_percentile)
            .finish_non_exhaustive()
    }
}
