//! [`RateLimit`]: bounds how often each client, or each user, may send a request.

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::client_table::{ClientTable, Rate};
use crate::message::{FieldName, Headers, Status, delta_seconds};
use crate::runtime;
use crate::server::{
    BodyPlan, Context, Error, GuardKind, Handler, Middleware, Result, plan_guarded, subscriber,
};

/// Bounds how often each client may send a request, on all cores together.
///
/// Requests beyond the bound are answered with 429 (RFC 6585 §4). Their `retry-after` is the number of seconds until the client
/// may send the next one. Their bodies are not received.
///
/// A client may send as many requests at once as in the whole interval, unless [`RateLimit::burst`] bounds them. Then it may
/// send one whenever its share of the interval has passed. This is the generic cell rate algorithm (GCRA), the same as a token
/// bucket. Refused requests do not count. Clones of one bound count together.
///
/// # Clients
///
/// A client is an IPv4 address or an IPv6 network of 64 bits. Providers give each customer at least that many IPv6 addresses.
/// Some IPv6 addresses count as the IPv4 address in them: mapped ones, those of translators (NAT64, `64:ff9b::/96`), of 6to4
/// and of Teredo. Behind a proxy, all requests come from the address of the proxy, unless
/// [`Server::trusted_proxies`](crate::Server::trusted_proxies) names it. Clients without a known address, such as those of a
/// Unix socket, share one bound.
///
/// # Several processes
///
/// The table is that of one process. Several that share their counts, in Redis for instance, take a
/// [`SharedRateLimit`](crate::middleware::SharedRateLimit).
///
/// # Memory
///
/// The table of clients has a fixed size, about 17 bytes for each of [`RateLimit::with_clients_max`]. Clients that may
/// send as many requests as a new one need no room. Without room for all clients that send requests at the same time,
/// the ones with the fewest recent requests are forgotten first. A forgotten client may send more than its bound. No
/// client is refused because of others.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::middleware::wrap;
/// use corehttp::{Context, Server};
/// use corehttp::middleware::RateLimit;
///
/// // At most 5 attempts at once, and 30 in a minute.
/// let limit = RateLimit::new(30, Duration::from_secs(60)).burst(5);
/// let sign_in = wrap(limit, |ctx: &mut Context| ctx.response.set_text("wrong password"));
/// let service = Server::new().service(sign_in);
/// # corehttp::block_on(async {
/// for _ in 0..5 {
///     assert_eq!(service.respond(corehttp::Request::post("/sign-in")?).await.status.as_u16(), 200);
/// }
/// let refused = service.respond(corehttp::Request::post("/sign-in")?).await;
/// assert_eq!(refused.status.as_u16(), 429);
/// assert_eq!(refused.headers.get("retry-after"), Some("2"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("throttle", "governor", "429", "quota", "gcra", "token bucket"))]
#[derive(Clone)]
#[must_use]
pub struct RateLimit {
    rate: Rate,
    requests: u32,
    interval: Duration,
    clients: Arc<ClientTable>,
    key: Option<KeyOf>,
    told: Option<Arc<RateFields>>,
}

/// The number of what requests are counted by, if that is not the client's address.
type KeyOf = Arc<dyn Fn(&Context) -> Option<u64> + Send + Sync>;

impl RateLimit {
    /// Creates a bound of `requests`, at least 1, in each `interval`, for up to 65,536 clients in 1.1 MiB.
    pub fn new(requests: u32, interval: Duration) -> RateLimit {
        RateLimit::with_clients_max(requests, interval, 1 << 16)
    }

    /// Creates a bound as [`RateLimit::new`] does, with a table for another number of clients.
    pub fn with_clients_max(requests: u32, interval: Duration, clients_max: usize) -> RateLimit {
        let rate = Rate::new(requests, interval);
        let clients = Arc::new(ClientTable::new(clients_max));
        RateLimit { rate, requests: requests.max(1), interval, clients, key: None, told: None }
    }

