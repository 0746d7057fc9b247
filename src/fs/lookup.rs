//! [`Lookup`]: what a path leads to, by the settings of [`Files`](super::Files).

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::cache::Cache;
use super::listing::{self, Sort};
use super::pattern::ByPattern;
use super::resource::{
    Charset, Description, Etag, ReadOptions, Resource, Snapshot, StoredCoding, content_type, media_type,
};
use super::root::{Below, Directory, Entry, Links, Opened, Root, decode, is_name, join, strip_prefix};
use crate::message::{Request, Status};
use crate::runtime::spawn_blocking;
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
    pub(super) cache_control: ByPattern<String>,
    pub(super) types: ByPattern<String>,
    /// `None` for text that gets no charset.
    pub(super) charsets: ByPattern<Option<String>>,
    pub(super) etags: ByPattern<Etag>,
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

impl Site {
    /// Follows the root, if another directory has taken its place. The disk is looked at twice a second at most.
    pub(super) async fn follow(&self, now: Instant) -> io::Result<()> {
        match &self.root {
            Root::Disk(root) if root.is_due(now) => {
                let (root, cache) = (root.clone(), self.cache.clone());
                spawn_blocking(move || root.refresh().then(|| cache.clear())).await.map(drop)
            }
            Root::Disk(_) | Root::Embedded(_) => Ok(()),
        }
    }
}

type Rewrite = Arc<dyn Fn(&Request) -> Option<String> + Send + Sync>;

/// Makes a compressed copy of a file that has no neighbor in that coding, or finds one that was made before, by what
/// distinguishes the file from all others and by its content type.
pub(super) type Copies = Arc<dyn Fn(&[u8], &str, &Snapshot, StoredCoding) -> Option<Snapshot> + Send + Sync>;

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
    /// A directory that was requested by this path, without a `/` at the end.
    Directory(Box<[u8]>),
    /// A directory whose contents are to be listed.
    Listing(Box<Listed>),
    Nothing,
}

