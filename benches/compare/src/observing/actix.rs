//! actix-web with its `Logger`, which writes through env_logger, and with actix-web-prom.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::net::TcpListener;
use std::path::PathBuf;

use actix_web::http::header::{CONTENT_TYPE, SERVER};
use actix_web::middleware::Logger;
use actix_web::web::{self, Path};
use actix_web::{App, HttpResponse, HttpServer};
use actix_web_prom::PrometheusMetricsBuilder;
use env_logger::Target;

use super::ROUTE;
use crate::application::{HELLO, SERVER_NAME};
use crate::child::announce;
use crate::peer::{ANY, IDLE};

pub(super) fn serve(log: Option<PathBuf>) -> io::Result<()> {
    let listener = TcpListener::bind(ANY)?;
    announce(listener.local_addr()?);
    let blind = || App::new().route(ROUTE, web::get().to(respond));
    actix_web::rt::System::new().block_on(async {
        let Some(path) = log else {
            let server = HttpServer::new(blind).workers(1).tcp_nodelay(true).keep_alive(IDLE);
            return server.listen(listener)?.run().await;
        };
        let target = Target::Pipe(Box::new(File::create(path)?));
        env_logger::Builder::new().parse_filters("info").target(target).init();
        let metrics = PrometheusMetricsBuilder::new("observing").endpoint("/metrics").build();
        let metrics = metrics.map_err(|error| io::Error::other(error.to_string()))?;
        let sees = move || blind().wrap(Logger::default()).wrap(metrics.clone());
        let server = HttpServer::new(sees).workers(1).tcp_nodelay(true).keep_alive(IDLE);
        server.listen(listener)?.run().await
    })
}

async fn respond(id: Path<u32>) -> HttpResponse {
    black_box(*id);
    HttpResponse::Ok()
        .insert_header((SERVER, SERVER_NAME))
        .insert_header((CONTENT_TYPE, "text/plain"))
        .body(HELLO)
}
