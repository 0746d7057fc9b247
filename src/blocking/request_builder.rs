//! [`RequestBuilder`], whose requests block their thread, and [`Blocking`], the runtime of these requests.

use std::fmt;
use std::future::IntoFuture;
use std::io;

use crate::client::request_builder;
use crate::client::{ClientCause, ClientError, ClientPhase};
use crate::message::Response;
use crate::runtime::{InRuntime, RuntimeThread};

/// A request that is made and sent in one expression, by [`RequestBuilder::send`](crate::RequestBuilder::send). Its other
/// methods are those of [`corehttp::RequestBuilder`](crate::RequestBuilder).
pub type RequestBuilder = request_builder::RequestBuilder<Blocking>;

/// Sends requests in a runtime on a thread of its own, and blocks the callers.
#[derive(Clone)]
pub struct Blocking(RuntimeThread);

impl Blocking {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the operating system cannot provide what a runtime needs.
    pub(super) fn start() -> io::Result<Blocking> {
        RuntimeThread::start("corehttp-blocking").map(Blocking)
    }

    /// Waits for `future`, which needs no runtime of its caller.
    ///
    /// # Errors
    ///
    /// Fails if the caller is in a runtime.
    pub(super) fn wait<F: Future>(&self, future: F) -> Result<F::Output, ClientError> {
        self.0
            .wait(future)
            .map_err(|InRuntime| ClientError::new(ClientPhase::Prepare, ClientCause::InRuntime))
    }
}

impl fmt::Debug for Blocking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Blocking")
    }
}

impl RequestBuilder {
    /// Sends the request, and receives the response with its body, as [`Client::send`](super::Client::send) does.
    /// [`Response::url`] is the URL that the response came from, redirected or not.
    ///
    /// # Errors
    ///
    /// Fails after a failed step, such as one with a malformed URL, or if no response arrives. See [`ClientError`]. In a
    /// runtime, the cause is [`ClientCause::InRuntime`](crate::client::ClientCause::InRuntime). A status of 4xx or 5xx is no
    /// error, unless [`Response::error_for_status`] makes it one.
    pub fn send(self) -> Result<Response, ClientError> {
        let (sends, request) = self.into_awaited();
        sends.wait(request.into_future())?
    }
}
