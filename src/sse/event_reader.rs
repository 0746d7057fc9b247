//! [`EventReader`]: events that another server sends.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};

use super::Event;
use super::decoder::{DecodeStatus, EventDecoder};

/// Reads events as they come, for instance from an [`Answer`](crate::Answer) (HTML §9.2.6).
///
/// # Examples
///
/// Follows a stream for ever, as a browser would:
///
/// ```no_run
/// use std::time::Duration;
/// use corehttp::{Client, EventReader, Request, Response, Status};
///
/// async fn follow(client: &Client, url: &str) -> Result<(), Box<dyn std::error::Error>> {
///     let (mut request, mut response) = (Request::get(url)?, Response::new());
///     request.headers.set("accept", "text/event-stream")?;
///     let mut delay = Duration::from_secs(3);
///     loop {
///         // If the server cannot be reached now, it may be later.
///         if let Ok(answer) = client.stream(&request, &mut response).await {
///             if response.status != Status::OK {
///                 return Err(response.status.into());
///             }
///             let mut events = EventReader::new(answer);
///             while let Ok(Some(event)) = events.event().await {
///                 println!("{}", event.data.unwrap_or_default());
///             }
///             match events.last_id() {
///                 Some("") => drop(request.headers.remove("last-event-id")),
///                 Some(id) => request.headers.set("last-event-id", id)?,
///                 None => {} // what an earlier connection brought still holds
///             }
///             delay = events.last_retry().unwrap_or(delay);
///         }
///         tokio::time::sleep(delay).await;
///     }
/// }
/// ```
#[derive(Debug)]
pub struct EventReader<R> {
    /// How many bytes an event may have. Default: 1 MiB.
    pub event_max: usize,
    source: BufReader<R>,
    decoder: EventDecoder,
}

impl<R: AsyncRead + Unpin> EventReader<R> {
    /// Reads from `source`, which should be the content of a response with status 200 and the type `text/event-stream`.
    pub fn new(source: R) -> EventReader<R> {
        EventReader { event_max: EVENT_MAX, source: BufReader::new(source), decoder: EventDecoder::default() }
    }

    /// Waits for the next event that has data. Returns `None` at the end of the stream, and drops an event that lacks
    /// its blank line there. Octets that are not UTF-8 become U+FFFD.
    ///
    /// A client waits for no longer than [`ClientTimeouts::receive`](crate::ClientTimeouts::receive) until something
    /// comes, even if it is a comment. If the future is dropped, nothing is lost.
    ///
    /// # Errors
    ///
    /// Fails if reading does, and with [`io::ErrorKind::InvalidData`] if an event is longer than
    /// [`EventReader::event_max`].
    pub async fn event(&mut self) -> io::Result<Option<Event<'_>>> {
        loop {
            let bytes = self.source.fill_buf().await?;
            if bytes.is_empty() {
                return Ok(None);
            }
            let (len, status) = self.decoder.decode(bytes, self.event_max);
            self.source.consume(len);
            match status {
                DecodeStatus::Partial => {}
                DecodeStatus::Complete => return Ok(Some(self.decoder.event())),
                DecodeStatus::TooLong => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "an event is too long"));
                }
            }
        }
    }

    /// Returns the id of the last event that had one, for the field `last-event-id` of a request that continues the
    /// stream (HTML §9.2.4); `None` if there was none, so that the id of an earlier stream still holds. An empty id
    /// asks to forget it.
    pub fn last_id(&self) -> Option<&str> {
        self.decoder.last_id.as_deref()
    }

    /// Returns how long to wait before such a request, if the server has said so.
    pub fn last_retry(&self) -> Option<Duration> {
        self.decoder.last_retry
    }
}

const EVENT_MAX: usize = 1024 * 1024;
