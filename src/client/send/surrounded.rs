//! [`Surrounded`]: a request that passes through the middleware of its client, and is sent over a connection of its own.

use std::sync::Arc;

use super::sent_request::{SentRequest, Until};
use crate::client::error::ClientError;
use crate::client::exchange::{OutgoingRequest, RedirectTaint};
use crate::client::middleware::{AttemptDetails, SendFuture, Transmit, surround};
use crate::client::pool::{ClientPools, Pool};
use crate::client::route::origin;
use crate::client::settings::RequestTimeouts;
use crate::memory::Reset;
use crate::message::{Request, Response};

/// A request beneath the middleware of its client, which sends it, perhaps more than once.
pub(super) struct Surrounded<'a> {
    pools: &'a ClientPools,
    pool: Arc<Pool>,
    outgoing: OutgoingRequest<'a>,
    until: Until<'a>,
    timeouts: &'a RequestTimeouts,
    /// The request that was sent last, unless it has failed.
    sent: Option<SentRequest<'static>>,
}

impl Surrounded<'_> {
    /// Sends a request through the middleware of the client. `pool` is that of its origin, if the caller has it.
    pub(super) async fn run(
        pools: &ClientPools,
        pool: Option<Arc<Pool>>,
        outgoing: &OutgoingRequest<'_>,
        mut until: Until<'_>,
        timeouts: &RequestTimeouts,
    ) -> Result<SentRequest<'static>, ClientError> {
        if let Until::Answered(response) = &mut until {
            response.reset();
        }
        let request = outgoing.request;
        let describe = |error| timeouts.describe(error, request, &pools.settings);
        let pool = match pool {
            Some(pool) => pool,
            None => pools.pool_of(request.target()).map_err(describe)?,
        };
        let details = AttemptDetails {
            origin: pool.origin.key(),
            resends: outgoing.resends,
            is_cross_origin: outgoing.taint == RedirectTaint::CrossOrigin,
        };
        let mut surrounded =
            Surrounded { pools, pool: pool.clone(), outgoing: *outgoing, until, timeouts, sent: None };
        let middleware = &pools.settings.middleware;
        let passed = surround(middleware, request, details, &mut surrounded, timeouts.deadline).await;
        passed.map_err(describe)?;
        Ok(surrounded.sent.expect("a request that has passed was sent"))
    }

    async fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let Surrounded { pools, ref pool, outgoing, timeouts, .. } = *self;
        if let Some(unwanted) = self.sent.take() {
            unwanted.discard(self.until.reborrow()).await;
        }
        origin::check(request.target(), pool.origin.key())?;
        let outgoing = OutgoingRequest { request, ..outgoing };
        let sent = SentRequest::run(pools, Some(pool.clone()), &outgoing, self.until.reborrow(), timeouts);
        let mut sent = sent.await?.into_owned();
        sent.store_client_info(&mut self.until);
        self.sent = Some(sent);
        Ok(())
    }
}

impl Transmit for Surrounded<'_> {
    fn transmit<'x>(&'x mut self, request: &'x Request) -> SendFuture<'x> {
        Box::pin(self.send(request))
    }

    fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    fn response(&self) -> Option<&Response> {
        self.sent.as_ref()?.response(&self.until)
    }
}
