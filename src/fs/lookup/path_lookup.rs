//! [`PathLookup`]: what a path leads to, by the settings of [`Files`](crate::fs::Files).

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use crate::descriptors::is_out_of_descriptors;
use crate::fs::cache::Cache;
use crate::fs::content_type::{Charset, content_type, media_type};
use crate::fs::listing::{DirEntry, DirListing, ENTRIES_MAX, Sort};
use crate::fs::path::{Links, RelativePath, decode_path, is_valid_name, join, strip_prefix};
use crate::fs::resource::{Description, Resource, StoredCoding};
use crate::fs::root::{Directory, Opened, Root};
use crate::fs::snapshot::{Etag, FileContent, ReadOptions, Snapshot};
use crate::message::{HostMap, Request, Status};
use crate::runtime::spawn_blocking;
use crate::server::{Context, Error, Result};

/// The settings by which a path leads to a file.
#[derive(Clone)]
pub(in crate::fs) struct PathLookup {
    /// The first one is for hosts without one of their own. Never empty.
    pub(in crate::fs) vhosts: Vec<VirtualHost>,
    /// The places of the others among them.
    pub(in crate::fs) by_host: HostMap<usize>,
    /// The names of index files, in order of preference.
    pub(in crate::fs) index: Vec<String>,
    pub(in crate::fs) listing: Listing,
    pub(in crate::fs) links: Links,
    pub(in crate::fs) dot_files: DotFiles,
    pub(in crate::fs) precompressed: Precompressed,
    pub(in crate::fs) cache_control: ByPattern<String>,
    /// The content types that differ from those that names suggest.
    pub(in crate::fs) types: ByPattern<String>,
    /// `None` for text that gets no charset.
    pub(in crate::fs) charsets: ByPattern<Option<String>>,
    pub(in crate::fs) etags: ByPattern<Etag>,
    /// The prefix to strip from targets, without a `/` at either end.
    pub(in crate::fs) prefix: String,
    /// Chooses the path for a request, instead of the path of its target.
    pub(in crate::fs) rewrite: Option<Rewrite>,
    /// The function that finds or makes compressed copies, and the directory of the copies.
    pub(in crate::fs) copies: Option<(CompressFn, PathBuf)>,
}

/// A root, and the host that it is for.
#[derive(Clone)]
pub(in crate::fs) struct VirtualHost {
    /// `None` for all hosts without a virtual host of their own.
    pub(in crate::fs) host: Option<String>,
    pub(in crate::fs) root: Root,
    pub(in crate::fs) cache: Arc<Cache>,
}

impl VirtualHost {
    /// Switches to the directory that has taken the place of the root, if any, and clears the cache. The disk is
    /// checked twice a second at most.
    pub(in crate::fs) async fn refresh_root(&self, now: Instant) -> io::Result<()> {
        match &self.root {
            Root::Disk(root) if root.is_due(now) => {
                let root = root.clone();
                let cache = self.cache.clone();
                spawn_blocking(move || root.refresh().then(|| cache.clear())).await.map(drop)
            }
            Root::Disk(_) | Root::Embedded(_) | Root::Source(_) => Ok(()),
        }
    }
}

type Rewrite = Arc<dyn Fn(&Request) -> Option<String> + Send + Sync>;

/// Finds the compressed copy of a file that has no precompressed sibling in that coding, or makes it. The arguments are a
/// key that no other file has, the content type, the file and the coding.
pub(in crate::fs) type CompressFn =
    Arc<dyn Fn(&[u8], &str, &Snapshot, StoredCoding) -> Option<Snapshot> + Send + Sync>;

/// Whether directories without an index are listed, and how.
#[derive(Clone)]
pub(in crate::fs) enum Listing {
    Off,
    Html,
    Json,
    /// By a function of the application.
    With(RespondFn),
}

/// Answers with a listing.
pub(in crate::fs) type RespondFn = Arc<dyn Fn(&mut Context, &DirListing) -> Result + Send + Sync>;

/// A listing, written unless the application does that.
pub(in crate::fs) enum Page {
    Html(String),
    Json(String),
    Unwritten(RespondFn, DirListing),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) enum DotFiles {
    Hidden,
    Shown,
}

/// Whether `a.js.gz` is sent for `a.js` to a peer that prefers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fs) enum Precompressed {
    Ignored,
    Served,
}

/// The file or directory that a path leads to. A `Found` is moved for each request, so rare and large variants are
/// boxed.
#[derive(Debug)]
pub(in crate::fs) enum Found {
    Resource(Arc<Resource>),
    /// A file of a source, to be read before it is sent.
    Sourced(Arc<Resource>),
    /// A directory that was requested by this path, without a `/` at the end.
    Directory(Box<[u8]>),
    /// A directory whose contents are to be listed.
    Listing(Box<Listed>),
    Nothing,
}

