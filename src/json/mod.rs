//! JSON, read and written by serde (RFC 8259).
//!
//! ```
//! use corehttp::{Context, Request, Result, Server};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, Serialize)]
//! struct Note {
//!     text: String,
//! }
//!
//! fn shout(ctx: &mut Context) -> Result {
//!     let note: Note = ctx.request.json()?; // 400, 415 or 422 if it is no note
//!     ctx.response.set_json(&Note { text: note.text.to_uppercase() })?;
//!     Ok(())
//! }
//!
//! let service = Server::new().service(shout);
//! let mut request = Request::post("/")?;
//! request.set_json(&Note { text: "milk".into() })?;
//! let response = corehttp::block_on(service.respond(request))?;
//! assert_eq!(response.json::<Note>()?.text, "MILK");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | for | see |
//! |---|---|
//! | the content of a message | [`Request::json`](crate::Request::json), [`Response::set_json`](crate::Response::set_json) and their like |
//! | a request in one expression | [`RequestBuilder::json`](crate::RequestBuilder::json) |
//! | a stream of values, one a line | [`JsonLines`] |
//! | a problem with members of its own | [`Problem::with_member`](crate::Problem::with_member) |

// Floor 5.

mod content;
mod json_lines;

pub use json_lines::JsonLines;
