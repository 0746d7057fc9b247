//! [`Attempt`]: one request on its way through middleware; [`Transmit`]: sends it when all have passed it on.

use std::pin::Pin;
use std::{fmt, mem};

use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::message::{Request, Response, TargetForm};

/// One attempt at a request, as [middleware](crate::client::ClientMiddleware) sees it.
///
/// A request that is sent again, by a redirect or by a [`Retry`](crate::client::Retry), is another attempt. Each attempt begins
/// with the request of the caller or of the redirect.
pub struct Attempt<'a> {
    /// A copy of the caller's request, which middleware may change. A stream of [`Body::set_stream`](crate::Body::set_stream)
    /// is shared by both, and sent a single time. A target of another [origin](Attempt::origin) is an error.
    pub request: Request,
    details: AttemptDetails<'a>,
    transmit: &'a mut (dyn Transmit + 'a),
    /// Whether the server may have received any of the request.
    was_sent: bool,
}

/// The circumstances of an attempt.
#[derive(Clone, Copy)]
pub(in crate::client) struct AttemptDetails<'a> {
    pub(in crate::client) origin: &'a str,
    /// How many requests were sent before for the same caller's request.
    pub(in crate::client) resends: u32,
    pub(in crate::client) is_cross_origin: bool,
}

/// Sends the request of an attempt, over a connection of its own or one that it shares.
pub(in crate::client) trait Transmit: Send {
    /// Sends the request, and waits for the head of its response, unless the caller is to write a body.
    fn transmit<'x>(&'x mut self, request: &'x Request) -> SendFuture<'x>;

    /// Whether the request was sent the last time, as far as [`Transmit::transmit`] goes.
    fn is_sent(&self) -> bool;

    /// The response, if the request that was transmitted last has one.
    fn response(&self) -> Option<&Response>;
}

/// The future of a request that is sent.
pub(in crate::client) type SendFuture<'a> =
    Pin<Box<dyn Future<Output = Result<(), ClientError>> + Send + 'a>>;

impl<'a> Attempt<'a> {
    /// An attempt at `request`, which `transmit` sends.
    pub(super) fn new(
        request: Request,
        details: AttemptDetails<'a>,
        transmit: &'a mut (dyn Transmit + 'a),
    ) -> Attempt<'a> {
        Attempt { request, details, transmit, was_sent: false }
    }

    /// Returns the number of this attempt, from 1. Redirects and retries count, also those of a
    /// [`Balancer`](crate::client::Balancer). A request that middleware itself sends again does not.
    pub fn number(&self) -> u32 {
        self.details.resends.saturating_add(1)
    }

    /// Returns scheme, host and port of the server, such as `https://api.example`, in lower case and without a default port.
    /// The target of the request may be only a path.
    pub fn origin(&self) -> &str {
        self.details.origin
    }

    /// Returns the whole URL of the request, as signatures need it. The target may be only a path.
    pub fn url(&self) -> String {
        let target = self.request.target();
        match target.form() {
            TargetForm::Origin => format!("{}{}", self.origin(), target.as_str()),
            _ => target.as_str().to_owned(),
        }
    }

    /// Returns whether redirects have led to another origin than that of the caller's request. Credentials are not meant
    /// for it.
    pub fn is_cross_origin(&self) -> bool {
        self.details.is_cross_origin
    }

    /// Returns the head of the response, once [`ClientNext::send`](crate::client::ClientNext::send) has returned. Its body
    /// is received later, and is empty here.
    ///
    /// `None` before that, and for a [`Call`](crate::client::Call) whose body is still to be written.
    pub fn response(&self) -> Option<&Response> {
        self.transmit.response()
    }

    /// Sends the request.
    pub(super) async fn transmit(&mut self) -> Result<(), ClientError> {
        // Middleware may drop the future when some of the request has left.
        let was_sent_before = mem::replace(&mut self.was_sent, true);
        let sent = self.transmit.transmit(&self.request).await;
        self.was_sent = was_sent_before || sent.as_ref().map_or_else(ClientError::is_sent, |()| true);
        sent
    }

    /// The outcome of the attempt, which has passed all middleware with this one.
    pub(super) fn end(self, passed: Result<(), ClientError>) -> Result<(), ClientError> {
        let ended = passed.and_then(|()| match self.transmit.is_sent() {
            true => Ok(()),
            false => Err(ClientError::new(ClientPhase::Prepare, ClientCause::NotSent)),
        });
        ended.map_err(|error| error.sent_before(self.was_sent))
    }
}

impl fmt::Debug for Attempt<'_> {
    /// Shows neither the query nor the fields, since they may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt")
            .field("number", &self.number())
            .field("method", &self.request.method())
            .field("origin", &self.origin())
            .field("path", &self.request.path())
            .finish_non_exhaustive()
    }
}
