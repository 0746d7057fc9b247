//! `multipart/form-data`, in which browsers send files (RFC 7578, RFC 2046 §5.1).
//!
//! [`Multipart`] reads a body part by part as it arrives, in constant memory; [`Form`] writes one.
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
//!             "photo" => println!("{:?}", part.save("/srv/photos").await?),
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
//! A body that breaks the rules, or exceeds a limit of [`MultipartLimits`], is an error that becomes 400, 413, 415 or
//! 431 with `?`.

mod multipart;
mod parser;
mod part;

mod boundary;
mod part_head;
mod part_memory;

mod form;

mod error;

pub use error::{MultipartError, MultipartLimits};
pub use form::Form;
pub use multipart::Multipart;
pub use part::{Part, Saved};
