//! In axum, with tower-http for compression and files, axum-server for TLS, and deadpool.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{DefaultBodyLimit, Json, Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum_server::tls_rustls::RustlsConfig;
use futures_util::StreamExt;
use tokio::net::TcpListener;
use tower_http::compression::CompressionLayer;
use tower_http::services::ServeDir;

use crate::environment::{dataset, port, static_folder, tls};
use crate::items::{Draft, Item, List, ListQuery, Multiplier, Page, PriceRange, StoredItem, Terms, priced};
use crate::pool::{Pool, Unavailable};

#[tokio::main]
pub(super) async fn serve() -> io::Result<()> {
    let state = Application { items: dataset()?, pool: Pool::from_environment() };
    let compressed = Router::new().route("/json/{count}", get(json)).layer(CompressionLayer::new());
    let files = ServeDir::new(static_folder()).precompressed_br().precompressed_gzip();
    let app = Router::new()
        .route("/baseline11", get(sum).post(sum_with_body))
        .route("/pipeline", get(async || "ok"))
        .route("/upload", post(upload))
        .route("/async-db", get(by_price))
        .route("/crud/items", get(list).post(save))
        .route("/crud/items/{id}", get(show).put(replace))
        .route("/ws", get(websocket))
        .merge(compressed)
        .nest_service("/static", files)
        .layer(DefaultBodyLimit::disable())
        .with_state(state);
    let config = RustlsConfig::from_config(Arc::new(tls()?));
    let secure = SocketAddr::from(([0, 0, 0, 0], port("TLS_PORT", 8081)));
    tokio::spawn(axum_server::bind_rustls(secure, config).serve(app.clone().into_make_service()));
    let listener = TcpListener::bind(("0.0.0.0", port("PORT", 8080))).await?;
    let listener = listener.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, app).await
}

#[derive(Clone)]
struct Application {
    items: Arc<Vec<Item>>,
    pool: Option<Pool>,
}

impl Application {
    fn pool(&self) -> Result<&Pool, Unavailable> {
        self.pool.as_ref().ok_or(Unavailable)
    }
}

impl IntoResponse for Unavailable {
    fn into_response(self) -> Response {
        StatusCode::SERVICE_UNAVAILABLE.into_response()
    }
}

async fn sum(Query(Terms { a, b }): Query<Terms>) -> String {
    (a + b).to_string()
}

async fn sum_with_body(Query(Terms { a, b }): Query<Terms>, body: String) -> Result<String, StatusCode> {
    let number: i64 = body.trim().parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    Ok((a + b + number).to_string())
}

async fn json(
    State(app): State<Application>,
    Path(count): Path<usize>,
    Query(Multiplier { m }): Query<Multiplier>,
) -> Response {
    Json(priced(&app.items, count, m)).into_response()
}

async fn upload(body: Body) -> Result<String, StatusCode> {
    let (mut len, mut chunks) = (0, body.into_data_stream());
    while let Some(chunk) = chunks.next().await {
        len += chunk.map_err(|_| StatusCode::BAD_REQUEST)?.len();
    }
    Ok(len.to_string())
}

async fn by_price(State(app): State<Application>, Query(range): Query<PriceRange>) -> Response {
    let rows = match &app.pool {
        Some(pool) => pool.by_price(&range).await.unwrap_or_default(),
        None => Vec::new(),
    };
    Json(Page::new(rows.iter().map(StoredItem::from_row).collect())).into_response()
}

async fn list(
    State(app): State<Application>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Unavailable> {
    let (rows, page, limit) = app.pool()?.list(&query).await?;
    let items: Vec<StoredItem> = rows.iter().map(StoredItem::from_row).collect();
    Ok(Json(List { total: items.len(), items, page, limit }).into_response())
}

const X_CACHE: HeaderName = HeaderName::from_static("x-cache");

async fn show(State(app): State<Application>, Path(id): Path<i32>) -> Result<Response, Unavailable> {
    let pool = app.pool()?;
    let respond = |cached: &'static str, json: Bytes| {
        ([(CONTENT_TYPE, "application/json"), (X_CACHE, cached)], json).into_response()
    };
    if let Some(json) = pool.cached(id) {
        return Ok(respond("HIT", json));
    }
    let Some(row) = pool.item(id).await? else { return Ok(StatusCode::NOT_FOUND.into_response()) };
    let json = Bytes::from(serde_json::to_vec(&StoredItem::from_row(&row)).unwrap());
    pool.cache(id, json.clone());
    Ok(respond("MISS", json))
}

async fn save(State(app): State<Application>, Json(draft): Json<Draft>) -> Result<Response, Unavailable> {
    app.pool()?.save(&draft).await?;
    Ok((StatusCode::CREATED, Json(draft)).into_response())
}

async fn replace(
    State(app): State<Application>,
    Path(id): Path<i32>,
    Json(draft): Json<Draft>,
) -> Result<Response, Unavailable> {
    let draft = Draft { id, ..draft };
    match app.pool()?.replace(&draft).await? {
        true => Ok(Json(draft).into_response()),
        false => Ok(StatusCode::NOT_FOUND.into_response()),
    }
}

async fn websocket(upgrade: WebSocketUpgrade) -> Response {
    upgrade.on_upgrade(async |mut socket| {
        while let Some(Ok(message)) = socket.recv().await {
            if matches!(message, Message::Text(_) | Message::Binary(_)) && socket.send(message).await.is_err()
            {
                return;
            }
        }
    })
}
