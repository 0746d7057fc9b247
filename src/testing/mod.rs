//! Tests of programs that use this crate: servers in memory that remember their calls, and peers that follow a script.
//!
//! ```
//! use corehttp::testing::{Script, ScriptedPeer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> corehttp::Result {
//! // A server that promises ten octets and sends three.
//! let liar = Script::new().receive().send("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhal");
//! let peer = ScriptedPeer::new([liar]);
//! let error = peer.client().get("http://liar/").await.unwrap_err();
//! assert!(error.is_sent());
//! assert!(peer.received()[0].starts_with("GET / HTTP/1.1\r\n"));
//! # Ok(())
//! # }
//! ```
//!
//! A handler alone needs less: [`Service::respond`](crate::Service::respond) opens no connection. All of this works on a clock
//! that is paused (`#[tokio::test(start_paused = true)]`), so that a test of a time limit takes no time, except for a
//! [`TestServer`], which has a thread and a clock of its own.

mod script;
mod scripted_peer;
mod test_server;

pub use script::Script;
pub use scripted_peer::ScriptedPeer;
pub use test_server::{TestCall, TestServer};
