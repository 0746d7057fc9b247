//! [`Role`]: the two ends of a WebSocket, a server and a client (RFC 6455 §1.2).

use self::private::RoleParts;

/// An end of a WebSocket: [`ServerRole`] or [`ClientRole`]. No other type implements this trait.
#[expect(private_bounds, reason = "no other crate can implement it")]
pub trait Role: RoleParts {}

/// The end of a server. Its sockets stay on their core.
#[derive(Debug)]
pub enum ServerRole {}

/// The end of a client. Its sockets may move between threads.
#[derive(Debug)]
pub enum ClientRole {}

impl Role for ServerRole {}

impl Role for ClientRole {}

pub(crate) mod private {
    use std::cell::RefCell;
    use std::convert::Infallible;
    use std::io;
    use std::sync::Mutex;

    use super::{ClientRole, ServerRole};
    use crate::client::{ClientCause, ClientError, ClientPhase};
    use crate::exchange::ExchangeError;
    use crate::memory::lock;
    use crate::net::{Conn, Local, Locality, Sendable};
    use crate::server::UpgradedGuard;
    use crate::websocket::frame::{CloseCode, Side};

    /// The types and values in which a server and a client differ. Private, so that no other crate adds a role.
    pub(crate) trait RoleParts {
        type Locality: Locality;
        /// The cell of the state that both halves share.
        type Cell<T>: SharedCell<T>;

        /// The guard by which a server counts a connection.
        type Guard;

        const SIDE: Side;
        /// The code of the close frame after both halves are dropped (§7.4.1).
        const DROPPED: CloseCode;

        /// The error of a connection that has failed. That of a client is a [`ClientError`], so that a handler that passes
        /// it on is not taken for one that has lost the peer of its own exchange.
        fn failed(error: ExchangeError) -> io::Error;

        /// Whether the server stops, after the delay of the stop. A client never does.
        fn is_stopping(conn: &Conn<Self::Locality>) -> bool;
    }

    /// A value that is lent for a step, to one borrower at a time.
    pub(crate) trait SharedCell<T> {
        fn new(value: T) -> Self;

        fn with_mut<R>(&self, step: impl FnOnce(&mut T) -> R) -> R;
    }

    impl<T> SharedCell<T> for RefCell<T> {
        fn new(value: T) -> RefCell<T> {
            RefCell::new(value)
        }

        fn with_mut<R>(&self, step: impl FnOnce(&mut T) -> R) -> R {
            step(&mut self.borrow_mut())
        }
    }

    impl<T> SharedCell<T> for Mutex<T> {
        fn new(value: T) -> Mutex<T> {
            Mutex::new(value)
        }

        fn with_mut<R>(&self, step: impl FnOnce(&mut T) -> R) -> R {
            step(&mut lock(self))
        }
    }

    impl RoleParts for ServerRole {
        type Locality = Local;

        // Both halves stay on their core, so no message pays for a lock.
        type Cell<T> = RefCell<T>;

        type Guard = UpgradedGuard;

        const SIDE: Side = Side::Server;
        const DROPPED: CloseCode = CloseCode::INTERNAL_ERROR;

        fn failed(error: ExchangeError) -> io::Error {
            error.into()
        }

        fn is_stopping(conn: &Conn) -> bool {
            conn.is_stopping()
        }
    }

    impl RoleParts for ClientRole {
        type Locality = Sendable;
        type Cell<T> = Mutex<T>;

        type Guard = Infallible;

        const SIDE: Side = Side::Client;
        const DROPPED: CloseCode = CloseCode::AWAY;

        fn failed(error: ExchangeError) -> io::Error {
            ClientError::new(ClientPhase::Receive, ClientCause::from_exchange(error)).into()
        }

        fn is_stopping(_: &Conn<Sendable>) -> bool {
            false
        }
    }
}
