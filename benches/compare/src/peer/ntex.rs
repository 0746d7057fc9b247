//! The application in ntex, on tokio, with one worker.

use std::convert::Infallible;
use std::io;

use futures_util::{StreamExt, stream};
use ntex::http::header::{CONTENT_TYPE, SERVER};
use ntex::http::{HttpServiceConfig, ResponseBuilder, StatusCode};
use ntex::service::cfg::SharedCfg;
use ntex::time::Seconds;
use ntex::util::Bytes;
use ntex::web::types::{Payload, PayloadConfig};
use ntex::web::{self, App, HttpResponse, HttpServer};

use super::{BACKLOG, IDLE, free_address};
use crate::application::{HELLO, PIECE_BYTES, PIECES, Page, SERVER_NAME};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    ntex::rt::System::new("compare", ntex::rt::DefaultRuntime).block_on(async {
        let server = HttpServer::new(async || {
            App::new()
                .state(PayloadConfig::new(BODY_MAX))
                .route("/", web::get().to(async || text().body(HELLO)))
                .route("/", web::post().to(async |body: Bytes| text().body(body)))
                .route("/json", web::get().to(async || named().json(&Page::new())))
                .route("/download", web::get().to(async || download()))
                .route("/upload", web::post().to(upload))
        });
        let address = free_address()?;
        let server = server.workers(1).config(configuration()).backlog(BACKLOG).bind(address)?;
        announce(address);
        server.run().await
    })
}

const BODY_MAX: usize = 4 << 20;

fn configuration() -> SharedCfg {
    let http = HttpServiceConfig::new().set_keepalive(Seconds(IDLE.as_secs() as u16));
    SharedCfg::new("compare").add(http).into()
}

fn named() -> ResponseBuilder {
    let mut response = ResponseBuilder::new(StatusCode::OK);
    response.header(SERVER, SERVER_NAME);
    response
}

fn text() -> ResponseBuilder {
    let mut response = named();
    response.header(CONTENT_TYPE, "text/plain");
    response
}

fn download() -> HttpResponse {
    let piece = || Ok::<_, Infallible>(Bytes::from_static(&PIECE_BYTES));
    text().streaming(stream::iter((0..PIECES).map(move |_| piece())))
}

async fn upload(mut body: Payload) -> HttpResponse {
    let mut len = 0;
    while let Some(Ok(chunk)) = body.next().await {
        len += chunk.len();
    }
    text().body(len.to_string())
}
