//! [`Item`]: of the data set, or of the database.

use corehttp::Result;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

#[derive(Deserialize, Serialize)]
pub struct Item<'a, Tags> {
    id: i32,
    name: &'a str,
    category: &'a str,
    price: i32,
    quantity: i32,
    active: bool,
    tags: Tags,
    rating: Rating,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    total: Option<i64>,
}

#[derive(Clone, Copy, Deserialize, Serialize)]
struct Rating {
    score: i32,
    count: i32,
}

impl<Tags> Item<'_, Tags> {
    /// The item with its total.
    pub fn priced(&self, multiplier: i64) -> Item<'_, &Tags> {
        let Item { id, name, category, price, quantity, active, ref tags, rating, .. } = *self;
        let total = Some(i64::from(price) * i64::from(quantity) * multiplier);
        Item { id, name, category, price, quantity, active, tags, rating, total }
    }
}

impl<'a> Item<'a, &'a RawValue> {
    /// The item of a row, whose text is borrowed, and whose tags are JSON already.
    pub fn from_row(row: &'a Row) -> Result<Item<'a, &'a RawValue>> {
        Ok(Item {
            id: row.try_get(0)?,
            name: row.try_get(1)?,
            category: row.try_get(2)?,
            price: row.try_get(3)?,
            quantity: row.try_get(4)?,
            active: row.try_get(5)?,
            tags: row.try_get::<_, Json<&RawValue>>(6)?.0,
            rating: Rating { score: row.try_get(7)?, count: row.try_get(8)? },
            total: None,
        })
    }
}

/// Items, and how many they are.
#[derive(Serialize)]
pub struct Page<'a, Tags> {
    pub items: Vec<Item<'a, Tags>>,
    pub count: usize,
}