    /// Counts requests by the key that `key` returns, such as a user, an API key or a path, and not by the client. A request
    /// without one counts for its client.
    ///
    /// Put the bound beneath the middleware that finds the user. `key` is called with the head, and once more before the
    /// handler. A request without a key by its head is decided about after its body has been received.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use corehttp::middleware::{RateLimit, wrap};
    /// use corehttp::{Context, Request, Server, Status};
    ///
    /// let by_api_key = |ctx: &Context| ctx.request.headers.get("x-api-key").map(str::to_owned);
    /// let limit = RateLimit::new(1, Duration::from_secs(60)).by(by_api_key);
    /// let service = Server::new().service(wrap(limit, |_: &mut Context| ()));
    /// # corehttp::block_on(async {
    /// for (key, status) in [("a", Status::OK), ("b", Status::OK), ("a", Status::TOO_MANY_REQUESTS)] {
    ///     let mut request = Request::get("/")?;
    ///     request.headers.set("x-api-key", key)?;
    ///     assert_eq!(service.respond(request).await.status, status);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })??;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The key of attempts to sign in is the user in the body, and is found only after the body has been received. A
    /// malformed body names no user and counts for its client. Attempts that succeed count as well:
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use corehttp::Context;
    /// # use corehttp::middleware::RateLimit;
    /// # #[cfg(feature = "json")]
    /// # fn router() -> impl corehttp::Handler {
    /// # fn sign_in(ctx: &mut Context) { ctx.response.set_text("signed in") }
    /// #[derive(serde::Deserialize)]
    /// struct SignIn {
    ///     user: String,
    /// }
    ///
    /// let user = |ctx: &Context| ctx.request.json().ok().map(|SignIn { user }| user.to_lowercase());
    /// let limit = RateLimit::new(5, Duration::from_secs(60)).by(user);
    /// let router = corehttp::routes! { wrap limit => { POST "/sign-in" => sign_in } };
    /// # router
    /// # }
    /// ```
    pub fn by<K: Hash>(mut self, key: impl Fn(&Context) -> Option<K> + Send + Sync + 'static) -> RateLimit {
        let hasher = RandomState::new();
        self.key = Some(Arc::new(move |ctx| key(ctx).map(|key| hasher.hash_one(key))));
        self
    }

    /// Adds this bound, as `name`, and its remainder to each response, in the fields `ratelimit-policy` and `ratelimit`
    /// (draft-ietf-httpapi-ratelimit-headers-10). Default: no such fields.
    ///
    /// `q` is the number of requests in an interval, and `w` the interval. `r` is the number that may be sent at once now. `t`
    /// is the time until a whole burst may be sent again. Times are in seconds. Of several bounds around one another, each has
    /// a line of its own.
    ///
    /// # Panics
    ///
    /// Panics if `name` has characters other than letters, digits, `-` and `_`.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use corehttp::middleware::{RateLimit, wrap};
    /// use corehttp::{Context, Request, Server};
    ///
    /// let limit = RateLimit::new(100, Duration::from_secs(60)).told_as("per-minute");
    /// let service = Server::new().service(wrap(limit, |_: &mut Context| ()));
    /// let response = corehttp::block_on(service.respond(Request::get("/")?))?;
    /// assert_eq!(response.headers.get("ratelimit-policy"), Some("\"per-minute\";q=100;w=60"));
    /// assert_eq!(response.headers.get("ratelimit"), Some("\"per-minute\";r=99;t=1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("X-RateLimit-Remaining", "headers"))]
    pub fn told_as(mut self, name: &str) -> RateLimit {
        self.told = Some(Arc::new(RateFields::new(name, self.requests, self.interval)));
        self
    }

    /// Sets how many requests, at least 1, a client may send at once after a pause. Default: as many as in the whole interval.
    pub fn burst(mut self, requests: u32) -> RateLimit {
        self.rate = self.rate.with_burst(requests);
        self
    }

    /// The number that a request counts for.
    fn counted_for(&self, ctx: &Context) -> u64 {
        let key = self.key.as_ref().and_then(|key| key(ctx));
        key.unwrap_or_else(|| client(ctx.client_ip()))
    }

    /// Tells the client its bound `at` this time, if it is told.
    fn tell(&self, ctx: &mut Context, counted_for: u64, at: Instant) {
        let Some(fields) = &self.told else { return };
        let debt = self.clients.debt(counted_for, at);
        fields.write(&mut ctx.response.headers, self.rate.left(debt), debt);
    }

    fn refuse(&self, ctx: &mut Context, counted_for: u64, at: Instant) -> Error {
        ctx.count_refusal(GuardKind::RateLimit);
        self.tell(ctx, counted_for, at);
        let wait = self.clients.wait(counted_for, at, self.rate);
        too_many(&mut ctx.response.headers, wait)
    }
}