/// A directory to be listed.
#[derive(Debug)]
pub(in crate::fs) struct Listed {
    pub(in crate::fs) directory: Directory,
    /// Without a `/` at the end.
    pub(in crate::fs) path: Vec<u8>,
}

impl PathLookup {
    /// The virtual host that a request is for.
    pub(in crate::fs) fn vhost(&self, request: &Request) -> &VirtualHost {
        debug_assert!(self.vhosts[0].host.is_none(), "the first virtual host is for all other hosts");
        let place = match self.vhosts.len() {
            1 => None,
            _ => request.host().and_then(|host| self.by_host.get(host)),
        };
        &self.vhosts[place.copied().unwrap_or_default()]
    }

    /// Checks that no copy would be served as a file.
    ///
    /// # Errors
    ///
    /// Fails if a root contains the directory of the copies.
    pub(in crate::fs) fn check_copies(&self) -> io::Result<()> {
        let Some((_, copies)) = &self.copies else { return Ok(()) };
        match self.vhosts.iter().any(|vhost| vhost.root.contains(copies)) {
            true => Err(io::Error::new(io::ErrorKind::InvalidInput, "the copies would be served as files")),
            false => Ok(()),
        }
    }

    /// The path that a request is for, relative to the root and decoded, but not checked yet.
    pub(in crate::fs) fn path<'a>(&self, request: &'a Request) -> Option<Cow<'a, [u8]>> {
        match self.rewrite.as_ref().and_then(|rewrite| rewrite(request)) {
            Some(path) => Some(Cow::Owned(path.strip_prefix('/').unwrap_or(&path).into())),
            None => strip_prefix(decode_path(request.mounted_path())?, &self.prefix),
        }
    }

    /// Whether the request is for the prefix or the mount itself, without a `/` after it.
    pub(in crate::fs) fn is_prefix(&self, request: &Request) -> bool {
        match (request.mounted_path(), &*self.prefix) {
            ("", "") => request.matched_route().rest_at() > 0,
            (path, prefix) => {
                !prefix.is_empty() && decode_path(path).is_some_and(|path| *path == *prefix.as_bytes())
            }
        }
    }

    /// Returns this path, if it stays below the root and may be served.
    pub(in crate::fs) fn relative_path<'a>(&self, path: Cow<'a, [u8]>) -> Option<RelativePath<'a>> {
        let relative = RelativePath::new(path)?;
        (self.dot_files == DotFiles::Shown || !relative.is_dotted()).then_some(relative)
    }

    /// The `cache-control` of the file or directory at `path`.
    pub(in crate::fs) fn cache_control(&self, path: &[u8]) -> Option<&str> {
        self.cache_control.find(&pattern_path(path)).map(String::as_str)
    }

    /// Finds the file or directory at a path below the root. The disk may block; embedded files do not.
    pub(in crate::fs) fn find(&self, vhost: &VirtualHost, relative: &RelativePath<'_>) -> io::Result<Found> {
        let previous = vhost.cache.stale(relative);
        let previous = previous.as_deref();
        let node = self.open(vhost, relative.without_trailing_slash(), previous)?;
        match (node, relative.is_directory()) {
            (Opened::Nothing, _) | (Opened::File(_), true) => Ok(Found::Nothing),
            (Opened::File(snapshot), false) => {
                self.resource(vhost, relative.without_trailing_slash(), snapshot, previous)
            }
            (Opened::Directory(directory), _) => self.directory(vhost, relative, directory, previous),
        }
    }

    fn directory(
        &self,
        vhost: &VirtualHost,
        relative: &RelativePath<'_>,
        directory: Directory,
        previous: Option<&Resource>,
    ) -> io::Result<Found> {
        for index in &self.index {
            let path = join(relative.without_trailing_slash(), index.as_bytes());
            match self.open(vhost, &path, previous)? {
                Opened::File(_) if !relative.is_directory() => {
                    return Ok(Found::Directory(relative.without_trailing_slash().into()));
                }
                Opened::File(snapshot) => return self.resource(vhost, &path, snapshot, previous),
                Opened::Directory(_) | Opened::Nothing => {}
            }
        }
        let path = relative.without_trailing_slash();
        match (&self.listing, relative.is_directory()) {
            (Listing::Off, _) => Ok(Found::Nothing),
            (_, false) => Ok(Found::Directory(path.into())),
            (_, true) => Ok(Found::Listing(Box::new(Listed { directory, path: path.into() }))),
        }
    }

    /// Lists a directory, and writes the page. The disk may block, for long if the directory is large.
    pub(in crate::fs) fn list(&self, listed: &Listed, sort: Sort) -> io::Result<Page> {
        let Listed { directory, path } = listed;
        let is_shown = |name: &[u8]| self.dot_files == DotFiles::Shown || !name.starts_with(b".");
        let is_listed = |entry: &DirEntry| is_valid_name(&entry.name) && is_shown(&entry.name);
        let entries = directory.entries(path, self.links)?;
        let shown = entries.filter(|entry| entry.as_ref().map_or(true, is_listed));
        // One entry is read beyond the page, to detect truncation.
        let shown: io::Result<Vec<DirEntry>> = shown.take(ENTRIES_MAX + 1).collect();
        let listing = DirListing::new(path.clone(), shown?, sort);
        Ok(match &self.listing {
            Listing::Off | Listing::Html => Page::Html(listing.to_html()),
            Listing::Json => Page::Json(listing.to_json()),
            Listing::With(respond) => Page::Unwritten(respond.clone(), listing),
        })
    }

    /// Describes the file at `path`, which has a type of its own if its source gives it one.
    pub(in crate::fs) fn describe(
        &self,
        path: &[u8],
        own_type: Option<&str>,
        content: &FileContent,
    ) -> Description<'_> {
        let requested = pattern_path(path);
        let chosen = self.types.find(&requested).map(String::as_str);
        let charset = match (self.charsets.find(&requested), own_type) {
            (None, Some(_)) if chosen.is_none() => Charset::Omitted,
            (None, _) => Charset::Detected,
            (Some(None), _) => Charset::Omitted,
            (Some(Some(name)), _) => Charset::Fixed(name),
        };
        let media_type = chosen.or(own_type).unwrap_or_else(|| media_type(path));
        let cache_control = self.cache_control.find(&requested).map(String::as_str);
        Description::new(content_type(media_type, charset, content), cache_control)
    }

    fn resource(
        &self,
        vhost: &VirtualHost,
        path: &[u8],
        whole: Snapshot,
        previous: Option<&Resource>,
    ) -> io::Result<Found> {
        let description = self.describe(path, None, &whole.content);
        // Files of several hosts may have the same path.
        let kept_as = [vhost.host.as_deref().unwrap_or_default().as_bytes(), b"/", path].concat();
        // A copy is recognized as current by the opaque-tag of its file, so that tag must name this content only. No
        // copy is made of a file that was changed just now, since it may change again and again.
        let copies = self.copies.as_ref().filter(|_| whole.is_strong && whole.is_settled);
        let mut encoded = Vec::new();
        for stored in StoredCoding::ALL {
            let sibling = self.sibling(vhost, path, &whole, stored, previous)?;
            let copy = |copies: &CompressFn| copies(&kept_as, &description.content_type, &whole, stored);
            let found = sibling.or_else(|| copies.and_then(|(copies, _)| copy(copies)));
            encoded.extend(found.map(|snapshot| (stored.coding, snapshot)));
        }
        let resource = Resource::new(description, whole, encoded).map_err(io::Error::other)?;
        Ok(Found::Resource(Arc::new(resource)))
    }

    /// The precompressed sibling of a file, if it is smaller, and older by at most a second. A sibling that cannot be
    /// read is ignored, but not for want of a descriptor: it may be there in a moment.
    fn sibling(
        &self,
        vhost: &VirtualHost,
        path: &[u8],
        whole: &Snapshot,
        stored: StoredCoding,
        previous: Option<&Resource>,
    ) -> io::Result<Option<Snapshot>> {
        if self.precompressed == Precompressed::Ignored {
            return Ok(None);
        }
        let previous = previous.and_then(|resource| resource.snapshot(Some(stored.coding)));
        let options = self.read_options(vhost, path, previous);
        match vhost.root.open(&[path, stored.suffix.as_bytes()].concat(), self.links, options) {
            Ok(Opened::File(snapshot)) => Ok(snapshot.may_replace(whole).then_some(snapshot)),
            Err(error) if is_out_of_descriptors(&error) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    fn open(&self, vhost: &VirtualHost, path: &[u8], previous: Option<&Resource>) -> io::Result<Opened> {
        let previous = previous.and_then(|resource| resource.snapshot(None));
        vhost.root.open(path, self.links, self.read_options(vhost, path, previous))
    }

    fn read_options<'a>(
        &self,
        vhost: &VirtualHost,
        path: &[u8],
        previous: Option<&'a Snapshot>,
    ) -> ReadOptions<'a> {
        let etag = self.etags.find(&pattern_path(path)).copied().unwrap_or_default();
        ReadOptions { in_memory_max: vhost.cache.bounds.file_bytes_max, etag, previous }
    }
}

