//! [`EventSource`]: a stream of events that goes on over many connections (HTML §9.2.3).

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io, mem};

use super::event::Event;
use super::event_reader::EventReader;
use crate::client::client::Client;
use crate::client::{Backoff, ClientCause, ClientError, ClientPhase, ResponseReader};
use crate::message::content::is_event_stream;
use crate::message::{MessageError, Request, Response, Status};
use crate::runtime::{self, Handle, Instant, later, now, sleep_until};

/// Reads events from a server over many connections, like a browser's `EventSource` (HTML §9.2.3).
///
/// When the stream ends or breaks, another connection is opened. Its request has the id of the last event as `last-event-id`.
/// The server then sends the events that were missed. The wait before the connection is 3 s, or that of the server's `retry`.
/// After a failure the wait is at least 250 ms. It doubles while connections fail, up to [`EventSource::delay_max`].
///
/// A server ends the stream with 204. A stream that is silent for longer than
/// [`ClientTimeouts::receive`](crate::client::ClientTimeouts::receive), 30 s by default, counts as broken. A comment now and
/// then prevents that. The time limit of the client for a whole exchange ends each stream, however lively that is.
/// [`Client::with_timeout`]`(None)` is a client without one.
///
/// # Examples
///
/// ```
/// # use corehttp::net::MemoryListener;
/// # use corehttp::{Context, Server, Status};
/// use corehttp::sse::EventSource;
/// use corehttp::{Client, Request};
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| -> corehttp::Result {
/// #     match ctx.request.headers.get("last-event-id") {
/// #         None => ctx.response.set_bytes("text/event-stream", "retry: 1\nid: 1\ndata: one\n\n")?,
/// #         Some(_) => ctx.response.status = Status::NO_CONTENT,
/// #     }
/// #     Ok(())
/// # })?;
/// # corehttp::block_on(async {
/// let client = Client::new();
/// # let client = Client::builder().connect_to(listener).build();
/// let mut events = EventSource::new(&client, Request::get("http://news.example/")?)?;
/// while let Some(event) = events.event().await? {
///     println!("{}", event.data.unwrap_or_default());
/// }
/// # assert_eq!(events.last_id(), Some("1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventSource {
    /// How long to wait at most before another connection. Default: 60 s. With less than 3 s, the first wait is as short. A
    /// longer wait that the server has set by `retry` is kept.
    pub delay_max: Duration,
    /// How many bytes an event may have. Default: 1 MiB.
    pub event_max: usize,
    client: Client,
    request: Request,
    state: SourceState,
    /// The id of the last event that had one.
    last_id: Option<String>,
    /// How long the server wants its clients to wait, if it has said so.
    delay: Option<Duration>,
    /// How many waits there were since a connection was last opened.
    waits: u32,
    last_error: Option<io::Error>,
}

/// Whether there is a connection.
enum SourceState {
    /// There is none before this moment.
    Waiting(Instant),
    /// One is being opened. Kept, because callers may drop their futures meanwhile.
    Opening(Opening),
    Open(Box<EventReader<ResponseReader>>),
    /// The server wants no other connection.
    Ended,
}

/// The opening of a connection, in the runtime whose timers it waits for.
struct Opening {
    future: Pin<Box<OpeningFuture>>,
    runtime: Option<runtime::Id>,
}

/// Becomes a response, and its reader.
type OpeningFuture = dyn Future<Output = (Response, Result<ResponseReader, ClientError>)> + Send;

impl EventSource {
    /// Prepares to read the events that `request` asks for. Its `accept` becomes `text/event-stream`, and its `cache-control`
    /// `no-store`, as those of browsers.
    ///
    /// # Errors
    ///
    /// Fails if the fields of the request have no room for these.
    pub fn new(client: &Client, mut request: Request) -> Result<EventSource, MessageError> {
        request.headers.set("accept", "text/event-stream")?;
        request.headers.set("cache-control", "no-store")?;
        Ok(EventSource {
            delay_max: DELAY_MAX,
            event_max: EVENT_MAX,
            client: client.clone(),
            last_id: request.headers.get("last-event-id").map(str::to_owned),
            request,
            state: SourceState::Waiting(now()),
            delay: None,
            waits: 0,
            last_error: None,
        })
    }

