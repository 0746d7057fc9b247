//! [`Balancer`]: sends each request to one of several hosts, by default the least busy one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock, Weak};
use std::time::Duration;

use super::member::{BalancerChoice, BalancerCounts, HealthCheck, HealthPolicy, Member, RandomPairs};
use super::round::{Assignment, Round, not_assigned};
use crate::client::call::{Call, OutcomeRecorder, ResponseReader};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::host::Host;
use crate::client::retry::{NextHost, Outcome, Retry, Tries};
use crate::client::route::origin;
use crate::client::send::{ClientUpgraded, RequestSender};
use crate::exchange::ExchangeError;
use crate::memory::{Reset, read_lock, write_lock};
use crate::message::{Body, MessageError, Request, Response, Status, TargetError, TargetForm};
use crate::runtime::{self, Instant, later};

/// Sends each request to one of several equivalent hosts, by default the one with the fewest pending requests.
///
/// A host that fails gets fewer requests for a while: each failure counts as one more pending request, for 3 s by
/// default. A failure is any error that is not the caller's fault, and a response of 502, 503 or 504, which a host that
/// cannot do its work often sends at once: without a penalty, it would be the least busy one. With
/// [`BalancerBuilder::healthy_if`], other outcomes are failures. Hosts that fail an active check
/// ([`BalancerBuilder::health_check`]) get no requests as long as there are others.
///
/// Made by [`Client::balance`](crate::Client::balance); clones are the same balancer. Targets must be only a path,
/// since the host is chosen later; a gateway makes them with [`Request::forwarded_to`]`("/")`. Redirects are not
/// followed.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use corehttp::{Client, Request, Response};
///
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().connect_to(&listener).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
/// #     let host = ctx.request.headers.host().unwrap_or_default().to_owned();
/// #     ctx.response.set_text(host);
/// # })?;
/// # corehttp::block_on(async {
/// let balancer = client.balance(["http://one", "http://two"])?.build();
/// let (request, mut response) = (Request::get("/")?, Response::new());
/// balancer.send(&request, &mut response).await?;
/// assert_eq!(response.body.bytes(), b"one");
/// balancer.send(&request, &mut response).await?;
/// assert_eq!(response.body.bytes(), b"two");
///
/// balancer.remove("http://one");
/// assert_eq!(balancer.counts()[0].served, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "LBClient")]
#[derive(Clone)]
pub struct Balancer {
    inner: Arc<BalancerInner>,
    /// Has the connections to the hosts, if they are not those of the balancer.
    sender: Option<RequestSender>,
}

/// The state that the clones of a balancer share.
struct BalancerInner {
    sender: RequestSender,
    members: RwLock<Vec<Arc<Member>>>,
    choice: BalancerChoice,
    random_pairs: RandomPairs,
    /// How many requests were assigned to hosts.
    assigned: AtomicU64,
    health: HealthPolicy,
    check: Option<Arc<HealthCheck>>,
    retry: RetryPolicy,
    /// The policy for retries, which decides instead if there is one.
    policy: Option<Arc<Retry>>,
}

/// Whether a failed request that certainly was not processed is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RetryPolicy {
    Never,
    /// The request is sent to another host, once.
    Once,
}

