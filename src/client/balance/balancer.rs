//! [`Balancer`]: sends each request to one of several hosts, by default the least busy one.

use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, mem};

use super::health::PanicCounts;
use super::host_list::BalancedName;
use super::inner::{BalancerInner, is_callers_fault};
use super::member::{BalancerCounts, Member};
use super::round::{Assignment, Round};
use super::tasks::{first_look_ups, start_look_ups};
use crate::client::call::{Call, ResponseReader};
use crate::client::error::{ClientCause, ClientError};
use crate::client::host::Host;
use crate::client::redirects::Redirects;
use crate::client::retry::{EarlierAttempts, Outcome, Tries};
use crate::client::route::origin;
use crate::client::send::{ClientUpgraded, RequestSender, Winner, has_call_body, hedge};
use crate::client::settings::ClientTimeouts;
use crate::memory::Reset;
use crate::message::{Body, MessageError, Request, Response};
use crate::runtime::{self, boxed, sleep_until};

/// Sends each request to one of several equivalent hosts, by default the one with the fewest pending requests.
///
/// A host that fails gets fewer requests for some time. Each failure counts as one more pending request, for 3 s by default.
/// One that fails five times in a row, or much more often than the others, is [ejected](super::Ejection). A failure is any
/// error of the host, and a response of 502, 503 or 504. A broken host often sends these at once, and would otherwise look the
/// least busy. With [`healthy_if`](super::BalancerBuilder::healthy_if), other outcomes are failures. After failed active
/// [checks](super::BalancerBuilder::health_check), a host gets no requests while there are others.
///
/// An error of the caller counts against no host: a body of the request that fails, a wait for one of too few connections, or a
/// body of a response that exceeds `body_max` or the time limit for the whole exchange. Nor does a want of file descriptors.
///
/// Made by [`Client::balance`](crate::Client::balance). Clones are the same balancer. Targets must be only a path, since the
/// host is chosen later. A gateway makes them with [`Request::forwarded_to`]`("/")`. Redirects are not followed.
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
    /// Sends the requests, if its connections or limits are not those of the balancer.
    sender: Option<RequestSender>,
}

// The loop is in each method, since the compiler could not prove the future of an async closure to be `Send`.
impl Balancer {
    /// Sends `request` to one of the hosts, and receives the response into `response`, including its body.
    ///
    /// # Errors
    ///
    /// As [`Client::send`](crate::Client::send). A target that is more than a path fails with [`ClientCause::Origin`].
    /// Without a host of a weight above 0, the error is that of a failed look-up, if any, or else [`ClientCause::NoHost`].
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        let mut round = self.begin(request, Some(&request.body)).await.inspect_err(|_| response.reset())?;
        loop {
            let sent = match round.hedge_percentile() {
                None => round.host().send(request, response).await,
                Some(percent) => boxed(|| self.send_hedged(&mut round, percent, response)).await,
            };
            if !self.assign_again(&mut round, sent.as_ref().map(|()| &*response)) {
                sent.map_err(|error| round.describe(error))?;
                round.end(response);
                return Ok(());
            }
            self.wait(&mut round).await;
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
        let mut round = self.begin(request, Some(&request.body)).await.inspect_err(|_| response.reset())?;
        loop {
            let opened = match round.hedge_percentile() {
                None => round.host().open_response(request, response).await,
                Some(percent) => boxed(|| self.open_hedged(&mut round, percent, response)).await,
            };
            if !self.assign_again(&mut round, opened.as_ref().map(|_| &*response)) {
                let reader = opened.map_err(|error| round.describe(error))?;
                let ended = round.end(response);
                return Ok(reader.balanced_by(Some(self.inner.clone().outcome_of(ended))));
            }
            if let Ok(unwanted) = opened {
                unwanted.discard().await;
            }
            self.wait(&mut round).await;
        }
    }

