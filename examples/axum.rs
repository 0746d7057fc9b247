//! An app of axum on this server: `cargo run --release --features tower --example axum -- [ADDR]`.
//!
//! | request | response |
//! |---|---|
//! | GET `/` | a greeting to the peer's address |
//! | GET `/hello/NAME` | a greeting to `NAME`, decoded |
//! | POST `/sum` with `{"numbers": [..]}` | `{"sum": ..}` |
//!
//! The pages of other origins may ask, too: a layer of tower-http answers their preflights (CORS).
//!
//! ```text
//! curl -i http://127.0.0.1:8080/hello/Ada
//! curl -i --json '{"numbers": [1, 2, 3]}' http://127.0.0.1:8080/sum
//! ```

use std::time::Duration;

use axum::extract::Path;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use corehttp::tower::Tower;
use corehttp::{PeerAddr, Server, shutdown_signal};
use serde::{Deserialize, Serialize};
use tower_http::cors::CorsLayer;

#[derive(Deserialize)]
struct Numbers {
    numbers: Vec<i32>,
}

#[derive(Serialize)]
struct Sum {
    sum: i64,
}

fn main() -> corehttp::Result {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    let app = Router::new()
        .route("/", get(greet_peer))
        .route("/hello/{name}", get(greet))
        .route("/sum", post(sum))
        .layer(CorsLayer::permissive());
    let server = Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10));
    let running = server.start(Tower::new(app))?;
    println!("listening on {running}");
    running.wait()
}

async fn greet_peer(Extension(peer): Extension<PeerAddr>) -> String {
    format!("Hello, {peer}!\n")
}

async fn greet(Path(name): Path<String>) -> String {
    format!("Hello, {name}!\n")
}

async fn sum(Json(Numbers { numbers }): Json<Numbers>) -> Json<Sum> {
    Json(Sum { sum: numbers.into_iter().map(i64::from).sum() })
}
