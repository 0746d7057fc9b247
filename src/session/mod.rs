//! Sessions by cookie: the user agent has a random id, the server everything else.
//!
//! [`Sessions`] is the middleware around the handlers that use sessions. A handler calls [`Session::from_extensions`]. It reads
//! and sets values of any type that serde writes as JSON. The sessions are in a [`SessionStore`]: a [`MemoryStore`], or a table
//! of a database. The example `shared` of the repository has stores to copy, for Redis, PostgreSQL and SQLite.
//!
//! `Sessions` stand outside of guards that read them, and inside of other middleware. See [the usual
//! order](crate::middleware#where-it-goes).
//!
//! The response has `vary: cookie` once a handler has asked for its session. One that sets the cookie has `cache-control:
//! no-cache="set-cookie"`. So no cache gives it to another client (RFC 9111 §4.1, §5.2.2.4).
//!
//! # Examples
//!
//! ```
//! use corehttp::middleware::wrap;
//! use corehttp::session::{MemoryStore, Session, Sessions};
//! use corehttp::{Context, Server, Status};
//!
//! fn app(ctx: &mut Context) -> corehttp::Result {
//!     let session = Session::from_extensions(&mut ctx.extensions)?;
//!     match ctx.request.path() {
//!         "/sign-in" => {
//!             // Once the password was checked:
//!             session.renew();
//!             session.set("user", "Ada")?;
//!         }
//!         "/sign-out" => session.delete(),
//!         _ => {
//!             let user: &str = session.get("user")?.ok_or(Status::UNAUTHORIZED)?;
//!             ctx.response.set_text(format!("Hello, {user}!"));
//!         }
//!     }
//!     Ok(())
//! }
//!
//! let sessions = Sessions::new(MemoryStore::new());
//! let service = Server::new().service(wrap(sessions, app));
//! # corehttp::block_on(async {
//! # let mut request = corehttp::Request::get("/")?;
//! # assert_eq!(service.respond(request.clone()).await.status, Status::UNAUTHORIZED);
//! # let response = service.respond(corehttp::Request::post("/sign-in")?).await;
//! # let cookie = response.cookies().next().unwrap();
//! # request.headers.set("cookie", format!("{}={}", cookie.name, cookie.value))?;
//! # assert_eq!(service.respond(request).await.text()?, "Hello, Ada!");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guards
//!
//! A guard that reads the session is an `async fn`. The same goes for a guard that reads the extensions of that one. Other
//! guards decide about a POST by its head, before [`Sessions`] have loaded the session. If such a guard reads the session, the
//! answer is 500.
//!
//! ```
//! use corehttp::middleware::{guard, wrap};
//! use corehttp::session::{MemoryStore, Session, Sessions};
//! use corehttp::{Context, Server, Status, routes};
//!
//! struct User(String);
//!
//! async fn signed_in(ctx: &mut Context) -> corehttp::Result {
//!     let session = Session::from_extensions(&mut ctx.extensions)?;
//!     let user = session.get("user")?.ok_or(Status::UNAUTHORIZED)?;
//!     ctx.extensions.insert(User(user));
//!     Ok(())
//! }
//!
//! fn note(ctx: &mut Context) {
//!     let Some(User(name)) = ctx.extensions.get() else { return };
//!     println!("{name}: {}", ctx.request.text().unwrap_or_default());
//! }
//!
//! let app = routes! {
//!     POST "/sign-in" => |ctx: &mut Context| -> corehttp::Result {
//!         // Once the password was checked:
//!         let session = Session::from_extensions(&mut ctx.extensions)?;
//!         session.renew();
//!         Ok(session.set("user", "Ada")?)
//!     },
//!     wrap guard(signed_in) => {
//!         POST "/notes" => note,
//!     },
//! };
//! let service = Server::new().service(wrap(Sessions::new(MemoryStore::new()), app));
//! # corehttp::block_on(async {
//! # let mut request = corehttp::Request::post("/notes")?;
//! # request.body.set_bytes("milk");
//! # assert_eq!(service.respond(request.clone()).await.status, Status::UNAUTHORIZED);
//! # let response = service.respond(corehttp::Request::post("/sign-in")?).await;
//! # let cookie = response.cookies().next().unwrap();
//! # request.headers.set("cookie", format!("{}={}", cookie.name, cookie.value))?;
//! # assert_eq!(service.respond(request).await.status, Status::OK);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })??;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What a session costs
//!
//! A request without the cookie, whose handler uses no session, costs nothing. With the cookie it costs a look-up in the store.
//! A change by a handler costs another look-up and a write. A session in use is also written now and then, to move its expiry.
//!
//! # Security
//!
//! - An id is 128 random bits of the operating system. An id that is not in the store is never taken over. So an attacker
//!   cannot choose the id of a user (session fixation). [`Session::renew`] belongs in each sign-in.
//! - The cookie is `__Host-session`, `Secure`, `HttpOnly`, `SameSite=Lax`: sent over https only, to the host that has set it
//!   and no other, and hidden from scripts. Browsers accept it on `http://localhost`, too, except Safari.
//! - By default, a session expires after 30 minutes without use, and 12 hours after its beginning.
//! - Changes are merged by name with the store when they are saved, also at the end of a WebSocket of hours. So a removed role
//!   does not come back with a request that has not set it. Of two requests that save at a time, the later one merges anew,
//!   up to 128 times. After that, it is answered with 503.
//! - Changes are lost if a concurrent request deletes or renews the session meanwhile. They do not bring it back.
//! - `SameSite=Lax` does not stop all forged requests: put a
//!   [`CrossOriginProtection`](crate::middleware::CrossOriginProtection) around the same handlers.

mod session;
mod sessions;

mod memory_store;
mod session_store;

mod session_id;

pub use memory_store::MemoryStore;
pub use session::Session;
pub use session_id::SessionId;
pub use session_store::{SessionStore, StoredSession};
pub use sessions::Sessions;
