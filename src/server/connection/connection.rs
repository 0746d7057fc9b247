//! [`Connection`]: the life of one connection: it waits, is served, and waits again (RFC 9112 §9).

use std::io;
use std::rc::Rc;
use std::task::{self, Poll, ready};

use super::close::{idle_end, idle_limit_within_age, makes_room, poll_stop};
use super::per_core::{Job, JobFuture, JobOutcome, PerCore};
use super::serve;
use crate::net::{Conn, TimerSlot};
use crate::server::core_state::CoreState;
use crate::server::exchange::UpgradedHandle;
use crate::server::opening::Opening;
use crate::server::report::{ConnectionEnd, ConnectionReport, PollReport};
use crate::server::{Context, ErrorCause, ErrorReport, Handler};

/// One connection, as its task holds it. An idle connection holds all of these fields, so there are few.
pub(in crate::server) struct Connection<H: Handler + 'static> {
    per_core: Rc<PerCore<H>>,
    /// The connection, while it is idle.
    idle: Option<Conn>,
    /// The job that serves the connection, while it is busy.
    job: Option<Box<JobFuture<H>>>,
    /// How many exchanges the connection has carried.
    exchange_count: u64,
    /// The reason why the connection is over, if it ends now.
    end: ConnectionEnd,
    /// The limit of the current idle wait, if connections have an age: less of that is left at each look, so the limit is
    /// noted when the wait begins.
    idle_limit_millis: u32,
    /// The server's part of the connection, once that was upgraded.
    upgraded: Option<Box<UpgradedHandle>>,
}

