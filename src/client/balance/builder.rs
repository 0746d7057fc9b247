//! [`BalancerBuilder`]: configures a balancer.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use super::{Balancer, BalancerInner, HealthCheck, HealthPolicy, HostChoice, RandomPairs, RetryPolicy};
use crate::client::{Client, ClientError};
use crate::message::{InvalidRequest, InvalidTarget, Request, Response, TargetForm};

/// Configures a [`Balancer`]. Made by [`Client::balance`]; timeouts and limits are those of the client.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use corehttp::{HostChoice, Client};
///
/// let balancer = Client::new()
///     .balance(["http://one", "http://two", "http://three"])?
///     .choice(HostChoice::TwoRandom)
///     .penalty(Duration::from_secs(10))
///     .healthy_if(|outcome| outcome.is_ok_and(|response| !response.status.is_server_error()))
///     .check("/health", Duration::from_secs(5))?
///     .retry_elsewhere()
///     .build();
/// assert_eq!(balancer.counts().len(), 3);
/// # Ok::<(), corehttp::InvalidRequest>(())
/// ```
#[must_use]
pub struct BalancerBuilder(BalancerInner);

impl BalancerBuilder {
    pub(super) fn new(client: Client) -> BalancerBuilder {
        let health = HealthPolicy {
            penalty: PENALTY,
            penalty_max: PENALTY_MAX,
            is_healthy: Box::new(|it| it.is_ok()),
        };
        BalancerBuilder(BalancerInner {
            client,
            members: RwLock::default(),
            choice: HostChoice::default(),
            random_pairs: RandomPairs::default(),
            health,
            check: None,
            retry: RetryPolicy::Never,
        })
    }

    /// Adds a host. Adding the same one twice has no effect.
    pub(super) fn host(self, url: &str) -> Result<Self, InvalidRequest> {
        self.0.add(url)?;
        Ok(self)
    }

    /// Sets how the next host is chosen. Default: [`HostChoice::LeastPending`].
    pub fn choice(mut self, choice: HostChoice) -> Self {
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

    /// Sets a function that decides whether a host is healthy, by the head of an answer, or by the error instead of
    /// one. It is not called for errors that are the caller's fault. Default: a host that answers is healthy, even if
    /// it answers with 500.
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
    /// Checks run in the runtime of the request that starts them, and pause while that one does not run. If it ends, the
    /// next request starts them in its own.
    ///
    /// # Errors
    ///
    /// Fails if `path` is not a path.
    pub fn check(mut self, path: &str, interval: Duration) -> Result<Self, InvalidRequest> {
        let request = Request::get(path)?;
        if request.target().form() != TargetForm::Origin {
            return Err(InvalidRequest::from_url(InvalidTarget::Form, path));
        }
        // Without a pause, checks would keep the hosts busy.
        let interval = interval.max(INTERVAL_MIN);
        self.0.check = Some(Arc::new(HealthCheck { request, interval }));
        Ok(self)
    }

    /// Retries a failed request once, on another host, if the first host certainly has not processed it, for instance
    /// because it could not be reached. The second attempt has the client's full timeout again. Default: no retry.
    pub fn retry_elsewhere(mut self) -> Self {
        self.0.retry = RetryPolicy::Once;
        self
    }

    /// Builds the balancer. Nothing is dialed before the first request.
    pub fn build(self) -> Balancer {
        Balancer(Arc::new(self.0))
    }
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
            .finish_non_exhaustive()
    }
}
