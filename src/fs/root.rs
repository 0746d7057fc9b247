//! [`Root`]: where files are: in a directory, in the program itself, or in a source.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;

use super::disk::{DiskRoot, Node, RootDir};
use super::listing::DirEntry;
use super::path::Links;
use super::snapshot::{FileContent, ReadOptions, Snapshot, content_tag};
use super::source::ErasedSource;

/// Where files are.
#[derive(Clone)]
pub(super) enum Root {
    Disk(Arc<DiskRoot>),
    Embedded(Embedded),
    /// Looked up by [`SourceLookup`](super::lookup::SourceLookup), which awaits it.
    Source(Arc<dyn ErasedSource>),
}

/// The file or directory at a path.
pub(super) enum Opened {
    File(Snapshot),
    Directory(Directory),
    Nothing,
}

/// A directory that was found in a root.
#[derive(Debug)]
pub(super) enum Directory {
    Disk(Arc<RootDir>, File),
    Embedded(Embedded),
    /// The entries that a source has listed.
    Listed(Vec<DirEntry>),
}

impl Root {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the path does not lead to a directory that can be read.
    pub(super) fn from_path(path: PathBuf) -> io::Result<Root> {
        Ok(Root::Disk(Arc::new(DiskRoot::new(path)?)))
    }

    /// Makes a root of files that are part of the program, by their paths.
    pub(super) fn from_embedded(files: &[(&'static str, &'static [u8])]) -> Root {
        Root::Embedded(Embedded::new(files))
    }

    /// Whether the contents of the directory at `path` would be served as files.
    pub(super) fn contains(&self, path: &Path) -> bool {
        let contains = |root: &DiskRoot| root.current_dir().is_ok_and(|dir| path.starts_with(&dir.path));
        matches!(self, Root::Disk(root) if contains(root))
    }

    /// Opens the file or directory at `path`. A small file is read, by `options`. The disk may block; embedded files do
    /// not.
    pub(super) fn open(&self, path: &[u8], links: Links, options: ReadOptions<'_>) -> io::Result<Opened> {
        let root = match self {
            Root::Disk(root) => root,
            Root::Embedded(embedded) => return Ok(embedded.open(path)),
            Root::Source(_) => return Ok(Opened::Nothing),
        };
        let open = || -> io::Result<Opened> {
            let dir = root.current_dir()?;
            Ok(match dir.open(path, links)? {
                Node::File(file, metadata) => Opened::File(Snapshot::read(file, metadata, options)?),
                Node::Directory(found) => Opened::Directory(Directory::Disk(dir, found)),
            })
        };
        Ok(if_there(open())?.unwrap_or(Opened::Nothing))
    }
}

/// `None` for an error by which a path leads nowhere.
pub(super) fn if_there<T>(opened: io::Result<T>) -> io::Result<Option<T>> {
    match opened {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        opened => opened.map(Some),
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Root::Disk(root) => f.debug_tuple("Disk").field(root).finish(),
            Root::Embedded(embedded) => f.debug_tuple("Embedded").field(embedded).finish(),
            Root::Source(_) => f.write_str("Source"),
        }
    }
}

impl Directory {
    /// Lists the directory, which is at `path`: files and directories. The call may block, and so may each entry.
    pub(super) fn entries<'a>(
        &'a self,
        path: &'a [u8],
        links: Links,
    ) -> io::Result<Box<dyn Iterator<Item = io::Result<DirEntry>> + 'a>> {
        Ok(match self {
            Directory::Disk(root, dir) => Box::new(root.entries(dir, path, links)?),
            Directory::Embedded(embedded) => Box::new(embedded.entries(path).into_iter().map(Ok)),
            Directory::Listed(entries) => Box::new(entries.iter().cloned().map(Ok)),
        })
    }
}

/// Files that are part of the program, by path. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Embedded {
    files: Arc<BTreeMap<&'static str, EmbeddedFile>>,
}

#[derive(Debug)]
struct EmbeddedFile {
    bytes: &'static [u8],
    /// Computed from the content: the program may run in many places, and has no useful date.
    opaque_tag: String,
}

impl Embedded {
    pub(super) fn new(files: &[(&'static str, &'static [u8])]) -> Embedded {
        let file = |bytes: &'static [u8]| EmbeddedFile { bytes, opaque_tag: content_tag(bytes) };
        let files = files.iter().map(|(path, bytes)| (path.trim_start_matches('/'), file(bytes)));
        Embedded { files: Arc::new(files.collect()) }
    }

    /// The file or directory at `path`.
    pub(super) fn open(&self, path: &[u8]) -> Opened {
        // The names of embedded files are text.
        let Ok(path) = str::from_utf8(path) else { return Opened::Nothing };
        match self.files.get(path) {
            Some(EmbeddedFile { bytes, opaque_tag }) => {
                let content = FileContent::Bytes(Bytes::from_static(bytes));
                Opened::File(Snapshot::undated(content, opaque_tag.clone()))
            }
            None if path.is_empty() || self.descendants(path).next().is_some() => {
                Opened::Directory(Directory::Embedded(self.clone()))
            }
            None => Opened::Nothing,
        }
    }

    /// Lists the directory at `path`.
    pub(super) fn entries(&self, path: &[u8]) -> Vec<DirEntry> {
        let mut entries: Vec<DirEntry> = Vec::new();
        let path = str::from_utf8(path).unwrap_or_default();
        for (rest, file) in self.descendants(path) {
            let (name, size) = match rest.split_once('/') {
                Some((directory, _)) => (directory, None),
                None => (rest, Some(file.bytes.len() as u64)),
            };
            if entries.last().is_none_or(|last| last.name != name.as_bytes()) {
                entries.push(DirEntry { name: name.into(), size, modified: None });
            }
        }
        entries
    }

    /// The files below a directory, by their paths relative to it.
    fn descendants(&self, path: &str) -> impl Iterator<Item = (&'static str, &EmbeddedFile)> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
        let from_there = self.files.range::<str, _>((Bound::Included(&*prefix), Bound::Unbounded));
        from_there.map_while(move |(path, file)| Some((path.strip_prefix(&*prefix)?, file)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_the_common_parts_of_paths() {
        let embedded = Embedded::new(&[("/a.txt", b"a"), ("b/c.txt", b"cc"), ("b/d/e", b""), ("bb", b"x")]);
        for (path, names) in
            [("", &["a.txt", "b", "bb"][..]), ("b", &["c.txt", "d"]), ("b/d", &["e"]), ("x", &[])]
        {
            let entries = embedded.entries(path.as_bytes());
            let found: Vec<_> = entries.iter().map(|entry| str::from_utf8(&entry.name).unwrap()).collect();
            assert_eq!(found, names, "{path}");
            let is_directory = matches!(embedded.open(path.as_bytes()), Opened::Directory(_));
            assert_eq!(is_directory, !names.is_empty(), "{path}");
        }
        assert!(matches!(embedded.open(b"a.txt"), Opened::File(_)));
        assert!(matches!(embedded.open(b"b/c"), Opened::Nothing));
    }
}