impl<H: Handler + 'static> Connection<H> {
    pub(in crate::server) fn new(per_core: Rc<PerCore<H>>, opening: Opening) -> Connection<H> {
        let mut connection = Connection {
            per_core,
            idle: None,
            job: None,
            exchange_count: 0,
            end: ConnectionEnd::Aborted,
            idle_limit_millis: 0,
            upgraded: None,
        };
        match opening.is_ready() {
            true => connection.admit(opening.conn),
            false => {
                connection.per_core.core.begin_life(&opening.conn);
                connection.start_job(Job::Open(Box::new(opening)));
            }
        }
        connection
    }

    /// Serves requests until the connection closes, or is upgraded.
    ///
    /// # Errors
    ///
    /// Fails with the error that ended the connection early. The peer has been answered before, if that was possible.
    pub(in crate::server) fn poll_http(&mut self, cx: &mut task::Context<'_>) -> Poll<io::Result<()>> {
        // Time has passed since the last poll, if only in the queue of the core.
        self.per_core.core.clock.mark_stale();
        loop {
            if let Some(job) = &mut self.job {
                let outcome = ready!(job.poll(cx));
                if let Some(result) = self.finish_job(outcome) {
                    return Poll::Ready(result);
                }
            }
            let Some(mut context) = ready!(self.poll_wake(cx)) else {
                if let Some(conn) = &mut self.idle {
                    conn.transport.try_shutdown();
                }
                return Poll::Ready(Ok(()));
            };
            context.exchange.attach(&mut self.idle, self.exchange_count);
            self.start_job(Job::Exchanges(context));
        }
    }

    /// Closes a connection that was upgraded, if its owner was dropped. A [`Service`](crate::Service) does not wait for an
    /// owner that still has it.
    pub(in crate::server) fn poll_close_if_dropped(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.upgraded.as_mut().map_or(Poll::Ready(()), |upgraded| upgraded.poll_close_if_dropped(cx))
    }

    /// Gives back memory of the core, as [`PerCore::trim_if_due`] does.
    pub(in crate::server) fn trim_if_due(&self) {
        self.per_core.trim_if_due();
    }

    /// The whole life of a connection that a server has accepted: serves until the connection is closed, even if it was
    /// upgraded. Errors of the connection have been reported.
    pub(in crate::server) fn poll_until_closed(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.per_core.core.events.observes_polls() {
            return self.poll_timed(cx);
        }
        self.poll_untimed(cx)
    }

    /// Polls, and reports how long that took: all other connections of the core have waited.
    #[cold]
    fn poll_timed(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        self.per_core.core.clock.refresh();
        let begun = self.per_core.core.clock.now();
        self.per_core.core.waiting_id.take();
        let polled = self.poll_untimed(cx);
        let CoreState { clock, events, waiting_id, .. } = &*self.per_core.core;
        clock.refresh();
        let took = clock.now().saturating_duration_since(begun);
        events.report_poll(&PollReport { took, waiting: waiting_id.take() });
        polled
    }

    fn poll_untimed(&mut self, cx: &mut task::Context<'_>) -> Poll<()> {
        if self.upgraded.is_none() {
            let _ = ready!(self.poll_http(cx));
        }
        let Some(upgraded) = &mut self.upgraded else { return Poll::Ready(()) };
        self.end = ConnectionEnd::Aborted;
        ready!(upgraded.poll_until_closed(cx));
        self.end = ConnectionEnd::Upgraded;
        Poll::Ready(())
    }

    /// Lets the connection in, unless the application refuses it.
    fn admit(&mut self, conn: Conn) {
        let core = &self.per_core.core;
        core.begin_life(&conn);
        match core.events.admits(&conn) {
            Ok(true) => return self.idle = Some(conn),
            Ok(false) => {}
            Err(_) => core.report_error(ErrorReport::from_connection(conn.peer(), ErrorCause::Panic)),
        }
        core.report_connection_end(&conn, ConnectionEnd::Refused);
    }

    fn start_job(&mut self, job: Job) {
        debug_assert!(self.job.is_none() && self.idle.is_none(), "a connection is either idle or busy");
        let future = self.per_core.take_job_future(|| JobFuture::new(serve::run));
        future.start((self.per_core.clone(), job));
        self.job = Some(future);
    }

    /// Returns how the connection ended, if it did.
    fn finish_job(&mut self, outcome: JobOutcome) -> Option<io::Result<()>> {
        debug_assert!(self.job.is_some() && self.idle.is_none(), "a busy connection has a job");
        if let Some(future) = self.job.take() {
            self.per_core.give_job_future(future);
        }
        match outcome {
            JobOutcome::Opened(conn) => self.admit(*conn),
            JobOutcome::Idle(mut context) => {
                self.exchange_count = context.exchange.release(&mut self.idle);
                self.per_core.give_context(context);
            }
            JobOutcome::Closed(result) => {
                // Only an upgraded connection is still reported by `Drop`.
                self.end = ConnectionEnd::Upgraded;
                return Some(result.map(|upgraded| self.upgraded = upgraded));
            }
        }
        None
    }

    /// Waits for the first bytes of a request, holding no memory meanwhile. `None` if the connection is over.
    fn poll_wake(&mut self, cx: &mut task::Context<'_>) -> Poll<Option<Box<Context>>> {
        let Connection { per_core, idle: Some(conn), exchange_count, end, idle_limit_millis, .. } = self
        else {
            return Poll::Ready(None);
        };
        let CoreState { bounds, ages, .. } = &*per_core.core;
        let limit = if *exchange_count == 0 { bounds.timeouts.head } else { bounds.timeouts.idle };
        let limit = match ages.are_bounded() {
            false => limit,
            true => idle_limit_within_age(ages, conn, limit, idle_limit_millis),
        };
        // A connection that is polled while it waits was woken, most likely by bytes, so it is read at once.
        if !conn.is_armed(TimerSlot::Read)
            && matches!(conn.transport.poll_read_ready(cx), Some(Poll::Pending))
        {
            *end = ready!(match conn.poll_timeout(cx, TimerSlot::Read, limit) {
                Poll::Ready(_) => Poll::Ready(idle_end(&per_core.core.ages, conn)),
                Poll::Pending => poll_stop(conn, *exchange_count, limit, cx).map(|()| ConnectionEnd::Stop),
            });
            return Poll::Ready(None);
        }
        // A transport whose readiness cannot be checked is read in each poll, and borrows a context for that.
        let mut context = per_core.take_context();
        let woken = context.exchange.poll_first_bytes(cx, conn, limit);
        if let Poll::Ready(true) = woken {
            // Disarmed first: the clock read gives these stores time before `attach` copies the connection.
            conn.disarm(TimerSlot::Other);
            // The first head's time runs from the accept.
            if *exchange_count > 0 {
                conn.disarm(TimerSlot::Read);
            }
            per_core.core.clock.refresh();
            return Poll::Ready(Some(context));
        }
        per_core.give_context(context);
        *end = ready!(match woken {
            // A wait that has not begun is not over, and to ask its timer would begin it.
            Poll::Ready(_)
                if conn.is_armed(TimerSlot::Read)
                    && conn.poll_timeout(cx, TimerSlot::Read, limit).is_ready() =>
            {
                Poll::Ready(idle_end(&per_core.core.ages, conn))
            }
            Poll::Ready(_) => Poll::Ready(ConnectionEnd::Peer),
            Poll::Pending if makes_room(conn, *exchange_count, limit) => Poll::Ready(ConnectionEnd::Idle),
            Poll::Pending => poll_stop(conn, *exchange_count, limit, cx).map(|()| ConnectionEnd::Stop),
        });
        Poll::Ready(None)
    }
}

impl<H: Handler + 'static> Drop for Connection<H> {
    /// Reports that the connection is over, if it is idle or was upgraded. The context of a busy one does it itself.
    fn drop(&mut self) {
        let Connection { per_core, idle, exchange_count, end, upgraded, .. } = self;
        let report = match (idle, upgraded) {
            (Some(conn), _) => ConnectionReport::new(conn, *exchange_count),
            (None, upgraded) => upgraded.as_mut().and_then(|upgraded| upgraded.report.take()),
        };
        if let Some(report) = report {
            per_core.core.report_connection(report, *end);
        }
    }
}
