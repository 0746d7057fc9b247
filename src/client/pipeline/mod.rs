//! [`Pipeline`]: many requests in flight on few connections (RFC 9112 §9.3.2).
//!
//! A caller writes its request on the [`Board`] of one [`Pipe`], which is a task with a
//! connection, and waits there for the answer.

mod board;
mod builder;
mod desk;
mod pipe;
mod tickets;

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use board::{Board, Claim};
pub use builder::PipelineBuilder;
use pipe::Pipe;
use tickets::Job;

use super::cookie_visit::CookieVisit;
use super::origin;
use super::pool::Pool;
use super::redirect::Goal;
use super::{Client, ClientCause, ClientError, ClientPhase};
use crate::memory::Reset;
use crate::message::{InvalidRequest, Method, Request, Response};
use crate::runtime::{self, Here, Instant, timeout_at};
use crate::wire::{Announcement, Framing, Wish};

/// Asks one origin over few connections, and waits for no answer before it sends the next request (RFC 9112 §9.3.2).
///
/// What its callers ask at the same moment leaves in one write. Answers come in the order of the requests, so a slow
/// one holds up those behind it: use it for many small answers, none of which takes long.
///
/// A new connection is sent a single request first: its answer shows that others may follow. When a connection ends,
/// requests that were not written yet are sent on the next one, and so are those that the server has said it will not
/// look at (`connection: close`). A request that the server may have processed is sent again if that does no harm
/// (RFC 9110 §9.2.2), though the first in line only once; otherwise it fails, with an error for which
/// [`ClientError::is_sent`] is true.
///
/// Made by [`Client::pipeline`]. A clone is the same pipeline, and may be used in any runtime; its connections live in
/// the one whose caller needed them first. They belong to the client: while nothing is in flight they rest in its pool,
/// where other requests may use them, and count as idle. Redirects are not followed. A caller may drop the future of
/// [`Pipeline::send`] at any time; the answer is then received and discarded.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server, MemoryListener};
/// use corehttp::{Client, Request, Response};
///
/// # let listener = MemoryListener::new();
/// # let client = Client::builder().memory(listener.connector()).build();
/// # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
/// #     let path = ctx.request.path().to_owned();
/// #     ctx.response.text(path);
/// # })?;
/// # corehttp::block_on(async {
/// let pipeline = client.pipeline("http://cache:8080")?.build();
/// let ask = async |path: &str| {
///     let mut response = Response::new();
///     pipeline.send(&Request::get(path)?, &mut response).await?;
///     Ok::<_, Box<dyn std::error::Error>>(response)
/// };
/// let (one, two) = tokio::join!(ask("/one"), ask("/two"));
/// assert_eq!((one?.body.bytes(), two?.body.bytes()), (&b"/one"[..], &b"/two"[..]));
/// assert_eq!((client.idle(), client.busy()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "PipelineClient")]
#[derive(Clone)]
pub struct Pipeline(Arc<Owner>);

/// The clones of a pipeline, and not its pipes.
struct Owner(Arc<Shared>);

/// What the callers and the pipes of a pipeline have in common.
struct Shared {
    client: Client,
    /// As [`origin::key`] spells it.
    key: Box<str>,
    /// The pool of the runtime that was first, for all write the same.
    pool: OnceLock<Arc<Pool>>,
    in_flight_max: usize,
    /// A permit for each request that may still be in flight. Whoever waits for one is served in turn.
    room: Arc<Semaphore>,
    accepts: Accepts,
    /// One for each connection.
    boards: Box<[Arc<Board>]>,
}

/// Which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepts {
    /// Those that change nothing (RFC 9110 §9.2.1).
    Safe,
    Any,
}

