//! [`Endpoint`]: the two ends of a WebSocket, a server and a client (RFC 6455 §1.2).

use self::private::Sealed;

/// An end of a WebSocket: [`ServerEnd`] or [`ClientEnd`]. No other type implements this trait.
#[expect(private_bounds, reason = "no other crate can implement it")]
pub trait Endpoint: Sealed {}

/// The end of a server. Its sockets stay on their core.
#[derive(Debug)]
pub enum ServerEnd {}

/// The end of a client. Its sockets may move between threads.
#[derive(Debug)]
pub enum ClientEnd {}

impl Endpoint for ServerEnd {}

impl Endpoint for ClientEnd {}

pub(super) mod private {
    use super::{ClientEnd, ServerEnd};
    use crate::net::{Conn, Local, Locality, Sendable};
    use crate::websocket::frame::Role;

    pub(crate) trait Sealed {
        type Locality: Locality;

        const ROLE: Role;

        /// Whether the server is about to stop.
        fn is_stopping(conn: &Conn<Self::Locality>) -> bool;
    }

    impl Sealed for ServerEnd {
        type Locality = Local;

        const ROLE: Role = Role::Server;

        fn is_stopping(conn: &Conn) -> bool {
            conn.is_stopping()
        }
    }

    impl Sealed for ClientEnd {
        type Locality = Sendable;

        const ROLE: Role = Role::Client;

        fn is_stopping(_: &Conn<Sendable>) -> bool {
            false
        }
    }
}