    /// Sends the head of `request` to one of the hosts, and returns a [`Call`] to write its body to, as
    /// [`Client::open_call`](crate::Client::open_call) does.
    ///
    /// The host is judged by the head of its response, and by an error before or after that. The request counts as pending
    /// until the body of the response has been read.
    ///
    /// # Errors
    ///
    /// As [`Client::open_call`](crate::Client::open_call), and for targets and hosts as [`Balancer::send`].
    pub async fn open_call(&self, request: &Request) -> Result<Call, ClientError> {
        let mut round = self.begin(request, None).await?;
        loop {
            let mut opened = match round.hedge_percentile().filter(|_| !has_call_body(request)) {
                None => round.host().open_call(request).await,
                Some(percent) => {
                    let open = |host: Host| async move { host.open_call(request).await };
                    boxed(|| self.hedge(&mut round, percent, open)).await
                }
            };
            let is_again = match &mut opened {
                Ok(call) => self.assign_call_again(&mut round, call),
                Err(error) => self.assign_again(&mut round, Err(error)),
            };
            if !is_again {
                let call = opened.map_err(|error| round.describe(error))?;
                let call = call.with_retry_log(round.tries.take().and_then(Tries::into_log));
                return Ok(call.balanced_by(self.inner.clone().outcome_of(round.assignment)));
            }
            if let Ok(unwanted) = opened
                && let Ok(unwanted) = unwanted.finish(&mut Response::new()).await
            {
                unwanted.discard().await;
            }
            self.wait(&mut round).await;
        }
    }

    /// Sends `request` to one of the hosts, and hands the connection over if the host agrees to the upgrade, like
    /// [`Client::upgrade`](crate::Client::upgrade).
    ///
    /// The request counts as pending until the [`ClientUpgraded`] is dropped. A host that refuses an upgrade has answered. With
    /// [`healthy_if`](super::BalancerBuilder::healthy_if), another status than 101 is a failure.
    ///
    /// # Errors
    ///
    /// As [`Client::upgrade`](crate::Client::upgrade), and for targets and hosts as [`Balancer::send`].
    pub async fn upgrade(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ClientUpgraded, ClientError> {
        let mut round = self.begin(request, Some(&request.body)).await.inspect_err(|_| response.reset())?;
        loop {
            let upgraded = round.host().upgrade(request, response).await;
            let outcome = match &upgraded {
                // The host has answered, although it refused the upgrade.
                Err(error) if !matches!(error.cause(), ClientCause::Upgrade) => Err(error),
                Ok(_) | Err(_) => Ok(&*response),
            };
            if !self.assign_again(&mut round, outcome) {
                let tunnel = upgraded.map_err(|error| round.describe(error))?;
                return Ok(tunnel.with_guard(Some(round.end(response).in_flight)));
            }
            self.wait(&mut round).await;
        }
    }

    /// Adds the host that `url` names. Returns whether it is new.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn add(&self, url: &str) -> Result<bool, MessageError> {
        let member = Member::new(Host::new(self.inner.sender.clone(), url)?, 1);
        Ok(self.inner.hosts.add(member))
    }

    /// Adds each address of the host that `url` names, like
    /// [`BalancerBuilder::each_address_of`](super::BalancerBuilder::each_address_of). Returns whether the name is new.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed or names no host.
    pub fn add_each_address_of(&self, url: &str) -> Result<bool, MessageError> {
        let host = Host::new(self.inner.sender.clone(), url)?;
        Ok(self.inner.hosts.add_name(BalancedName::new(host)))
    }

    /// Adds each target of the service that `url` names, like
    /// [`BalancerBuilder::each_target_of`](super::BalancerBuilder::each_target_of). Returns whether the name is new.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, names no host or has a port.
    pub fn add_each_target_of(&self, url: &str) -> Result<bool, MessageError> {
        Ok(self.inner.hosts.add_name(BalancedName::of_service(self.inner.sender.clone(), url)?))
    }

    /// Sets the weight of the host that `url` names, its share of the requests in proportion to the others. Default: 1; at most
    /// 1,000. Returns whether the balancer has this host.
    ///
    /// A host of weight 0 gets no more requests. Pending ones are still answered. The host is drained once
    /// [`BalancerCounts::pending`] is 0. A name with several addresses has one weight for all of them. A service has none of
    /// its own.
    #[doc(alias = "drain")]
    pub fn set_weight(&self, url: &str, weight: u32) -> bool {
        origin::key_of_url(url).is_ok_and(|key| self.inner.hosts.set_weight(&key, weight))
    }

    /// Removes the host that `url` names. Returns whether there was such a host or name.
    ///
    /// All hosts of a [looked-up](super::BalancerBuilder::each_address_of) name are removed. Its look-ups end. A single target
    /// of a service comes back with the next look-up. Pending requests are still answered.
    pub fn remove(&self, url: &str) -> bool {
        origin::key_of_url(url).is_ok_and(|key| self.inner.hosts.remove(&key))
    }

