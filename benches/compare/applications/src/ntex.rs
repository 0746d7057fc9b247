//! In ntex, on tokio, with its middleware for compression.

use std::io;
use std::sync::Arc;
use std::thread::available_parallelism;

use futures_util::StreamExt;
use ntex::http::header::CONTENT_TYPE;
use ntex::web::middleware::Compress;
use ntex::web::types::{Path, Payload, PayloadConfig, Query, State};
use ntex::web::{self, App, HttpResponse, HttpServer};

use crate::environment::{dataset, port};
use crate::items::{Item, Multiplier, Terms, priced};

pub(super) fn serve() -> io::Result<()> {
    let items = dataset()?;
    ntex::rt::System::new("arena", ntex::rt::DefaultRuntime).block_on(async move {
        let server = HttpServer::new(async move || {
            App::new()
                .state(items.clone())
                .state(PayloadConfig::new(25 << 20))
                .route("/baseline11", web::get().to(sum))
                .route("/baseline11", web::post().to(sum_with_body))
                .route("/pipeline", web::get().to(async || text("ok".into())))
                .service(
                    web::resource("/json/{count}").middleware(Compress::default()).route(web::get().to(json)),
                )
                .route("/upload", web::post().to(upload))
        });
        server.workers(available_parallelism()?.into()).bind(("0.0.0.0", port("PORT", 8080)))?.run().await
    })
}

fn text(content: String) -> HttpResponse {
    HttpResponse::Ok().header(CONTENT_TYPE, "text/plain").body(content)
}

async fn sum(query: Query<Terms>) -> HttpResponse {
    text((query.a + query.b).to_string())
}

async fn sum_with_body(query: Query<Terms>, body: String) -> HttpResponse {
    match body.trim().parse::<i64>() {
        Ok(number) => text((query.a + query.b + number).to_string()),
        Err(_) => HttpResponse::BadRequest().into(),
    }
}

async fn json(items: State<Arc<Vec<Item>>>, count: Path<usize>, query: Query<Multiplier>) -> HttpResponse {
    HttpResponse::Ok().json(&priced(&items, *count, query.m))
}

async fn upload(mut body: Payload) -> HttpResponse {
    let mut len = 0;
    while let Some(chunk) = body.next().await {
        match chunk {
            Ok(chunk) => len += chunk.len(),
            Err(_) => return HttpResponse::BadRequest().into(),
        }
    }
    text(len.to_string())
}
