//! The application in actix-web, with one worker.

use std::convert::Infallible;
use std::io;

use actix_web::http::header::{CONTENT_TYPE, SERVER};
use actix_web::web::{self, Bytes, Payload, PayloadConfig};
use actix_web::{App, HttpResponse, HttpResponseBuilder, HttpServer};
use futures_util::{StreamExt, stream};

use super::{ANY, BACKLOG, IDLE};
use crate::application::{HELLO, PIECE_BYTES, PIECES, Page, SERVER_NAME};
use crate::child::announce;

pub(super) fn serve() -> io::Result<()> {
    actix_web::rt::System::new().block_on(async {
        let server = HttpServer::new(|| {
            App::new()
                .app_data(PayloadConfig::new(BODY_MAX))
                .route("/", web::get().to(async || text().body(HELLO)))
                .route("/", web::post().to(async |body: Bytes| text().body(body)))
                .route("/json", web::get().to(async || named().json(Page::new())))
                .route("/download", web::get().to(async || download()))
                .route("/upload", web::post().to(upload))
        });
        let server =
            server.workers(1).tcp_nodelay(true).keep_alive(IDLE).backlog(BACKLOG as u32).bind(ANY)?;
        announce(server.addrs()[0]);
        server.run().await
    })
}

const BODY_MAX: usize = 4 << 20;

fn named() -> HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response.insert_header((SERVER, SERVER_NAME));
    response
}

fn text() -> HttpResponseBuilder {
    let mut response = named();
    response.insert_header((CONTENT_TYPE, "text/plain"));
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