    /// Returns the counts of each host, in the order in which the hosts were added.
    pub fn counts(&self) -> Vec<BalancerCounts> {
        self.inner.hosts.counts()
    }

    /// The counts of this balancer, which do not keep it alive.
    #[allow(dead_code, reason = "unused without the feature `metrics`")]
    pub(crate) fn counters(&self) -> BalancerCounters {
        BalancerCounters(Arc::downgrade(&self.inner))
    }

    /// Returns this balancer with another time limit for whole exchanges, including the attempts at other hosts and the body.
    /// Connections are shared, and so is all that is known of the hosts. Default: that of the client.
    ///
    /// For a single request: `balancer.with_timeout(limit).send(..)`. See [`ClientBuilder::timeout`](crate::ClientBuilder::timeout).
    #[must_use]
    pub fn with_timeout(&self, total: impl Into<Option<Duration>>) -> Balancer {
        self.with_sender(self.sender().with_total(total.into()))
    }

    /// Returns this balancer with other time limits for the phases of exchanges. Connections are shared, and so is all that is
    /// known of the hosts. Health checks keep their limits. Default: those of the client.
    ///
    /// For a single request: `balancer.with_timeouts(limits).open_call(..)`, such as one that is answered after minutes.
    #[must_use]
    pub fn with_timeouts(&self, timeouts: ClientTimeouts) -> Balancer {
        self.with_sender(self.sender().with_timeouts(timeouts))
    }

    /// Returns this balancer with the connections and the limits of `sender`.
    pub(in crate::client) fn with_sender(&self, sender: RequestSender) -> Balancer {
        let sender = sender.with_retry(None).with_redirects(Redirects::Return);
        Balancer { inner: self.inner.clone(), sender: Some(sender) }
    }

    /// Makes the balancer that a builder has described.
    pub(super) fn from_inner(inner: BalancerInner) -> Balancer {
        Balancer { inner: Arc::new(inner), sender: None }
    }

    fn sender(&self) -> &RequestSender {
        self.sender.as_ref().unwrap_or(&self.inner.sender)
    }

