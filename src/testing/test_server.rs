//! [`TestServer`]: a server in memory that remembers its calls, for tests of programs that call it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::scripted_peer::in_memory;
use crate::client::builder::ClientBuilder;
use crate::client::client::Client;
use crate::memory::lock;
use crate::message::{Headers, Method, Status};
use crate::net::MemoryListener;
use crate::server::builder::Server;
use crate::server::middleware::{Middleware, wrap};
use crate::server::run::ServerHandle;
use crate::server::{Context, Handler, IntoHandler, Result};

/// A server in memory that remembers its calls. It ends when it is dropped.
///
/// # Examples
///
/// ```
/// use corehttp::testing::TestServer;
/// use corehttp::{Client, Context, Method, Result, routes};
///
/// /// The code that is tested.
/// async fn order(client: &Client, item: &str) -> Result<String> {
///     let response = client.post("http://shop/orders").text(item).await?;
///     Ok(response.text()?.to_owned())
/// }
///
/// # fn main() -> Result {
/// let shop = TestServer::start(routes! { POST "/orders" => |ctx: &mut Context| ctx.response.set_text("order 7") })?;
/// let client = shop.client();
/// let answer = corehttp::block_on(async { order(&client, "milk").await })??;
/// assert_eq!(answer, "order 7");
///
/// let calls = shop.calls();
/// assert_eq!((calls[0].method.as_str(), &*calls[0].target, &*calls[0].body), ("POST", "/orders", &b"milk"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct TestServer {
    listener: MemoryListener,
    calls: Calls,
    running: Option<ServerHandle>,
}

/// A call that a [`TestServer`] has answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TestCall {
    /// The method of the request.
    pub method: Method,
    /// The target, such as `/orders?page=2`.
    pub target: String,
    /// The fields of the request.
    pub headers: Headers,
    /// The content of the request. Empty if the handler reads it as a stream.
    pub body: Vec<u8>,
    /// The status of the response.
    pub status: Status,
}

type Calls = Arc<Mutex<Vec<TestCall>>>;

impl TestServer {
    /// Starts a server on one core, whose handler answers in place of the real server.
    ///
    /// # Errors
    ///
    /// Fails if the operating system provides no thread or runtime.
    pub fn start<Kind, H>(handler: H) -> Result<TestServer>
    where
        H: IntoHandler<Kind>,
        H::Handler: Send + Sync,
    {
        let listener = MemoryListener::new();
        let calls = Calls::default();
        let remembered = wrap(Remember(calls.clone()), handler.into_handler());
        let running = Server::bind(&listener).cores(1).start(remembered)?;
        Ok(TestServer { listener, calls, running: Some(running) })
    }

    /// A client of this server, whichever host its requests name. For `https` URLs there is no TLS handshake.
    pub fn client(&self) -> Client {
        self.client_builder().build()
    }

    /// The settings of a client of this server.
    pub fn client_builder(&self) -> ClientBuilder {
        in_memory(Client::builder().connect_to(&self.listener))
    }

    /// The calls that were answered so far, in the order of their responses.
    pub fn calls(&self) -> Vec<TestCall> {
        lock(&self.calls).clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.stop(Duration::ZERO);
        }
    }
}

/// Remembers each call.
struct Remember(Calls);

impl Middleware for Remember {
    async fn call(&self, ctx: &mut Context, next: &impl Handler) -> Result {
        let request = &ctx.request;
        let mut call = TestCall {
            method: request.method(),
            target: request.target().as_str().to_owned(),
            headers: request.headers.clone(),
            body: request.body.bytes().to_vec(),
            status: Status::OK,
        };
        let outcome = next.handle(ctx).await;
        call.status = match &outcome {
            Err(error) if !ctx.has_responded() => error.status(),
            Ok(()) | Err(_) => ctx.response.status,
        };
        lock(&self.0).push(call);
        outcome
    }
}
