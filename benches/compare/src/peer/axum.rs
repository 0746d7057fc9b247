//! The application in axum, on a runtime of one thread.

use std::convert::Infallible;
use std::io;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::http::header::{CONTENT_TYPE, HeaderName, SERVER};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use futures_util::{StreamExt, stream};
use tokio::net::TcpListener;

use super::ANY;
use crate::application::{HELLO, PIECE_BYTES, PIECES, Page, SERVER_NAME};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(ANY).await?;
        announce(listener.local_addr()?);
        let listener = listener.tap_io(|stream| {
            // It fails if the peer has gone already, which the first read will tell.
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router()).await
    })
}

fn router() -> Router {
    Router::new()
        .route("/", get(async || (text(), HELLO)).post(async |body: Bytes| (text(), body)))
        .route("/json", get(async || ([(SERVER, SERVER_NAME)], axum::Json(Page::new()))))
        .route("/download", get(async || (text(), download())))
        .route("/upload", post(async |body: Body| (text(), upload(body).await)))
        .layer(DefaultBodyLimit::disable())
}

fn text() -> [(HeaderName, &'static str); 2] {
    [(SERVER, SERVER_NAME), (CONTENT_TYPE, "text/plain")]
}

fn download() -> Body {
    let piece = || Ok::<_, Infallible>(Bytes::from_static(&PIECE_BYTES));
    Body::from_stream(stream::iter((0..PIECES).map(move |_| piece())))
}

async fn upload(body: Body) -> String {
    let (mut len, mut chunks) = (0, body.into_data_stream());
    while let Some(Ok(chunk)) = chunks.next().await {
        len += chunk.len();
    }
    len.to_string()
}
