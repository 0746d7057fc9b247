//! [`HostList`]: the hosts of a balancer, which come and go; [`BalancedName`]: a name that leads to some of them.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};
use std::time::Duration;

use super::health::{HealthPolicy, HostChange};
use super::member::{BalancerCounts, Member};
use super::owned_task::OwnedTask;
use super::service::{FoundHost, targets};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::client::host::Host;
use crate::client::route::Origin;
use crate::client::send::RequestSender;
use crate::memory::{lock, read_lock, write_lock};
use crate::message::{MessageError, Request, TargetError, split_port};

/// The hosts of a balancer, and the names that lead to some of them.
#[derive(Default)]
pub(super) struct HostList {
    members: RwLock<Vec<Arc<Member>>>,
    names: RwLock<Vec<Arc<BalancedName>>>,
}

impl HostList {
    /// Adds a host. Returns whether it is new.
    pub(super) fn add(&self, member: Member) -> bool {
        add(&mut write_lock(&self.members), member).is_some()
    }

    /// Why no name leads to a host, if a look-up is at fault.
    pub(super) fn look_up_error(&self) -> Option<ClientError> {
        self.names().iter().find_map(|name| name.error())
    }

    /// Adds a name. Returns whether it is new.
    pub(super) fn add_name(&self, name: BalancedName) -> bool {
        let mut names = write_lock(&self.names);
        let is_new = names.iter().all(|known| known.host.origin() != name.host.origin());
        if is_new {
            names.push(Arc::new(name));
        }
        is_new
    }

    /// Removes the hosts at the origin with this key, and the name in it. Returns whether there were any.
    pub(super) fn remove(&self, key: &str) -> bool {
        // The name first, so that no look-up under way adds hosts again.
        let names = take_each(&self.names, |name| name.host.origin() == key);
        let others = self.names().clone();
        let is_removed = |member: &Member| member.host.origin() == key;
        // A host that another name leads to stays, and is that name's.
        let leaves = |member: &Member| member.is_found_by(key) && !hand_over(member, others.iter());
        let members = take_each(&self.members, |member| is_removed(member) || leaves(member));
        names.iter().for_each(|name| name.look_up_task.stop());
        members.iter().for_each(|member| member.checks.task.stop());
        !names.is_empty() || !members.is_empty()
    }

    /// Sets the weight of the hosts at the origin with this key. Returns whether there are any.
    pub(super) fn set_weight(&self, key: &str, weight: u32) -> bool {
        let mut is_known = false;
        let has_weight = |name: &BalancedName| name.kind == NameKind::Addresses && name.host.origin() == key;
        for name in self.names().iter().filter(|name| has_weight(name)) {
            name.set_weight(weight);
            is_known = true;
        }
        for member in self.members().iter().filter(|member| member.host.origin() == key) {
            member.set_weight(weight);
            is_known = true;
        }
        is_known
    }

    /// Replaces the hosts of `name` by `found`, and reports what has changed.
    pub(super) fn set_found(&self, name: &Arc<BalancedName>, found: Vec<FoundHost>, health: &HealthPolicy) {
        for (member, change) in self.change_found(name, found) {
            health.report(&member.host, change);
        }
    }

    /// Replaces the hosts of `name` by `found`. Returns what has changed, to be reported without a lock.
    fn change_found(
        &self,
        name: &Arc<BalancedName>,
        found: Vec<FoundHost>,
    ) -> Vec<(Arc<Member>, HostChange)> {
        let key = name.host.origin();
        // New members are made before the lock: a function of the application may choose their proxies.
        let known: Vec<Arc<Member>> = self.members().clone();
        let is_new = |it: &&FoundHost| !known.iter().any(|member| it.is(&member.host, &name.host));
        let member = |it: &FoundHost| {
            let weight = it.weight.unwrap_or(name.weight());
            Member::new(it.host(&name.host), weight).in_tier(it.tier).found_by(&name.host)
        };
        let new: Vec<Member> = found.iter().filter(is_new).map(member).collect();
        // Locked meanwhile, so that a name which is removed leaves no host behind.
        let names = self.names();
        if !names.iter().any(|known| Arc::ptr_eq(known, name)) {
            return Vec::new();
        }
        let mut members = write_lock(&self.members);
        let is_found = |member: &Member| found.iter().any(|it| it.is(&member.host, &name.host));
        let is_lost = |member: &Member| member.is_found_by(key) && !is_found(member);
        // A host that another name leads to stays, and is that name's.
        let others = || names.iter().filter(|other| !Arc::ptr_eq(other, name));
        let leaves = |member: &Member| is_lost(member) && !hand_over(member, others());
        let mut changes = Vec::new();
        for gone in members.extract_if(.., |member| leaves(member)) {
            gone.checks.task.stop();
            changes.push((gone, HostChange::Gone));
        }
        for member in new {
            changes.extend(add(&mut members, member).map(|added| (added, HostChange::Found)));
        }
        // A weight that was set since stays, unless the look-up has found another one.
        let before = std::mem::replace(&mut *lock(&name.found), found.clone());
        for it in found.iter().filter(|it| !before.contains(it)) {
            let is_it = |member: &&Arc<Member>| member.is_found_by(key) && it.is(&member.host, &name.host);
            if let Some((member, weight)) = members.iter().find(is_it).zip(it.weight) {
                member.set_tier(it.tier);
                member.set_weight(weight);
            }
        }
        changes
    }

    pub(super) fn members(&self) -> RwLockReadGuard<'_, Vec<Arc<Member>>> {
        read_lock(&self.members)
    }

    pub(super) fn names(&self) -> RwLockReadGuard<'_, Vec<Arc<BalancedName>>> {
        read_lock(&self.names)
    }

    pub(super) fn counts(&self) -> Vec<BalancerCounts> {
        self.members().iter().map(|member| member.counts()).collect()
    }
}

