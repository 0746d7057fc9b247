//! [`Client`], which blocks its thread.

use std::{fmt, io};

use super::request_builder::{Blocking, RequestBuilder};
use super::response_reader::ResponseReader;
use crate::client::{ClientError, client};
use crate::memory::Reset;
use crate::message::{MessageError, Method, Request, Response};

/// Sends requests, and blocks the thread for their responses. See the [module](crate::blocking).
///
/// Clones share connections, and may be used on any threads at once. When the last one is dropped, the runtime ends.
#[derive(Clone)]
pub struct Client {
    client: client::Client,
    sends: Blocking,
}

impl Client {
    /// Creates a client with the defaults of [`ClientBuilder`](crate::ClientBuilder), and starts its thread.
    ///
    /// # Errors
    ///
    /// Fails if the operating system cannot provide what a runtime needs.
    pub fn new() -> io::Result<Client> {
        Client::with_client(client::Client::new())
    }

    /// Creates a blocking client with the settings of a [`corehttp::Client`](crate::Client), and starts its thread. The
    /// connections that `client` has in other runtimes are not used.
    ///
    /// # Errors
    ///
    /// As [`Client::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use corehttp::net::MemoryListener;
    /// # use corehttp::{Context, Server};
    /// use std::time::Duration;
    /// use corehttp::blocking;
    ///
    /// # let listener = MemoryListener::new();
    /// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("hi"))?;
    /// let settings = corehttp::Client::builder().timeout(Duration::from_secs(10));
    /// # let settings = settings.connect_to(listener);
    /// let client = blocking::Client::with_client(settings.build())?;
    /// let response = client.get("http://example.com/").send()?;
    /// assert_eq!(response.text()?, "hi");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_client(client: client::Client) -> io::Result<Client> {
        let sends = Blocking::start()?;
        Ok(Client { client, sends })
    }

    /// Returns a GET request (RFC 9110 §9.3.1), which [`send`](crate::RequestBuilder::send) sends.
    pub fn get(&self, url: &str) -> RequestBuilder {
        self.request(Method::Get, url)
    }

    /// Returns a HEAD request (RFC 9110 §9.3.2).
    pub fn head(&self, url: &str) -> RequestBuilder {
        self.request(Method::Head, url)
    }

    /// Returns a POST request (RFC 9110 §9.3.3).
    pub fn post(&self, url: &str) -> RequestBuilder {
        self.request(Method::Post, url)
    }

    /// Returns a PUT request (RFC 9110 §9.3.4).
    pub fn put(&self, url: &str) -> RequestBuilder {
        self.request(Method::Put, url)
    }

    /// Returns a PATCH request (RFC 5789).
    pub fn patch(&self, url: &str) -> RequestBuilder {
        self.request(Method::Patch, url)
    }

    /// Returns a DELETE request (RFC 9110 §9.3.5).
    pub fn delete(&self, url: &str) -> RequestBuilder {
        self.request(Method::Delete, url)
    }

    /// Returns a request with any method.
    pub fn request<M: TryInto<Method>>(&self, method: M, url: &str) -> RequestBuilder
    where
        MessageError: From<M::Error>,
    {
        self.client.request(method, url).sent_by(self.sends.clone())
    }

    /// Sends `request`, and receives the response into `response`, including its body, as
    /// [`Client::send`](crate::Client::send) does.
    ///
    /// # Errors
    ///
    /// Fails as [`Client::send`](crate::Client::send) does, and within a runtime.
    pub fn send(&self, request: &Request, response: &mut Response) -> Result<(), ClientError> {
        response.reset();
        self.sends.wait(self.client.send(request, response))?
    }

    /// Sends `request`, and receives the head of the response into `response`. The body is read from the returned
    /// [`ResponseReader`], as it arrives.
    ///
    /// # Errors
    ///
    /// Fails as [`Client::open_response`](crate::Client::open_response) does, and within a runtime.
    pub fn open_response(
        &self,
        request: &Request,
        response: &mut Response,
    ) -> Result<ResponseReader, ClientError> {
        response.reset();
        let reader = self.sends.wait(self.client.open_response(request, response))??;
        Ok(ResponseReader::new(reader, self.sends.clone()))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("client", &self.client).finish_non_exhaustive()
    }
}
