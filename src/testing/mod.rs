//! Servers in memory, scripted peers and recordings, for tests of programs that use this crate.
//!
//! A test of a handler needs none of this: [`Service::respond`](crate::Service::respond) opens no connection. A test of a
//! client has a [`TestServer`] or a scripted peer:
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
//! A [`Recording`] has the exchanges with a real server in a file, and plays them without that server:
//!
//! ```
//! use corehttp::testing::Recording;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> corehttp::Result {
//! # let path = std::env::temp_dir().join(format!("corehttp-testing-{}.http", std::process::id()));
//! # let response = "=== response\nHTTP/1.1 200 OK\ncontent-type: text/plain\n\nHello\n";
//! # std::fs::write(&path, format!("=== request\nGET https://api.example/greeting HTTP/1.1\n\n{response}"))?;
//! # if false {
//! let recording = Recording::play("tests/exchanges/greeting.http")?;
//! # }
//! # let recording = Recording::play(&path)?;
//! let response = recording.client().get("https://api.example/greeting").await?;
//! assert_eq!(response.text()?, "Hello");
//! assert!(recording.unplayed().is_empty());
//! # std::fs::remove_file(path)?;
//! # Ok(())
//! # }
//! ```
//!
//! All of this works on a paused clock (`#[tokio::test(start_paused = true)]`), on which a test of a time limit takes no time.
//! Only a [`TestServer`] has a thread and a clock of its own.

mod script;
mod scripted_peer;
mod test_server;

mod recorded_exchange;
mod recording;
mod secrets;

pub use recording::Recording;
pub use script::Script;
pub use scripted_peer::ScriptedPeer;
pub use test_server::{TestCall, TestServer};