    /// Assigns `request` to a host. `body` is that which is sent with it, unless the caller writes it.
    async fn begin<'a>(
        &'a self,
        request: &'a Request,
        body: Option<&'a Body>,
    ) -> Result<Round<'a>, ClientError> {
        let BalancerInner { hosts, health, .. } = &*self.inner;
        let sender = self.sender();
        let timeouts = sender.timeouts();
        let at_begin = EarlierAttempts { failed: 0, deadline: timeouts.deadline };
        let assignment = match start_look_ups(hosts, health) {
            false => self.inner.assign_first(request)?.through(self.sender.as_ref()),
            true => {
                boxed(|| first_look_ups(hosts, health, at_begin.deadline)).await;
                let assigned = self.inner.assign_first(request);
                let assigned = assigned.map_err(|error| timeouts.describe(error, request, sender.settings()));
                assigned?.through(self.sender.as_ref()).with_earlier(at_begin)
            }
        };
        let tries = self.inner.retry.as_deref().map(|policy| {
            assignment.member.deposit();
            Tries::new(policy, request, body, at_begin.deadline)
        });
        Ok(Round { request, assignment, at_begin, tries, wait: None })
    }

    /// Sends the request of `round`, hedged, and receives the response into `response`, including its body.
    async fn send_hedged(
        &self,
        round: &mut Round<'_>,
        percent: u8,
        response: &mut Response,
    ) -> Result<(), ClientError> {
        let reader = self.open_hedged(round, percent, response).await?;
        reader.receive(response).await.map_err(|error| error.with_origin(round.host().origin()))
    }

    /// Sends the request of `round`, hedged, and receives the head of the response into `response`.
    async fn open_hedged(
        &self,
        round: &mut Round<'_>,
        percent: u8,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        let request = round.request;
        // The first attempt has the memory of the caller's response, and the response that wins takes its place.
        let open = |host: Host| {
            let mut response = mem::take(response);
            async move { host.open_response(request, &mut response).await.map(|reader| (reader, response)) }
        };
        let (reader, answered) = self.hedge(round, percent, open).await?;
        *response = answered;
        Ok(reader)
    }

    /// Makes the first attempt of `round` by `open`. If it takes longer than `percent` of the responses of all hosts, makes
    /// another one at another host. The round goes on with the winner.
    async fn hedge<T, F: Future<Output = Result<T, ClientError>>>(
        &self,
        round: &mut Round<'_>,
        percent: u8,
        mut open: impl FnMut(Host) -> F,
    ) -> Result<T, ClientError> {
        let first = open(round.host().clone());
        let mut second = None;
        let hedged = hedge(&self.inner.latencies, percent, first, |waited| {
            let assigned = second.insert(self.assign_beside(round, waited)?);
            Some(boxed(|| open(assigned.host().clone())))
        });
        let hedged = hedged.await;
        let loser = match (hedged.winner, second) {
            (Winner::Second, Some(second)) => Some(mem::replace(&mut round.assignment, second)),
            (_, second) => second,
        };
        match (loser, hedged.loser_error) {
            (Some(loser), Some(error)) => {
                self.inner.record_head(&loser.member, loser.is_trial, Err(&error));
            }
            // Only the first attempt, since a second one began later; and against a host that works, since an error comes soon.
            (Some(loser), None)
                if hedged.winner == Winner::Second && round.assignment.member.failures_in_a_row() == 0 =>
            {
                self.inner.record_lost_hedge(&loser.member);
            }
            _ => {}
        }
        hedged.outcome
    }

    /// Assigns a request that has `waited` for so long to another host as well, if it is hedged.
    fn assign_beside(&self, round: &mut Round<'_>, waited: Duration) -> Option<Assignment> {
        let first = &round.assignment.member;
        let tries = round.tries.as_mut()?;
        let mut chosen = None;
        let report = tries.hedge(waited, || {
            chosen.insert(self.inner.choose_other(round.request, first)).withdraw(runtime::now())
        })?;
        first.count_retry(&report);
        // Only now, so that a hedge which is not sent takes neither a turn nor a trial.
        let next = self.inner.assign_to(chosen?);
        Some(next.through(self.sender.as_ref()).with_earlier(tries.earlier()))
    }

    /// Records the outcome of a request, and assigns it anew if it is sent again. Returns whether it is.
    fn assign_again(&self, round: &mut Round<'_>, outcome: Outcome<'_>) -> bool {
        if outcome.is_err_and(is_callers_fault) {
            return false;
        }
        let Assignment { member, is_trial, .. } = &round.assignment;
        round.assignment.head = Some(self.inner.record_head(member, *is_trial, outcome));
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
        let is_trial = round.assignment.is_trial;
        let is_again = self.assign_next(round, Ok(response));
        if is_again {
            self.inner.record(&member, is_trial, Ok(response));
        }
        is_again
    }

    /// Assigns a request, which had this outcome, anew if it is sent again. Returns whether it is.
    fn assign_next(&self, round: &mut Round<'_>, outcome: Outcome<'_>) -> bool {
        let Round { request, assignment, tries, .. } = &mut *round;
        let next = match tries {
            None => self.inner.retry_other_hosts(assignment, request, outcome).map(|next| (next, None)),
            Some(tries) => {
                let next = self.inner.retry_by_policy(assignment, request, tries, outcome);
                next.map(|(next, wait)| (next, Some(wait)))
            }
        };
        let Some((next, wait)) = next else { return false };
        round.wait = wait;
        self.set_assignment(round, next);
        true
    }

    /// Waits until the next attempt is due. No trial waits, or the host would stay out for as long.
    async fn wait(&self, round: &mut Round<'_>) {
        let Some(wait) = round.wait.take() else { return };
        sleep_until(wait.due).await;
        if let Some(other) = self.inner.begin_after_wait(&wait, round.request, &mut round.assignment) {
            self.set_assignment(round, other);
        }
    }

    /// Has the request of `round` go to another host.
    fn set_assignment(&self, round: &mut Round<'_>, next: Assignment) {
        let earlier = round.tries.as_ref().map_or(round.at_begin, Tries::earlier);
        round.assignment = next.through(self.sender.as_ref()).with_earlier(earlier);
    }
}

/// The counts of a balancer for as long as it lives.
#[derive(Clone)]
pub(crate) struct BalancerCounters(Weak<BalancerInner>);

