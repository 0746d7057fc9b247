//! [`BalancerInner`]: chooses a host for each request of a balancer, and records what came of it.

use std::mem;
use std::sync::{Arc, Mutex};

use super::choice::{BalancerChoice, RandomPairs, choose_by_key};
use super::ejection::{Ejection, EjectionCause, WINDOW, outliers};
use super::health::{HealthPolicy, PanicThreshold};
use super::host_list::HostList;
use super::member::{Member, Turns};
use super::round::{Assignment, HeadRecord, RetryWait, not_assigned};
use super::tasks::start_checks;
use crate::client::call::BalancedOutcome;
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::retry::{Latencies, NextHost, Outcome, Retry, Tries};
use crate::client::send::RequestSender;
use crate::descriptors;
use crate::exchange::ExchangeError;
use crate::memory::lock;
use crate::message::{Request, TargetForm};
use crate::runtime::{self, Instant, later};

/// The state that the clones of a balancer share.
pub(super) struct BalancerInner {
    pub(super) sender: RequestSender,
    pub(super) hosts: Arc<HostList>,
    pub(super) choice: BalancerChoice,
    pub(super) key: Option<Box<KeyOf>>,
    pub(super) random_pairs: RandomPairs,
    pub(super) turns: Turns,
    pub(super) health: Arc<HealthPolicy>,
    /// When hosts are compared next.
    pub(super) window_end: Mutex<Option<Instant>>,
    pub(super) panic: PanicThreshold,
    /// Decides alone about retries, if there is one.
    pub(super) retry: Option<Arc<Retry>>,
    /// Without `retry`: whether a request that certainly was not processed is sent to another host.
    pub(super) other_hosts: OtherHosts,
    /// How long the responses of all hosts take, if the policy hedges.
    pub(super) latencies: Latencies,
}

/// The key of a request, by which its host is chosen.
pub(super) type KeyOf = dyn Fn(&Request) -> Option<&[u8]> + Send + Sync;

/// Whether a failed request that certainly was not processed is sent to another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherHosts {
    Unused,
    Once,
}

impl BalancerInner {
    /// Assigns `request`, which comes from a caller.
    pub(super) fn assign_first(&self, request: &Request) -> Result<Assignment, ClientError> {
        if request.target().form() != TargetForm::Origin {
            return Err(not_assigned(request, ClientCause::Origin).with_detail("it is more than a path"));
        }
        self.assign(request, None).ok_or_else(|| match self.hosts.look_up_error() {
            Some(error) => error.with_url(request.target().as_str()),
            None => not_assigned(request, ClientCause::NoHost),
        })
    }

    /// Assigns `request` to a host, other than `excluded`, even if that was removed and added again.
    pub(super) fn assign(&self, request: &Request, excluded: Option<&Arc<Member>>) -> Option<Assignment> {
        Some(self.assign_to(self.choose(request, excluded)?))
    }

    /// Chooses another host than `first` for `request`; `first` itself if there is no other.
    pub(super) fn choose_other(&self, request: &Request, first: &Arc<Member>) -> Arc<Member> {
        self.choose(request, Some(first)).unwrap_or_else(|| first.clone())
    }

    /// Chooses a host for `request`, other than `excluded`.
    fn choose(&self, request: &Request, excluded: Option<&Arc<Member>>) -> Option<Arc<Member>> {
        // A function of the application is called without a lock.
        let key = self.key.as_ref().and_then(|key| key(request));
        let members = self.hosts.members();
        members.iter().for_each(|member| start_checks(member, &self.health));
        let now = members.iter().any(|member| member.is_out()).then(runtime::now);
        let candidates = || members.iter().filter(|member| is_candidate(member, excluded));
        let is_fit = |member: &Arc<Member>| member.is_up() && now.is_none_or(|now| member.admits(now));
        let primaries = || candidates().filter(|member| member.tier() == 0);
        let all_primaries = || members.iter().filter(|member| member.weight() > 0 && member.tier() == 0);
        let fit = || all_primaries().filter(|member| is_fit(member)).count();
        let hosts = || all_primaries().count();
        let tier = candidates().filter(|member| is_fit(member)).map(|member| member.tier()).min();
        let is_below = tier == Some(0) && self.panic.is_below(fit, hosts);
        let chosen = match tier {
            _ if is_below => self.choose_of(key, primaries()),
            None => None,
            Some(tier) => {
                self.choose_of(key, candidates().filter(|member| member.tier() == tier && is_fit(member)))
            }
        };
        // If none is fit, all are candidates, even if the last one went down only during this choice.
        let chosen = chosen.or_else(|| self.choose_of(key, candidates()))?.clone();
        let is_panic = is_below || tier.is_none();
        // For a retry or a hedge, one host is left out, and the counts would be those of the others.
        let change = excluded.is_none().then(|| self.panic.note(is_panic, fit, hosts)).flatten();
        // The function of the application that gets the report may add and remove hosts.
        drop(members);
        if let Some(report) = change {
            self.panic.report(&report);
        }
        Some(chosen)
    }

