//! `multipart/form-data`, in which browsers send files (RFC 7578, RFC 2046 §5.1).
//!
//! [`Multipart`] reads a body part by part as it arrives, in constant memory. [`Form`] writes one.
//!
//! ```no_run
//! use corehttp::middleware::wrap;
//! use corehttp::{BodyPlan, Context, Server};
//!
//! async fn upload(ctx: &mut Context) -> corehttp::Result {
//!     let mut parts = ctx.multipart()?;
//!     while let Some(mut part) = parts.part().await? {
//!         match part.name() {
//!             "title" => println!("{}", part.text().await?),
//!             "photo" => {
//!                 let saved = part.save("/srv/photos").await?;
//!                 println!("{} bytes in {}", saved.len, saved.path.display());
//!             }
//!             _ => {} // what is not read is skipped
//!         }
//!     }
//!     Ok(())
//! }
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("127.0.0.1:8080").run(wrap(BodyPlan::Stream, upload))
//! }
//! ```
//!
//! The time in which an upload is read counts for [`Timeouts::handler`](crate::Timeouts::handler). Lift that limit for routes
//! with uploads by [`timeouts(|timeouts| timeouts.handler = None)`](crate::middleware::timeouts).
//! [`Timeouts::body`](crate::Timeouts::body) and [`Timeouts::body_rate_min`](crate::Timeouts::body_rate_min) still bound slow
//! peers.
//!
//! A body that breaks the rules, or a limit of [`MultipartLimits`], is an error. With `?`, the error becomes 400, 413, 415 or
//! 431.

mod multipart;
mod parser;
mod part;

mod boundary;
mod part_head;

mod form;

mod error;

pub use error::{MultipartError, MultipartLimits};
pub use form::Form;
pub use multipart::Multipart;
pub use part::{Part, Saved};
