//! Files of a directory or of the program itself, served with preconditions, ranges and codings.
//!
//! ```no_run
//! use corehttp::fs::Files;
//! use corehttp::{Context, Server, routes};
//!
//! fn main() -> corehttp::Result {
//!     Server::bind("[::]:8080").run(routes! {
//!         GET "/" => |ctx: &mut Context| ctx.response.set_text("Hello"),
//!         GET "/static/{*path}" => Files::new("public")?,
//!     })
//! }
//! ```
//!
//! A handler sends a single file by [`Context::send_file`](crate::Context::send_file). Files of an archive or of an
//! object store, for example, come from a [`FileSource`].
//!
//! # Files that another server names
//!
//! An application behind this server chooses a file for a client, and this server sends it. nginx does so for
//! `x-accel-redirect`. Ranges and conditions are honored, and the file goes from the page cache to the socket. The field counts
//! in a response alone. A client's field is removed, and no client sees the application's.
//!
//! ```
//! # use corehttp::{Client, Request, Server};
//! # use corehttp::net::MemoryListener;
//! use std::mem::take;
//! use corehttp::client::Host;
//! use corehttp::fs::Files;
//! use corehttp::{Context, Error, Handler, Method, Response, Status};
//!
//! async fn pass(ctx: &mut Context, app: &Host, files: &Files) -> corehttp::Result {
//!     let mut onward = ctx.request.forwarded_to("/")?;
//!     onward.headers.remove("x-accel-redirect");
//!     let names_file = |response: &mut Response| {
//!         response.headers.contains("x-accel-redirect").then(|| take(&mut response.headers))
//!     };
//!     let Some(fields) = ctx.forward_unless(app.open_call(&onward), names_file).await? else {
//!         return Ok(()); // any other response
//!     };
//!     let path = fields.get("x-accel-redirect").unwrap_or_default();
//!     ctx.request.set_url(path).map_err(|error| Error::new(Status::BAD_GATEWAY, error))?;
//!     if ctx.request.method() != Method::Head {
//!         ctx.request.set_method(Method::Get);
//!     }
//!     for (name, value) in fields.iter().filter(|(name, _)| KEPT.iter().any(|kept| name.eq_ignore_ascii_case(kept))) {
//!         ctx.response.headers.append(name, String::from_utf8_lossy(value))?;
//!     }
//!     files.handle(ctx).await
//! }
//!
//! /// The fields of the application that the client gets. Others, such as `content-type`, are the file's.
//! const KEPT: [&str; 4] = ["cache-control", "content-disposition", "expires", "set-cookie"];
//!
//! # let listener = MemoryListener::new();
//! # let app = Client::builder().connect_to(&listener).build().host("http://app")?;
//! # let server = Server::bind(listener).cores(1).start(|ctx: &mut Context| {
//! #     ctx.response.headers.set("set-cookie", "seen=1")?;
//! #     ctx.response.headers.set("x-accel-redirect", "/reports/7.csv")?;
//! #     Ok(())
//! # })?;
//! let files = Files::from_embedded(&[("reports/7.csv", b"a,b\n")]); // or `Files::new("/var/lib/app")?`
//! let service = Server::new().service(async move |ctx: &mut Context| pass(ctx, &app, &files).await);
//! # corehttp::block_on(async {
//! # let response = service.respond(Request::get("/reports/latest")?).await;
//! # let fields = ["set-cookie", "content-type", "x-accel-redirect"].map(|name| response.headers.get(name));
//! # assert_eq!(fields, [Some("seen=1"), Some("text/csv; charset=utf-8"), None]);
//! # assert_eq!(response.text()?, "a,b\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

// Floor 7: files. Serves the files of a directory or of a source, with preconditions, ranges and codings (RFC 9110).
//
// Calls that may block run in `spawn_blocking`. Nothing here depends on connections:
// a handler fills in the response, and the server sends it.
//
// In reading order: paths and roots; resources; the cache; the response; and the handler.

mod disk;
mod listing;
mod path;
mod root;
mod source;

mod content_type;
mod resource;
mod snapshot;

mod cache;
mod recent_files;

mod response;

#[cfg(feature = "compress")]
mod compressed_store;
mod dir_source;
mod files;
mod lookup;
#[cfg(feature = "metrics")]
mod metrics;
mod not_found;

pub use cache::{FileCacheCounts, FileCacheLimits};
pub use dir_source::DirSource;
pub use files::Files;
pub use listing::{DirEntry, DirListing};
pub use not_found::FilesNotFound;
pub use snapshot::Etag;
pub use source::{FileMetadata, FileSource, SourceEntry};
