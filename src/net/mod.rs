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

mod buffer;
mod conn;
mod crowd;
mod delegate;
mod early;
mod home;
mod workspace;
mod write_progress;

mod timer;

mod dial;

mod file_reader;
mod send_file;

pub use address::Address;
pub(crate) use buffer::Buffer;
pub(crate) use conn::{Conn, Fault};
pub(crate) use delegate::{delegate_stream, delegate_write};
pub(crate) use dial::{BoxedStream, Dial, DialError, DialTimes, Medium, Names, timed};
pub use dial::{Dialer, Resolver, SystemResolver};
pub(crate) use early::Early;
pub(crate) use file_reader::{FileReader, shrunk};
pub(crate) use home::{Anywhere, Home, OneCore};
pub(crate) use keepalive::Keepalive;
pub(crate) use listen::{AcceptFault, Accepted, Bound, ListenOptions, Listener, classify};
pub(crate) use memory::MemoryAcceptor;
pub use memory::{MemoryConnector, MemoryListener, MemoryStream};
pub(crate) use peer::Peer;
pub use peer::PeerAddr;
pub(crate) use send_file::FileSender;
pub(crate) use stream::{AnyStream, Stream};
pub(crate) use timer::{Deadline, Lane, Stopwatch, Ticker, Timer, Timetable, millis};
pub use tls::TlsError;
pub(crate) use tls::{Connector, HostName};
pub(crate) use transport::{Detached, Transport};
pub(crate) use uri_host::{InvalidHost, UriHost};
pub(crate) use workspace::{Output, Workspace};