// The loop is in each method, since the compiler could not prove the future of an async closure to be `Send`.
impl Balancer {
    /// Sends `request` to one of the hosts, and receives the response into `response`, including its body.
    ///
    /// # Errors
    ///
    /// As [`Client::send`](crate::Client::send); also with [`ClientCause::Origin`] if the target is more than a path,
    /// and with [`ClientCause::NoHost`] if there is no host.
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        let mut round = self.begin(request, Some(&request.body)).inspect_err(|_| response.reset())?;
        loop {
            let sent = round.host().send(request, response).await;
            if !self.assign_again(&mut round, sent.as_ref().map(|()| &*response)) {
                sent.map_err(|error| round.describe(error))?;
                round.end(response);
                return Ok(());
            }
            round.wait().await;
        }
    }

    /// Sends `request` to one of the hosts, and receives the head of the response into `response`. The request counts
    /// as pending until the body has been read from the [`ResponseReader`].
    ///
    /// # Errors
    ///
    /// As [`Balancer::send`].
    pub async fn open_response(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        let mut round = self.begin(request, Some(&request.body)).inspect_err(|_| response.reset())?;
        loop {
            let opened = round.host().open_response(request, response).await;
            if !self.assign_again(&mut round, opened.as_ref().map(|_| &*response)) {
                let reader = opened.map_err(|error| round.describe(error))?;
                return Ok(reader.with_guard(Some(round.end(response))));
            }
            if let Ok(unwanted) = opened {
                unwanted.discard().await;
            }
            round.wait().await;
        }
    }

    /// Sends the head of `request` to one of the hosts, and returns a [`Call`] to write its body to, as
    /// [`Client::open_call`](crate::Client::open_call) does.
    ///
    /// The host is judged by the head of its response, or by the error that prevents one. The request counts as pending
    /// until the body of the response has been read.
    ///
    /// # Errors
    ///
    /// As [`Client::open_call`](crate::Client::open_call); also with [`ClientCause::Origin`] if the target is more than a path,
    /// and with [`ClientCause::NoHost`] if there is no host.
    pub async fn open_call(&self, request: &Request) -> Result<Call, ClientError> {
        let mut round = self.begin(request, None)?;
        loop {
            let mut opened = round.host().open_call(request).await;
            let is_again = match &mut opened {
                Ok(call) => self.assign_call_again(&mut round, call),
                Err(error) => self.assign_again(&mut round, Err(error)),
            };
            if !is_again {
                let call = opened.map_err(|error| round.describe(error))?;
                let call = call.with_retry_log(round.tries.take().and_then(Tries::into_log));
                return Ok(call.recorded_by(self.inner.clone().recorder(round.assignment)));
            }
            if let Ok(unwanted) = opened
                && let Ok(unwanted) = unwanted.finish(&mut Response::new()).await
            {
                unwanted.discard().await;
            }
            round.wait().await;
        }
    }

    /// Sends `request` to one of the hosts, and hands the connection over if the host agrees to the upgrade, as
    /// [`Client::upgrade`](crate::Client::upgrade) does.
    ///
    /// The request counts as pending until the [`ClientUpgraded`] is dropped.
    ///
    /// # Errors
    ///
    /// As [`Client::upgrade`](crate::Client::upgrade); also with [`ClientCause::Origin`] if the target is more than a
    /// path, and with [`ClientCause::NoHost`] if there is no host.
    pub async fn upgrade(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        let mut round = self.begin(request, Some(&request.body)).inspect_err(|_| response.reset())?;
        loop {
            let upgraded = round.host().upgrade(request, response).await;
            let outcome = match &upgraded {
                // The host has answered, although it refused the upgrade.
                Err(error) if !matches!(error.cause(), ClientCause::Upgrade) => Err(error),
                Ok(_) | Err(_) => Ok(&*response),
            };
            if !self.assign_again(&mut round, outcome) {
                let tunnel = upgraded.map_err(|error| round.describe(error))?;
                return Ok(tunnel.with_guard(Some(round.end(response))));
            }
            round.wait().await;
        }
    }

    /// Adds the host that `url` names. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host.
    pub fn add(&self, url: &str) -> Result<bool, MessageError> {
        self.inner.add(url)
    }

    /// Removes the host that `url` names; its pending requests are still answered. Returns whether it was one of the
    /// hosts.
    pub fn remove(&self, url: &str) -> bool {
        let Ok(key) = origin::key_of_url(url) else { return false };
        let mut members = write_lock(&self.inner.members);
        let is_named = |member: &Arc<Member>| *member.host.origin() == *key;
        let Some(at) = members.iter().position(is_named) else { return false };
        members.remove(at).stop_checks();
        true
    }

    /// Returns the counts of each host, in the order in which the hosts were added.
    pub fn counts(&self) -> Vec<BalancerCounts> {
        self.inner.counts()
    }

    /// The counts of this balancer, which do not keep it alive.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn counters(&self) -> BalancerCounters {
        BalancerCounters(Arc::downgrade(&self.inner))
    }

    /// Returns this balancer with the connections of `sender`.
    #[allow(dead_code, reason = "unused without the feature `proxy-protocol`")]
    pub(in crate::client) fn with_sender(&self, sender: RequestSender) -> Balancer {
        Balancer { inner: self.inner.clone(), sender: Some(sender.with_retry(None)) }
    }

    /// Assigns `request` to a host. `body` is that which is sent with it, unless the caller writes it.
    fn begin<'a>(&'a self, request: &'a Request, body: Option<&'a Body>) -> Result<Round<'a>, ClientError> {
        let assignment = self.inner.assign(request)?.through(self.sender.as_ref(), request)?;
        let tries = self.inner.policy.as_deref().map(|policy| {
            assignment.member.deposit();
            let deadline = self.sender.as_ref().unwrap_or(&self.inner.sender).timeouts().deadline;
            Tries::new(policy, request, body, deadline)
        });
        Ok(Round { request, assignment, tries, due: None })
    }

    /// Records the outcome of a request, and assigns it anew if it is sent again. Returns whether it is.
    fn assign_again(&self, round: &mut Round<'_>, outcome: Outcome<'_>) -> bool {
        if outcome.is_err_and(is_callers_fault) {
            return false;
        }
        round.assignment.member.record(&self.inner.health, outcome);
        self.assign_next(round, outcome)
    }

    /// As [`Balancer::assign_again`], for a call whose response may have come with it. One that the caller takes is
    /// recorded then.
    fn assign_call_again(&self, round: &mut Round<'_>, call: &mut Call) -> bool {
        if round.tries.is_none() {
            return false;
        }
        let Some(response) = call.first_response() else { return false };
        let member = round.assignment.member.clone();
        let is_again = self.assign_next(round, Ok(response));
        if is_again {
            member.record(&self.inner.health, Ok(response));
        }
        is_again
    }

    /// Assigns a request, which had this outcome, anew if it is sent again. Returns whether it is.
    fn assign_next(&self, round: &mut Round<'_>, outcome: Outcome<'_>) -> bool {
        let next = match &mut round.tries {
            None => self.inner.retry_other_hosts(&round.assignment, round.request, outcome),
            Some(tries) => self.inner.retry_by_policy(&round.assignment, tries, outcome, &mut round.due),
        };
        let Some(next) = next else { return false };
        let Ok(next) = next.through(self.sender.as_ref(), round.request) else { return false };
        round.assignment = match &round.tries {
            Some(tries) => next.with_earlier(tries.earlier()),
            None => next,
        };
        true
    }
}

