//! [`Dataset`]: fifty items, and the rows of the database, all of them the same in every run.

use std::fmt::Write;

use serde_json::{Value, json};

/// The items of `/json`.
pub(crate) struct Dataset(pub(super) Vec<Value>);

impl Dataset {
    pub(super) fn new() -> Dataset {
        let mut chance = Chance::new();
        Dataset((1..=ITEMS).map(|id| item(id, &mut chance)).collect())
    }

    /// The right content of `/json/{count}?m={multiplier}`.
    pub(super) fn priced(&self, count: usize, multiplier: i64) -> Value {
        let priced = |item: &Value| {
            let number = |name: &str| item[name].as_i64().expect("an item has numbers");
            let mut item = item.clone();
            item["total"] = json!(number("price") * number("quantity") * multiplier);
            item
        };
        let items: Vec<Value> = self.0.iter().take(count).map(priced).collect();
        json!({ "count": items.len(), "items": items })
    }

    /// SQL that makes the table and fills it.
    pub(super) fn sql() -> String {
        let mut sql = String::from(TABLE);
        let mut chance = Chance::new();
        for id in 1..=ROWS {
            let item = item(id, &mut chance);
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            let (name, category, tags) = (text("name"), text("category"), item["tags"].to_string());
            let (price, quantity, active) = (&item["price"], &item["quantity"], &item["active"]);
            let (score, count) = (&item["rating"]["score"], &item["rating"]["count"]);
            let row = format!(
                "{id}\t{name} {id}\t{category}\t{price}\t{quantity}\t{active}\t{tags}\t{score}\t{count}"
            );
            writeln!(sql, "{row}").expect("a string takes all");
        }
        sql + "\\.\nVACUUM ANALYZE items;\n"
    }
}

const ITEMS: u32 = 50;
pub(super) const ROWS: u32 = 100_000;

/// No index on the price: a range of prices is found by reading.
const TABLE: &str = "CREATE TABLE items (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, price INTEGER NOT NULL,
    quantity INTEGER NOT NULL, active BOOLEAN NOT NULL, tags JSONB NOT NULL,
    rating_score INTEGER NOT NULL, rating_count INTEGER NOT NULL);
CREATE INDEX ON items (category, id);
COPY items FROM STDIN;
";

fn item(id: u32, chance: &mut Chance) -> Value {
    let mut tags: Vec<&str> = TAGS.into_iter().filter(|_| chance.below(3) == 0).collect();
    if tags.is_empty() {
        tags.push(chance.one_of(TAGS));
    }
    json!({
        "id": id,
        "name": format!("{} {}", chance.one_of(ADJECTIVES), chance.one_of(NOUNS)),
        "category": chance.one_of(CATEGORIES),
        "price": 1 + chance.below(500),
        "quantity": 1 + chance.below(1_000),
        "active": chance.below(2) == 0,
        "tags": tags,
        "rating": { "score": 1 + chance.below(50), "count": 1 + chance.below(500) },
    })
}

const ADJECTIVES: [&str; 10] =
    ["Alpha", "Pro", "Core", "Ultra", "Smart", "Compact", "Heavy", "Silent", "Rapid", "Prime"];
const NOUNS: [&str; 10] =
    ["Widget", "Valve", "Relay", "Sensor", "Lamp", "Bracket", "Filter", "Motor", "Switch", "Cable"];
pub(super) const CATEGORIES: [&str; 6] = ["electronics", "tools", "books", "office", "garden", "sports"];
const TAGS: [&str; 7] = ["sale", "heavy-duty", "popular", "fast", "new", "wireless", "limited"];

/// Numbers that look like chance, and are the same in each run (splitmix64).
pub(super) struct Chance(u64);

impl Chance {
    pub(super) fn new() -> Chance {
        Chance(42)
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed >> 32) % u64::from(bound)) as u32
    }

    pub(super) fn one_of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[self.below(N as u32) as usize]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Dataset;

    #[test]
    fn totals_are_products() {
        let dataset = Dataset::new();
        let page = dataset.priced(2, 3);
        let item = &dataset.0[1];
        let product = item["price"].as_i64().unwrap() * item["quantity"].as_i64().unwrap() * 3;
        assert_eq!((&page["count"], &page["items"][1]["total"]), (&json!(2), &json!(product)));
        assert_eq!(dataset.priced(99, 1)["count"], json!(50));
    }
}