/// A directory to be listed.
#[derive(Debug)]
pub(super) struct Listed {
    directory: Directory,
    /// Without a `/` at the end.
    pub(super) path: Vec<u8>,
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
    pub(super) fn path<'a>(&self, request: &'a Request) -> Option<Cow<'a, [u8]>> {
        match self.rewrite.as_ref().and_then(|rewrite| rewrite(request)) {
            Some(path) => Some(Cow::Owned(path.strip_prefix('/').unwrap_or(&path).into())),
            None => strip_prefix(decode(request.target())?, &self.prefix),
        }
    }

    /// Whether the request is for the prefix itself, without a `/` after it.
    pub(super) fn is_prefix(&self, request: &Request) -> bool {
        !self.prefix.is_empty()
            && decode(request.target()).is_some_and(|path| *path == *self.prefix.as_bytes())
    }

    /// Returns this path, if it stays below the root and may be served.
    pub(super) fn below<'a>(&self, path: Cow<'a, [u8]>) -> Option<Below<'a>> {
        let below = Below::new(path)?;
        (self.dot_files == DotFiles::Shown || !below.is_dotted()).then_some(below)
    }

    /// The `cache-control` of what is at `path`.
    pub(super) fn cache_control(&self, path: &[u8]) -> Option<&str> {
        self.cache_control.find(&as_requested(path)).map(String::as_str)
    }

    /// Looks at what is there. This may block, except for embedded files.
    pub(super) fn find(&self, site: &Site, below: &Below<'_>) -> io::Result<Found> {
        let previous = site.cache.last(below);
        let previous = previous.as_deref();
        let node = self.open(site, below.name(), previous)?;
        match (node, below.is_directory()) {
            (Opened::Nothing, _) | (Opened::File(_), true) => Ok(Found::Nothing),
            (Opened::File(snapshot), false) => self.resource(site, below.name(), snapshot, previous),
            (Opened::Directory(directory), _) => self.directory(site, below, directory, previous),
        }
    }

    fn directory(
        &self,
        site: &Site,
        below: &Below<'_>,
        directory: Directory,
        previous: Option<&Resource>,
    ) -> io::Result<Found> {
        for index in &self.index {
            let path = join(below.name(), index.as_bytes());
            match self.open(site, &path, previous)? {
                Opened::File(_) if !below.is_directory() => return Ok(Found::Directory(below.name().into())),
                Opened::File(snapshot) => return self.resource(site, &path, snapshot, previous),
                Opened::Directory(_) | Opened::Nothing => {}
            }
        }
        let path = below.name();
        match (self.listing, below.is_directory()) {
            (Listing::Off, _) => Ok(Found::Nothing),
            (Listing::On, false) => Ok(Found::Directory(path.into())),
            (Listing::On, true) => Ok(Found::Listing(Box::new(Listed { directory, path: path.into() }))),
        }
    }

    /// The page that lists a directory. This may block, and takes long if the directory is large.
    pub(super) fn list(&self, listed: &Listed, sort: Sort) -> io::Result<String> {
        let Listed { directory, path } = listed;
        let is_shown = |name: &[u8]| self.dot_files == DotFiles::Shown || !name.starts_with(b".");
        let is_listed = |entry: &Entry| is_name(&entry.name) && is_shown(&entry.name);
        let entries = directory.entries(path, self.links)?;
        let shown = entries.filter(|entry| entry.as_ref().map_or(true, is_listed));
        // One more than the page has room for tells it that there are more.
        let shown: io::Result<Vec<Entry>> = shown.take(listing::ENTRIES_MAX + 1).collect();
        Ok(listing::page(path, shown?, sort))
    }

    fn resource(
        &self,
        site: &Site,
        path: &[u8],
        whole: Snapshot,
        previous: Option<&Resource>,
    ) -> io::Result<Found> {
        let requested = as_requested(path);
        let media_type = self.types.find(&requested).map_or_else(|| media_type(path), String::as_str);
        let charset = match self.charsets.find(&requested) {
            None => Charset::Detected,
            Some(None) => Charset::Omitted,
            Some(Some(name)) => Charset::Fixed(name),
        };
        let content_type = content_type(media_type, charset, &whole.content);
        // Files of several hosts may have the same path.
        let kept_as = [site.host.as_deref().unwrap_or_default().as_bytes(), b"/", path].concat();
        // A copy is recognized as current by the opaque-tag of its file, so that tag must name this content only. A file that
        // was changed just now may be changed again and again.
        let copies = self.copies.as_ref().filter(|_| whole.is_exact && whole.is_settled);
        let mut encoded = Vec::new();
        for stored in StoredCoding::ALL {
            let neighbor = self.neighbor(site, path, &whole, stored, previous);
            let copy = |copies: &Copies| copies(&kept_as, &content_type, &whole, stored);
            let found = neighbor.or_else(|| copies.and_then(|(copies, _)| copy(copies)));
            encoded.extend(found.map(|snapshot| (stored.coding, snapshot)));
        }
        let cache_control = self.cache_control.find(&requested).map(String::as_str);
        let description = Description::new(content_type, cache_control);
        let resource = Resource::new(description, whole, encoded).map_err(io::Error::other)?;
        Ok(Found::Resource(Arc::new(resource)))
    }

    /// The file next to this one that holds the same content encoded, if it is smaller, and older by at most a second. One
    /// that cannot be read is ignored.
    fn neighbor(
        &self,
        site: &Site,
        path: &[u8],
        whole: &Snapshot,
        stored: StoredCoding,
        previous: Option<&Resource>,
    ) -> Option<Snapshot> {
        if self.neighbors == Neighbors::Ignored {
            return None;
        }
        let previous = previous.and_then(|resource| resource.snapshot(Some(stored.coding)));
        let options = self.read_options(site, path, previous);
        let opened = site.root.open(&[path, stored.suffix.as_bytes()].concat(), self.links, options);
        let Ok(Opened::File(snapshot)) = opened else { return None };
        (snapshot.is_as_new_as(whole) && snapshot.content.len() < whole.content.len()).then_some(snapshot)
    }

    fn open(&self, site: &Site, path: &[u8], previous: Option<&Resource>) -> io::Result<Opened> {
        let previous = previous.and_then(|resource| resource.snapshot(None));
        site.root.open(path, self.links, self.read_options(site, path, previous))
    }

    fn read_options<'a>(&self, site: &Site, path: &[u8], previous: Option<&'a Snapshot>) -> ReadOptions<'a> {
        let etag = self.etags.find(&as_requested(path)).copied().unwrap_or_default();
        ReadOptions { in_memory_max: site.cache.bounds.file_bytes_max, etag, previous }
    }
}

/// A path as it is compared with patterns.
fn as_requested(path: &[u8]) -> String {
    format!("/{}", String::from_utf8_lossy(path))
}

/// The error for the file at `path`, which cannot be opened, with its status.
pub(super) fn owed(path: impl fmt::Display, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::NOT_FOUND.into(),
        // No file has a name that is too long, or contains a NUL.
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => Status::NOT_FOUND.into(),
        io::ErrorKind::PermissionDenied => Status::FORBIDDEN.into(),
        kind => io::Error::new(kind, format!("cannot read {path}: {error}")).into(),
    }
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
        let Lookup { sites, index, listing, links, dot_files, neighbors, prefix, .. } = self;
        let hosts: Vec<_> = sites.iter().map(|site| site.host.as_deref().unwrap_or("*")).collect();
        f.debug_struct("Lookup")
            .field("hosts", &hosts)
            .field("index", index)
            .field("listing", listing)
            .field("links", links)
            .field("dot_files", dot_files)
            .field("neighbors", neighbors)
            .field("cache_control", &self.cache_control)
            .field("types", &self.types)
            .field("charsets", &self.charsets)
            .field("etags", &self.etags)
            .field("prefix", prefix)
            .finish_non_exhaustive()
    }
}
