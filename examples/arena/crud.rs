//! [`Crud`]: items of the database that are listed, shown, saved and replaced.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use corehttp::{Context, Response, Result, Status};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::database::{Database, Query};
use crate::items::Item;

pub struct Crud {
    pub database: Rc<Database>,
    pub cache: Arc<Cache>,
}

#[derive(Serialize)]
struct List<'a> {
    items: Vec<Item<'a, &'a RawValue>>,
    total: usize,
    page: i64,
    limit: i64,
}

/// An item as a peer sends it. The path may hold its id instead.
#[derive(Deserialize, Serialize)]
struct Draft {
    #[serde(default)]
    id: i32,
    name: String,
    category: String,
    price: i32,
    quantity: i32,
}

impl Crud {
    pub async fn list(&self, ctx: &mut Context) -> Result {
        let query = ctx.request.query();
        let category = query.get("category").unwrap_or("electronics".into());
        let page: i64 = query.get_as("page")?.unwrap_or(1).max(1);
        let limit: i64 = query.get_as("limit")?.unwrap_or(10).clamp(1, 50);
        let offset = (page - 1).saturating_mul(limit);
        let rows = self.database.query(Query::ByCategory, &[&category.as_ref(), &limit, &offset]).await?;
        let items: Vec<Item<_>> = rows.iter().map(Item::from_row).collect::<Result<_>>()?;
        Ok(ctx.response.set_json(&List { total: items.len(), items, page, limit })?)
    }

    pub async fn show(&self, ctx: &mut Context) -> Result {
        let id = ctx.params().get_as("id")?;
        if let Some(json) = self.cache.get(id) {
            ctx.response.headers.set("x-cache", "HIT")?;
            return Ok(ctx.response.set_shared_bytes("application/json", json)?);
        }
        let rows = self.database.query(Query::ById, &[&id]).await?;
        ctx.response.set_json(&Item::from_row(rows.first().ok_or(Status::NOT_FOUND)?)?)?;
        ctx.response.headers.set("x-cache", "MISS")?;
        self.cache.put(id, ctx.response.bytes());
        Ok(())
    }

    pub async fn save(&self, ctx: &mut Context) -> Result {
        let Context { request, response, .. } = ctx;
        let draft = request.json()?;
        response.status = Status::CREATED;
        self.write(Query::Save, draft, response).await
    }

    pub async fn replace(&self, ctx: &mut Context) -> Result {
        let id = ctx.params().get_as("id")?;
        let Context { request, response, .. } = ctx;
        let draft = Draft { id, ..request.json()? };
        self.write(Query::Replace, draft, response).await
    }

    async fn write(&self, query: Query, draft: Draft, response: &mut Response) -> Result {
        let Draft { id, name, category, price, quantity } = &draft;
        let rows = self.database.query(query, &[id, name, category, price, quantity]).await?;
        rows.first().ok_or(Status::NOT_FOUND)?;
        self.cache.lock().remove(id);
        Ok(response.set_json(&draft)?)
    }
}

/// Items as JSON, for 200 ms. All cores share the cache, so an item that one core replaces is stale on none.
#[derive(Default)]
pub struct Cache(Mutex<HashMap<i32, (Instant, Bytes)>>);

impl Cache {
    fn get(&self, id: i32) -> Option<Bytes> {
        self.lock().get(&id).filter(|(since, _)| since.elapsed() < LIFETIME).map(|(_, json)| json.clone())
    }

    fn put(&self, id: i32, json: &[u8]) {
        let mut items = self.lock();
        if items.len() == items.capacity() {
            items.retain(|_, (since, _)| since.elapsed() < LIFETIME);
        }
        items.insert(id, (Instant::now(), Bytes::copy_from_slice(json)));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, (Instant, Bytes)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const LIFETIME: Duration = Duration::from_millis(200);
