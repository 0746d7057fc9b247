//! [`BalancerBuilder`]: the settings of a balancer.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::balancer::Balancer;
use super::check::HealthCheck;
use super::choice::{BalancerChoice, RandomPairs};
use super::ejection::Ejection;
use super::health::{HealthPolicy, HostReport, PanicReport, PanicThreshold};
use super::host_list::{BalancedName, HostList};
use super::inner::{BalancerInner, KeyOf, OtherHosts};
use super::member::{Member, Turns};
use crate::client::error::ClientError;
use crate::client::host::Host;
use crate::client::retry::{Latencies, Retry};
use crate::client::send::RequestSender;
use crate::message::{MessageError, Request, Response, Status};
use crate::runtime::Hooks;

/// Configures a [`Balancer`]. Made by [`Client::balance`](crate::Client::balance). Timeouts and limits are those of the client.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Client;
/// use corehttp::client::{BalancerChoice, HealthCheck};
///
/// let balancer = Client::new()
///     .balance(["http://one", "http://two", "http://three"])?
///     .choice(BalancerChoice::TwoRandom)
///     .penalty(Duration::from_secs(10))
///     .healthy_if(|outcome| outcome.is_ok_and(|response| !response.status.is_server_error()))
///     .health_check(HealthCheck::get("/health")?)
///     .retry_other_hosts(true)
///     .build();
/// assert_eq!(balancer.counts().len(), 3);
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[must_use]
pub struct BalancerBuilder {
    sender: RequestSender,
    hosts: Arc<HostList>,
    choice: BalancerChoice,
    key: Option<Box<KeyOf>>,
    panic: PanicThreshold,
    health: HealthPolicy,
    other_hosts: OtherHosts,
    retry: Option<Arc<Retry>>,
}

impl BalancerBuilder {
    pub(in crate::client) fn new(sender: RequestSender) -> BalancerBuilder {
        let health = HealthPolicy {
            penalty: PENALTY,
            penalty_max: PENALTY_MAX,
            is_healthy: Box::new(|outcome| outcome.is_ok_and(|response| can_work(response.status))),
            ejection: Some(Ejection::default()),
            slow_start: Duration::ZERO,
            check: None,
            on_change: Hooks::default(),
        };
        BalancerBuilder {
            retry: sender.retry().cloned(),
            // The balancer retries, and not its hosts for themselves. Checks are never retried.
            sender: sender.with_retry(None),
            hosts: Arc::default(),
            choice: BalancerChoice::default(),
            key: None,
            panic: PanicThreshold::default(),
            health,
            other_hosts: OtherHosts::Unused,
        }
    }

    /// Adds a host. Adding the same one twice has no effect.
    pub(in crate::client) fn host(self, url: &str) -> Result<Self, MessageError> {
        self.weighted(url, 1)
    }

