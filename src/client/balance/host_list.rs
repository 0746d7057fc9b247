//! [`HostList`]: the hosts of a balancer, which come and go; [`BalancedName`]: a name each of whose addresses is one.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard};

use super::health::{HealthPolicy, HostChange};
use super::member::{BalancerCounts, Member};
use super::owned_task::OwnedTask;
use crate::client::host::Host;
use crate::memory::{read_lock, write_lock};

/// The hosts of a balancer, and the names whose addresses are among them.
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
        let members = take_each(&self.members, |member| member.host.origin() == key);
        names.iter().for_each(|name| name.look_up_task.stop());
        members.iter().for_each(|member| member.check_task.stop());
        !names.is_empty() || !members.is_empty()
    }

    /// Sets the weight of the hosts at the origin with this key. Returns whether there are any.
    pub(super) fn set_weight(&self, key: &str, weight: u32) -> bool {
        let mut is_known = false;
        for name in self.names().iter().filter(|name| name.host.origin() == key) {
            name.set_weight(weight);
            is_known = true;
        }
        for member in self.members().iter().filter(|member| member.host.origin() == key) {
            member.set_weight(weight);
            is_known = true;
        }
        is_known
    }

    /// Makes these addresses the hosts of `name`, and reports what has changed.
    pub(super) fn set_addresses(&self, name: &Arc<BalancedName>, found: &[IpAddr], health: &HealthPolicy) {
        for (member, change) in self.change_addresses(name, found) {
            health.report(&member.host, change);
        }
    }

    /// Makes these addresses the hosts of `name`. Returns what has changed, to be reported without a lock.
    fn change_addresses(&self, name: &Arc<BalancedName>, found: &[IpAddr]) -> Vec<(Arc<Member>, HostChange)> {
        // Made before, since a function of the application may choose their proxies.
        let known: Vec<Arc<Member>> = self.members().clone();
        let is_known = |address: &IpAddr| {
            known.iter().any(|member| {
                member.host.origin() == name.host.origin() && member.host.address() == Some(*address)
            })
        };
        let new: Vec<Member> = found
            .iter()
            .filter(|address| !is_known(address))
            .map(|address| Member::new(name.host.at(*address), name.weight()))
            .collect();
        // Locked meanwhile, so that a name which is removed leaves no host behind.
        let names = self.names();
        if !names.iter().any(|known| Arc::ptr_eq(known, name)) {
            return Vec::new();
        }
        let mut members = write_lock(&self.members);
        let is_gone = |member: &Member| {
            member.host.origin() == name.host.origin()
                && member.host.address().is_some_and(|address| !found.contains(&address))
        };
        let mut changes = Vec::new();
        for gone in members.extract_if(.., |member| is_gone(member)) {
            gone.check_task.stop();
            changes.push((gone, HostChange::Gone));
        }
        for member in new {
            changes.extend(add(&mut members, member).map(|added| (added, HostChange::Found)));
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

/// A name each of whose addresses is a host of a balancer.
pub(super) struct BalancedName {
    /// The name, at no particular address.
    pub(super) host: Host,
    weight: AtomicU32,
    /// Whether the last look-up has failed.
    is_unresolved: AtomicBool,
    /// Whether a look-up has ended.
    is_looked_up: AtomicBool,
    pub(super) look_up_task: OwnedTask,
}

impl BalancedName {
    pub(super) fn new(host: Host) -> BalancedName {
        BalancedName {
            host,
            weight: AtomicU32::new(1),
            is_unresolved: AtomicBool::new(false),
            is_looked_up: AtomicBool::new(false),
            look_up_task: OwnedTask::default(),
        }
    }

    /// The weight of addresses that will be found.
    pub(super) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    pub(super) fn set_weight(&self, weight: u32) {
        self.weight.store(weight, Ordering::Relaxed);
    }

    /// Whether a look-up has ended: then the hosts are those that are known.
    pub(super) fn is_looked_up(&self) -> bool {
        self.is_looked_up.load(Ordering::Acquire)
    }

    /// Notes a look-up, whose addresses are hosts by now. Returns whether it is the first failure since one succeeded.
    pub(super) fn note_look_up(&self, has_failed: bool) -> bool {
        self.is_looked_up.store(true, Ordering::Release);
        !self.is_unresolved.swap(has_failed, Ordering::Relaxed) && has_failed
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

/// Takes each value for which `is_taken`.
fn take_each<T>(values: &RwLock<Vec<T>>, is_taken: impl Fn(&T) -> bool) -> Vec<T> {
    write_lock(values).extract_if(.., |value| is_taken(value)).collect()
}
