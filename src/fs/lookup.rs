//! [`Lookup`]: what a path leads to, by the rules that [`Files`](super::Files) was given.

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::cache::Cache;
use super::listing::{self, Sort};
use super::pattern::Pattern;
use super::resource::{Resource, Snapshot, StoredCoding};
use super::root::{Below, Directory, Links, Opened, Root, decode, is_name, strip_prefix};
use crate::message::{Request, Status, split_port};
use crate::server::Error;

/// The rules by which a path becomes a file.
#[derive(Clone)]
pub(super) struct Lookup {
    /// The first is for hosts that have none of their own.
    pub(super) sites: Vec<Site>,
    pub(super) index: Vec<String>,
    pub(super) listing: Listing,
    pub(super) links: Links,
    pub(super) dot_files: DotFiles,
    pub(super) neighbors: Neighbors,
    pub(super) cache_control: Vec<(Pattern, String)>,
    /// Without a `/` at either end.
    pub(super) prefix: String,
    pub(super) rewrite: Option<Rewrite>,
    /// What makes encoded copies, and the directory that they are in.
    pub(super) copies: Option<(Copies, PathBuf)>,
}

/// A root, and the host it is for.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) host: Option<String>,
    pub(super) root: Root,
    pub(super) cache: Arc<Cache>,
}

pub(super) type Rewrite = Arc<dyn Fn(&Request) -> Option<String> + Send + Sync>;

/// Makes an encoded copy of a file that has no neighbor in that coding, or finds the one it made.
pub(super) type Copies = Arc<dyn Fn(&str, &Snapshot, StoredCoding) -> Option<Snapshot> + Send + Sync>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    Off,
    On,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DotFiles {
    Hidden,
    Shown,
}

/// Whether `a.js.gz` stands for `a.js` where the peer likes it better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbors {
    Ignored,
    Precompressed,
}

/// What a path leads to. It goes from hand to hand for each request, so what is rare and large is in a box.
#[derive(Debug)]
pub(super) enum Found {
    Resource(Arc<Resource>),
    /// A directory that was asked for as if it were a file.
    Directory,
    /// A directory whose entries are to be shown.
    Listing(Box<Listed>),
    Nothing,
}

/// A directory that was found, and where.
#[derive(Debug)]
pub(super) struct Listed {
    root: Root,
    directory: Directory,
    path: String,
}

impl Lookup {
    /// The site that a request is for.
    pub(super) fn site(&self, request: &Request) -> &Site {
        let is_asked = |site: &&Site| is_host(site.host.as_deref(), request.authority());
        match &*self.sites {
            [only] => only,
            sites => sites.iter().skip(1).find(is_asked).unwrap_or(&sites[0]),
        }
    }

    /// Looks whether a copy would be served as a file.
    ///
    /// # Errors
    ///
    /// A root above the directory of the copies.
    pub(super) fn check_copies(&self) -> io::Result<()> {
        let Some((_, copies)) = &self.copies else { return Ok(()) };
        match self.sites.iter().any(|site| site.root.holds(copies)) {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the copies would be served as files")),
            false => Ok(()),
        }
    }

