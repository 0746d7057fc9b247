//! [`Embedded`]: files that are part of the program.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::{Directory, Entry, Opened};
use crate::fs::resource::{Content, Snapshot, content_tag};

/// Files that are part of the program, by path. Clones share them.
#[derive(Clone, Debug)]
pub(in crate::fs) struct Embedded {
    files: Arc<BTreeMap<&'static str, File>>,
}

#[derive(Debug)]
struct File {
    bytes: &'static [u8],
    /// Computed from the content: the program may run in many places, and has no useful date.
    opaque_tag: String,
}

impl Embedded {
    pub(in crate::fs) fn new(files: &[(&'static str, &'static [u8])]) -> Embedded {
        let file = |bytes: &'static [u8]| File { bytes, opaque_tag: content_tag(bytes) };
        let files = files.iter().map(|(path, bytes)| (path.trim_start_matches('/'), file(bytes)));
        Embedded { files: Arc::new(files.collect()) }
    }

    /// What is at `path`.
    pub(super) fn open(&self, path: &[u8]) -> Opened {
        // The names of embedded files are text.
        let Ok(path) = str::from_utf8(path) else { return Opened::Nothing };
        match self.files.get(path) {
            Some(File { bytes, opaque_tag }) => {
                let content = Content::Bytes(Bytes::from_static(bytes));
                Opened::File(Snapshot::undated(content, opaque_tag.clone()))
            }
            None if path.is_empty() || self.descendants(path).next().is_some() => {
                Opened::Directory(Directory::Embedded(self.clone()))
            }
            None => Opened::Nothing,
        }
    }

    /// Lists the directory at `path`.
    pub(in crate::fs) fn entries(&self, path: &[u8]) -> Vec<Entry> {
        let mut entries: Vec<Entry> = Vec::new();
        let path = str::from_utf8(path).unwrap_or_default();
        for (rest, file) in self.descendants(path) {
            let (name, size) = match rest.split_once('/') {
                Some((directory, _)) => (directory, None),
                None => (rest, Some(file.bytes.len() as u64)),
            };
            if entries.last().is_none_or(|last| last.name != name.as_bytes()) {
                entries.push(Entry { name: name.into(), size, modified: None });
            }
        }
        entries
    }

    /// The files below a directory, by their paths relative to it.
    fn descendants(&self, path: &str) -> impl Iterator<Item = (&'static str, &File)> {
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
