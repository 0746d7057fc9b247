//! A [`Client`] as a service of tower, whose responses have a [`ResponseReader`] as their body.

use std::error::Error;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tower_service::Service;

use super::client::Client;
use crate::client::call::{ReadState, ResponseReader};
use crate::client::error::{ClientCause, ClientError, ClientPhase};
use crate::exchange::ExchangeError;
use crate::http_types::{ConversionError, to_http_response};
use crate::message::{Request, Response};
use crate::wire::WireError;

/// Sends requests of the crate `http`, as [`Client::open_response`] sends those of this crate: over the same
/// connections, with the same time limits, redirects and cookies. So a client works below the layers of tower and
/// tower-http, such as timeouts and retries, and in programs that expect any service.
///
/// The body of the response is a [`ResponseReader`], which streams it, with its trailers. An error is a [`ClientError`]. The
/// client is always ready. A request waits for a connection in its future, which is [`Send`].
///
/// The URI has a scheme and a host. The body of the request is converted as by
/// [`Body::set_http_body`](crate::Body::set_http_body). A body that is whole at once, and has an exact length, is sent
/// again after a redirect or after a stale connection. Any other is a stream, which is sent once. Trailers of the
/// request are left out, as are its extensions.
///
/// # Examples
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// use std::time::Duration;
/// use corehttp::Client;
/// use http_body_util::BodyExt;
/// use tower::{ServiceBuilder, ServiceExt};
///
/// # let listener = MemoryListener::new();
/// # let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| {
/// #     std::mem::swap(&mut ctx.response.body, &mut ctx.request.body);
/// # })?;
/// # corehttp::block_on(async {
/// let client = Client::new();
/// # let client = Client::builder().connect_to(listener).build();
/// let service = ServiceBuilder::new().timeout(Duration::from_secs(5)).service(client);
/// let request = http::Request::post("http://example.com/notes").body(String::from("milk"))?;
/// let response = service.oneshot(request).await?;
/// assert_eq!(response.into_body().collect().await?.to_bytes(), "milk");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// # })?.unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// axum as a reverse proxy. The routes of the crate's own servers have [`Context::forward`](crate::Context::forward) for it:
///
/// ```
/// # use corehttp::{Context, Server};
/// # use corehttp::net::MemoryListener;
/// # use corehttp::tower::Tower;
/// use axum::Router;
/// use axum::body::Body;
/// use axum::extract::{Request, State};
/// use corehttp::Client;
/// use corehttp::client::ResponseReader;
/// use http::{Response, StatusCode, Uri};
/// use tower::ServiceExt;
///
/// async fn pass(
///     State(client): State<Client>,
///     mut request: Request,
/// ) -> Result<Response<Body>, StatusCode> {
///     let resource = request.uri().path_and_query().map_or("/", |resource| resource.as_str());
///     let onward = Uri::try_from(format!("http://127.0.0.1:9000{resource}"));
///     *request.uri_mut() = onward.map_err(|_| StatusCode::BAD_REQUEST)?;
///     let response = client.oneshot(request).await.map_err(|error| StatusCode::from(error.status()))?;
///     Ok(response.map(Body::new))
/// }
///
/// let app: Router = Router::new().fallback(pass).with_state(Client::new());
/// # let behind = MemoryListener::new();
/// # let client = Client::builder().connect_to(&behind).build();
/// # let app: Router = Router::new().fallback(pass).with_state(client);
/// # let hello = |ctx: &mut Context| ctx.response.set_text(format!("Hello, {}!", ctx.request.path()));
/// # let server = Server::bind(behind).cores(1).start(hello)?;
/// # let front = Server::bind("127.0.0.1:0").cores(1).start(Tower::new(app))?;
/// # let response = corehttp::block_on(Client::new().get(&format!("http://{}/a", front.local_addr())))??;
/// # assert_eq!(response.text()?, "Hello, /a!");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<B> Service<http::Request<B>> for Client
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    type Response = http::Response<ResponseReader>;
    type Error = ClientError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ClientError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ClientError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let client = self.clone();
        Box::pin(async move {
            let request = Request::try_from(request).map_err(invalid)?;
            let mut response = Response::new();
            let reader = client.open_response(&request, &mut response).await?;
            to_http_response(&response, reader).map_err(|_| too_large(WireError::HeadTooLarge))
        })
    }
}

/// The error of a request that cannot be converted.
fn invalid(error: ConversionError) -> ClientError {
    match error {
        ConversionError::Message(error) => error.into(),
        other => ClientError::new(
            ClientPhase::Prepare,
            ClientCause::Io(io::Error::new(io::ErrorKind::InvalidInput, other)),
        ),
    }
}

/// The error of a response that has more fields than a `HeaderMap` holds.
fn too_large(error: WireError) -> ClientError {
    ClientError::new(ClientPhase::Receive, ClientCause::Exchange(ExchangeError::Wire(error, None)))
}

impl Body for ResponseReader {
    type Data = Bytes;
    type Error = ClientError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientError>>> {
        let len = ready!(self.poll_piece(cx))?;
        if let ReadState::Open(pooled, _) = &self.state
            && len > 0
        {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(pooled.piece())))));
        }
        let trailers = mem::take(&mut self.trailers);
        let map = || HeaderMap::try_from(&trailers).map_err(|_| too_large(WireError::TrailersTooLarge));
        Poll::Ready((!trailers.is_empty()).then(|| map().map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.state, ReadState::Read) && self.trailers.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        let left = match &self.state {
            // How much a decoder will make of the rest is unknown.
            ReadState::Open(pooled, _) if pooled.exchange.progress.decoder.is_some() => None,
            ReadState::Open(pooled, _) => pooled.exchange.incoming.length_left(),
            ReadState::Read => Some(0),
            ReadState::Broken(_) => None,
        };
        left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
