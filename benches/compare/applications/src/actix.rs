//! In actix-web, with its files and WebSockets, its middleware for compression, and deadpool.

use std::io;
use std::thread::available_parallelism;

use actix_files::Files;
use actix_web::http::header::ContentType;
use actix_web::middleware::Compress;
use actix_web::web::{self, Bytes, Data, Json, Path, Payload, Query};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, ResponseError};
use actix_ws::Message;
use futures_util::StreamExt;

use crate::environment::{dataset, port, static_folder, tls};
use crate::items::{Draft, Item, List, ListQuery, Multiplier, Page, PriceRange, StoredItem, Terms, priced};
use crate::pool::{Pool, Unavailable};

#[actix_web::main]
pub(super) async fn serve() -> io::Result<()> {
    let application = Data::new(Application { items: dataset()?, pool: Pool::from_environment() });
    let server = HttpServer::new(move || {
        App::new()
            .app_data(application.clone())
            .app_data(web::PayloadConfig::new(25 << 20))
            .route("/baseline11", web::get().to(sum))
            .route("/baseline11", web::post().to(sum_with_body))
            .route("/pipeline", web::get().to(async || text().body("ok")))
            .service(web::resource("/json/{count}").wrap(Compress::default()).route(web::get().to(json)))
            .route("/upload", web::post().to(upload))
            // As they are: it has no use for compressed neighbors, and compresses each response anew if it is asked to.
            .service(Files::new("/static", static_folder()))
            .route("/async-db", web::get().to(by_price))
            .route("/crud/items", web::get().to(list))
            .route("/crud/items", web::post().to(save))
            .route("/crud/items/{id}", web::get().to(show))
            .route("/crud/items/{id}", web::put().to(replace))
            .route("/ws", web::get().to(websocket))
    });
    let workers = available_parallelism()?.into();
    let server = server.workers(workers).tcp_nodelay(true).bind(("0.0.0.0", port("PORT", 8080)))?;
    server.bind_rustls_0_23(("0.0.0.0", port("TLS_PORT", 8081)), tls()?)?.run().await
}

struct Application {
    items: std::sync::Arc<Vec<Item>>,
    pool: Option<Pool>,
}

impl Application {
    fn pool(&self) -> Result<&Pool, Unavailable> {
        self.pool.as_ref().ok_or(Unavailable)
    }
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the database is away")
    }
}

impl ResponseError for Unavailable {
    fn status_code(&self) -> actix_web::http::StatusCode {
        actix_web::http::StatusCode::SERVICE_UNAVAILABLE
    }
}

fn text() -> actix_web::HttpResponseBuilder {
    let mut response = HttpResponse::Ok();
    response.content_type(ContentType::plaintext());
    response
}

async fn sum(query: Query<Terms>) -> HttpResponse {
    text().body((query.a + query.b).to_string())
}

async fn sum_with_body(query: Query<Terms>, body: String) -> HttpResponse {
    match body.trim().parse::<i64>() {
        Ok(number) => text().body((query.a + query.b + number).to_string()),
        Err(_) => HttpResponse::BadRequest().finish(),
    }
}

async fn json(app: Data<Application>, count: Path<usize>, query: Query<Multiplier>) -> HttpResponse {
    HttpResponse::Ok().json(priced(&app.items, *count, query.m))
}

async fn upload(mut body: Payload) -> actix_web::Result<HttpResponse> {
    let mut len = 0;
    while let Some(chunk) = body.next().await {
        len += chunk?.len();
    }
    Ok(text().body(len.to_string()))
}

async fn by_price(app: Data<Application>, range: Query<PriceRange>) -> HttpResponse {
    let rows = match &app.pool {
        Some(pool) => pool.by_price(&range).await.unwrap_or_default(),
        None => Vec::new(),
    };
    HttpResponse::Ok().json(Page::new(rows.iter().map(StoredItem::from_row).collect()))
}

async fn list(app: Data<Application>, query: Query<ListQuery>) -> Result<HttpResponse, Unavailable> {
    let (rows, page, limit) = app.pool()?.list(&query).await?;
    let items: Vec<StoredItem> = rows.iter().map(StoredItem::from_row).collect();
    Ok(HttpResponse::Ok().json(List { total: items.len(), items, page, limit }))
}

async fn show(app: Data<Application>, id: Path<i32>) -> Result<HttpResponse, Unavailable> {
    let (pool, id) = (app.pool()?, *id);
    let respond = |cached, json: Bytes| {
        HttpResponse::Ok().content_type(ContentType::json()).insert_header(("x-cache", cached)).body(json)
    };
    if let Some(json) = pool.cached(id) {
        return Ok(respond("HIT", json));
    }
    let Some(row) = pool.item(id).await? else { return Ok(HttpResponse::NotFound().finish()) };
    let json = Bytes::from(serde_json::to_vec(&StoredItem::from_row(&row)).unwrap());
    pool.cache(id, json.clone());
    Ok(respond("MISS", json))
}

async fn save(app: Data<Application>, draft: Json<Draft>) -> Result<HttpResponse, Unavailable> {
    app.pool()?.save(&draft).await?;
    Ok(HttpResponse::Created().json(draft))
}

async fn replace(
    app: Data<Application>,
    id: Path<i32>,
    draft: Json<Draft>,
) -> Result<HttpResponse, Unavailable> {
    let draft = Draft { id: *id, ..draft.into_inner() };
    match app.pool()?.replace(&draft).await? {
        true => Ok(HttpResponse::Ok().json(draft)),
        false => Ok(HttpResponse::NotFound().finish()),
    }
}

async fn websocket(request: HttpRequest, body: Payload) -> actix_web::Result<HttpResponse> {
    let (response, mut session, mut messages) = actix_ws::handle(&request, body)?;
    actix_web::rt::spawn(async move {
        while let Some(Ok(message)) = messages.recv().await {
            let sent = match message {
                Message::Text(text) => session.text(text).await,
                Message::Binary(bytes) => session.binary(bytes).await,
                Message::Close(_) => return,
                _ => Ok(()),
            };
            if sent.is_err() {
                return;
            }
        }
    });
    Ok(response)
}
