//! A whole application, as the benchmark [HttpArena](https://github.com/MDA2AV/HttpArena) asks for it: JSON,
//! compression, TLS, uploads, files, a database with a cache, and WebSocket.
//!
//! ```text
//! cargo run --release --no-default-features --features arena --example arena
//! ```
//!
//! The environment configures it: `DATA` is a folder with `dataset.json` and `static`, `CERTS` one with `server.crt` and
//! `server.key`, and `DATABASE_URL` a PostgreSQL server, which takes at most `DATABASE_MAX_CONN` connections. The server
//! listens on `PORT`, and over TLS on `TLS_PORT`.

mod crud;
mod database;
mod items;

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use corehttp::fs::Files;
use corehttp::middleware::Compress;
use corehttp::middleware::wrap;
use corehttp::tls::{self, ServerTls};
use corehttp::websocket::{self, WebSocket};
use corehttp::{BodyPlan, Context, Handler, Result, Server, Status, routes, shutdown_signal, with_state};

use crud::{Cache, Crud};
use database::{Database, Query};
use items::{Item, Page};

fn main() -> Result {
    let variable = |name, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let address = |name, port| format!("[::]:{}", variable(name, port));
    let mut server = Server::bind(address("PORT", "8080")).stop_on(shutdown_signal(), Duration::from_secs(5));
    let certs = PathBuf::from(variable("CERTS", "/certs"));
    if certs.exists() {
        let identity = tls::Identity::from_files(certs.join("server.crt"), certs.join("server.key"))?;
        server = server.and_bind_tls(address("TLS_PORT", "8081"), ServerTls::new(identity));
    }
    let application = Application::load(Path::new(&variable("DATA", "/data")))?;
    let connections_max: usize = variable("DATABASE_MAX_CONN", "256").parse()?;
    let url = env::var("DATABASE_URL").ok();
    server.run_per_core(async move |core| {
        let database = Database::connect(url.as_deref(), connections_max / core.count()).await?;
        Ok(application.handler(Rc::new(database)))
    })
}

/// The state that all cores share.
struct Application {
    items: Arc<Vec<Item<'static, Vec<String>>>>,
    files: Arc<Files>,
    cache: Arc<Cache>,
}

impl Application {
    fn load(data: &Path) -> Result<Application> {
        // The items borrow from the text, which is needed as long as the program runs.
        let items = serde_json::from_str(fs::read_to_string(data.join("dataset.json"))?.leak())?;
        let files = Files::new(data.join("static"))?.precompressed(true);
        Ok(Application { items: Arc::new(items), files: Arc::new(files), cache: Arc::default() })
    }

    /// The handler of one core.
    fn handler(&self, database: Rc<Database>) -> impl Handler + use<> {
        let crud = Rc::new(Crud { database: database.clone(), cache: self.cache.clone() });
        routes! {
            GET "/baseline11" => add,
            POST "/baseline11" => add,
            GET "/pipeline" => |ctx: &mut Context| ctx.response.set_text("ok"),
            GET "/json/{count}" => wrap(Compress::new(), with_state(&self.items, priced_items)),
            POST "/upload" => wrap(BodyPlan::Stream, upload),
            mount "/static" => self.files.clone(),
            GET "/async-db" => with_state(&database, items_by_price),
            GET "/crud/items" => with_state(&crud, Crud::list),
            POST "/crud/items" => with_state(&crud, Crud::save),
            GET "/crud/items/{id}" => with_state(&crud, Crud::show),
            PUT "/crud/items/{id}" => with_state(&crud, Crud::replace),
            GET "/ws" => echo,
        }
    }
}

/// Adds two numbers of the query, and one in the body if there is one.
fn add(ctx: &mut Context) -> Result {
    let query = ctx.request.query();
    let mut sum: i64 = query.get_as("a")?.unwrap_or(0) + query.get_as("b")?.unwrap_or(0);
    if !ctx.request.body.is_empty() {
        sum += ctx.request.body.text()?.trim().parse::<i64>().map_err(|_| Status::BAD_REQUEST)?;
    }
    ctx.response.set_text(sum.to_string());
    Ok(())
}

fn priced_items(items: &Vec<Item<Vec<String>>>, ctx: &mut Context) -> Result {
    let count = ctx.params().get_as("count")?;
    let multiplier = ctx.request.query().get_as("m")?.unwrap_or(1);
    let items: Vec<Item<_>> = items.iter().take(count).map(|item| item.priced(multiplier)).collect();
    Ok(ctx.response.set_json(&Page { count: items.len(), items })?)
}

/// Counts the bytes of a body as it arrives.
async fn upload(ctx: &mut Context) -> Result {
    let (mut len, mut body) = (0, ctx.body_reader());
    while let Some(chunk) = body.chunk().await? {
        len += chunk.len();
    }
    ctx.response.set_text(len.to_string());
    Ok(())
}

/// Lists items within a range of prices: none without a database, or if the query fails.
async fn items_by_price(database: &Database, ctx: &mut Context) -> Result {
    let query = ctx.request.query();
    let (min, max): (i32, i32) = (query.get_as("min")?.unwrap_or(10), query.get_as("max")?.unwrap_or(50));
    let limit: i64 = query.get_as("limit")?.unwrap_or(50).clamp(1, 50);
    let rows = database.query(Query::ByPrice, &[&min, &max, &limit]).await.unwrap_or_default();
    let items: Vec<Item<_>> = rows.iter().map(Item::from_row).collect::<Result<_>>()?;
    Ok(ctx.response.set_json(&Page { count: items.len(), items })?)
}

async fn echo(ctx: &mut Context) -> Result {
    let WebSocket { reader, writer, .. } = &mut ctx.websocket(&websocket::Options::default()).await?;
    while let Some(message) = reader.receive().await? {
        writer.send(message).await?;
    }
    Ok(())
}
