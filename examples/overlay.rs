//! Serves files of the program, and those of a directory over them: `cargo run --release --example overlay -- DIR [ADDR]`.
//!
//! A file of the directory hides the one of the same path in the program, so a site can be changed without a new build.
//! `/about/` comes from the program, unless the directory has `about/index.html`. Directories without an index are listed,
//! with what both have.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::ops::Range;
use std::time::Duration;

use corehttp::fs::{DirEntry, DirSource, FileMetadata, FileSource, Files, SourceEntry};
use corehttp::server::ErrorLog;
use corehttp::{Body, Server, shutdown_signal};

/// Files by path. A build script or a macro would make this list of a directory.
const SITE: Embedded = Embedded(&[
    (
        "about/index.html",
        b"<!doctype html><title>About</title><h1>About</h1><p>These files are in the program.",
    ),
    ("robots.txt", b"User-agent: *\nAllow: /\n"),
    ("style/site.css", b"h1 { color: teal }\n"),
]);

fn main() -> corehttp::Result {
    let mut args = std::env::args().skip(1);
    let directory = args.next().ok_or_else(|| io::Error::other("usage: overlay DIR [ADDR]"))?;
    let address = args.next().unwrap_or_else(|| "127.0.0.1:8080".into());
    let files = files(DirSource::new(directory)?);
    let server =
        Server::bind(address).stop_on(shutdown_signal(), Duration::from_secs(10)).observe(ErrorLog::stderr());
    let running = server.start(files)?;
    println!("listening on {running}");
    running.wait()
}

/// Serves the files of `directory` over those of the program.
fn files(directory: DirSource) -> Files {
    Files::from_source(Overlay { upper: directory, lower: SITE }).listing(true)
}

/// Two sources, of which the upper one counts where both have a file.
struct Overlay<U, L> {
    upper: U,
    lower: L,
}

impl<U: FileSource, L: FileSource> FileSource for Overlay<U, L> {
    async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
        match self.upper.find(path).await? {
            Some(found) => Ok(Some(found)),
            None => self.lower.find(path).await,
        }
    }

    async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
        // A source refuses to read another file than the one that was found, so the two are never mixed.
        match self.upper.find(path).await? {
            Some(_) => self.upper.read(path, found, range).await,
            None => self.lower.read(path, found, range).await,
        }
    }

    async fn list(&self, path: &str, entries_max: usize) -> io::Result<Option<Vec<DirEntry>>> {
        let upper = self.upper.list(path, entries_max).await?;
        let lower = self.lower.list(path, entries_max).await?;
        if upper.is_none() && lower.is_none() {
            return Ok(None);
        }
        // Of two entries of one name, the last one is kept: that of the upper source.
        let both = lower.into_iter().chain(upper).flatten().map(|entry| (entry.name.clone(), entry));
        let entries: BTreeMap<Vec<u8>, DirEntry> = both.collect();
        Ok(Some(entries.into_values().take(entries_max).collect()))
    }
}

/// Files that are part of the program, by path.
struct Embedded(&'static [(&'static str, &'static [u8])]);

impl Embedded {
    fn content(&self, path: &str) -> Option<&'static [u8]> {
        self.0.iter().find(|(name, _)| *name == path).map(|(_, content)| *content)
    }

    /// The files below a directory, by their paths relative to it.
    fn below(&self, directory: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        self.0.iter().filter_map(move |(name, content)| Some((name.strip_prefix(&*prefix)?, *content)))
    }
}

impl FileSource for Embedded {
    async fn find(&self, path: &str) -> io::Result<Option<SourceEntry>> {
        let file = self.content(path).map(|content| SourceEntry::File(metadata(content)));
        let directory = || self.below(path).next().map(|_| SourceEntry::Directory);
        Ok(file.or_else(directory))
    }

    async fn read(&self, path: &str, found: &FileMetadata, range: Range<u64>) -> io::Result<Body> {
        let content = self.content(path).filter(|content| metadata(content) == *found);
        let part = content.and_then(|content| content.get(range.start as usize..range.end as usize));
        let mut body = Body::new();
        body.set_shared_bytes(part.ok_or_else(|| io::Error::other("another file was found"))?);
        Ok(body)
    }

    async fn list(&self, path: &str, _: usize) -> io::Result<Option<Vec<DirEntry>>> {
        let entries = self.below(path).map(|(rest, content)| match rest.split_once('/') {
            Some((name, _)) => (name, DirEntry::directory(name)),
            None => (rest, DirEntry::file(rest, content.len() as u64)),
        });
        let entries: BTreeMap<&str, DirEntry> = entries.collect();
        Ok((!entries.is_empty()).then(|| entries.into_values().collect()))
    }
}

fn metadata(content: &[u8]) -> FileMetadata {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    let etag = format!("\"{:x}\"", hasher.finish());
    FileMetadata { len: content.len() as u64, etag: Some(etag), ..FileMetadata::default() }
}

#[cfg(test)]
mod tests {
    use std::{env, fs, process};

    use corehttp::Status;
    use corehttp::testing::TestServer;

    use super::*;

    #[test]
    fn the_directory_lies_over_the_program() -> corehttp::Result {
        let root = env::temp_dir().join(format!("corehttp-overlay-{}", process::id()));
        fs::create_dir_all(root.join("style"))?;
        fs::write(root.join("robots.txt"), "User-agent: *\nDisallow: /\n")?;
        fs::write(root.join("style/print.css"), "h1 { color: black }\n")?;
        let server = TestServer::start(files(DirSource::new(&root)?))?;
        let client = server.client();
        for (path, expected) in [
            ("/about/", "<h1>About</h1>"),
            ("/robots.txt", "Disallow"),
            ("/style/site.css", "teal"),
            ("/style/print.css", "black"),
            ("/style/", "\"./print.css\""),
            ("/style/", "\"./site.css\""),
            ("/", "\"./about/\""),
            ("/", "2 directories, 1 file, "),
        ] {
            let response = corehttp::block_on(client.get(&format!("http://site{path}")).into_future())??;
            let text = response.text()?;
            assert!(response.status == Status::OK && text.contains(expected), "{path}: {text}");
        }
        for path in ["/none", "/about/none/", "/robots.txt/", "/%2e%2e/etc/passwd"] {
            let response = corehttp::block_on(client.get(&format!("http://site{path}")).into_future())??;
            assert_eq!(response.status, Status::NOT_FOUND, "{path}");
        }
        fs::remove_dir_all(root)?;
        Ok(())
    }
}
