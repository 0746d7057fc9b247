//! [`Item`], and what is made of it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

#[derive(Deserialize)]
pub(crate) struct Item {
    id: i32,
    name: String,
    category: String,
    price: i64,
    quantity: i64,
    active: bool,
    tags: Vec<String>,
    rating: Rating,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Rating {
    score: i32,
    count: i32,
}

/// An item with its total.
#[derive(Serialize)]
pub(crate) struct PricedItem<'a> {
    id: i32,
    name: &'a str,
    category: &'a str,
    price: i64,
    quantity: i64,
    active: bool,
    tags: &'a [String],
    rating: Rating,
    total: i64,
}

#[derive(Serialize)]
pub(crate) struct Page<T> {
    items: Vec<T>,
    count: usize,
}

impl<T> Page<T> {
    pub(crate) fn new(items: Vec<T>) -> Page<T> {
        Page { count: items.len(), items }
    }
}

pub(crate) fn priced(items: &[Item], count: usize, multiplier: i64) -> Page<PricedItem<'_>> {
    Page::new(items.iter().take(count).map(|item| item.priced(multiplier)).collect())
}

impl Item {
    fn priced(&self, multiplier: i64) -> PricedItem<'_> {
        let Item { id, name, category, price, quantity, active, tags, rating } = self;
        PricedItem {
            id: *id,
            name,
            category,
            price: *price,
            quantity: *quantity,
            active: *active,
            tags,
            rating: *rating,
            total: price * quantity * multiplier,
        }
    }
}

/// An item of the database, with the JSON of its tags as it comes.
#[derive(Serialize)]
pub(crate) struct StoredItem<'a> {
    id: i32,
    name: &'a str,
    category: &'a str,
    price: i32,
    quantity: i32,
    active: bool,
    tags: &'a RawValue,
    rating: Rating,
}

impl<'a> StoredItem<'a> {
    pub(crate) fn from_row(row: &'a Row) -> StoredItem<'a> {
        StoredItem {
            id: row.get(0),
            name: row.get(1),
            category: row.get(2),
            price: row.get(3),
            quantity: row.get(4),
            active: row.get(5),
            tags: row.get::<_, Json<&RawValue>>(6).0,
            rating: Rating { score: row.get(7), count: row.get(8) },
        }
    }
}

#[derive(Serialize)]
pub(crate) struct List<'a> {
    pub(crate) items: Vec<StoredItem<'a>>,
    pub(crate) total: usize,
    pub(crate) page: i64,
    pub(crate) limit: i64,
}

#[derive(Deserialize, Serialize)]
pub(crate) struct Draft {
    #[serde(default)]
    pub(crate) id: i32,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) price: i32,
    pub(crate) quantity: i32,
}

#[derive(Deserialize)]
pub(crate) struct Terms {
    #[serde(default)]
    pub(crate) a: i64,
    #[serde(default)]
    pub(crate) b: i64,
}

#[derive(Deserialize)]
pub(crate) struct Multiplier {
    #[serde(default = "one")]
    pub(crate) m: i64,
}

fn one() -> i64 {
    1
}

#[derive(Deserialize)]
pub(crate) struct PriceRange {
    pub(crate) min: Option<i32>,
    pub(crate) max: Option<i32>,
    pub(crate) limit: Option<i64>,
}

#[derive(Deserialize)]
pub(crate) struct ListQuery {
    pub(crate) category: Option<String>,
    pub(crate) page: Option<i64>,
    pub(crate) limit: Option<i64>,
}