/// The counts of a balancer for as long as it lives.
#[derive(Clone)]
pub(crate) struct BalancerCounters(Weak<BalancerInner>);

#[allow(dead_code, reason = "unused without the feature `metrics`")]
impl BalancerCounters {
    /// The counts of each host; `None` if the balancer is gone.
    pub(crate) fn counts(&self) -> Option<Vec<BalancerCounts>> {
        self.0.upgrade().map(|inner| inner.counts())
    }
}

impl BalancerInner {
    fn counts(&self) -> Vec<BalancerCounts> {
        let members = read_lock(&self.members);
        members.iter().map(|member| member.counts()).collect()
    }

    fn add(&self, url: &str) -> Result<bool, MessageError> {
        let host = Host::new(self.sender.clone(), url)?;
        let mut members = write_lock(&self.members);
        if members.iter().any(|member| member.host.origin() == host.origin()) {
            return Ok(false);
        }
        members.push(Arc::new(Member::new(host)));
        Ok(true)
    }

    /// Chooses a host for `request`.
    fn assign(&self, request: &Request) -> Result<Assignment, ClientError> {
        if request.target().form() != TargetForm::Origin {
            return Err(not_assigned(request, ClientCause::Origin).with_detail("it is more than a path"));
        }
        self.choose(None).ok_or_else(|| not_assigned(request, ClientCause::NoHost))
    }

    /// Chooses a host other than `excluded`, even if that was removed and added again.
    fn choose(&self, excluded: Option<&Arc<Member>>) -> Option<Assignment> {
        let members = read_lock(&self.members);
        if let Some(check) = &self.check {
            members.iter().for_each(|member| member.start_checks(check));
        }
        let is_other =
            |member: &Member| excluded.is_none_or(|excluded| excluded.host.origin() != member.host.origin());
        let others = || members.iter().filter(|member| is_other(member));
        let up = others().filter(|member| member.is_up());
        // If all are down, all are candidates, even if the last one went down only during this choice.
        let chosen = self
            .choice
            .choose(up, &self.random_pairs)
            .or_else(|| self.choice.choose(others(), &self.random_pairs));
        Some(self.assign_to(chosen?.clone()))
    }

