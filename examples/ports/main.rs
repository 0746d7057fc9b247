//! Well-known examples of other frameworks, written anew with this crate:
//! `cargo run --release --features ports --example ports -- NAME`.
//!
//! | name | after | shows |
//! |---|---|---|
//! | `todos` | axum, `examples/todos` | JSON, shared state, pages of a list, a log |
//! | `key_value_store` | axum, `examples/key-value-store` | limits per route, compression, a group behind a token |
//! | `testing` | axum, `examples/testing` | tests of handlers, with and without a connection |
//! | `csrf` | Fiber, `recipes/csrf-with-session` | passwords, sessions, forms that no other site can send, TLS |
//! | `basics` | actix, `examples/basics/basics` | a signed cookie, a stream, files, redirects, a page for 404 |
//!
//! They listen where the originals do. The counts of lines are in the README beside the examples.

mod basics;
mod csrf;
mod key_value_store;
mod testing;
mod todos;

use corehttp::{Error, Result};

fn main() -> Result {
    match std::env::args().nth(1).as_deref() {
        Some("basics") => basics::main(),
        Some("csrf") => csrf::main(),
        Some("key_value_store") => key_value_store::main(),
        Some("testing") => testing::main(),
        Some("todos") => todos::main(),
        _ => Err(Error::other("name one of: basics, csrf, key_value_store, testing, todos")),
    }
}
