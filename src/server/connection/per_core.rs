//! [`PerCore`]: the handler of one core, and the memory that is lent to its connections from free lists.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::handshake_turns::HandshakeTurns;
use crate::memory::{FreeList, PoolKind, Reset};
use crate::net::{Conn, ConnTable, TICK, Ticker};
use crate::runtime::{ReusableFuture, select};
use crate::server::context::Context;
use crate::server::core_state::{CoreState, ServerSettings};
use crate::server::counts::CoreCounterSet;
use crate::server::exchange::UpgradedHandle;
use crate::server::handler::Handler;
use crate::server::opening::{ConnectionLimiter, Opening};

/// The handler of one core, and the memory that is lent to its connections from free lists.
pub(crate) struct PerCore<H: Handler + 'static> {
    pub(super) handler: H,
    pub(crate) core: Rc<CoreState>,
    contexts: FreeList<Context>,
    job_futures: FreeList<JobFuture<H>>,
    trim_at: Cell<Instant>,
    pub(super) handshake_turns: HandshakeTurns,
}

impl<H: Handler + 'static> PerCore<H> {
    pub(crate) fn new(
        index: usize,
        handler: H,
        settings: &ServerSettings,
        connections: Rc<ConnTable>,
        counters: Arc<CoreCounterSet>,
    ) -> PerCore<H> {
        let core = CoreState::new(index, settings, connections, counters);
        let trim_at = Cell::new(core.clock.now() + TRIM_PAUSE);
        PerCore {
            handler,
            core,
            contexts: FreeList::default(),
            job_futures: FreeList::default(),
            trim_at,
            handshake_turns: HandshakeTurns::new(),
        }
    }

    #[inline]
    pub(super) fn take_context(&self) -> Box<Context> {
        self.contexts.take(|| Context::new(self.core.clone()))
    }

    #[inline]
    pub(super) fn give_context(&self, context: Box<Context>) {
        self.contexts.give(context);
    }

    #[inline]
    pub(super) fn take_job_future(&self, new: impl FnOnce() -> JobFuture<H>) -> Box<JobFuture<H>> {
        self.job_futures.take(|| Box::new(new()))
    }

    #[inline]
    pub(super) fn give_job_future(&self, future: Box<JobFuture<H>>) {
        self.job_futures.give(future);
    }

    /// Gives back memory that was not needed, at most once a second.
    pub(crate) fn trim_if_due(&self) {
        let now = self.core.clock.now();
        if now >= self.trim_at.get() {
            self.trim_at.set(now + TRIM_PAUSE);
            self.contexts.trim();
            self.job_futures.trim();
            self.publish_pools();
        }
    }

    /// Publishes the counts of the free lists, which only this thread can read.
    fn publish_pools(&self) {
        let pools = &self.core.counters.pools;
        pools.set(PoolKind::Contexts, self.contexts.counts());
        pools.set(PoolKind::Futures, self.job_futures.counts());
    }

    /// Checks the core's deadlines, frees its memory and closes idle connections for new ones, for ever.
    pub(crate) async fn maintain(&self, mut ticker: Ticker, limiter: &ConnectionLimiter) {
        self.core.is_maintained.set(true);
        loop {
            // Even when no connection follows, the memory of a burst must be freed, and a core that is behind catches up.
            let CoreState { backlog, clock, connections, .. } = &*self.core;
            if self.contexts.is_empty() && self.job_futures.is_empty() && !backlog.is_behind() {
                backlog.expect_turn(None);
                connections.occupied().await;
            }
            backlog.expect_turn(Some(clock.refresh() + TICK));
            select(connections.tick(&mut ticker), backlog.catch_up()).await;
            backlog.look(clock.refresh());
            limiter.make_room(connections, clock.now());
            self.trim_if_due();
        }
    }
}

impl<H: Handler + 'static> Drop for PerCore<H> {
    fn drop(&mut self) {
        self.publish_pools();
    }
}

/// Runs a job, and is used again for the job of another connection.
///
/// So the task of a connection has no room for the state of a job, and an idle connection is small whatever the handler
/// is. An idle job future does not hold the `PerCore`, which holds the future.
pub(super) type JobFuture<H> = ReusableFuture<(Rc<PerCore<H>>, Job), JobOutcome>;

/// An idle job future is as good as new.
impl<H: Handler + 'static> Reset for JobFuture<H> {
    fn reset(&mut self) {}

    fn shrink(&mut self) -> usize {
        self.size()
    }
}

/// The work for a busy connection. Small, since it is moved several times.
pub(super) enum Job {
    /// A new connection, which a PROXY header or a TLS handshake precedes.
    Open(Box<Opening>),
    /// The requests that arrive on the connection of this context.
    Exchanges(Box<Context>),
}

/// The state of a connection after a job.
pub(super) enum JobOutcome {
    /// The connection waits for its first request.
    Opened(Box<Conn>),
    /// The connection waits for another request, and is to be released by this context.
    Idle(Box<Context>),
    /// The connection is closed, was upgraded, or has failed. A failed one was answered before, if possible.
    Closed(io::Result<Option<Box<UpgradedHandle>>>),
}

/// How often unneeded memory is freed.
const TRIM_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;
    use crate::server::IntoHandler;
    use crate::wire::Limits;

    /// A request touches the memory of its core alone, which no other thread can reach: a type that is `Send` has two
    /// constants of this name, and the test does not compile.
    #[test]
    fn the_memory_of_a_core_stays_on_its_thread() {
        trait OneThread<A> {
            const IS_SURE: bool = true;
        }
        impl<T: ?Sized> OneThread<()> for T {}
        impl<T: ?Sized + Send> OneThread<[(); 1]> for T {}
        type Shared = Arc<dyn Handler + Send + Sync>;
        const {
            assert!(<PerCore<Shared> as OneThread<_>>::IS_SURE && <CoreState as OneThread<_>>::IS_SURE);
            assert!(
                <FreeList<Context> as OneThread<_>>::IS_SURE && <JobFuture<Shared> as OneThread<_>>::IS_SURE
            );
            assert!(<ConnTable as OneThread<_>>::IS_SURE && <Conn as OneThread<_>>::IS_SURE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_a_burst_is_given_back_when_idle() {
        let handler = (|_: &mut Context| {}).into_handler();
        let per_core =
            PerCore::new(0, handler, &ServerSettings::default(), ConnTable::with_sweep(), Arc::default());
        let mut context = per_core.take_context();
        context.request.body.set_bytes(vec![0; 1 << 20]);
        per_core.give_context(context);
        per_core.trim_at.set(per_core.core.clock.now());
        let limiter = ConnectionLimiter::new(Arc::default(), Arc::default(), &Limits::default());
        timeout(Duration::from_secs(1), per_core.maintain(Ticker::default(), &limiter)).await.unwrap_err();
        let [contexts, ..] = per_core.core.counters.pools.counts();
        assert_eq!((contexts.created, contexts.reused, contexts.kept), (1, 0, 1));
        assert!((1 << 10..1 << 17).contains(&contexts.bytes), "{contexts:?}");
        let kept = per_core.take_context().request.body.receive().spare(0).len();
        assert!(kept < 1 << 17, "{kept} bytes are kept");
    }
}