/// A path as it is compared with patterns.
fn pattern_path(path: &[u8]) -> String {
    format!("/{}", String::from_utf8_lossy(path))
}

/// The error for the file at `path`, which cannot be opened, with its status.
pub(in crate::fs) fn open_error(path: impl fmt::Display, error: io::Error) -> Error {
    match error.kind() {
        // No name contains a NUL.
        io::ErrorKind::InvalidInput => Status::NOT_FOUND.into(),
        _ => source_error(path, error),
    }
}

/// The error for the file at `path` of a source, which cannot be read, with its status.
pub(in crate::fs) fn source_error(path: impl fmt::Display, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Status::NOT_FOUND.into(),
        // No file has a name that is too long.
        io::ErrorKind::InvalidFilename => Status::NOT_FOUND.into(),
        io::ErrorKind::PermissionDenied => Status::FORBIDDEN.into(),
        kind => io::Error::new(kind, Unreadable { path: path.to_string(), error }).into(),
    }
}

/// A file cannot be read.
#[derive(Debug)]
struct Unreadable {
    path: String,
    error: io::Error,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read {}", self.path)
    }
}

impl StdError for Unreadable {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.error)
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Listing::Off => "Off",
            Listing::Html => "Html",
            Listing::Json => "Json",
            Listing::With(_) => "With",
        })
    }
}

