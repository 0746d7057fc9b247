//! Floor 1: sockets. Where to listen, who connects and how bytes move; nothing here knows HTTP.

mod address;
mod peer;

mod memory;
#[cfg(unix)]
mod socket_file;

mod bound;
mod listener;
pub(crate) mod tls;
mod transport;

mod buffer;
mod conn;
mod delegate;
mod early;
mod home;

mod alarm;
mod deadline;
mod stopwatch;

mod host;
mod names;
mod race;
mod resolve;

mod dial;
mod dialer;

mod file_reader;
mod send_file;

pub use address::Address;
pub(crate) use alarm::Lane;
pub(crate) use bound::{Bound, ListenOptions};
pub(crate) use buffer::Buffer;
pub(crate) use conn::{Conn, Desk, Fault};
pub(crate) use deadline::{Caller, Deadline, Watch};
pub(crate) use delegate::{delegate_stream, delegate_write};
pub(crate) use dial::{Dial, DialError, DialTimes, Medium, timed};
pub(crate) use dialer::BoxedStream;
pub use dialer::Dialer;
pub(crate) use early::Early;
pub(crate) use file_reader::{FileReader, shrunk};
pub(crate) use home::{Anywhere, Home, OneCore, Timer};
pub(crate) use host::{Host, InvalidHost};
pub(crate) use listener::{AcceptFault, Listener, classify};
pub use memory::{MemoryConnector, MemoryListener, MemoryStream};
pub(crate) use names::Names;
pub use peer::PeerAddr;
pub use resolve::{Resolver, SystemResolver};
pub(crate) use send_file::FileSender;
pub(crate) use stopwatch::Stopwatch;
pub use tls::TlsError;
pub(crate) use tls::{Connector, HostName};
pub(crate) use transport::{Detached, Stream, Transport};
