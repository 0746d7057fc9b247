//! [`Root`]: where files are: in a directory, or in the program itself.

mod disk;
mod disk_root;
mod embedded;
mod path;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "compress")]
pub(super) use disk::Node;
use disk::RootDir;
pub(super) use disk::{Entry, Links, descriptor_limit};
pub(super) use disk_root::DiskRoot;
pub(super) use path::{RelativePath, decode_path, is_valid_name, join, strip_prefix};

use self::embedded::Embedded;
use super::resource::{ReadOptions, Snapshot};

/// Where files are.
#[derive(Clone, Debug)]
pub(super) enum Root {
    Disk(Arc<DiskRoot>),
    Embedded(Embedded),
}

/// What is at a path.
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

    /// Looks at what is at `path`. A small file is read, as `options` say. This may block, except for embedded files.
    pub(super) fn open(&self, path: &[u8], links: Links, options: ReadOptions<'_>) -> io::Result<Opened> {
        let root = match self {
            Root::Disk(root) => root,
            Root::Embedded(embedded) => return Ok(embedded.open(path)),
        };
        let open = || -> io::Result<Opened> {
            let dir = root.current_dir()?;
            Ok(match dir.open(path, links)? {
                disk::Node::File(file, metadata) => Opened::File(Snapshot::read(file, metadata, options)?),
                disk::Node::Directory(found) => Opened::Directory(Directory::Disk(dir, found)),
            })
        };
        match open() {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(Opened::Nothing)
            }
            opened => opened,
        }
    }
}

impl Directory {
    /// Lists the directory, which is at `path`: files and directories. This may block, and so may each entry.
    pub(super) fn entries<'a>(
        &'a self,
        path: &'a [u8],
        links: Links,
    ) -> io::Result<Box<dyn Iterator<Item = io::Result<Entry>> + 'a>> {
        Ok(match self {
            Directory::Disk(root, dir) => Box::new(root.entries(dir, path, links)?),
            Directory::Embedded(embedded) => Box::new(embedded.entries(path).into_iter().map(Ok)),
        })
    }
}