impl fmt::Debug for PathLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PathLookup { vhosts, index, listing, links, dot_files, precompressed, prefix, .. } = self;
        let hosts: Vec<_> = vhosts.iter().map(|vhost| vhost.host.as_deref().unwrap_or("*")).collect();
        f.debug_struct("PathLookup")
            .field("hosts", &hosts)
            .field("index", index)
            .field("listing", listing)
            .field("links", links)
            .field("dot_files", dot_files)
            .field("precompressed", precompressed)
            .field("cache_control", &self.cache_control)
            .field("types", &self.types)
            .field("charsets", &self.charsets)
            .field("etags", &self.etags)
            .field("prefix", prefix)
            .finish_non_exhaustive()
    }
}

/// Values for the paths that match their patterns.
#[derive(Clone, Debug)]
pub(in crate::fs) struct ByPattern<T>(Vec<(Pattern, T)>);

impl<T> ByPattern<T> {
    pub(in crate::fs) fn add(&mut self, pattern: &str, value: T) {
        self.0.push((Pattern::new(pattern), value));
    }

    /// The value of the first pattern that matches. `path` begins with `/`.
    pub(in crate::fs) fn find(&self, path: &str) -> Option<&T> {
        debug_assert!(path.starts_with('/'), "patterns are compared with absolute paths");
        self.0.iter().find(|(pattern, _)| pattern.matches(path)).map(|(_, value)| value)
    }
}

impl<T> Default for ByPattern<T> {
    fn default() -> ByPattern<T> {
        ByPattern(Vec::new())
    }
}

/// A path in which each `*` stands for any number of any characters, including `/`.
#[derive(Clone, Debug)]
struct Pattern(String);

impl Pattern {
    fn new(pattern: &str) -> Pattern {
        Pattern(pattern.to_owned())
    }

    /// Whether the pattern matches the whole of `path`.
    fn matches(&self, path: &str) -> bool {
        let mut pieces = self.0.split('*');
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else { return false };
        let Some(last) = pieces.next_back() else { return rest.is_empty() };
        // The first place where a piece fits leaves the most room for those after it, so no backtracking is needed.
        for piece in pieces {
            match rest.find(piece) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for (paths, expected) in [(matching, true), (others, false)] {
            for path in paths {
                assert_eq!(Pattern::new(pattern).matches(path), expected, "{pattern} and {path}");
            }
        }
    }

    #[test]
    fn a_star_stands_for_anything() {
        check("*", &["", "/", "/a/b"], &[]);
        check("/a", &["/a"], &["", "/", "/ab", "a", "/A", "/a/"]);
        check("/a/*", &["/a/", "/a/b", "/a/b/c"], &["/a", "/ab", "/b/a/"]);
        check("*.js", &[".js", "/a.js", "/a/b.js"], &["/a.js.map", "/ajs", "/a.jsx"]);
        check("/a*b*c", &["/abc", "/axbxc", "/abbcc", "/abcbc"], &["/ab", "/ac", "/acb", "/abcd"]);
        check("/a*a", &["/aa", "/aba"], &["/a", "/ab"]);
        check("**", &["", "/x"], &[]);
        check("", &[""], &["/"]);
    }
}