/// A name that leads to hosts of a balancer.
pub(super) struct BalancedName {
    /// The name, at no particular address.
    pub(super) host: Host,
    kind: NameKind,
    weight: AtomicU32,
    /// The hosts that the last look-up has found.
    found: Mutex<Vec<FoundHost>>,
    /// Why the last look-up has failed, if it has.
    failure: Mutex<Option<ClientError>>,
    /// Whether a look-up has ended.
    is_looked_up: AtomicBool,
    pub(super) look_up_task: OwnedTask,
}

/// How a name leads to hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// Each of its addresses is one.
    Addresses,
    /// Each target of its SRV records is one (RFC 2782).
    Service,
}

impl NameKind {
    /// Looks up the hosts that `name` leads to, and for how long they are valid.
    ///
    /// # Errors
    ///
    /// Fails as the resolver does, and if there is no host.
    async fn look_up(self, name: Host) -> io::Result<(Vec<FoundHost>, Duration)> {
        match self {
            NameKind::Addresses => {
                let (addresses, ttl) = name.look_up().await?;
                Ok((addresses.iter().map(|address| FoundHost::at(*address)).collect(), ttl))
            }
            NameKind::Service => {
                let (records, ttl) = name.look_up_srv().await?;
                let service = Origin::from_key(name.origin()).ok_or(io::ErrorKind::InvalidInput)?;
                let found = targets(&service, &records);
                if found.is_empty() {
                    return Err(io::Error::new(io::ErrorKind::NotFound, "the service has no target"));
                }
                Ok((found, ttl))
            }
        }
    }
}

impl BalancedName {
    /// A name each of whose addresses is a host.
    pub(super) fn new(host: Host) -> BalancedName {
        BalancedName::of_kind(host, NameKind::Addresses)
    }

    /// The name of a service, without a port, which is in its records.
    ///
    /// # Errors
    ///
    /// Fails if the URL is malformed, or names no host, or has a port.
    pub(super) fn of_service(sender: RequestSender, url: &str) -> Result<BalancedName, MessageError> {
        let request = Request::get(url)?;
        if request.target().authority().is_some_and(|authority| split_port(authority).1.is_some()) {
            return Err(MessageError::from_url(TargetError::Authority, url));
        }
        Ok(BalancedName::of_kind(Host::new(sender, url)?, NameKind::Service))
    }

    fn of_kind(host: Host, kind: NameKind) -> BalancedName {
        BalancedName {
            host,
            kind,
            found: Mutex::default(),
            weight: AtomicU32::new(1),
            failure: Mutex::default(),
            is_looked_up: AtomicBool::new(false),
            look_up_task: OwnedTask::default(),
        }
    }

    /// The weight of addresses that will be found.
    fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    pub(super) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Looks up the hosts that the name leads to, and for how long they are valid. The name is not held meanwhile.
    pub(super) fn look_up(
        &self,
    ) -> impl Future<Output = io::Result<(Vec<FoundHost>, Duration)>> + Send + use<> {
        self.kind.look_up(self.host.clone())
    }

    /// Whether a look-up has ended: then the hosts are those that are known.
    pub(super) fn is_looked_up(&self) -> bool {
        self.is_looked_up.load(Ordering::Acquire)
    }

    /// Notes the end of a look-up, once its hosts are in the list. Returns whether it is the first failure since one succeeded.
    pub(super) fn note_look_up(&self, failure: Option<io::Error>) -> bool {
        let failure = failure.map(|error| self.look_up_error(ClientCause::Io(error)).shared());
        let has_failed = failure.is_some();
        let is_first = std::mem::replace(&mut *lock(&self.failure), failure).is_none();
        self.is_looked_up.store(true, Ordering::Release);
        is_first && has_failed
    }

    /// Why the name leads to no host: its last look-up has failed, or has not ended in time. `None` if it has succeeded.
    pub(super) fn error(&self) -> Option<ClientError> {
        match &*lock(&self.failure) {
            Some(error) => Some(error.duplicate()),
            None => (!self.is_looked_up()).then(|| self.look_up_error(ClientCause::TimedOut)),
        }
    }

    fn look_up_error(&self, cause: ClientCause) -> ClientError {
        let origin = Origin::from_key(self.host.origin());
        let name = origin.as_ref().map_or(self.host.origin(), Origin::host);
        ClientError::new(ClientPhase::Resolve, cause).with_subject(name)
    }
}

/// Adds a host, and returns it if it is new.
fn add(members: &mut Vec<Arc<Member>>, member: Member) -> Option<Arc<Member>> {
    if members.iter().any(|known| known.id() == member.id()) {
        return None;
    }
    let member = Arc::new(member);
    members.push(member.clone());
    Some(member)
}

/// Makes a host one of the first of `names` that leads to it. Returns whether there is one.
fn hand_over<'a>(member: &Member, mut names: impl Iterator<Item = &'a Arc<BalancedName>>) -> bool {
    names.any(|name| {
        let found = lock(&name.found);
        let Some(it) = found.iter().find(|it| it.is(&member.host, &name.host)) else { return false };
        member.set_found_by(&name.host);
        member.set_tier(it.tier);
        member.set_weight(it.weight.unwrap_or(name.weight()));
        true
    })
}

/// Takes each value for which `is_taken`.
fn take_each<T>(values: &RwLock<Vec<T>>, is_taken: impl Fn(&T) -> bool) -> Vec<T> {
    write_lock(values).extract_if(.., |value| is_taken(value)).collect()
}