impl Pipeline {
    /// Sends `request` among others, and receives the answer into `response`, its body included.
    ///
    /// # Errors
    ///
    /// As [`Host::send`](super::Host::send). [`ClientCause::Pipelined`] for a method that is not safe, unless
    /// [`PipelineBuilder::allow_unsafe`] was called; and for what cannot share a connection: a body that is a stream,
    /// trailers, CONNECT, and the fields `expect`, `upgrade` and `connection: close`.
    pub async fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        let shared = &self.0.0;
        shared.check(request)?;
        response.reset();
        let deadline = shared.client.deadline();
        let permit = shared.enter(deadline).await?;
        let pool = shared.pool()?;
        let visit = CookieVisit::begin(pool, request);
        let mut claim = shared.hand_in(request, visit.cookie(), pool, permit)?;
        let answer = poll_fn(|cx| claim.poll(cx, response));
        match deadline {
            None => answer.await?,
            Some(deadline) => match timeout_at(deadline, answer).await {
                Ok(answered) => answered?,
                Err(_) => return Err(claim.error(ClientCause::TimedOut)),
            },
        }
        visit.end(response);
        Ok(())
    }

    /// How many requests are in flight, or about to be. Those whose callers have gone count until they are answered.
    pub fn in_flight(&self) -> usize {
        let shared = &self.0.0;
        shared.in_flight_max - shared.room.available_permits()
    }
}

impl Client {
    /// A pipeline to the one origin that `url` names: many requests in flight on few connections.
    ///
    /// # Errors
    ///
    /// A URL that is malformed, or names no host.
    pub fn pipeline(&self, url: &str) -> Result<PipelineBuilder, InvalidRequest> {
        PipelineBuilder::new(self.clone(), url)
    }
}

impl Shared {
    /// Writes `request` as it goes over the wire.
    fn write(wire: &mut Vec<u8>, request: &Request, cookie: Option<&str>, pool: &Pool) {
        let announcement = Announcement::of_request(request.method(), request.body.announced(), false);
        pool.write_head(wire, (request, Goal::Own), announcement, cookie);
        if announcement.framing() != Framing::Empty {
            wire.extend_from_slice(request.body.bytes());
        }
    }

    /// Looks whether `request` may be sent here.
    ///
    /// # Errors
    ///
    /// A request that is not for this origin, or that cannot be one of many.
    fn check(&self, request: &Request) -> Result<(), ClientError> {
        origin::check(request.target(), &self.key)?;
        let headers = &request.headers;
        let is_alone = request.method() == Method::Connect
            || request.body.is_stream()
            || !request.trailers.is_empty()
            || headers.contains("expect")
            || headers.contains("upgrade")
            || Wish::of(headers) == Wish::Close;
        let is_accepted = self.accepts == Accepts::Any || request.method().is_safe();
        match is_accepted && !is_alone {
            true => Ok(()),
            false => Err(ClientError::new(ClientPhase::Prepare, ClientCause::Pipelined)),
        }
    }

    fn pool(&self) -> Result<&Arc<Pool>, ClientError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool);
        }
        let pool = self.client.pool(&self.key)?;
        Ok(self.pool.get_or_init(|| pool))
    }

    /// Waits until one more request may be in flight.
    async fn enter(&self, deadline: Option<Instant>) -> Result<OwnedSemaphorePermit, ClientError> {
        if let Ok(permit) = self.room.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let until = self.client.shared.settings.queue_until(runtime::now(), deadline);
        match timeout_at(until, self.room.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(ClientError::new(ClientPhase::Queue, ClientCause::TimedOut)),
        }
    }

    /// Has `request` sent, by the pipe that has least to do.
    fn hand_in(
        self: &Arc<Shared>,
        request: &Request,
        cookie: Option<&str>,
        pool: &Pool,
        permit: OwnedSemaphorePermit,
    ) -> Result<Claim<'_>, ClientError> {
        let Some(here) = Here::get() else {
            return Err(ClientError::new(ClientPhase::Prepare, ClientCause::NoRuntime));
        };
        let board = match &*self.boards {
            [only] => only,
            boards => boards.iter().min_by_key(|board| board.pending()).unwrap_or(&boards[0]),
        };
        let (claim, needs_pipe) =
            board.hand_in(Job::new(request, permit), |wire| Shared::write(wire, request, cookie, pool));
        if needs_pipe {
            here.spawn(Pipe::new(self.clone(), board.clone()).run());
        }
        Ok(claim)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.boards.iter().for_each(|board| board.close());
    }
}

impl fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline")
            .field("origin", &self.0.0.key)
            .field("in_flight", &self.in_flight())
            .finish_non_exhaustive()
    }
}