#[allow(dead_code, reason = "unused without the feature `metrics`")]
impl BalancerCounters {
    /// The counts of each host; `None` if the balancer is gone.
    pub(crate) fn counts(&self) -> Option<Vec<BalancerCounts>> {
        self.0.upgrade().map(|inner| inner.hosts.counts())
    }

    /// Whether the other ones are of the same balancer.
    pub(crate) fn is_same(&self, other: &BalancerCounters) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// Whether all hosts are used; `None` if the balancer is gone.
    pub(crate) fn panic_counts(&self) -> Option<PanicCounts> {
        self.0.upgrade().map(|inner| inner.panic.counts())
    }
}

impl fmt::Debug for Balancer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Balancer").field("hosts", &self.counts()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::super::check::CheckFailure;
    use super::super::choice::BalancerChoice;
    use super::super::ejection::Ejection;
    use super::*;
    use crate::Client;
    use crate::client::error::ClientPhase;
    use crate::message::Status;

    const DOWN: CheckFailure = CheckFailure::Exchange(ClientPhase::Connect);

    fn get() -> Request {
        Request::get("/").unwrap()
    }

    /// A request from before an ejection, or beside a trial, says nothing of the host as it is now.
    #[tokio::test(start_paused = true)]
    async fn only_a_trial_brings_a_host_back_or_ejects_it_again() {
        let ejection = Ejection::new().failures(1).time(Duration::from_secs(10), Duration::from_secs(100));
        let balancer = Client::new()
            .balance(["http://a", "http://b"])
            .unwrap()
            .penalty_max(0)
            .ejection(ejection)
            .build();
        let inner = &*balancer.inner;
        let refusal = Response { status: Status::SERVICE_UNAVAILABLE, ..Response::new() };
        let earlier = inner.assign(&get(), None).unwrap();
        inner.record(&earlier.member, earlier.is_trial, Ok(&refusal));
        assert!(earlier.member.is_out() && !earlier.is_trial);
        tokio::time::sleep(Duration::from_secs(10)).await;
        let assigned: Vec<_> = (0..4).map(|_| inner.assign(&get(), None).unwrap()).collect();
        let trials: Vec<_> = assigned.iter().filter(|assigned| assigned.is_trial).collect();
        assert!(trials.len() == 1 && Arc::ptr_eq(&trials[0].member, &earlier.member));
        let ejections = || earlier.member.counts().ejections;
        inner.record(&earlier.member, false, Ok(&Response::new()));
        inner.record(&earlier.member, false, Ok(&refusal));
        assert!(earlier.member.is_out() && ejections() == 1);
        inner.record(&earlier.member, true, Ok(&Response::new()));
        assert!(!earlier.member.is_out() && ejections() == 1);
    }

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
                    let members = shared.hosts.members().clone();
                    for round in 0.. {
                        members.iter().for_each(|member| {
                            member.set_up(&shared.health, (round % 2 == 1).then_some(DOWN))
                        });
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
                let missed = (0..50_000).filter(|_| shared.assign(&get(), None).is_none()).count();
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
        let balancer = Client::new().balance(URLS).unwrap().choice(choice).ejection(None).build();
        let inner = &*balancer.inner;
        let absent = inner.assign(&get(), None).unwrap();
        let url = absent.host().origin().to_owned();
        let origin = absent.host().origin().to_owned();
        let mut held = Vec::new();
        match absence {
            Absence::Down => absent.member.set_up(&inner.health, Some(DOWN)),
            Absence::Penalized => {
                let refusal = Response { status: Status::SERVICE_UNAVAILABLE, ..Response::new() };
                (0..100).for_each(|_| {
                    inner.record(&absent.member, false, Ok(&refusal));
                });
            }
            Absence::Slow => held.extend((0..100).map(|_| absent.member.begin_request(&inner.turns))),
            Absence::Removed => assert!(balancer.remove(&url)),
        }
        let missed = requests(inner, at_once);
        assert!(missed.iter().all(|asked| *asked != origin), "{absence:?}");
        match absence {
            Absence::Down => absent.member.set_up(&inner.health, None),
            Absence::Penalized => tokio::time::sleep(Duration::from_secs(3)).await,
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
            let assignment = inner.assign(&get(), None).unwrap();
            let origin = assignment.host().origin().to_owned();
            in_flight.push_back(assignment);
            origin
        };
        (0..2_000).map(ask).collect()
    }
}
