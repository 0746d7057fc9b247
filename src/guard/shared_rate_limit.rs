//! [`SharedRateLimit`]: a bound of requests that several processes count together.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use super::concurrency_limit::unavailable;
use super::rate_limit::{RateFields, too_many};
use super::rate_store::{RateDecision, RateQuota, RateStore};
use crate::runtime::{boxed, timeout};
use crate::server::{
    BodyPlan, Context, Error, GuardKind, Handler, Middleware, Result, defer_body, handle_deferred, subscriber,
};

/// Bounds how often each client may send a request to several processes together.
///
/// The bound is that of a [`RateLimit`](super::RateLimit), counted in a [`RateStore`]. The store is asked once for each
/// request, before the body is received. Requests that are refused beneath this count as well, since attempts at passwords
/// have to. If the store fails or takes longer than [`SharedRateLimit::timeout`], the request is
/// admitted or refused by [`SharedRateLimit::on_store_failure`]. Either way the failure is reported as
/// [`ErrorCause::Rates`](crate::server::ErrorCause::Rates), once a second, and counted in
/// [`ErrorCounts::rates`](crate::server::ErrorCounts::rates).
///
/// # Examples
///
/// A store for the example, in memory:
///
/// ```
/// use std::sync::Mutex;
/// use std::time::Duration;
/// use corehttp::middleware::{RateDecision, RateQuota, RateStore, SharedRateLimit, wrap};
/// use corehttp::{Context, Request, Result, Server};
///
/// /// Counts all requests together, and forgets none.
/// struct Counter(Mutex<u32>);
///
/// impl RateStore for Counter {
///     async fn count(&self, _key: &str, quota: &RateQuota) -> Result<RateDecision> {
///         let (mut sent, reset) = (self.0.lock().unwrap(), quota.interval);
///         Ok(match quota.burst.checked_sub(*sent + 1) {
///             Some(remaining) => {
///                 *sent += 1;
///                 RateDecision::Allowed { remaining, reset }
///             }
///             None => RateDecision::Refused { retry_after: quota.share(), reset },
///         })
///     }
/// }
///
/// let limit = SharedRateLimit::new("sign-in", Counter(Mutex::new(0)), 2, Duration::from_secs(60)).told();
/// let service = Server::new().service(wrap(limit, |_: &mut Context| ()));
/// # corehttp::block_on(async {
/// for (status, told) in [(200, "\"sign-in\";r=1;t=60"), (200, "\"sign-in\";r=0;t=60"), (429, "\"sign-in\";r=0;t=60")] {
///     let response = service.respond(Request::get("/")?).await;
///     assert_eq!(response.status.as_u16(), status);
///     assert_eq!(response.headers.get("ratelimit"), Some(told));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("redis", "distributed", "throttle", "429", "quota", "gcra"))]
#[must_use]
pub struct SharedRateLimit<S> {
    store: Arc<S>,
    quota: RateQuota,
    timeout: Duration,
    on_failure: OnStoreFailure,
    key: Option<KeyOf>,
    fields: Arc<RateFields>,
    is_told: bool,
}

/// The text of what requests are counted by, if that is not the client's address.
type KeyOf = Arc<dyn Fn(&Context) -> Option<String> + Send + Sync>;

/// The fate of a request that cannot be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnStoreFailure {
    /// The request is admitted (fail open). For bounds against load: without its store, the service goes on.
    Admit,
    /// The request is refused with 503 and `retry-after: 1` (fail closed). For bounds against guessing, such as that of a
    /// sign-in.
    Refuse,
}

impl<S: RateStore> SharedRateLimit<S> {
    /// Creates a bound of `requests`, at least 1, in each `interval`, which is at most 365 days. Bounds with the same name in
    /// the same store are counted together.
    ///
    /// # Panics
    ///
    /// Panics if `name` is empty or has characters other than letters, digits, `-` and `_`.
    pub fn new(name: &str, store: S, requests: u32, interval: Duration) -> SharedRateLimit<S> {
        let quota = RateQuota::new(requests, interval);
        SharedRateLimit {
            store: Arc::new(store),
            quota,
            timeout: Duration::from_millis(100),
            on_failure: OnStoreFailure::Admit,
            key: None,
            fields: Arc::new(RateFields::new(name, quota.requests, quota.interval)),
            is_told: false,
        }
    }

    /// Sets how many requests, at least 1, a client may send at once after a pause. Default: as many as in the whole interval.
    pub fn burst(mut self, requests: u32) -> SharedRateLimit<S> {
        self.quota.burst = requests.max(1);
        self
    }