    /// Chooses one of `candidates`, by the key of the request if it has one.
    fn choose_of<'a>(
        &self,
        key: Option<&[u8]>,
        candidates: impl Iterator<Item = &'a Arc<Member>> + Clone,
    ) -> Option<&'a Arc<Member>> {
        let by_key = key.and_then(|key| choose_by_key(key, candidates.clone()));
        by_key.or_else(|| self.choice.choose(candidates, &self.random_pairs))
    }

    /// Assigns a request to this host.
    pub(super) fn assign_to(&self, member: Arc<Member>) -> Assignment {
        let is_trial = member.begin_trial(&self.health);
        let in_flight = member.begin_request(&self.turns);
        let mut assignment = Assignment::new(member, in_flight);
        assignment.is_trial = is_trial;
        assignment
    }

    /// Assigns a request to this host before its wait. The host's turn is taken now, so that requests which wait at the same time
    /// choose other hosts. A trial begins after the wait: see [`BalancerInner::begin_after_wait`].
    fn assign_before_wait(&self, member: Arc<Member>) -> Assignment {
        let in_flight = member.begin_request(&self.turns);
        Assignment::new(member, in_flight)
    }

    /// Begins the attempt at `request` that has `waited`, as a trial if its host is to have one. If that host is no longer fit,
    /// returns an assignment to another one.
    pub(super) fn begin_after_wait(
        &self,
        wait: &RetryWait,
        request: &Request,
        waited: &mut Assignment,
    ) -> Option<Assignment> {
        let Assignment { member, is_trial, .. } = waited;
        let is_here = self.hosts.members().iter().any(|other| Arc::ptr_eq(other, member));
        if !is_here || member.weight() == 0 || !member.is_up() || !member.admits(runtime::now()) {
            // The retry was taken from the budget of the first choice, and is not taken once more.
            return Some(self.assign_to(self.choose_other(request, &wait.failed)));
        }
        *is_trial = member.begin_trial(&self.health);
        None
    }

    /// Records the outcome of a request, brings its host back if it was a trial, and ejects hosts that have failed too often.
    /// Returns whether it is one of a healthy host.
    pub(super) fn record(&self, member: &Arc<Member>, is_trial: bool, outcome: Outcome<'_>) -> bool {
        let is_healthy = member.record(&self.health, outcome);
        if is_healthy && is_trial {
            member.end_trial(&self.health);
        } else if !is_healthy && let Some(ejection) = &self.health.ejection {
            self.eject_after_failure(member, is_trial, ejection);
        }
        is_healthy
    }

    /// Ejects a host that has just failed if that is due, and others that fail much more often than the rest.
    fn eject_after_failure(&self, member: &Arc<Member>, is_trial: bool, ejection: &Ejection) {
        let now = runtime::now();
        // Locked, so that no more are ejected at once than may be.
        let mut window_end = lock(&self.window_end);
        if let Some(cause) = member.ejection_cause(ejection, is_trial) {
            self.eject(member, ejection, cause, now);
        }
        let Some(requests_min) = ejection.compared_from else { return };
        if window_end.is_some_and(|end| now < end) {
            return;
        }
        let is_first = window_end.replace(later(now, WINDOW)).is_none();
        let members = self.hosts.members().clone();
        let windows: Vec<_> = members.iter().map(|member| member.end_window()).collect();
        let outliers = if is_first { Vec::new() } else { outliers(&windows, requests_min) };
        for at in outliers {
            if !members[at].is_out() {
                self.eject(&members[at], ejection, EjectionCause::SuccessRate, now);
            }
        }
    }

    /// Records that another host has answered a hedged request of this one first, and ejects this one if that happens too often
    /// in a row. The requests of a host that hangs are canceled before they fail, and leave it with the fewest pending: it would
    /// be chosen again and again.
    pub(super) fn record_lost_hedge(&self, member: &Arc<Member>) {
        let Some(ejection) = &self.health.ejection else { return };
        if member.record_lost_hedge(ejection) {
            let _window_end = lock(&self.window_end);
            self.eject(member, ejection, EjectionCause::Hedges, runtime::now());
        }
    }

    /// Ejects a host, unless too many others are and none stands by.
    fn eject(&self, member: &Arc<Member>, ejection: &Ejection, cause: EjectionCause, now: Instant) {
        let may_eject = {
            let members = self.hosts.members();
            let used = || members.iter().filter(|other| other.weight() > 0);
            let is_ejected = |other: &&Arc<Member>| !Arc::ptr_eq(other, member) && !other.admits(now);
            let ejected = used().filter(is_ejected).count() + 1;
            let stands_by =
                |other: &Arc<Member>| other.tier() > member.tier() && other.is_up() && other.admits(now);
            let share = used().count() * usize::from(ejection.percent_max);
            ejected * 100 <= share || share > 0 && used().any(stands_by)
        };
        if may_eject {
            member.eject(&self.health, ejection, cause, now);
        }
    }

    /// The outcome of a request that goes on.
    pub(super) fn outcome_of(self: Arc<BalancerInner>, assignment: Assignment) -> BalancedOutcome {
        let Assignment { member, in_flight, is_trial, mut head, .. } = assignment;
        BalancedOutcome::new(move |outcome| {
            let _counted_until_dropped = &in_flight;
            match (outcome, &mut head) {
                (Err(error), Some(head)) => self.record_broken_body(&member, head, error),
                (Ok(_), Some(_)) => {}
                (outcome, None) => head = Some(self.record_head(&member, is_trial, outcome)),
            }
        })
    }

    /// Records the head of a response, or the error instead, as [`BalancerInner::record`] does. An error that shows nothing of
    /// the host is not recorded.
    pub(super) fn record_head(
        &self,
        member: &Arc<Member>,
        is_trial: bool,
        outcome: Outcome<'_>,
    ) -> HeadRecord {
        if outcome.is_err_and(|error| !is_of_host(error)) {
            return HeadRecord { is_over: true, ended_row: None };
        }
        let failures = member.failures_in_a_row();
        let ended_row = (failures > 0).then(|| (failures, runtime::now()));
        let is_over = !self.record(member, is_trial, outcome) || outcome.is_err();
        HeadRecord { is_over, ended_row }
    }

    /// Records the first error of the body after `head`, unless that was a failure. A bound of the caller is none of the host,
    /// in whichever phase: a slow reader may have exceeded it.
    fn record_broken_body(&self, member: &Arc<Member>, head: &mut HeadRecord, error: &ClientError) {
        let is_over = mem::replace(&mut head.is_over, true);
        if is_over || error.exceeds_callers_bound() || !is_of_host(error) {
            return;
        }
        // The head has ended a row of failures that goes on.
        if let Some((failures, _)) = head.ended_row.filter(|(_, since)| since.elapsed() < WINDOW) {
            member.resume_failures(failures);
        }
        self.record(member, false, Err(error));
    }

    /// Assigns a request, which had this outcome, to another host if the first one certainly has not processed it.
    pub(super) fn retry_other_hosts(
        &self,
        failed: &Assignment,
        request: &Request,
        outcome: Outcome<'_>,
    ) -> Option<Assignment> {
        let may_repeat = self.other_hosts == OtherHosts::Once
            && !failed.is_second
            && outcome.is_err_and(|error| !error.is_sent())
            && request.body.rewind();
        let other = may_repeat.then(|| self.assign(request, Some(&failed.member))).flatten()?;
        Some(other.second())
    }

    /// Assigns a request, which had this outcome, to a host if the policy sends it again: to another one, if there is one.
    /// The attempt is due at the end of the returned wait.
    pub(super) fn retry_by_policy(
        &self,
        failed: &Assignment,
        request: &Request,
        tries: &mut Tries<'_>,
        outcome: Outcome<'_>,
    ) -> Option<(Assignment, RetryWait)> {
        let now = runtime::now();
        let is_other = |member: &Arc<Member>| is_candidate(member, Some(&failed.member));
        let next_host = match self.hosts.members().iter().any(is_other) {
            true => NextHost::Other,
            false => NextHost::Same,
        };
        let mut chosen = None;
        let retry = tries.next(outcome, next_host, now, || {
            chosen.insert(self.choose_other(request, &failed.member)).withdraw(now)
        })?;
        failed.member.count_retry(&retry);
        let wait = RetryWait { due: later(now, retry.wait), failed: failed.member.clone() };
        // Only now, so that a retry which is not made takes no turn.
        chosen.map(|member| (self.assign_before_wait(member), wait))
    }
}

/// Whether a host can get a request that is for any but `excluded`.
fn is_candidate(member: &Member, excluded: Option<&Arc<Member>>) -> bool {
    member.weight() > 0 && excluded.is_none_or(|excluded| excluded.id() != member.id())
}

/// Whether an error shows anything of the host. The line for a connection is one of the callers, so are the bounds that a body
/// exceeds while it comes, and a want of file descriptors is one of this process.
pub(super) fn is_of_host(error: &ClientError) -> bool {
    let is_bound = match error.phase() {
        ClientPhase::Queue => true,
        ClientPhase::Receive => error.exceeds_callers_bound(),
        _ => false,
    };
    !is_bound && !is_callers_fault(error) && !descriptors::is_out_of_descriptors(error)
}

/// Whether an error is the caller's fault and not the host's.
pub(super) fn is_callers_fault(error: &ClientError) -> bool {
    let is_of_request =
        matches!(error.cause(), ClientCause::Exchange(ExchangeError::Source(_) | ExchangeError::Length));
    is_of_request || error.phase() == ClientPhase::Prepare
}
