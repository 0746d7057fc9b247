//! Floor 1: sockets. Where to listen, who connects, and how bytes move; nothing here knows HTTP.
//!
//! In reading order: addresses; listening; what carries bytes; a connection; its time limits; dialing; and sending
//! files.

mod address;
mod peer;
mod uri_host;

mod memory;

mod keepalive;
mod listen;

mod stream;
pub(crate) mod tls;
mod transport;

mod conn;
mod delegate;
mod io_state;
mod locality;
mod read_buffer;
mod rewind;
mod waker_set;
mod write_progress;

mod timer;

mod dial;

mod file_reader;
mod send_file;

pub use address::Address;
pub(crate) use conn::{Conn, ConnError};
pub(crate) use delegate::{delegate_stream, delegate_write};
pub(crate) use dial::{BoxedStream, DialError, DialTimes, DnsCache, HostConnector, Network, timed};
pub use dial::{Dialer, Resolver, SystemResolver};
pub(crate) use file_reader::{FileReader, shrunk};
pub(crate) use io_state::{IoState, WriteBuffer};
pub(crate) use keepalive::Keepalive;
pub(crate) use listen::{AcceptReaction, Accepted, BoundSocket, ListenOptions, Listener, classify};
pub(crate) use locality::{Local, Locality, Sendable};
pub(crate) use memory::MemoryAcceptor;
pub use memory::{MemoryConnector, MemoryListener, MemoryStream};
pub(crate) use peer::Peer;
pub use peer::PeerAddr;
pub(crate) use read_buffer::ReadBuffer;
pub(crate) use rewind::Rewind;
pub(crate) use send_file::FileSender;
pub(crate) use stream::{AnyStream, Stream};
pub(crate) use timer::{DeadlineTable, TableTimer, Ticker, Timer, TimerSlot, TokioTimer, millis};
pub use tls::TlsError;
pub(crate) use tls::{HostName, TlsConnector};
pub(crate) use transport::{DetachedTransport, Transport};
pub(crate) use uri_host::{InvalidHost, UriHost};
