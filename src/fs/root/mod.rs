//! [`Root`]: where files are: in a directory, or in the program itself.

mod disk;
mod embedded;
mod path;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "compress")]
pub(super) use disk::Node;
pub(super) use disk::{Disk, Entry, Links, descriptors};
pub(super) use path::{Below, decode, is_name, strip_prefix};

use self::embedded::Embedded;
use super::resource::Snapshot;

/// Where files are.
#[derive(Clone, Debug)]
pub(super) enum Root {
    Disk(Arc<Disk>),
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
    Disk(Arc<Disk>, File),
    Embedded(Embedded),
}

impl Root {
    /// Opens the directory at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the path does not lead to a directory that can be read.
    pub(super) fn disk(path: PathBuf) -> io::Result<Root> {
        Ok(Root::Disk(Arc::new(Disk::new(path)?)))
    }

    /// Makes a root of files that are part of the program, by their paths.
    pub(super) fn embedded(files: &[(&'static str, &'static [u8])]) -> Root {
        Root::Embedded(Embedded::new(files))
    }

    /// Whether the contents of the directory at `path` would be served as files.
    pub(super) fn holds(&self, path: &Path) -> bool {
        matches!(self, Root::Disk(disk) if path.starts_with(&disk.path))
    }

    /// Looks at what is at `path`. A file of up to `in_memory_max` bytes is read. This may block, except for embedded
    /// files.
    pub(super) fn open(&self, path: &str, links: Links, in_memory_max: usize) -> io::Result<Opened> {
        let disk = match self {
            Root::Disk(disk) => disk,
            Root::Embedded(embedded) => return Ok(embedded.open(path)),
        };
        match disk.open(path, links) {
            Ok(disk::Node::File(file, metadata)) => {
                Ok(Opened::File(Snapshot::read(file, metadata, in_memory_max)?))
            }
            Ok(disk::Node::Directory(dir)) => Ok(Opened::Directory(Directory::Disk(disk.clone(), dir))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Opened::Nothing),
            Err(error) => Err(error),
        }
    }
}

impl Directory {
    /// Lists the directory, which is at `path`: files and directories. This may block, and so may each entry.
    pub(super) fn entries<'a>(
        &'a self,
        path: &'a str,
        links: Links,
    ) -> io::Result<Box<dyn Iterator<Item = io::Result<Entry>> + 'a>> {
        Ok(match self {
            Directory::Disk(disk, dir) => Box::new(disk.entries(dir, path, links)?),
            Directory::Embedded(embedded) => Box::new(embedded.entries(path).into_iter().map(Ok)),
        })
    }
}