    /// Adds a host with a [weight](Balancer::set_weight), at most 1,000. Other hosts have 1. Adding the same host twice has no
    /// effect.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn weighted(self, url: &str, weight: u32) -> Result<Self, MessageError> {
        let host = Host::new(self.sender.clone(), url)?;
        self.hosts.add(Member::new(host, weight));
        Ok(self)
    }

    /// Adds a backup. It gets requests only while no other host can be used.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn backup(self, url: &str) -> Result<Self, MessageError> {
        let host = Host::new(self.sender.clone(), url)?;
        self.hosts.add(Member::new(host, 1).in_tier(1));
        Ok(self)
    }

    /// Adds each address of the host that `url` names as a host of its own, such as those of a headless service of Kubernetes.
    ///
    /// The resolver of the client looks the name up with the first request, and again after the addresses have expired, at most
    /// once a second. An address that goes away gets no more requests. One that stays keeps its counts and its connections.
    /// After a failed look-up, the last addresses stay, and [`HostChange::Unresolved`](super::HostChange) is reported. Requests
    /// have the name in their `host` field, and TLS expects it. A proxy of the client looks names up for itself, so all
    /// addresses lead to the same hosts through it.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    ///
    /// let balancer = Client::new().balance::<&str>([])?.each_address_of("http://api.internal:8080")?.build();
    /// assert!(balancer.counts().is_empty(), "nothing was looked up yet");
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[doc(alias("dns", "resolve", "server-template", "headless"))]
    pub fn each_address_of(self, url: &str) -> Result<Self, MessageError> {
        let host = Host::new(self.sender.clone(), url)?;
        self.hosts.add_name(BalancedName::new(host));
        Ok(self)
    }

    /// Adds each target of a service as a host of its own, by the SRV records (RFC 2782) of the name in `url`, such as
    /// `http://_http._tcp.api.internal`.
    ///
    /// The resolver of the client must look them up (see [`Resolver::resolve_srv`](crate::net::Resolver::resolve_srv)). That of
    /// the operating system cannot. Records are looked up as often as the addresses of [`BalancerBuilder::each_address_of`]
    /// are. At most 64 targets are used. Without any, the last ones stay, and [`HostChange::Unresolved`](super::HostChange) is
    /// reported.
    ///
    /// A new connection looks up the name of its target if the last addresses are no longer valid. After a failed look-up, or
    /// after 1.8 s, the last addresses are used (RFC 8767 §5). A kept connection stays at its address.
    /// [`ClientTimeouts::connection_age`](crate::client::ClientTimeouts::connection_age) can bound its age, which has no limit
    /// by default.
    ///
    /// Targets of the lowest priority get the requests, by their weights. The next priority gets them while none of these can
    /// be used, and so on (see [`BalancerCounts::tier`](super::BalancerCounts::tier)). A [weight](Balancer::set_weight) set for
    /// a target stays until the weight of its record changes. The service itself has none. A target that is
    /// [removed](Balancer::remove) comes back with the next look-up. A target of two services has the priority and the weight
    /// from the one that has found it first. Once it has left this service, the other one counts.
    ///
    /// Requests have the name and the port of the target in their `host` field, and TLS expects the name. For `https`, targets
    /// must therefore be in the domain of the service, here `api.internal`. Others are left out, since a forged answer of a
    /// name server could otherwise have the certificate of another name expected (RFC 6125 §6.2.1).
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, names no host or has a port.
    ///
    /// # Examples
    ///
    /// A resolver over a client of DNS, here one with a single answer. The example `srv` in the repository has one by the crate
    /// `hickory-resolver`.
    ///
    /// ```
    /// use std::io;
    /// use std::net::IpAddr;
    /// use std::time::Duration;
    ///
    /// use corehttp::Client;
    /// use corehttp::net::{Resolver, SrvRecord, SystemResolver};
    ///
    /// struct Dns;
    ///
    /// impl Resolver for Dns {
    ///     async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
    ///         SystemResolver.resolve(name).await
    ///     }
    ///
    ///     async fn resolve_srv(&self, _name: &str) -> io::Result<(Vec<SrvRecord>, Option<Duration>)> {
    ///         let record = |priority, target: &str| SrvRecord { priority, weight: 0, port: 8080, target: target.into() };
    ///         let records = vec![record(10, "one.api.internal."), record(20, "spare.api.internal.")];
    ///         Ok((records, Some(Duration::from_secs(30))))
    ///     }
    /// }
    ///
    /// let client = Client::builder().resolver(Dns).build();
    /// let balancer = client.balance::<&str>([])?.each_target_of("http://_http._tcp.api.internal")?.build();
    /// # let _ = balancer;
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[doc(alias("dns", "srv", "consul", "service discovery", "resolve_srv"))]
    pub fn each_target_of(self, url: &str) -> Result<Self, MessageError> {
        self.hosts.add_name(BalancedName::of_service(self.sender.clone(), url)?);
        Ok(self)
    }

    /// Sets how the next host is chosen. Default: [`BalancerChoice::LeastPending`].
    pub fn choice(mut self, choice: BalancerChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Sets a function that returns the key of a request, such as the name of a user or the path. Requests with the same key go
    /// to the same host. A host that has 1.25 times its share of the pending requests is passed over for the next one. When a
    /// host comes or goes, only its own keys move. Balancers with the same hosts choose alike. A request without a key goes by
    /// [`BalancerBuilder::choice`]. Default: none has one.
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    ///
    /// let balancer = Client::new()
    ///     .balance(["http://one", "http://two"])?
    ///     .key_by(|request| request.headers.get_bytes("x-user"))
    ///     .build();
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    ///
    /// A gateway whose visitors stay with their host, by a cookie. Such a cookie names no host, so there is nothing in it to
    /// forge:
    ///
    /// ```
    /// use corehttp::client::Balancer;
    /// use corehttp::{Client, Context, SetCookie};
    ///
    /// # fn random_name() -> String { "8f14e45f".into() }
    /// async fn pass(balancer: &Balancer, ctx: &mut Context) -> corehttp::Result {
    ///     let mut onward = ctx.request.forwarded_to("/")?;
    ///     let known = ctx.request.cookies().get("visitor").map(str::to_owned);
    ///     let visitor = known.unwrap_or_else(random_name); // from the crate `uuid`, say
    ///     ctx.response.set_cookie(&SetCookie::new_session("visitor", &visitor))?; // beside those of the host
    ///     onward.headers.set("x-visitor", visitor)?;
    ///     ctx.forward(balancer.open_call(&onward)).await
    /// }
    ///
    /// let balancer = Client::new()
    ///     .balance(["http://one", "http://two"])?
    ///     .key_by(|onward| onward.headers.get_bytes("x-visitor"))
    ///     .build();
    /// # let _ = pass;
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    #[doc(alias("consistent hashing", "sticky", "affinity", "rendezvous"))]
    pub fn key_by(mut self, key: impl Fn(&Request) -> Option<&[u8]> + Send + Sync + 'static) -> Self {
        self.key = Some(Box::new(key));
        self
    }

    /// Sets how long a failure counts as one more pending request. 429 counts so too, and any status from 500 on, except 501
    /// and 505. A host that answers 500 at once would otherwise look the least busy. Default: 3 s.
    pub fn penalty(mut self, penalty: Duration) -> Self {
        self.health.penalty = penalty;
        self
    }

    /// Sets how many failures of one host count at the same time. With zero, none count. Default: 300.
    pub fn penalty_max(mut self, most: usize) -> Self {
        self.health.penalty_max = most;
        self
    }

    /// Sets which hosts are healthy, by a function of the head of a response or of the error instead. The function is not
    /// called for errors of the caller. Default: each host with a response is healthy, even of 500, but not of
    /// 502, 503 or 504 (RFC 9110 §15.6.3 to §15.6.5).
    ///
    /// A host that answers each request with 500 has [penalties](BalancerBuilder::penalty) alone. Make 500 a failure as well,
    /// with ejection, if no request of a peer can make a good host answer so.
    pub fn healthy_if(
        mut self,
        is_healthy: impl Fn(Result<&Response, &ClientError>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.health.is_healthy = Box::new(is_healthy);
        self
    }

    /// Sets when failing hosts get no requests for some time. `None` ejects none. Default: [`Ejection::new`].
    pub fn ejection(mut self, ejection: impl Into<Option<Ejection>>) -> Self {
        self.health.ejection = ejection.into();
        self
    }

    /// Sets how long a host has only a part of its share after being down or ejected. The part grows from a tenth to the whole.
    /// Default: zero, for the whole at once.
    pub fn slow_start(mut self, time: Duration) -> Self {
        self.health.slow_start = time;
        self
    }

    /// Sets how many percent of the hosts must be fit for use. Backups and hosts of weight 0 are not counted. With fewer, but
    /// at least one, all hosts but backups get requests, since the fit ones alone would not bear the load. Default: 0. Unfit
    /// hosts then get requests only while not even a backup is fit.
    #[doc(alias("panic_threshold", "healthy_panic_threshold"))]
    pub fn panic_below(mut self, percent: u8) -> Self {
        self.panic.percent = percent.min(100);
        self
    }

    /// Adds a function to be called when the balancer starts or stops using hosts without regard to their health (Envoy's
    /// "panic", not one of Rust). The function runs in the task of the first request concerned, and should return quickly. Its
    /// own panics are ignored. See [`PanicReport`].
    ///
    /// # Examples
    ///
    /// ```
    /// use corehttp::Client;
    ///
    /// let balancer = Client::new()
    ///     .balance(["http://one", "http://two", "http://three"])?
    ///     .panic_below(50)
    ///     .on_panic(|report| eprintln!("{:?}: {} of {} are fit", report.change, report.fit, report.hosts))
    ///     .build();
    /// # Ok::<(), corehttp::error::MessageError>(())
    /// ```
    pub fn on_panic(mut self, on_panic: impl Fn(&PanicReport) + Send + Sync + 'static) -> Self {
        self.panic.on_panic.push(Box::new(on_panic));
        self
    }

    /// Adds a function that is called for each [`HostChange`](super::HostChange) of a host. The function runs in the task that
    /// has noticed the change. It should return quickly. Its panics are ignored.
    pub fn on_change(mut self, on_change: impl Fn(&HostReport<'_>) + Send + Sync + 'static) -> Self {
        self.health.on_change.push(Box::new(on_change));
        self
    }

    /// Sets how each host is checked, starting with the balancer's first request. Default: not at all.
    ///
    /// While all connections to a host are in use, it is not checked. The task that checks ends with the balancer.
    ///
    /// Checks run in the runtime of the request that starts them. They pause while the runtime does. After its end, the next
    /// request starts them in its own.
    pub fn health_check(mut self, check: HealthCheck) -> Self {
        self.health.check = Some(check);
        self
    }

    /// Sets whether a failed request gets a second attempt, on another host. The first host must certainly not have processed
    /// it, for instance because it could not be reached. The second attempt has the client's full timeout again. Default: no.
    ///
    /// [`BalancerBuilder::retry`] retries more failures, within a budget. Such a policy decides alone.
    pub fn retry_other_hosts(mut self, retry: bool) -> Self {
        self.other_hosts = if retry { OtherHosts::Once } else { OtherHosts::Unused };
        self
    }

    /// Sets the policy by which failed requests are sent again. `None` sends none again. Default: that of the client.
    ///
    /// Each retry goes to another host if there is one. There, it does not wait for the `retry-after` of the host that has
    /// failed. The retry counts against the [budget](crate::client::RetryBudget) of the host that gets it. The time limit of
    /// the client is that of all attempts together.
    pub fn retry(mut self, retry: impl Into<Option<Retry>>) -> Self {
        self.retry = retry.into().map(Arc::new);
        self
    }

    /// Builds the balancer. Nothing is dialed before the first request.
    pub fn build(self) -> Balancer {
        let BalancerBuilder { sender, hosts, choice, key, panic, health, other_hosts, retry } = self;
        Balancer::from_inner(BalancerInner {
            sender,
            hosts,
            choice,
            key,
            random_pairs: RandomPairs::default(),
            turns: Turns::default(),
            health: Arc::new(health),
            window_end: Mutex::default(),
            panic,
            retry,
            other_hosts,
            latencies: Latencies::default(),
        })
    }
}

/// Whether a host that answers so can do its work. The status 500 may be about one request alone.
fn can_work(status: Status) -> bool {
    ![Status::BAD_GATEWAY, Status::SERVICE_UNAVAILABLE, Status::GATEWAY_TIMEOUT].contains(&status)
}

const PENALTY: Duration = Duration::from_secs(3);
const PENALTY_MAX: usize = 300;

impl fmt::Debug for BalancerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalancerBuilder")
            .field("choice", &self.choice)
            .field("panic", &self.panic)
            .field("health", &self.health)
            .field("retry", &self.retry)
            .field("other_hosts", &self.other_hosts)
            .finish_non_exhaustive()
    }
}