    /// The path that a request is for, from the root on, decoded. Nobody knows yet where it leads.
    pub(super) fn path<'a>(&self, request: &'a Request) -> Option<Cow<'a, str>> {
        match self.rewrite.as_ref().and_then(|rewrite| rewrite(request)) {
            Some(path) => Some(Cow::Owned(path.strip_prefix('/').unwrap_or(&path).to_owned())),
            None => strip_prefix(decode(request.target())?, &self.prefix),
        }
    }

    /// Whether the request is for the prefix itself, as if that were a file.
    pub(super) fn is_prefix(&self, request: &Request) -> bool {
        !self.prefix.is_empty() && decode(request.target()).is_some_and(|path| path == self.prefix)
    }

    /// This path, if it stays below the root and may be seen.
    pub(super) fn below<'a>(&self, path: Cow<'a, str>) -> Option<Below<'a>> {
        let below = Below::new(path)?;
        (self.dot_files == DotFiles::Shown || !below.is_dotted()).then_some(below)
    }

    /// Looks at what is there. This may block, but for embedded files.
    pub(super) fn look(&self, site: &Site, below: &Below<'_>) -> io::Result<Found> {
        let node = self.open(site, below.name())?;
        match (node, below.is_directory()) {
            (Opened::Nothing, _) | (Opened::File(_), true) => Ok(Found::Nothing),
            (Opened::File(snapshot), false) => self.resource(site, below.name(), snapshot),
            (Opened::Directory(directory), _) => self.directory(site, below, directory),
        }
    }

    fn directory(&self, site: &Site, below: &Below<'_>, directory: Directory) -> io::Result<Found> {
        for index in &self.index {
            let path = join(below.name(), index);
            match self.open(site, &path)? {
                Opened::File(_) if !below.is_directory() => return Ok(Found::Directory),
                Opened::File(snapshot) => return self.resource(site, &path, snapshot),
                Opened::Directory(_) | Opened::Nothing => {}
            }
        }
        match (self.listing, below.is_directory()) {
            (Listing::Off, _) => Ok(Found::Nothing),
            (Listing::On, false) => Ok(Found::Directory),
            (Listing::On, true) => {
                let (root, path) = (site.root.clone(), below.name().to_owned());
                Ok(Found::Listing(Box::new(Listed { root, directory, path })))
            }
        }
    }

    /// The page that says what is in a directory. This may block, and takes long if that is much.
    pub(super) fn list(&self, listed: &Listed, sort: Sort) -> io::Result<String> {
        let Listed { root, directory, path } = listed;
        let mut entries = root.entries(directory, path, self.links, listing::ENTRIES_MAX)?;
        let is_shown = |name: &str| self.dot_files == DotFiles::Shown || !name.starts_with('.');
        entries.retain(|entry| is_name(&entry.name) && is_shown(&entry.name));
        Ok(listing::page(path, entries, sort))
    }

    fn resource(&self, site: &Site, path: &str, whole: Snapshot) -> io::Result<Found> {
        let asked_for = format!("/{path}");
        let rule = self.cache_control.iter().find(|(pattern, _)| pattern.matches(&asked_for));
        // Files of several hosts may have one path.
        let kept_as = format!("{}{asked_for}", site.host.as_deref().unwrap_or_default());
        let mut encoded = Vec::new();
        for stored in StoredCoding::ALL {
            let neighbor = self.neighbor(site, path, &whole, stored);
            let copy = || self.copies.as_ref().and_then(|(copies, _)| copies(&kept_as, &whole, stored));
            encoded.extend(neighbor.or_else(copy).map(|snapshot| (stored.coding, snapshot)));
        }
        let resource = Resource::new(path, rule.map(|(_, value)| &**value), whole, encoded);
        Ok(Found::Resource(Arc::new(resource.map_err(io::Error::other)?)))
    }

    /// The file beside this one that holds the same encoded, if it is no older and is smaller. One that may not be read
    /// takes nothing from the file itself.
    fn neighbor(&self, site: &Site, path: &str, whole: &Snapshot, stored: StoredCoding) -> Option<Snapshot> {
        if self.neighbors == Neighbors::Ignored {
            return None;
        }
        let opened = self.open(site, &format!("{path}{}", stored.suffix));
        let Ok(Opened::File(snapshot)) = opened else { return None };
        (snapshot.is_as_new_as(whole) && snapshot.content.len() < whole.content.len()).then_some(snapshot)
    }

    fn open(&self, site: &Site, path: &str) -> io::Result<Opened> {
        site.root.open(path, self.links, site.cache.bounds.file_bytes_max)
    }
}

/// What a peer is owed for a file that cannot be had.
pub(super) fn owed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::NOT_FOUND.into(),
        io::ErrorKind::PermissionDenied => Status::FORBIDDEN.into(),
        _ => error.into(),
    }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Whether a host is the one asked for, whatever its port, its case, and the dot that may end it.
fn is_host(host: Option<&str>, asked: Option<&str>) -> bool {
    let (Some(host), Some(asked)) = (host, asked) else { return false };
    let (name, _) = split_port(asked);
    host.eq_ignore_ascii_case(name.strip_suffix('.').unwrap_or(name))
}

impl fmt::Debug for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lookup { sites, index, listing, links, dot_files, neighbors, cache_control, prefix, .. } = self;
        let hosts: Vec<_> = sites.iter().map(|site| site.host.as_deref().unwrap_or("*")).collect();
        f.debug_struct("Lookup")
            .field("hosts", &hosts)
            .field("index", index)
            .field("listing", listing)
            .field("links", links)
            .field("dot_files", dot_files)
            .field("neighbors", neighbors)
            .field("cache_control", cache_control)
            .field("prefix", prefix)
            .finish_non_exhaustive()
    }
}