    /// Assigns a request to this host.
    fn assign_to(&self, member: Arc<Member>) -> Assignment {
        let in_flight = member.begin_request(self.assigned.fetch_add(1, Ordering::Relaxed) + 1);
        Assignment::new(member, in_flight)
    }

    /// The recorder of a request that goes on.
    fn recorder(self: Arc<BalancerInner>, assignment: Assignment) -> OutcomeRecorder {
        let Assignment { member, in_flight, .. } = assignment;
        OutcomeRecorder::new(in_flight, move |outcome| {
            if !outcome.is_err_and(is_callers_fault) {
                member.record(&self.health, outcome);
            }
        })
    }

    /// Assigns a request, which had this outcome, to another host if the first one certainly has not processed it.
    fn retry_other_hosts(
        &self,
        failed: &Assignment,
        request: &Request,
        outcome: Outcome<'_>,
    ) -> Option<Assignment> {
        let may_repeat = self.retry == RetryPolicy::Once
            && !failed.is_second
            && outcome.is_err_and(|error| !error.is_sent())
            && request.body.rewind();
        let other = may_repeat.then(|| self.choose(Some(&failed.member))).flatten()?;
        Some(other.second())
    }

    /// Assigns a request, which had this outcome, to a host if the policy sends it again: to another one, if there is one.
    /// Its wait ends at `due`.
    fn retry_by_policy(
        &self,
        failed: &Assignment,
        tries: &mut Tries<'_>,
        outcome: Outcome<'_>,
        due: &mut Option<Instant>,
    ) -> Option<Assignment> {
        let now = runtime::now();
        let is_other = |member: &Arc<Member>| member.host.origin() != failed.member.host.origin();
        let next_host = match read_lock(&self.members).iter().any(is_other) {
            true => NextHost::Other,
            false => NextHost::Same,
        };
        let mut chosen = None;
        let retry = tries.next(outcome, next_host, now, || {
            let other = self.choose(Some(&failed.member));
            let next = other.unwrap_or_else(|| self.assign_to(failed.member.clone()));
            chosen.insert(next).member.withdraw(now)
        })?;
        failed.member.count_retry(&retry);
        *due = Some(later(now, retry.wait));
        chosen
    }
}

/// Whether an error is the caller's fault and not the host's.
fn is_callers_fault(error: &ClientError) -> bool {
    let is_of_request =
        matches!(error.cause(), ClientCause::Exchange(ExchangeError::Source(_) | ExchangeError::Length));
    is_of_request || error.phase() == ClientPhase::Prepare
}

impl fmt::Debug for Balancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balancer").field("hosts", &self.counts()).finish_non_exhaustive()
    }
}

/// Configures a [`Balancer`]. Made by [`Client::balance`](crate::Client::balance); timeouts and limits are those of the
/// client.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::Client;
/// use corehttp::client::BalancerChoice;
///
/// let balancer = Client::new()
///     .balance(["http://one", "http://two", "http://three"])?
///     .choice(BalancerChoice::TwoRandom)
///     .penalty(Duration::from_secs(10))
///     .healthy_if(|outcome| outcome.is_ok_and(|response| !response.status.is_server_error()))
///     .health_check("/health", Duration::from_secs(5))?
///     .retry_other_hosts(true)
///     .build();
/// assert_eq!(balancer.counts().len(), 3);
/// # Ok::<(), corehttp::error::MessageError>(())
/// ```
#[must_use]
pub struct BalancerBuilder(BalancerInner);

impl BalancerBuilder {
    pub(in crate::client) fn new(sender: RequestSender) -> BalancerBuilder {
        let health = HealthPolicy {
            penalty: PENALTY,
            penalty_max: PENALTY_MAX,
            is_healthy: Box::new(|outcome| outcome.is_ok_and(|response| can_work(response.status))),
        };
        let policy = sender.retry().cloned();
        BalancerBuilder(BalancerInner {
            // The balancer retries, and not its hosts for themselves. Checks are never retried.
            sender: sender.with_retry(None),
            members: RwLock::default(),
            choice: BalancerChoice::default(),
            random_pairs: RandomPairs::default(),
            assigned: AtomicU64::new(0),
            health,
            check: None,
            retry: RetryPolicy::Never,
            policy,
        })
    }

