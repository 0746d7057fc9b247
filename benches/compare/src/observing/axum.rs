//! axum with tower-http's `TraceLayer`, which writes through tracing-subscriber, and with axum-prometheus.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::path::PathBuf;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CONTENT_TYPE, SERVER};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::serve::ListenerExt;
use axum_prometheus::PrometheusMetricLayer;
use tokio::net::TcpListener;
use tower_http::trace::{DefaultMakeSpan, DefaultOnResponse, TraceLayer};
use tracing::Level;

use super::ROUTE;
use crate::application::{HELLO, SERVER_NAME};
use crate::child::announce;
use crate::peer::ANY;

pub(super) fn serve(log: Option<PathBuf>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let router = Router::new().route(ROUTE, get(respond));
        let Some(path) = log else { return run(router).await };
        // Until the guard is dropped, its thread writes the lines.
        let (writer, _guard) = tracing_appender::non_blocking(File::create(path)?);
        tracing_subscriber::fmt().with_max_level(Level::INFO).with_ansi(false).with_writer(writer).init();
        let trace = TraceLayer::new_for_http()
            .make_span_with(DefaultMakeSpan::new().level(Level::INFO))
            .on_request(())
            .on_response(DefaultOnResponse::new().level(Level::INFO));
        let (metrics, shown) = PrometheusMetricLayer::pair();
        run(router.route("/metrics", get(async move || shown.render())).layer(metrics).layer(trace)).await
    })
}

async fn run(router: Router) -> io::Result<()> {
    let listener = TcpListener::bind(ANY).await?;
    announce(listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // It fails if the peer has gone already, which the first read will tell.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, router).await
}

async fn respond(Path(id): Path<u32>) -> impl IntoResponse {
    black_box(id);
    ([(SERVER, SERVER_NAME), (CONTENT_TYPE, "text/plain")], HELLO)
}
