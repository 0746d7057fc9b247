//! [`ResponseReader`]: a body that is read as it arrives.

use std::fmt;
use std::io::{self, Read};

use tokio::io::AsyncReadExt;

use super::request_builder::Blocking;
use crate::client::{self, ClientError};
use crate::message::Headers;

/// The body of a response, read piece by piece. Made by [`Client::open_response`](super::Client::open_response).
///
/// Dropped before its end, it closes the connection.
///
/// # Examples
///
/// A download to a file:
///
/// ```no_run
/// use corehttp::blocking::Client;
/// use corehttp::{Request, Response};
///
/// let (request, mut response) = (Request::get("https://example.com/disk.img")?, Response::new());
/// let mut body = Client::new()?.open_response(&request, &mut response)?;
/// std::io::copy(&mut body, &mut std::fs::File::create("disk.img")?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ResponseReader {
    reader: client::ResponseReader,
    sends: Blocking,
}

impl ResponseReader {
    pub(super) fn new(reader: client::ResponseReader, sends: Blocking) -> ResponseReader {
        ResponseReader { reader, sends }
    }

    /// Returns the next piece of the body, of any size, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails as [`ResponseReader::chunk`](crate::client::ResponseReader::chunk) does, and within a runtime.
    pub fn chunk(&mut self) -> Result<Option<&[u8]>, ClientError> {
        self.sends.wait(self.reader.chunk())?
    }

    /// Returns the trailer fields, once the body has been read to its end (RFC 9110 §6.5).
    pub fn trailers(&self) -> &Headers {
        self.reader.trailers()
    }
}

impl Read for ResponseReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.sends.wait(self.reader.read(out))?
    }
}

impl fmt::Debug for ResponseReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseReader").field("reader", &self.reader).finish_non_exhaustive()
    }
}
