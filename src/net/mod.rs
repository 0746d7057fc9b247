//! Sockets: their options, resolvers and dialers of your own, connections in memory.
//!
//! A test needs no port. A listener in memory stands in for the network, on both sides:
//!
//! ```
//! use corehttp::net::MemoryListener;
//! use corehttp::{Client, Context, Server};
//!
//! let listener = MemoryListener::new();
//! let server = Server::bind(&listener).cores(1).start(|ctx: &mut Context| ctx.response.set_text("Hello"))?;
//! let client = Client::builder().connect_to(listener).build();
//! let response = corehttp::block_on(client.get("http://example.com/"))??;
//! assert_eq!(response.text()?, "Hello");
//! # drop(server);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Resolver`] finds the addresses of a host, and a [`Dialer`] opens the connection itself. [`is_public`] distinguishes
//! the addresses of the internet from those of this machine and its networks. [`SocketOptions`] are those of the kernel.

// Floor 1: sockets. Where to listen, who connects, and how bytes move; nothing in this folder depends on HTTP.
//
// In reading order: addresses; streams and sockets; listening; transports; deadlines; a connection; dialing; and
// files.

mod memory_listener;

pub(crate) mod address;
#[cfg(feature = "proxy-protocol")]
pub(crate) mod proxy_header;
mod uri_host;

mod delegate;
mod socket;
mod stream;

pub(crate) mod tls;

mod buffers;
mod transport;

mod listen;

mod timer;

mod conn;
mod io_state;

mod dial;

mod file_io;
mod page_cache;

pub(crate) use address::{Address, Peer, PeerAddr, subscriber};
pub use address::{PeerCredentials, is_public};
pub(crate) use buffers::{READ_KEPT_MAX, READ_UNCOUNTED_MAX, ReadBuffer, WriteBuffer};
#[cfg(feature = "websocket")]
pub(crate) use conn::Local;
pub(crate) use conn::{Conn, ConnError, Locality, Sendable};
pub(crate) use delegate::{delegate_stream, delegate_write};
pub(crate) use dial::{
    AllowedAddresses, BoxedStream, DialError, DialStep, DialTimes, HostConnector, stagger, timed,
};
pub use dial::{Dialer, Resolver, SrvRecord, SystemResolver};
pub(crate) use file_io::{FileReader, FileSender, shrunk};
pub(crate) use io_state::{IoState, Life, Traffic, TrafficTotals, WakerSet};
#[cfg(unix)]
pub(crate) use listen::ListenFn;
pub use listen::SocketOptions;
pub(crate) use listen::{AcceptReaction, Accepted, BoundSocket, ListenOptions, Listener, classify};
#[cfg(all(feature = "handover", unix))]
pub(crate) use listen::{ControlSocket, FileOwnership, Predecessor, SocketFile};
pub(crate) use memory_listener::MemoryAcceptor;
pub use memory_listener::{MemoryConnector, MemoryListener, MemoryStream};
#[cfg(feature = "proxy-protocol")]
pub(crate) use proxy_header::ProxyHeader;
pub(crate) use socket::Keepalive;
pub(crate) use stream::{AnyStream, Stream};
pub(crate) use timer::{ConnEntry, ConnTable, TICK, Ticker, Timer, TimerSlot, TokioTimer, millis};
pub(crate) use tls::{HostName, TlsConnector};
#[cfg(feature = "proxy-protocol")]
pub(crate) use transport::poll_peek;
pub(crate) use transport::{DetachedTransport, PeerEnd, Rewind, Transport};
pub(crate) use uri_host::{InvalidHost, UriHost};
