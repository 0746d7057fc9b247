//! [`Pool`]: what the users of deadpool do for the database, and a cache beside it.

use std::collections::HashMap;
use std::env;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deadpool_postgres::{Manager, ManagerConfig, RecyclingMethod};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Row};

use crate::environment::variable;
use crate::items::{Draft, ListQuery, PriceRange};

#[derive(Clone)]
pub(crate) struct Pool {
    pool: deadpool_postgres::Pool,
    cache: Arc<Mutex<HashMap<i32, (Instant, Bytes)>>>,
}

/// The database is away, or a query failed.
#[derive(Debug)]
pub(crate) struct Unavailable;

impl Pool {
    /// None without a database.
    pub(crate) fn from_environment() -> Option<Pool> {
        let config: tokio_postgres::Config = env::var("DATABASE_URL").ok()?.parse().ok()?;
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, NoTls, recycling);
        let max = variable("DATABASE_MAX_CONN", "256").parse().ok()?;
        let pool = deadpool_postgres::Pool::builder(manager).max_size(max).build().ok()?;
        Some(Pool { pool, cache: Arc::default() })
    }

    pub(crate) async fn by_price(&self, range: &PriceRange) -> Result<Vec<Row>, Unavailable> {
        let (min, max) = (range.min.unwrap_or(10), range.max.unwrap_or(50));
        let limit = range.limit.unwrap_or(50).clamp(1, 50);
        self.query("SELECT * FROM items WHERE price BETWEEN $1 AND $2 LIMIT $3", &[&min, &max, &limit]).await
    }

    /// Rows, and which page of which size they are.
    pub(crate) async fn list(&self, query: &ListQuery) -> Result<(Vec<Row>, i64, i64), Unavailable> {
        let category = query.category.as_deref().unwrap_or("electronics");
        let page = query.page.unwrap_or(1).max(1);
        let limit = query.limit.unwrap_or(10).clamp(1, 50);
        let offset = (page - 1).saturating_mul(limit);
        let rows = self
            .query(
                "SELECT * FROM items WHERE category = $1 ORDER BY id LIMIT $2 OFFSET $3",
                &[&category, &limit, &offset],
            )
            .await?;
        Ok((rows, page, limit))
    }

    pub(crate) async fn item(&self, id: i32) -> Result<Option<Row>, Unavailable> {
        Ok(self.query("SELECT * FROM items WHERE id = $1", &[&id]).await?.pop())
    }

    pub(crate) async fn save(&self, draft: &Draft) -> Result<(), Unavailable> {
        self.write(SAVE, draft).await.map(drop)
    }

    /// Returns whether there was such an item.
    pub(crate) async fn replace(&self, draft: &Draft) -> Result<bool, Unavailable> {
        self.write(REPLACE, draft).await
    }

    pub(crate) fn cached(&self, id: i32) -> Option<Bytes> {
        let cache = self.cache.lock().unwrap();
        cache.get(&id).filter(|(since, _)| since.elapsed() < LIFETIME).map(|(_, json)| json.clone())
    }

    pub(crate) fn cache(&self, id: i32, json: Bytes) {
        let mut cache = self.cache.lock().unwrap();
        if cache.len() == cache.capacity() {
            cache.retain(|_, (since, _)| since.elapsed() < LIFETIME);
        }
        cache.insert(id, (Instant::now(), json));
    }

    async fn write(&self, sql: &str, draft: &Draft) -> Result<bool, Unavailable> {
        let Draft { id, name, category, price, quantity } = draft;
        let rows = self.query(sql, &[id, name, category, price, quantity]).await?;
        self.cache.lock().unwrap().remove(id);
        Ok(!rows.is_empty())
    }

    async fn query(&self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Unavailable> {
        let client = self.pool.get().await.map_err(|_| Unavailable)?;
        let statement = client.prepare_cached(sql).await.map_err(|_| Unavailable)?;
        client.query(&statement, values).await.map_err(|_| Unavailable)
    }
}

const LIFETIME: Duration = Duration::from_millis(200);
const SAVE: &str = "INSERT INTO items VALUES ($1, $2, $3, $4, $5, true, '[\"new\"]', 0, 0)
    ON CONFLICT (id) DO UPDATE SET name = $2, category = $3, price = $4, quantity = $5 RETURNING *";
const REPLACE: &str =
    "UPDATE items SET name = $2, category = $3, price = $4, quantity = $5 WHERE id = $1 RETURNING *";
