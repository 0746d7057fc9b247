//! [`Entry`]: an application of the arena, written as the users of its server would.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use super::data::Data;
use super::kind::Kind;
use super::programs::{ARENA, GO_PEER, NGINX, Programs, RUST_PEERS};
use crate::child::{Child, bound};
use crate::peer::{free_address, wait_for};
use crate::pinned_core::PinnedCore;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A bare loop: what the rows cost at least in which nothing is computed.
    Limit,
    Corehttp,
    Hyper,
    Axum,
    Actix,
    Ntex,
    May,
    Fasthttp,
    Nginx,
}

/// Where an entry listens.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub(super) plain: SocketAddr,
    pub(super) secure: SocketAddr,
}

impl Entry {
    pub(crate) const ALL: [Entry; 9] = [
        Entry::Limit,
        Entry::Corehttp,
        Entry::Hyper,
        Entry::Axum,
        Entry::Actix,
        Entry::Ntex,
        Entry::May,
        Entry::Fasthttp,
        Entry::Nginx,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Entry::Limit => "limit",
            Entry::Corehttp => "corehttp",
            Entry::Hyper => "hyper",
            Entry::Axum => "axum",
            Entry::Actix => "actix-web",
            Entry::Ntex => "ntex",
            Entry::May => "may_minihttp",
            Entry::Fasthttp => "fasthttp",
            Entry::Nginx => "nginx",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Entry> {
        Entry::ALL.into_iter().find(|entry| entry.name() == name)
    }

    /// Why it cannot take part, if it cannot.
    pub(crate) fn lacks(self, kind: Kind) -> Option<&'static str> {
        match (self, kind) {
            (Entry::Nginx, Kind::Static) => None,
            (Entry::Nginx, _) => Some("serves files alone"),
            (Entry::Hyper, Kind::CompressedJson | Kind::Static | Kind::WebSocket) => {
                Some("leaves that to other crates")
            }
            (Entry::Hyper | Entry::Ntex, Kind::Query | Kind::Crud | Kind::Api) => {
                Some("is not asked: its driver would be the one of axum")
            }
            (Entry::Ntex, Kind::CompressedJson) => Some("compresses for nobody who takes br besides gzip"),
            (Entry::Ntex, Kind::SecureJson | Kind::Static | Kind::WebSocket) => {
                Some("is written for the rows that need nothing but ntex")
            }
            (Entry::Limit, Kind::Pipeline | Kind::Upload) => None,
            (Entry::Limit, _) => Some("computes nothing"),
            (Entry::May, Kind::Pipeline | Kind::Json | Kind::Upload) => None,
            (Entry::May, Kind::Baseline) => Some("reads no chunks"),
            (Entry::May, _) => Some("has nothing for that"),
            (Entry::Fasthttp, Kind::WebSocket) => Some("leaves that to other packages"),
            _ => None,
        }
    }

    /// Why it cannot be measured here, if it cannot.
    pub(crate) fn is_missing(self, programs: &Programs) -> Option<&str> {
        programs.find(self.program()).err()
    }

    fn program(self) -> &'static str {
        match self {
            Entry::Corehttp => ARENA,
            Entry::Limit | Entry::Hyper | Entry::Axum | Entry::Actix | Entry::Ntex | Entry::May => RUST_PEERS,
            Entry::Fasthttp => GO_PEER,
            Entry::Nginx => NGINX,
        }
    }

    /// Starts it on the core that is measured.
    pub(crate) fn spawn(self, programs: &Programs, data: &Data) -> io::Result<(Child, Addresses)> {
        let addresses = Addresses { plain: free_address()?, secure: free_address()? };
        let program = programs.find(self.program()).map_err(io::Error::other)?;
        let mut command = bound(&program.to_string_lossy())?;
        match self {
            Entry::Nginx => {
                let file = data.path("nginx.conf");
                std::fs::write(&file, nginx_conf(data.folder.path(), addresses.plain))?;
                command.arg("-p").arg(data.folder.path()).arg("-c").arg(file);
            }
            Entry::Corehttp | Entry::Fasthttp => {}
            Entry::Limit | Entry::Hyper | Entry::Axum | Entry::Actix | Entry::Ntex | Entry::May => {
                command.arg(self.name());
            }
        }
        command.env("DATA", data.path("data")).env("CERTS", data.path("certs"));
        command.env("PORT", addresses.plain.port().to_string());
        command.env("TLS_PORT", addresses.secure.port().to_string());
        if let Ok(database) = &data.database {
            command.env("DATABASE_URL", database.url()).env("DATABASE_MAX_CONN", CONNECTIONS_MAX);
        }
        let child = Child::spawn(command.stderr(Stdio::null()), PinnedCore::Measured)?;
        wait_for(addresses.plain)?;
        Ok((child, addresses))
    }
}

/// As many for each core as the arena has: 256 for 64 cores, but no less than one for each of 64 requests at once.
const CONNECTIONS_MAX: &str = "64";

fn nginx_conf(folder: &Path, address: SocketAddr) -> String {
    let template = include_str!("../../applications/nginx.conf");
    template.replace("FOLDER", &folder.to_string_lossy()).replace("ADDRESS", &address.to_string())
}
