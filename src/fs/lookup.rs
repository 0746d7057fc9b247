//! [`Lookup`]: what a path leads to, by the settings of [`Files`](super::Files).

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::cache::Cache;
use super::listing::{self, Sort};
use super::pattern::Pattern;
use super::resource::{Resource, Snapshot, StoredCoding};
use super::root::{Below, Directory, Entry, Links, Opened, Root, decode, is_name, strip_prefix};
use crate::message::{Request, Status};
use crate::server::Error;

/// The settings by which a path leads to a file.
#[derive(Clone)]
pub(super) struct Lookup {
    /// The first site is for hosts that have none of their own.
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
    /// What makes compressed copies, and the directory that they are in.
    pub(super) copies: Option<(Copies, PathBuf)>,
}

/// A root, and the host that it is for.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) host: Option<String>,
    pub(super) root: Root,
    pub(super) cache: Arc<Cache>,
}

type Rewrite = Arc<dyn Fn(&Request) -> Option<String> + Send + Sync>;

/// Makes a compressed copy of a file that has no neighbor in that coding, or finds one that was made before.
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

/// Whether `a.js.gz` is sent for `a.js` to a peer that prefers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Neighbors {
    Ignored,
    Precompressed,
}

/// What a path leads to. It is moved for each request, so what is rare and large is boxed.
#[derive(Debug)]
pub(super) enum Found {
    Resource(Arc<Resource>),
    /// A directory that was requested without a `/` at the end.
    Directory,
    /// A directory whose contents are to be listed.
    Listing(Box<Listed>),
    Nothing,
}

/// A directory to be listed.
#[derive(Debug)]
pub(super) struct Listed {
    directory: Directory,
    path: String,
}

impl Lookup {
    /// The site that a request is for.
    pub(super) fn site(&self, request: &Request) -> &Site {
        let is_asked = |site: &&Site| site.host.as_deref().is_some_and(|host| is_host(host, request));
        self.sites.iter().find(is_asked).unwrap_or(&self.sites[0])
    }

    /// Checks that no copy would be served as a file.
    ///
    /// # Errors
    ///
    /// Fails if a root contains the directory of the copies.
    pub(super) fn check_copies(&self) -> io::Result<()> {
        let Some((_, copies)) = &self.copies else { return Ok(()) };
        match self.sites.iter().any(|site| site.root.holds(copies)) {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the copies would be served as files")),
            false => Ok(()),
        }
    }

    /// The path that a request is for, relative to the root and decoded. It has not been checked yet.
    pub(super) fn path<'a>(&self, request: &'a Request) -> Option<Cow<'a, str>> {
        match self.rewrite.as_ref().and_then(|rewrite| rewrite(request)) {
            Some(path) => Some(Cow::Owned(path.strip_prefix('/').unwrap_or(&path).to_owned())),
            None => strip_prefix(decode(request.target())?, &self.prefix),
        }
    }

    /// Whether the request is for the prefix itself, without a `/` after it.
    pub(super) fn is_prefix(&self, request: &Request) -> bool {
        !self.prefix.is_empty() && decode(request.target()).is_some_and(|path| path == self.prefix)
    }

    /// Returns this path, if it stays below the root and may be served.
    pub(super) fn below<'a>(&self, path: Cow<'a, str>) -> Option<Below<'a>> {
        let below = Below::new(path)?;
        (self.dot_files == DotFiles::Shown || !below.is_dotted()).then_some(below)
    }

    /// Looks at what is there. This may block, except for embedded files.
    pub(super) fn find(&self, site: &Site, below: &Below<'_>) -> io::Result<Found> {
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
                let path = below.name().to_owned();
                Ok(Found::Listing(Box::new(Listed { directory, path })))
            }
        }
    }

    /// The page that lists a directory. This may block, and takes long if the directory is large.
    pub(super) fn list(&self, listed: &Listed, sort: Sort) -> io::Result<String> {
        let Listed { directory, path } = listed;
        let is_shown = |name: &str| self.dot_files == DotFiles::Shown || !name.starts_with('.');
        let is_listed = |entry: &Entry| is_name(&entry.name) && is_shown(&entry.name);
        let entries = directory.entries(path, self.links)?;
        let shown = entries.filter(|entry| entry.as_ref().map_or(true, is_listed));
        // One more than the page has room for tells it that there are more.
        let shown: io::Result<Vec<Entry>> = shown.take(listing::ENTRIES_MAX + 1).collect();
        Ok(listing::page(path, shown?, sort))
    }

    fn resource(&self, site: &Site, path: &str, whole: Snapshot) -> io::Result<Found> {
        let asked_for = format!("/{path}");
        let rule = self.cache_control.iter().find(|(pattern, _)| pattern.matches(&asked_for));
        // Files of several hosts may have the same path.
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

    /// The file next to this one that holds the same content encoded, if it is smaller, and older by at most a second. One
    /// that cannot be read is ignored.
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

/// The error for a file that cannot be opened, with its status.
pub(super) fn owed(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::NOT_FOUND.into(),
        // No file has a name that is too long, or contains a NUL.
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => Status::NOT_FOUND.into(),
        io::ErrorKind::PermissionDenied => Status::FORBIDDEN.into(),
        _ => error.into(),
    }
}

fn join(directory: &str, name: &str) -> String {
    if directory.is_empty() { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Whether a host is the requested one, ignoring case and a final dot.
fn is_host(host: &str, request: &Request) -> bool {
    request.host().is_some_and(|asked| host.eq_ignore_ascii_case(without_dot(asked)))
}

/// The name of a host without the final dot that makes it absolute (RFC 3986 §3.2.2).
pub(super) fn without_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
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
