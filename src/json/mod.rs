//! JSON, by serde (RFC 8259): errors of content that is not JSON, or not of the wanted type.
//!
//! ```
//! use corehttp::{Context, Status};
//!
//! #[derive(serde::Deserialize, serde::Serialize)]
//! struct Note {
//!     text: String,
//! }
//!
//! fn save(ctx: &mut Context) -> corehttp::Result {
//!     let note: Note = ctx.request.json()?; // answered with 400, 415 or 422
//!     ctx.response.set_json(&note)?;
//!     ctx.response.status = Status::CREATED;
//!     Ok(())
//! }
//! ```
//!
//! Clients send with `RequestBuilder::json` and read with `Response::json`.

// Floor 5: JSON, by serde (RFC 8259).
//
// A handler calls `Request::json` and `Response::set_json`; a
// client calls `Request::set_json` and `Response::json`.

mod codec;

pub use codec::{InvalidJson, JsonError};