    /// Waits for the next event that has data, over as many connections as need be. Returns `None` once the server has ended
    /// the stream. If the future is dropped, nothing is lost.
    ///
    /// A connection that is being opened then keeps its place in the queue of its host
    /// ([`connections_per_host_max`](crate::client::ClientLimits::connections_per_host_max), 512 by default). Only the next
    /// call opens it further. With a bound of few connections, another request of the same client between two calls may wait
    /// for ever, because this source may hold the last free place.
    ///
    /// # Errors
    ///
    /// Fails if another connection would not help:
    /// - a response with a status other than 200, 204, 429, 502, 503 and 504, or of another type
    /// - an event longer than [`EventSource::event_max`]
    /// - a request that cannot be sent
    /// - a request with no [addresses](crate::ClientBuilder::allow_addresses) but refused ones
    ///
    /// The next call tries again all the same. Errors of connections do not end the stream: see [`EventSource::last_error`].
    pub async fn event(&mut self) -> io::Result<Option<Event<'_>>> {
        while !self.advance().await? {
            if matches!(self.state, SourceState::Ended) {
                return Ok(None);
            }
        }
        match &self.state {
            SourceState::Open(events) => Ok(events.current()),
            SourceState::Waiting(_) | SourceState::Opening(_) | SourceState::Ended => Ok(None),
        }
    }

    /// Returns the id of the last event that had one (HTML §9.2.4).
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// Returns the reason for a lack of connection: an error of the client or of the stream, or the status of the response.
    ///
    /// `None` while a connection is open, after the regular end of a stream, and after an error of [`EventSource::event`].
    pub fn last_error(&self) -> Option<&io::Error> {
        self.last_error.as_ref()
    }

    /// Connects, or reads from the connection. Returns whether an event is complete.
    async fn advance(&mut self) -> io::Result<bool> {
        match &mut self.state {
            SourceState::Ended => Ok(false),
            SourceState::Waiting(due) => {
                sleep_until(*due).await;
                self.state = SourceState::Opening(self.open());
                Ok(false)
            }
            SourceState::Opening(_) => poll_fn(|cx| self.poll_opening(cx)).await.map(|()| false),
            SourceState::Open(events) => {
                let read = events.advance().await;
                if let Some(id) = events.last_id().filter(|id| self.last_id.as_deref() != Some(*id)) {
                    self.last_id = Some(id.to_owned());
                }
                self.delay = events.last_retry().or(self.delay);
                self.note(read)
            }
        }
    }

    /// Notes what came of reading. Returns whether an event is complete.
    fn note(&mut self, read: io::Result<bool>) -> io::Result<bool> {
        match read {
            Ok(true) => return Ok(true),
            Ok(false) => self.wait(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData && !is_of_client(&error) => {
                self.wait(None);
                return Err(error);
            }
            Err(error) => self.wait(Some(error)),
        }
        Ok(false)
    }

    /// Opens a connection.
    fn open(&mut self) -> Opening {
        match self.last_id.as_deref() {
            None | Some("") => drop(self.request.headers.remove("last-event-id")),
            // A field has no room for control characters. It then keeps the id before, and some events come twice.
            Some(id) => drop(self.request.headers.set("last-event-id", id)),
        }
        let client = self.client.clone();
        let request = self.request.clone();
        let future = Box::pin(async move {
            let mut response = Response::new();
            let opened = client.open_response(&request, &mut response).await;
            (response, opened)
        });
        Opening { future, runtime: current_runtime() }
    }

    /// Goes on opening a connection. In another runtime it begins anew, since timers end with their runtime.
    fn poll_opening(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A future that has panicked must not be polled again.
        let state = mem::replace(&mut self.state, SourceState::Waiting(now()));
        let SourceState::Opening(mut opening) = state else { return Poll::Ready(Ok(())) };
        if opening.runtime != current_runtime() {
            return Poll::Ready(Ok(()));
        }
        match opening.future.as_mut().poll(cx) {
            Poll::Ready((response, opened)) => Poll::Ready(self.note_opened(&response, opened)),
            Poll::Pending => {
                self.state = SourceState::Opening(opening);
                Poll::Pending
            }
        }
    }

    /// Notes what came of opening a connection.
    fn note_opened(
        &mut self,
        response: &Response,
        opened: Result<ResponseReader, ClientError>,
    ) -> io::Result<()> {
        let reader = match opened {
            Ok(reader) => reader,
            Err(error) if is_final(&error) => {
                self.wait(None);
                return Err(error.into());
            }
            Err(error) => {
                self.wait(Some(error.into()));
                return Ok(());
            }
        };
        match response.status {
            Status::OK if is_event_stream(&response.headers) => {
                let mut events = EventReader::new(reader);
                events.event_max = self.event_max;
                self.waits = 0;
                self.last_error = None;
                self.state = SourceState::Open(Box::new(events));
                Ok(())
            }
            Status::NO_CONTENT => {
                self.state = SourceState::Ended;
                Ok(())
            }
            status if is_passing(status) => {
                self.wait(Some(io::Error::other(status)));
                Ok(())
            }
            status => {
                self.wait(None);
                Err(io::Error::other(match status {
                    Status::OK => "the response is no stream of events".into(),
                    status => format!("the server responded {status}"),
                }))
            }
        }
    }

    /// Waits before another connection, after one that has ended with this error, if with any.
    fn wait(&mut self, error: Option<io::Error>) {
        self.waits = self.waits.saturating_add(1);
        let asked = self.delay.unwrap_or(DELAY.min(self.delay_max));
        let has_failed = error.is_some() || self.waits > 1;
        let first = if has_failed { asked.max(FAILED_DELAY.min(self.delay_max)) } else { asked };
        let backoff = Backoff { first, most: self.delay_max.max(first) };
        self.state = SourceState::Waiting(later(now(), backoff.bound(self.waits)));
        self.last_error = error;
    }
}

const DELAY: Duration = Duration::from_secs(3);
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Doubled, a wait of nothing would stay nothing.
const FAILED_DELAY: Duration = Duration::from_millis(250);
const EVENT_MAX: usize = 1 << 20;

fn current_runtime() -> Option<runtime::Id> {
    Handle::current().map(|runtime| runtime.id())
}

/// Whether the server may do better soon.
fn is_passing(status: Status) -> bool {
    matches!(
        status,
        Status::TOO_MANY_REQUESTS
            | Status::BAD_GATEWAY
            | Status::SERVICE_UNAVAILABLE
            | Status::GATEWAY_TIMEOUT
    )
}

/// Whether another connection would fail, too: the request cannot be sent, or only to addresses that the client refuses.
fn is_final(error: &ClientError) -> bool {
    error.phase() == ClientPhase::Prepare || matches!(error.cause(), ClientCause::AddressRefused(_))
}

/// Whether an error of reading is one of the connection.
fn is_of_client(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|cause| cause.is::<ClientError>())
}

impl fmt::Debug for EventSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventSource")
            .field("is_open", &matches!(self.state, SourceState::Open(_)))
            .field("waits", &self.waits)
            .field("last_error", &self.last_error)
            .finish_non_exhaustive()
    }
}
