//! [`Peer`]: the servers, which are all the same application (`application.rs`), each as its own users would write it.

mod actix;
mod axum;
mod corehttp;
mod hyper;
mod limit;
mod may;
mod ntex;

mod foreign;
mod h2o;
mod nginx;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

pub(crate) use foreign::Foreign;

use crate::application::Exchange;

/// A program that is measured as a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Limit,
    Corehttp,
    Hyper,
    Axum,
    Actix,
    Ntex,
    May,
    Fasthttp,
    NetHttp,
    Nginx,
    H2o,
}

impl Peer {
    /// The limit first: the others are compared with it.
    pub(crate) const ALL: [Peer; 11] = [
        Peer::Limit,
        Peer::Corehttp,
        Peer::Hyper,
        Peer::Axum,
        Peer::Actix,
        Peer::Ntex,
        Peer::May,
        Peer::Fasthttp,
        Peer::NetHttp,
        Peer::Nginx,
        Peer::H2o,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Peer::Limit => "limit",
            Peer::Corehttp => "corehttp",
            Peer::Hyper => "hyper",
            Peer::Axum => "axum",
            Peer::Actix => "actix-web",
            Peer::Ntex => "ntex",
            Peer::May => "may_minihttp",
            Peer::Fasthttp => "fasthttp",
            Peer::NetHttp => "net/http",
            Peer::Nginx => "nginx",
            Peer::H2o => "h2o",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Peer> {
        Peer::ALL.into_iter().find(|peer| peer.name() == name)
    }

    /// Why it cannot answer this, if it cannot.
    pub(crate) fn lacks(self, exchange: Exchange) -> Option<&'static str> {
        match (self, exchange) {
            (Peer::May, Exchange::Echo(len)) if len > 1 << 10 => {
                Some("forgets the rest of a response that a socket does not take at once")
            }
            (Peer::May, Exchange::Upload | Exchange::Download) => Some("has no chunks"),
            (Peer::Nginx | Peer::H2o, Exchange::Plain | Exchange::Browser) => None,
            (Peer::Nginx | Peer::H2o, _) => Some("has static responses only"),
            _ => None,
        }
    }

    /// Does it say how often it asked for memory? C's programs do not.
    pub(crate) fn counts_allocations(self) -> bool {
        !matches!(self, Peer::Nginx | Peer::H2o)
    }

    /// In the child: serves until the parent ends.
    pub(crate) fn serve(self) -> io::Result<()> {
        match self {
            Peer::Limit => limit::serve(),
            Peer::Corehttp => corehttp::serve(),
            Peer::Hyper => hyper::serve(),
            Peer::Axum => axum::serve(),
            Peer::Actix => actix::serve(),
            Peer::Ntex => ntex::serve(),
            Peer::May => may::serve(),
            Peer::Fasthttp | Peer::NetHttp | Peer::Nginx | Peer::H2o => {
                Err(io::Error::other("this is no Rust"))
            }
        }
    }
}

/// Any port of this machine that is free.
pub(crate) const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// How long a connection may say nothing, for those who hang up sooner by themselves.
pub(crate) const IDLE: Duration = Duration::from_secs(120);
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A port for those who will not say which one they took.
pub(crate) fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind(ANY)?.local_addr()
}

/// Waits for those who do not say when they listen.
pub(crate) fn wait_for(address: SocketAddr) -> io::Result<()> {
    let mut tries = 0;
    loop {
        match TcpStream::connect(address) {
            Ok(_) => return Ok(()),
            Err(error) if tries == TRIES_MAX => return Err(error),
            Err(_) => sleep(PAUSE),
        }
        tries += 1;
    }
}

const TRIES_MAX: u32 = 200;
const PAUSE: Duration = Duration::from_millis(10);
