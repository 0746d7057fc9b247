//! Repeated requests, handled once, by the `idempotency-key` of a client
//! ([draft-ietf-httpapi-idempotency-key-header](https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/)).
//!
//! ```
//! use corehttp::idempotency::{Idempotency, MemoryStore};
//! use corehttp::{Context, Request, Server, Status, routes};
//!
//! fn pay(ctx: &mut Context) {
//!     ctx.response.status = Status::CREATED; // once for each key
//! }
//!
//! let idempotency = Idempotency::new(MemoryStore::new());
//! let router = routes! {
//!     wrap idempotency => {
//!         POST "/payments" => pay,
//!     },
//! };
//! let service = Server::new().service(router); // or `Server::run`
//!
//! # corehttp::block_on(async {
//! let mut request = Request::post("/payments")?;
//! request.headers.set("idempotency-key", "\"8e03978e-40d5-43dd-bc93-6894a57f9324\"")?;
//! let first = service.respond(request.clone()).await;
//! let again = service.respond(request).await;
//! assert_eq!((first.status, again.status), (Status::CREATED, Status::CREATED));
//! assert_eq!(again.headers.get("idempotency-replayed"), Some("true"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`MemoryStore`] is for one process. Several share a database by an [`IdempotencyStore`] of one's own.

// Floor 5. In reading order: the middleware; the key; where the outcomes are kept.

mod idempotency;
mod key;
mod memory_store;
mod scope_queues;
mod store;

pub use idempotency::Idempotency;
pub use memory_store::MemoryStore;
pub use store::{Claim, IdempotencyStore, StoredResponse};