    /// Adds a host. Adding the same one twice has no effect.
    pub(in crate::client) fn host(self, url: &str) -> Result<Self, MessageError> {
        self.0.add(url)?;
        Ok(self)
    }

    /// Sets how the next host is chosen. Default: [`BalancerChoice::LeastPending`].
    pub fn choice(mut self, choice: BalancerChoice) -> Self {
        self.0.choice = choice;
        self
    }

    /// Sets how long a failure counts as one more pending request. Default: 3 s.
    pub fn penalty(mut self, penalty: Duration) -> Self {
        self.0.health.penalty = penalty;
        self
    }

    /// Sets how many failures of one host count at the same time. With zero, none count. Default: 300.
    pub fn penalty_max(mut self, most: usize) -> Self {
        self.0.health.penalty_max = most;
        self
    }

    /// Sets a function that decides whether a host is healthy, by the head of a response, or by the error instead of
    /// one. The function is not called for errors that are the caller's fault. Default: a host that answers is healthy,
    /// even if it answers with 500, but not with 502, 503 or 504 (RFC 9110 §15.6.3 to §15.6.5).
    pub fn healthy_if(
        mut self,
        is_healthy: impl Fn(Result<&Response, &ClientError>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.0.health.is_healthy = Box::new(is_healthy);
        self
    }

    /// Checks each host by requesting `path` every `interval`, starting with the balancer's first request. Default: no
    /// check; the least interval is 10 ms.
    ///
    /// A host that does not answer with 2xx before the next check is due gets no other requests as long as there are
    /// other hosts. While all connections to a host are in use, it is not checked. The task that checks ends with the
    /// balancer.
    ///
    /// Checks run in the runtime of the request that starts them, and pause while that one does not run. If it ends,
    /// the next request starts them in its own.
    ///
    /// # Errors
    ///
    /// Fails if `path` is not a path.
    pub fn health_check(mut self, path: &str, interval: Duration) -> Result<Self, MessageError> {
        let request = Request::get(path)?;
        if request.target().form() != TargetForm::Origin {
            return Err(MessageError::from_url(TargetError::Form, path));
        }
        // Without a pause, checks would keep the hosts busy.
        let interval = interval.max(INTERVAL_MIN);
        self.0.check = Some(Arc::new(HealthCheck { request, interval }));
        Ok(self)
    }

    /// Sets whether a failed request is retried once, on another host, if the first host certainly has not processed it,
    /// for instance because it could not be reached. The second attempt has the client's full timeout again. Default: no.
    ///
    /// [`BalancerBuilder::retry`] retries more failures, within a budget. If there is such a policy, it alone decides.
    pub fn retry_other_hosts(mut self, retry: bool) -> Self {
        self.0.retry = if retry { RetryPolicy::Once } else { RetryPolicy::Never };
        self
    }

    /// Sets the policy by which requests that fail are sent again, or that none are. Default: that of the client.
    ///
    /// A request is sent to another host each time, if there is another one, so it does not wait for the `retry-after` of
    /// the one that has failed. The retry counts against the [budget](crate::client::RetryBudget) of the host that gets it.
    /// The time limit of the client is that of all attempts together.
    pub fn retry(mut self, retry: impl Into<Option<Retry>>) -> Self {
        self.0.policy = retry.into().map(Arc::new);
        self
    }

    /// Builds the balancer. Nothing is dialed before the first request.
    pub fn build(self) -> Balancer {
        Balancer { inner: Arc::new(self.0), sender: None }
    }
}

/// Whether a host that answers so can do its work. The status 500 may be about one request alone.
fn can_work(status: Status) -> bool {
    ![Status::BAD_GATEWAY, Status::SERVICE_UNAVAILABLE, Status::GATEWAY_TIMEOUT].contains(&status)
}

const PENALTY: Duration = Duration::from_secs(3);
const PENALTY_MAX: usize = 300;
const INTERVAL_MIN: Duration = Duration::from_millis(10);

impl fmt::Debug for BalancerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BalancerBuilder")
            .field("choice", &self.0.choice)
            .field("health", &self.0.health)
            .field("check", &self.0.check)
            .field("retry", &self.0.retry)
            .field("policy", &self.0.policy)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    use super::*;
    use crate::Client;