    /// Sets how long the store may take for a decision. Default: 100 ms.
    pub fn timeout(mut self, timeout: Duration) -> SharedRateLimit<S> {
        self.timeout = timeout;
        self
    }

    /// Sets whether requests pass without an answer of the store in time. Default: [`OnStoreFailure::Admit`].
    #[doc(alias("fail open", "fail closed"))]
    pub fn on_store_failure(mut self, on_failure: OnStoreFailure) -> SharedRateLimit<S> {
        self.on_failure = on_failure;
        self
    }

    /// Counts requests by the key that `key` returns, such as a user or an API key, and not by the client. A request without a
    /// key counts for its client. So does one whose key has more than 200 octets or a control character.
    ///
    /// Put the bound beneath the middleware that finds the user. `key` is called before the body is received.
    pub fn by<K: ToString>(
        mut self,
        key: impl Fn(&Context) -> Option<K> + Send + Sync + 'static,
    ) -> SharedRateLimit<S> {
        self.key = Some(Arc::new(move |ctx| key(ctx).map(|key| key.to_string())));
        self
    }

    /// Adds this bound and its remainder to responses, as [`RateLimit::told_as`](super::RateLimit::told_as) does, under its own
    /// name. A response to a request that was not counted has no such fields. Default: no such fields.
    pub fn told(mut self) -> SharedRateLimit<S> {
        self.is_told = true;
        self
    }

    /// Has the store decide about a request.
    async fn decide(&self, ctx: &Context) -> Result<RateDecision> {
        let key = self.store_key(ctx);
        match timeout(self.timeout, self.store.count(&key, &self.quota)).await {
            Ok(decision) => decision,
            Err(_) => Err(Error::other("it took longer than its time limit")),
        }
    }

    /// The key of a request, behind the name of the bound. Keys of one's own are none of clients, whatever peers send.
    fn store_key(&self, ctx: &Context) -> String {
        let name = self.fields.name();
        let is_usable = |key: &String| key.len() <= KEY_LEN_MAX && !key.chars().any(char::is_control);
        match self.key.as_ref().and_then(|key| key(ctx)).filter(is_usable) {
            Some(key) => format!("{name}:key:{key}"),
            None => format!("{name}:ip:{}", client(ctx.client_ip())),
        }
    }

    /// Tells the client its bound, if it is told.
    fn tell(&self, ctx: &mut Context, remaining: u32, reset: Duration) {
        if self.is_told {
            self.fields.write(&mut ctx.response.headers, remaining, reset);
        }
    }
}

/// How long a key of one's own may be. Peers may choose keys, and each is kept for a while.
const KEY_LEN_MAX: usize = 200;

impl<S: RateStore> Middleware for SharedRateLimit<S> {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        defer_body(ctx, next)
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        // Boxed, since the future of a store may be large, and would be a part of that of each request.
        match (boxed(|| self.decide(ctx)).await, self.on_failure) {
            (Ok(RateDecision::Allowed { remaining, reset }), _) => self.tell(ctx, remaining, reset),
            (Ok(RateDecision::Refused { retry_after, reset }), _) => {
                ctx.count_refusal(GuardKind::RateLimit);
                self.tell(ctx, 0, reset);
                return Err(too_many(&mut ctx.response.headers, retry_after));
            }
            (Err(error), OnStoreFailure::Admit) => ctx.report_uncounted(error),
            (Err(error), OnStoreFailure::Refuse) => {
                ctx.report_uncounted(error);
                return Err(unavailable(ctx, GuardKind::RateLimit));
            }
        }
        handle_deferred(ctx, next).await
    }
}

impl<S> Clone for SharedRateLimit<S> {
    fn clone(&self) -> SharedRateLimit<S> {
        let (store, key, fields) = (self.store.clone(), self.key.clone(), self.fields.clone());
        SharedRateLimit { store, key, fields, ..*self }
    }
}

impl<S> fmt::Debug for SharedRateLimit<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedRateLimit")
            .field("name", &self.fields.name())
            .field("quota", &self.quota)
            .field("timeout", &self.timeout)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}

/// The text of a client: its IPv4 address, or its IPv6 network of 64 bits.
fn client(ip: Option<IpAddr>) -> String {
    match ip.map(subscriber) {
        Some(IpAddr::V4(ip)) => ip.to_string(),
        Some(IpAddr::V6(ip)) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).to_string(),
        None => "unknown".to_owned(),
    }
}
