//! [`look_up_names`]: the hosts of a balancer whose addresses are to be found.

use std::convert::Infallible;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use super::health::{HealthPolicy, HostChange};
use super::host_list::HostList;
use super::name::BalancedName;
use crate::runtime::{Handle, Instant, select, sleep};

/// Starts the tasks that look names up, unless they are running, and waits until each name was looked up once, or until
/// `deadline`: then there may be no host yet.
pub(super) async fn look_up_names(
    hosts: &Arc<HostList>,
    health: &Arc<HealthPolicy>,
    deadline: Option<Instant>,
) {
    let names = hosts.names().clone();
    for name in &names {
        start_look_ups(name, hosts, health);
    }
    for name in &names {
        name.looked_up(deadline).await;
    }
}

/// Starts the task that looks a name up, unless it is running. Without a runtime, none can be started.
fn start_look_ups(name: &Arc<BalancedName>, hosts: &Arc<HostList>, health: &Arc<HealthPolicy>) {
    let mut task = name.task();
    if task.as_ref().is_some_and(|task| !task.is_closed()) {
        return;
    }
    let Some(handle) = Handle::current() else { return };
    let (sender, gone) = oneshot::channel();
    *task = Some(sender);
    handle.spawn(look_up_until(Arc::downgrade(name), Arc::downgrade(hosts), gone, health.clone()));
}

/// Looks a name up until it is `gone`, even if that is in the middle of a look-up.
async fn look_up_until(
    name: Weak<BalancedName>,
    hosts: Weak<HostList>,
    gone: oneshot::Receiver<Infallible>,
    health: Arc<HealthPolicy>,
) {
    let gone = async {
        // Nothing is ever sent; this is the end of the sender.
        let Err(_) = gone.await;
    };
    select(gone, keep_looking_up(name, hosts, &health)).await;
}

/// Looks a name up as often as its addresses expire, for as long as it is there.
async fn keep_looking_up(name: Weak<BalancedName>, hosts: Weak<HostList>, health: &HealthPolicy) {
    loop {
        // Neither is held during a look-up, or it would not be gone before that has ended.
        let Some(host) = name.upgrade().map(|name| name.host.clone()) else { return };
        let looked_up = host.look_up().await;
        let Some((name, hosts)) = name.upgrade().zip(hosts.upgrade()) else { return };
        if name.note_look_up(looked_up.is_err()) {
            health.report(&name.host, HostChange::Unresolved);
        }
        let pause = match looked_up {
            Ok((found, ttl)) => {
                hosts.set_addresses(&name, &found, health);
                ttl.max(PAUSE_MIN)
            }
            Err(_) => PAUSE_AFTER_FAILURE,
        };
        name.end_wait();
        drop((name, hosts));
        sleep(pause).await;
    }
}

/// The least time between two look-ups of a name, even if its addresses are valid for less.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// The time until a name is looked up again that could not be resolved.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);