impl Middleware for RateLimit {
    fn on_head(&self, ctx: &mut Context, next: &impl Handler) -> BodyPlan {
        let mut is_known = true;
        let plan = plan_guarded(ctx, next, |ctx| {
            let counted_for = match &self.key {
                None => Some(client(ctx.client_ip())),
                Some(key) => key(ctx),
            };
            // The middleware that finds the key may not have run yet, or it is in the body.
            is_known = counted_for.is_some();
            let Some(counted_for) = counted_for else { return Ok(()) };
            let at = ctx.arrived_at();
            match self.clients.wait(counted_for, at, self.rate).is_zero() {
                true => Ok(()),
                false => Err(self.refuse(ctx, counted_for, at)),
            }
        });
        if is_known { plan } else { ctx.undefer(plan) }
    }

    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        let counted_for = self.counted_for(ctx);
        // A body may have taken long. Its client's share has grown meanwhile.
        let at = runtime::now().into_std();
        if !self.clients.count(counted_for, at, self.rate) {
            return Err(self.refuse(ctx, counted_for, at));
        }
        self.tell(ctx, counted_for, at);
        next.handle(ctx).await
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// The fields that tell clients their bound (draft-ietf-httpapi-ratelimit-headers-10).
pub(super) struct RateFields {
    name: String,
    /// The value of `ratelimit-policy`.
    policy: String,
}

impl RateFields {
    pub(super) fn new(name: &str, requests: u32, interval: Duration) -> RateFields {
        let is_plain = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_';
        assert!(!name.is_empty() && name.bytes().all(is_plain), "a name of a bound is a word");
        let policy = format!("\"{name}\";q={requests};w={}", delta_seconds(interval).max(1));
        RateFields { name: name.to_owned(), policy }
    }

    /// Writes how many requests may be sent at once now, and in how long as many as by a new client.
    pub(super) fn write(&self, headers: &mut Headers, left: u32, whole_in: Duration) {
        let RateFields { name, policy } = self;
        self.put_line(headers, FieldName::new("ratelimit-policy"), policy);
        let left = format!("\"{name}\";r={left};t={}", delta_seconds(whole_in));
        self.put_line(headers, FieldName::new("ratelimit"), &left);
    }

    /// Puts the `line` of this bound behind those of others (RFC 9651 §3.1).
    fn put_line(&self, headers: &mut Headers, field: FieldName<'_>, line: &str) {
        let own = format!("\"{}\";", self.name);
        let others = headers.named(field).filter(|other| !other.starts_with(own.as_bytes()));
        let others: Vec<Vec<u8>> = others.map(<[u8]>::to_vec).collect();
        headers.remove(field.as_str());
        others.iter().for_each(|other| headers.push(field, other));
        headers.push(field, line.as_bytes());
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// The error of a request beyond a bound, which may be sent after `wait`.
pub(super) fn too_many(headers: &mut Headers, wait: Duration) -> Error {
    headers.put(FieldName::RETRY_AFTER, itoa::Buffer::new().format(delta_seconds(wait).max(1)).as_bytes());
    Status::TOO_MANY_REQUESTS.into()
}

/// The number of a client in the table: an IPv6 network of 64 bits, or an IPv4 address, which is the number of a network
/// that is reserved (`::/8`, RFC 4291 §2.4). A client without an address has the number of a multicast network.
fn client(ip: Option<IpAddr>) -> u64 {
    match ip.map(subscriber) {
        Some(IpAddr::V4(ip)) => u32::from(ip).into(),
        Some(IpAddr::V6(ip)) => (u128::from(ip) >> 64) as u64,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_network() {
        let same = [
            ["192.0.2.1", "::ffff:192.0.2.1"],
            ["2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff"],
            ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"],
            ["192.0.2.1", "64:ff9b::192.0.2.1"],
            ["192.0.2.1", "2002:c000:201::1"],
            ["192.0.2.1", "2002:c000:201:ffff::"],
            ["192.0.2.1", "2001:0:4136:e378:8000:63bf:3fff:fdfe"],
        ];
        let number = |ip: &str| client(Some(ip.parse().unwrap()));
        for [one, other] in same {
            assert_eq!(number(one), number(other), "{one} {other}");
        }
        let mut different = vec![client(None)];
        different.extend(["192.0.2.1", "192.0.2.2", "0.0.0.0", "255.255.255.255"].map(number));
        different
            .extend(["2001:db8::1", "2001:db8:0:1::1", "64:ff9b::c000:203", "2002:c000:204::"].map(number));
        different.extend(["64:ff9b:1::c000:201", "2001:1::1", "2003:c000:201::"].map(number));
        let count = different.len();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), count);
    }
}