    /// A check may end while a host is chosen. If the last host that was up went down in that moment, none was found.
    #[test]
    fn a_host_is_chosen_while_checks_change_who_is_up() {
        for choice in [BalancerChoice::LeastPending, BalancerChoice::TwoRandom] {
            let hosts = ["http://a", "http://b", "http://c", "http://d"];
            let balancer = Client::new().balance(hosts).unwrap().choice(choice).build();
            let shared = &*balancer.inner;
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let members = read_lock(&shared.members).clone();
                    for round in 0.. {
                        members.iter().for_each(|member| member.set_up(round % 2 == 0));
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
                let missed = (0..50_000).filter(|_| shared.choose(None).is_none()).count();
                is_over.store(true, Ordering::Relaxed);
                assert_eq!(missed, 0, "{choice:?}");
            });
        }
    }

    /// How a host misses requests that the others get.
    #[derive(Clone, Copy, Debug)]
    enum Absence {
        /// It fails its checks.
        Down,
        /// It has failed.
        Penalized,
        /// It answers none of its requests for a while.
        Slow,
        /// It is removed, and added again.
        Removed,
    }

    /// A host that is back gets its share, and does not catch up on all that it has missed.
    #[tokio::test(start_paused = true)]
    async fn a_host_that_is_back_gets_its_share() {
        for choice in [BalancerChoice::LeastPending, BalancerChoice::TwoRandom] {
            for absence in [Absence::Down, Absence::Penalized, Absence::Slow, Absence::Removed] {
                for at_once in [1, 32] {
                    let shares = shares_after(choice, absence, at_once).await;
                    assert!(
                        shares.iter().all(|share| (600..=734).contains(share)),
                        "{choice:?} {absence:?}, {at_once} at once: {shares:?} of 2000"
                    );
                }
            }
        }
    }

    /// The shares of three hosts in 2,000 requests, after one of them was absent for as many.
    async fn shares_after(choice: BalancerChoice, absence: Absence, at_once: usize) -> [usize; 3] {
        const URLS: [&str; 3] = ["http://a", "http://b", "http://c"];
        let balancer = Client::new().balance(URLS).unwrap().choice(choice).build();
        let inner = &*balancer.inner;
        let absent = inner.choose(None).unwrap();
        let url = absent.host().origin().to_owned();
        let origin = absent.host().origin().to_owned();
        let mut held = Vec::new();
        match absence {
            Absence::Down => absent.member.set_up(false),
            Absence::Penalized => {
                let refusal = Response { status: Status::SERVICE_UNAVAILABLE, ..Response::new() };
                (0..100).for_each(|_| absent.member.record(&inner.health, Ok(&refusal)));
            }
            Absence::Slow => held.extend((0..100).map(|number| absent.member.begin_request(number))),
            Absence::Removed => assert!(balancer.remove(&url)),
        }
        let missed = requests(inner, at_once);
        assert!(missed.iter().all(|asked| *asked != origin), "{absence:?}");
        match absence {
            Absence::Down => absent.member.set_up(true),
            Absence::Penalized => tokio::time::sleep(PENALTY).await,
            Absence::Slow => held.clear(),
            Absence::Removed => assert!(balancer.add(&url).unwrap()),
        }
        drop(absent);
        let asked = requests(inner, at_once);
        URLS.map(|url| asked.iter().filter(|asked| *asked == url).count())
    }

    /// The hosts of 2,000 requests, so many of which are in flight at once.
    fn requests(inner: &BalancerInner, at_once: usize) -> Vec<String> {
        let mut in_flight = VecDeque::new();
        let ask = |_| {
            if in_flight.len() == at_once {
                in_flight.pop_front();
            }
            let assignment = inner.choose(None).unwrap();
            let origin = assignment.host().origin().to_owned();
            in_flight.push_back(assignment);
            origin
        };
        (0..2_000).map(ask).collect()
    }
}
